"""Mix the weights of a model before and after fine-tuning, score every mix and choose one.

Wortsman et al. 2022, "Robust fine-tuning of zero-shot models" (WiSE-FT): every weight is
(1 - a) of the first plus a of the second, temperature included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
import torch

from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.models.joined import JoinedEncoder
from unbag.models.loading import RECORD
from unbag.reports.cards import Card
from unbag.reports.charts import Axis, Panel, at, page_chart, text
from unbag.reports.exports import report
from unbag.reports.formatting import (
    DASH,
    change_text,
    count_text,
    difference_text,
    estimate_text,
    number_text,
)
from unbag.reports.layout import LOWER_IS_BETTER
from unbag.reports.page import environment
from unbag.reports.table import STRONG, Column, Marked, Span, Table, csv_text, markdown
from unbag.runs.files import check_run_folder, open_run_folder, write_text
from unbag.runs.identity import RunIdentity
from unbag.runs.progress import Progress
from unbag.scorers import Cosine
from unbag.training.before_after import (
    DEFAULT,
    DRAWINGS,
    Side,
    are_drawings,
    estimate_of,
    side_of,
)
from unbag.training.encoders.adapters import make_trainable
from unbag.training.export.export import export
from unbag.types import Benchmark, Comparison, DualEncoder, Estimate, RunContents
from unbag.version import __version__

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor


MERGE = "merge"
"""The kind of the folder."""
SHOWN = 3
"""Differences of two architectures that are named; the others are counted."""
MAX_DIFFERENCE = 1e-4
"""Largest difference of two unit vectors that the same weights may give."""
PROBES = (
    "a red star to the left of a small striped cup",
    "two crimson discs above a large dotted square, but no tree",
    "A man's dog -- 17 of them! -- isn't behind the fence (photo, café).",
)
"""Captions on which two tokenizers are compared."""
NOT_MIXED = (
    "weights that were trained apart cannot be mixed; name the model that the fine-tuning started "
    "from as --base"
)
NOT_ALIKE = "name the model that the fine-tuning started from as --base, with its activation"

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

TABLE_NOTE = (
    "percent; composition and recognition are plain means over the benchmarks of each side, in "
    "brackets the difference from weight 0"
)
CSV_COLUMNS = (
    "weight", "benchmark", "side", "metric", "aggregate", "value", "low", "high", "n",
    "difference", "difference_low", "difference_high", "is_chosen",
)  # fmt: skip
CHART_HEIGHT = 340
"""Of the plot, in pixels."""
AXIS_MARGIN = 0.12
"""Free part of the axis at each end, where labels and numbers stand."""
SHORTEST_AXIS = 0.02
"""Shortest axis, so that two equal points do not look far apart."""


def mix(base: DualEncoder, tuned: DualEncoder, weights: Sequence[float]) -> tuple[Mix, ...]:
    """One model for each weight, of the base's class, named `mix 0.25` and so on.

    All are in memory at once, so that one run can compare them.
    """
    for one in (base, tuned):
        if isinstance(one, JoinedEncoder):
            raise UnbagError(
                f"{one.name} is a joined model, whose connector began with nothing learned",
                expected="a model that was whole before it was fine-tuned",
                hint="hold a joined model near its start while training, with --set distil=1",
            )
    trainable = make_trainable(base, device=base.device)
    other = make_trainable(tuned, device="cpu")
    start, end = state_of(trainable.module), state_of(other.module)
    check_same_weights(start, end, names=(base.name, tuned.name))
    trainable.module.load_state_dict(end)
    check_same_vectors(base, tuned, trainable.encoder(tuned.name))
    found = []
    for weight in weights:
        trainable.module.load_state_dict(interpolate(start, end, weight))
        found.append(Mix(weight, trainable.encoder(f"mix {weight:g}")))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Mix:
    """A model between two others."""

    weight: float
    """Share of the fine-tuned one."""
    encoder: DualEncoder


def interpolate(
    base: Mapping[str, Tensor], tuned: Mapping[str, Tensor], weight: float
) -> dict[str, Tensor]:
    """(1 - weight) base + weight tuned in float32; at 0 and 1 exactly the one and the other.

    Whole numbers, such as positions, must be equal in both.
    """
    check_same_weights(base, tuned, names=("the base", "the tuned model"))
    return {name: _between(start, tuned[name], weight) for name, start in base.items()}


def _between(start: Tensor, end: Tensor, weight: float) -> Tensor:
    if weight == 0 or not start.is_floating_point():
        return start.detach().clone()
    end = end.detach().to(start.device)
    # Not by the sum: it would turn a negative zero into a positive one.
    if weight == 1:
        return end.clone()
    return (1 - weight) * start.detach().float() + weight * end.float()


def state_of(module: torch.nn.Module) -> dict[str, Tensor]:
    """Copies of all weights and buffers by name."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def check_same_weights(
    base: Mapping[str, Tensor],
    tuned: Mapping[str, Tensor],
    *,
    names: tuple[str, str],
    hint: str = NOT_MIXED,
) -> None:
    """Names and shapes of all weights, and every whole number."""
    apart = [f"{name} is only in {names[0]}" for name in base if name not in tuned]
    apart += [f"{name} is only in {names[1]}" for name in tuned if name not in base]
    for name in (name for name in base if name in tuned):
        start, end = base[name], tuned[name]
        if start.shape != end.shape:
            apart.append(f"{name} is {_shape(start)} in {names[0]}, {_shape(end)} in {names[1]}")
        elif not start.is_floating_point() and not torch.equal(start, end.to(start.device)):
            apart.append(f"{name} holds other whole numbers")
    if apart:
        more = f"; and {len(apart) - SHOWN} more" if len(apart) > SHOWN else ""
        raise UnbagError(
            f"{names[0]} and {names[1]} differ in architecture: {'; '.join(apart[:SHOWN])}{more}",
            expected="two models of one architecture, the second fine-tuned from the first",
            hint=hint,
        )


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "one number"


