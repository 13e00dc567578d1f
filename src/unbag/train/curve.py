"""Models between two others come in; composition against recognition over the weight goes out.

Every model is scored in one ordinary run, so every difference from the base is paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from unbag.engine.job import Job
from unbag.engine.progress import Progress
from unbag.engine.run import run
from unbag.errors import UserError
from unbag.reports import report
from unbag.scorers import Cosine
from unbag.train.merge import Mix
from unbag.train.price import estimate_of
from unbag.train.price_sides import Side
from unbag.types import Benchmark, Comparison, Estimate, RunContents

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
BUDGET = 1.0
"""Points of recognition that may be lost."""
STRICT, BRITTLE = "augmented", "brittleness"
"""Where captions have hard positives, composition is judged by `augmented`: a model that punishes
every edit does well by the headline `original` and not by this."""
ON_THESE = (
    "the weight was chosen on these very benchmarks, so their numbers at it are too good; report "
    "the model on others"
)


@dataclass(frozen=True)
class Value:
    """One metric of one benchmark at one weight."""

    benchmark: str
    side: Side
    metric: str
    aggregate: str
    """The averaging rule."""
    estimate: Estimate
    change: Comparison | None
    """Against weight 0, paired; None at weight 0."""


@dataclass(frozen=True)
class Point:
    """One weight. Averages are plain means over benchmarks; None where there is none."""

    weight: float
    fingerprint: str
    values: tuple[Value, ...]

    @property
    def composition(self) -> float | None:
        """Mean of what composition is judged by."""
        return self._mean([v for v in self.values if v.side == "composition"], without=BRITTLE)

    @property
    def recognition(self) -> float | None:
        """Mean of the headlines."""
        return self._mean([v for v in self.values if v.side == "recognition"], without=BRITTLE)

    @property
    def brittleness(self) -> float | None:
        """Mean over the composition benchmarks that have it; it decides nothing."""
        found = [v for v in self.values if v.metric == BRITTLE and v.side == "composition"]
        return self._mean(found)

    def _mean(self, values: Sequence[Value], *, without: str = "") -> float | None:
        found = [value.estimate.value for value in values if value.metric != without]
        return fmean(found) if found else None


@dataclass(frozen=True)
class Choice:
    """The weight that is kept, and why."""

    weight: float
    why: str


@dataclass(frozen=True)
class Curve:
    """What was measured over all weights."""

    base: str
    tuned: str
    points: tuple[Point, ...]
    """By weight, the base first."""
    choice: Choice
    budget: float | None
    """None if the weight was given."""
    folder: Path
    """The run folder."""
    notes: tuple[str, ...] = ()


def check_weights(weights: Sequence[float], pick: float | None) -> tuple[float, ...]:
    """Sorted, each once, with 0 (what all are compared with) and the one that was picked."""
    asked = [*weights, *([] if pick is None else [pick])]
    wrong = [weight for weight in asked if not 0 <= weight <= 1]
    if wrong:
        raise UserError(f"the weight {wrong[0]:g}", expected="a number from 0 to 1")
    found = tuple(sorted({0.0, *map(float, asked)}))
    if len(found) == 1:
        raise UserError(
            "no weight besides 0, which is the base itself",
            expected=f"weights such as {','.join(f'{w:g}' for w in WEIGHTS)}",
        )
    return found


def check_sides(sides: Mapping[str, Side], pick: float | None) -> None:
    """To choose a weight by the rule, both sides are needed."""
    wanted: tuple[Side, ...] = ("composition", "recognition")
    for side in wanted:
        if pick is None and side not in sides.values():
            raise UserError(
                f"no {side} benchmark among {', '.join(sides) or 'none'}",
                expected="at least one of each side, since the weight is chosen by both",
                way_out="name more with --bench, say with --composition or --recognition what a "
                "benchmark counts as, or choose the weight yourself with --pick",
            )


def measure_curve(
    mixes: Sequence[Mix],
    *,
    names: tuple[str, str],
    benchmarks: Sequence[Benchmark],
    sides: Mapping[str, Side],
    out: Path,
    pick: float | None = None,
    budget: float = BUDGET,
    data: Path | None = None,
    cache: Path | None = None,
    seed: int = 0,
    batch: int = 256,
    command: str = "",
    progress: Progress | None = None,
) -> Curve:
    """Score all in one run, which goes on if it was stopped, and choose a weight.

    `mixes` start with weight 0; `names` are those of base and tuned model; `sides` by benchmark.
    """
    check_sides(sides, pick)
    job = Job(
        scorers=[Cosine(one.encoder) for one in mixes],
        benchmarks=benchmarks,
        out=out,
        data=data,
        cache=cache,
        seed=seed,
        batch=batch,
        device=mixes[0].encoder.device,
        also_compared=(STRICT, BRITTLE),
        command=command,
    )
    finished = run(job, progress=progress)
    report(finished.contents, finished.folder.report)
    points = tuple(_points(mixes, benchmarks, sides, finished.contents))
    choice = _given(pick) if pick is not None else choose(points, budget)
    kept = None if pick is not None else budget
    return Curve(*names, points, choice, kept, finished.folder.path, finished.problems)


def choose(points: Sequence[Point], budget: float = BUDGET) -> Choice:
    """Most composition among those within `budget` points of the base's recognition.

    Of equals the one nearest to the base.
    """
    base = points[0].recognition
    inside = [p for p in points if _loss(base, p.recognition) <= budget + 1e-9]
    best = max(inside, key=lambda p: (_known(p.composition), -p.weight))
    why = (
        f"most composition among weights that lose at most {points_text(budget)} of recognition; "
        f"{ON_THESE}"
    )
    return Choice(best.weight, why)


def points_text(budget: float) -> str:
    """As `1 point` or `0.5 points`."""
    return f"{budget:g} point{'' if budget == 1 else 's'}"


def _given(pick: float) -> Choice:
    return Choice(pick, "given with --pick")


def _loss(base: float | None, value: float | None) -> float:
    """In points."""
    return 100 * (_known(base) - _known(value))


def _known(value: float | None) -> float:
    if value is None or value != value:
        raise UserError(
            "a weight could not be chosen: a side has no number",
            expected="a composition and a recognition benchmark that could be measured",
            way_out="see the problems above, or choose the weight yourself with --pick",
        )
    return value


def _points(
    mixes: Sequence[Mix],
    benchmarks: Sequence[Benchmark],
    sides: Mapping[str, Side],
    contents: RunContents,
) -> Iterator[Point]:
    judged = {b.name: _metrics(b, sides[b.name], contents, len(mixes) - 1) for b in benchmarks}
    for one in mixes:
        values = tuple(
            value
            for name, metrics in judged.items()
            for metric in metrics
            if (value := _value(one, name, metric, sides[name], contents)) is not None
        )
        yield Point(one.weight, one.encoder.fingerprint, values)


def _metrics(
    benchmark: Benchmark, side: Side, contents: RunContents, rivals: int
) -> tuple[str, ...]:
    """What it is judged by, and brittleness; only what every mix could be compared by."""
    made = [c.metric for c in contents.comparisons if c.benchmark == benchmark.name]
    whole = {metric for metric in made if made.count(metric) == rivals}
    main = STRICT if side == "composition" and STRICT in whole else benchmark.headline
    return tuple(metric for metric in (main, BRITTLE) if metric in whole)


def _value(
    one: Mix, benchmark: str, metric: str, side: Side, contents: RunContents
) -> Value | None:
    made = [c for c in contents.comparisons if (c.benchmark, c.metric) == (benchmark, metric)]
    change = next((c for c in made if c.second == one.encoder.name), None)
    rule = made[0].aggregate
    estimate = estimate_of(contents, made[0], one.encoder.name)
    return None if estimate is None else Value(benchmark, side, metric, rule, estimate, change)