def check_same_vectors(
    base: DualEncoder, tuned: DualEncoder, filled: DualEncoder, *, hint: str = NOT_ALIKE
) -> None:
    """Shapes tell nothing of activation, preparation and tokenizer: they are tried on probes.

    `filled` is the base with all weights of the tuned one, so it must give the vectors of that.
    """
    images = [_probe(96, 64), _probe(50, 75)]
    shown = [[encoder.prepare(image) for image in images] for encoder in (base, tuned)]
    both = zip(*shown, strict=True)
    if not all(one.shape == two.shape and bool((one == two).all()) for one, two in both):
        raise _unlike(base, tuned, "prepare an image in two ways", hint)
    if base.context != tuned.context or base.count_tokens(PROBES) != tuned.count_tokens(PROBES):
        raise _unlike(base, tuned, "have two tokenizers", hint)
    pixels = torch.stack(shown[0])
    vectors = [
        torch.cat([encoder.encode_images(pixels), encoder.encode_texts(PROBES)])
        for encoder in (filled, tuned)
    ]
    if not float((vectors[0] - vectors[1]).abs().max()) < MAX_DIFFERENCE:
        raise _unlike(base, tuned, "compute other vectors from the same weights", hint)


def _unlike(base: DualEncoder, tuned: DualEncoder, what: str, hint: str) -> UnbagError:
    return UnbagError(
        f"{base.name} and {tuned.name} {what}",
        expected="the same preparation, tokenizer, vocabulary and activation in both",
        hint=hint,
    )


def _probe(wide: int, high: int) -> Image:
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)
    return Image.fromarray(noise)


def merge_models(
    base: DualEncoder,
    tuned: DualEncoder,
    *,
    names: tuple[str, str],
    out: Path,
    weights: Sequence[float] = WEIGHTS,
    benchmarks: Sequence[Benchmark] = (),
    sides: Mapping[str, Side] | None = None,
    data: Path | None = None,
    pick: float | None = None,
    budget: float = BUDGET,
    seed: int = 0,
    batch_size: int = 256,
    cache: Path | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> Merged:
    """Mix, measure every mix, write the curve and export the chosen mix; resumes a stopped merge.

    `names` are those that load the two models; `sides` overrides the side of a benchmark. Without
    benchmarks those of the world are taken.
    """
    weights = check_weights(weights, pick)
    every = check_all_sides(benchmarks, sides or {}, pick)
    benchmarks = list(benchmarks or DEFAULT)
    check_run_folder(out, MERGE)
    mixes = mix(base, tuned, weights)
    # Another budget or pick chooses from the same curve, so the folder takes it.
    identity = RunIdentity(
        base=base.fingerprint, tuned=tuned.fingerprint, weights=weights, sides=every, seed=seed
    )
    with open_run_folder(out, MERGE, resumes="scores that are there stay") as folder:
        folder.begin(identity, {"command": command})
        curve = measure_curve(
            mixes,
            names=names,
            benchmarks=benchmarks,
            sides=every,
            out=out / "run",
            pick=pick,
            budget=budget,
            data=data,
            cache=cache,
            seed=seed,
            batch_size=batch_size,
            command=command,
            progress=progress,
        )
        write_text(out / "curve.json", curve_json(curve))
        write_text(out / "curve.csv", curve_csv(curve))
        write_text(out / "curve.html", curve_page(curve))
        chosen = next(one for one in mixes if one.weight == curve.choice.weight)
        model = _export(chosen, curve, out, command)
        folder.set_state("done")
    return Merged(curve, model, (DRAWINGS,) if are_drawings(benchmarks) else ())


def check_all_sides(
    benchmarks: Sequence[Benchmark], sides: Mapping[str, Side], pick: float | None
) -> dict[str, Side]:
    """The side of each benchmark, of those of the world without any; both sides are needed."""
    found = {one.name: side_of(one) for one in benchmarks or DEFAULT} | dict(sides)
    check_sides(found, pick)
    return found


@dataclass(frozen=True)
class Merged:
    """Result of a merge."""

    curve: Curve
    model: Path
    """Folder of the exported mix; it loads as a model."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A row per weight, and why the chosen one was chosen."""
        choice = self.curve.choice
        lines = [f"weight {choice.weight:g} is kept: {choice.why}", *self.curve.notes, *self.notes]
        return "\n".join([markdown(curve_table(self.curve)), "", *lines])


def _export(kept: Mix, curve: Curve, out: Path, command: str) -> Path:
    """Under a name with its weight; one that is there already and the same is left alone."""
    folder = out / f"weight-{kept.weight:g}"
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = None
    if isinstance(record, dict) and record.get("fingerprint") == kept.encoder.fingerprint:
        return folder
    share = f"{kept.weight:g} of {curve.tuned}"
    card = Card(
        title=f"{curve.base} mixed with {share}",
        base=curve.base,
        recipe=f"merge with {share}",
        settings=f"Every weight is {1 - kept.weight:g} of `{curve.base}` and {share}, "
        "temperature included (WiSE-FT).",
        table=curve_markdown(curve),
        command=command,
    )
    export(kept.encoder, folder, card=card)
    return folder


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
    batch_size: int = 256,
    command: str = "",
    progress: Progress | None = None,
) -> Curve:
    """Score all in one run, which can be resumed, and choose a weight.

    Since it is one run, every difference from the base is paired.

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
        batch_size=batch_size,
        device=mixes[0].encoder.device,
        also_compared=(STRICT, BRITTLE),
        command=command,
    )
    finished = run(job, progress=progress)
    report(finished.contents, finished.folder.report)
    contents = finished.contents
    asked = []
    for benchmark in benchmarks:
        # The metric that it is judged by, and brittleness, where every mix has both.
        made = [c.metric for c in contents.comparisons if c.benchmark == benchmark.name]
        whole = {metric for metric in made if made.count(metric) == len(mixes) - 1}
        side = sides[benchmark.name]
        main = STRICT if side == "composition" and STRICT in whole else benchmark.headline
        asked += [(benchmark.name, m, side) for m in (main, BRITTLE) if m in whole]
    found = ((one, [_value(one, *what, contents) for what in asked]) for one in mixes)
    points = tuple(
        CurvePoint(one.weight, one.encoder.fingerprint, tuple(filter(None, values)))
        for one, values in found
    )
    choice = ChosenWeight(pick, "given with --pick") if pick is not None else choose(points, budget)
    kept = None if pick is not None else budget
    return Curve(*names, points, choice, kept, finished.folder.path, finished.problems)


@dataclass(frozen=True)
class Curve:
    """What was measured over all weights."""

    base: str
    tuned: str
    points: tuple[CurvePoint, ...]
    """By weight, the base first."""
    choice: ChosenWeight
    budget: float | None
    """None if the weight was given."""
    folder: Path
    """The run folder."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CurvePoint:
    """One weight. Averages are plain means over benchmarks; None where there is none."""

    weight: float
    fingerprint: str
    values: tuple[CurveValue, ...]

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

    def _mean(self, values: Sequence[CurveValue], *, without: str = "") -> float | None:
        found = [value.estimate.value for value in values if value.metric != without]
        return fmean(found) if found else None


@dataclass(frozen=True)
class CurveValue:
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
class ChosenWeight:
    """The weight that is kept, and why."""

    weight: float
    why: str


def check_weights(weights: Sequence[float], pick: float | None) -> tuple[float, ...]:
    """Sorted, each once, with 0 (what all are compared with) and the one that was picked."""
    asked = [*weights, *([] if pick is None else [pick])]
    wrong = [weight for weight in asked if not 0 <= weight <= 1]
    if wrong:
        raise UnbagError(f"the weight {wrong[0]:g}", expected="a number from 0 to 1")
    found = tuple(sorted({0.0, *map(float, asked)}))
    if len(found) == 1:
        raise UnbagError(
            "no weight besides 0, which is the base itself",
            expected=f"weights such as {','.join(f'{w:g}' for w in WEIGHTS)}",
        )
    return found


def check_sides(sides: Mapping[str, Side], pick: float | None) -> None:
    """Refuse to choose a weight by the rule without benchmarks of both sides."""
    wanted: tuple[Side, ...] = ("composition", "recognition")
    for side in wanted:
        if pick is None and side not in sides.values():
            raise UnbagError(
                f"no {side} benchmark among {', '.join(sides) or 'none'}",
                expected="at least one of each side, since the weight is chosen by both",
                hint="name more with --bench, say with --composition or --recognition what a "
                "benchmark counts as, or choose the weight yourself with --pick",
            )


def choose(points: Sequence[CurvePoint], budget: float = BUDGET) -> ChosenWeight:
    """Most composition among those within `budget` points of the base's recognition.

    Of equals the one nearest to the base.
    """
    base = points[0].recognition
    inside = [p for p in points if 100 * (_known(base) - _known(p.recognition)) <= budget + 1e-9]
    best = max(inside, key=lambda p: (_known(p.composition), -p.weight))
    why = (
        f"most composition among weights that lose at most {count_text(budget, 'point')} of "
        f"recognition; {ON_THESE}"
    )
    return ChosenWeight(best.weight, why)


def _known(value: float | None) -> float:
    if value is None or value != value:
        raise UnbagError(
            "a weight could not be chosen: a side has no number",
            expected="a composition and a recognition benchmark that could be measured",
            hint="see the problems above, or choose the weight yourself with --pick",
        )
    return value


def _value(
    one: Mix, benchmark: str, metric: str, side: Side, contents: RunContents
) -> CurveValue | None:
    made = [c for c in contents.comparisons if (c.benchmark, c.metric) == (benchmark, metric)]
    change = next((c for c in made if c.second == one.encoder.name), None)
    rule = made[0].aggregate
    estimate = estimate_of(contents, made[0], one.encoder.name)
    return None if estimate is None else CurveValue(benchmark, side, metric, rule, estimate, change)


def curve_json(curve: Curve) -> str:
    """Everything, as fractions."""
    content = {
        "unbag": __version__,
        "base": curve.base,
        "tuned": curve.tuned,
        "chosen": {"weight": curve.choice.weight, "why": curve.choice.why, "budget": curve.budget},
        "points": [
            {
                "weight": point.weight,
                "fingerprint": point.fingerprint,
                "composition": point.composition,
                "recognition": point.recognition,
                "brittleness": point.brittleness,
                "values": [_value_json(value) for value in point.values],
            }
            for point in curve.points
        ],
        "notes": list(curve.notes),
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _value_json(value: CurveValue) -> dict[str, object]:
    estimate, change = value.estimate, value.change
    numbers = {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "difference": None if change is None else change.difference,
        "difference_low": None if change is None else change.low,
        "difference_high": None if change is None else change.high,
    }
    return {
        "benchmark": value.benchmark,
        "side": value.side,
        "metric": value.metric,
        "aggregate": value.aggregate,
        # NaN is null.
        **{name: number if number == number else None for name, number in numbers.items()},
    }


def curve_csv(curve: Curve) -> str:
    """A row for each weight and number, as fractions."""
    rows = []
    for point in curve.points:
        for value in point.values:
            is_chosen = point.weight == curve.choice.weight
            row = _value_json(value) | {"weight": point.weight, "is_chosen": str(is_chosen)}
            rows.append([row[name] for name in CSV_COLUMNS])
    return csv_text(CSV_COLUMNS, rows)


def curve_table(curve: Curve) -> Table:
    """A row a weight; the chosen one is marked."""
    rows = []
    for point in curve.points:
        is_chosen = point.weight == curve.choice.weight
        texts = (f"{point.weight:g}", *point_texts(point, curve.points[0]))
        mark = "chosen" if is_chosen else ""
        rows.append([Span(text, STRONG if is_chosen else "") for text in (*texts, mark)])
    names = ("weight", "composition", "recognition", "brittleness ↓")
    columns = (*(Column(name, "right") for name in names), Column())
    return Table(columns, rows, caption=TABLE_NOTE)


def curve_markdown(curve: Curve) -> str:
    """The chosen weight against the base, for a model card."""
    chosen = next(point for point in curve.points if point.weight == curve.choice.weight)
    rows = [
        [
            after.side,
            after.benchmark,
            f"{after.metric}{' ↓' if after.metric in LOWER_IS_BETTER else ''}",
            Marked(estimate_text(before.estimate)),
            Marked(estimate_text(after.estimate)),
            Marked(difference_of(after)),
            f"{after.estimate.n:,}",
        ]
        for before, after in zip(curve.points[0].values, chosen.values, strict=True)
    ]
    names = ("side", "benchmark", "metric", "base", "mixed", "difference", "n")
    why = f"{curve.choice.weight:g} of the tuned weights: {curve.choice.why}."
    table = markdown(Table.of(names, rows, right=range(3, 7)))
    return "\n".join([table, "", f"- {why}", *(f"- {note}" for note in curve.notes), ""])


def curve_page(curve: Curve) -> str:
    """One page without scripts or outside resources."""
    from markupsafe import Markup

    drawn = [p for p in curve.points if p.composition is not None and p.recognition is not None]
    rows = [
        (p.weight, p.weight == curve.choice.weight, point_texts(p, curve.points[0]))
        for p in curve.points
    ]
    return (
        environment()
        .get_template("curve.html")
        .render(
            version=__version__,
            curve=curve,
            chart=Markup(_chart(curve, drawn)) if drawn else "",  # noqa: S704 - escaped there
            rows=rows,
            under=TABLE_NOTE,
            estimate_text=estimate_text,
            difference_of=difference_of,
            budget="" if curve.budget is None else count_text(curve.budget, "point"),
            lower_is_better=LOWER_IS_BETTER,
        )
    )


def point_texts(point: CurvePoint, base: CurvePoint) -> tuple[str, str, str]:
    """Composition, recognition and brittleness as people read them, with the difference."""

    def mean_text(value: float | None, start: float | None) -> str:
        """As `93.8 (+1.2)`."""
        if value is None or start is None or value != value:
            return DASH
        change = "" if point is base else f" ({difference_text(value - start, is_rate=True)})"
        return number_text(value) + change

    return (
        mean_text(point.composition, base.composition),
        mean_text(point.recognition, base.recognition),
        mean_text(point.brittleness, base.brittleness),
    )


def difference_of(value: CurveValue) -> str:
    """Difference from weight 0 with its paired interval; a dash at weight 0 itself."""
    if value.change is None:
        return "–"
    return change_text(value.change, is_rate=value.estimate.is_rate)


def _chart(curve: Curve, points: Sequence[CurvePoint]) -> str:
    """To the right more recognition, upwards more composition."""
    across = curve_axis([p.recognition for p in points if p.recognition is not None])
    up = curve_axis([p.composition for p in points if p.composition is not None])
    panel = Panel(across, up, high=CHART_HEIGHT)
    places = [(p.recognition or 0.0, p.composition or 0.0) for p in points]
    parts = [panel.ticks(ticks_of(across), gap=16)]
    for tick in ticks_of(up):
        parts += [panel.level(tick), text(0, panel.y(tick) - 4, up.text(tick))]
    # How little recognition a chosen weight may have, where that is on the axis.
    base = curve.points[0].recognition
    if curve.budget is not None and base is not None:
        least = base - curve.budget / 100
        parts += [panel.upright(least, "chance")] if across.low <= least <= across.high else []
    parts.append(panel.curve(places, "path"))
    for (x, y), point in zip(places, points, strict=True):
        ring = '<circle class="ring" r="9"/>' if point.weight == curve.choice.weight else ""
        drawn = f'{ring}<g class="mark s0"><circle r="5"/></g>'
        parts.append(at(panel.place(x), panel.y(y), drawn))
    # Points whose names would lie on each other share one name: the weights with commas.
    labels: list[tuple[str, float, float]] = []
    for point, (x, y) in zip(points, places, strict=True):
        name, part, high = f"{point.weight:g}", across.part(x), panel.y(y)
        for n, (others, a, b) in enumerate(labels):
            if abs(a - part) < 0.08 and abs(b - high) < 15:
                labels[n] = (f"{others}, {name}", a, b)
                break
        else:
            labels.append((name, part, high))
    for name, part, high in labels:
        parts.append(text(f"{100 * part:.2f}%", high + 4, name, "label", shift=13))
    said = "; ".join(
        f"weight {p.weight:g}: recognition {number_text(p.recognition or 0)}, composition "
        f"{number_text(p.composition or 0)}"
        for p in points
    )
    title = "Composition against recognition over the mixing weight"
    return page_chart(parts, CHART_HEIGHT + 22, title=title, said=said, kind="strip curve")


def curve_axis(values: Sequence[float]) -> Axis:
    """Holds all values, with room at both ends for labels and numbers."""
    room = AXIS_MARGIN / (1 - 2 * AXIS_MARGIN)
    return Axis.over(values, is_rate=True, room=room, shortest=SHORTEST_AXIS)


def ticks_of(axis: Axis) -> list[float]:
    """Round numbers, none above 1 or below 0."""
    return [tick for tick in axis.ticks() if -1e-9 <= tick <= 1 + 1e-9]
