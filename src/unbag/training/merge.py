"""Mix the weights of a model before and after fine-tuning, measure every mix and choose one.

Wortsman et al. 2022, "Robust fine-tuning of zero-shot models" (WiSE-FT): every weight is (1 - a) of
the first model plus a of the second, temperature included.
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
"""Kind of the run folder."""
MAX_LISTED = 3
"""Differences between two architectures that an error lists; the others are counted."""
MAX_DIFFERENCE = 1e-4
"""Largest difference between unit vectors of the same weights."""
PROBES = (
    "a red star to the left of a small striped cup",
    "two crimson discs above a large dotted square, but no tree",
    "A man's dog -- 17 of them! -- isn't behind the fence (photo, café).",
)
"""Captions on which two tokenizers are compared."""
HINT_NAME_BASE = (
    "weights that were trained separately cannot be mixed; name the model that the fine-tuning "
    "started from as --base"
)
HINT_SAME_KIND = "name the model that the fine-tuning started from as --base, with its activation"

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
BUDGET = 1.0
"""Percentage points of recognition that the chosen mix may lose."""
STRICT, BRITTLE = "augmented", "brittleness"
"""Where captions have hard positives, composition is measured by `augmented`: a model that lowers
the score of every edit has a high `original`, the headline metric, but a low `augmented`."""
CHOICE_NOTE = (
    "the weight was chosen on these benchmarks, so their numbers at it are too high; report the "
    "model on others"
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
"""Height of the plot in pixels."""
AXIS_MARGIN = 0.12
"""Free part of the axis at each end, for labels and numbers."""
SHORTEST_AXIS = 0.02
"""Length of the shortest axis, so that two equal points do not look far apart."""


def mix(base: DualEncoder, tuned: DualEncoder, weights: Sequence[float]) -> tuple[Mix, ...]:
    """Make one model per weight, of the class of the base, named `mix 0.25` and so on.

    All are in memory at once, so that one run can compare them.
    """
    for model in (base, tuned):
        if isinstance(model, JoinedEncoder):
            raise UnbagError(
                f"{model.name} is a joined model, whose connector was untrained before fine-tuning",
                expected="a model that was trained before it was fine-tuned",
                hint="keep a joined model close to its start while training, with --set distil=1",
            )
    trainable = make_trainable(base, device=base.device)
    tuned_trainable = make_trainable(tuned, device="cpu")
    base_state, tuned_state = state_of(trainable.module), state_of(tuned_trainable.module)
    check_same_weights(base_state, tuned_state, names=(base.name, tuned.name))
    trainable.module.load_state_dict(tuned_state)
    check_same_vectors(base, tuned, trainable.encoder(tuned.name))
    mixes = []
    for weight in weights:
        trainable.module.load_state_dict(interpolate(base_state, tuned_state, weight))
        mixes.append(Mix(weight, trainable.encoder(f"mix {weight:g}")))
    return tuple(mixes)


@dataclass(frozen=True, eq=False)
class Mix:
    """A mix of two models."""

    weight: float
    """Weight of the fine-tuned model."""
    encoder: DualEncoder


def interpolate(
    base: Mapping[str, Tensor], tuned: Mapping[str, Tensor], weight: float
) -> dict[str, Tensor]:
    """Return (1 - weight) base + weight tuned in float32; at 0 and 1 exactly base and tuned.

    Integers, such as positions, must be equal in both.
    """
    check_same_weights(base, tuned, names=("the base", "the tuned model"))
    return {name: _between(start, tuned[name], weight) for name, start in base.items()}


def _between(base: Tensor, tuned: Tensor, weight: float) -> Tensor:
    if weight == 0 or not base.is_floating_point():
        return base.detach().clone()
    tuned = tuned.detach().to(base.device)
    # Not by the sum, which would turn a negative zero into a positive one.
    if weight == 1:
        return tuned.clone()
    return (1 - weight) * base.detach().float() + weight * tuned.float()


def state_of(module: torch.nn.Module) -> dict[str, Tensor]:
    """Return copies of all weights and buffers by name."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def check_same_weights(
    base: Mapping[str, Tensor],
    tuned: Mapping[str, Tensor],
    *,
    names: tuple[str, str],
    hint: str = HINT_NAME_BASE,
) -> None:
    """Raise UnbagError unless names and shapes of all weights and all integers are equal."""
    differences = [f"{name} is only in {names[0]}" for name in base if name not in tuned]
    differences += [f"{name} is only in {names[1]}" for name in tuned if name not in base]
    for name in (name for name in base if name in tuned):
        first, second = base[name], tuned[name]
        if first.shape != second.shape:
            differences.append(
                f"{name} is {_shape(first)} in {names[0]}, {_shape(second)} in {names[1]}"
            )
        elif not first.is_floating_point() and not torch.equal(first, second.to(first.device)):
            differences.append(f"{name} holds other integers")
    if differences:
        rest = (
            f"; and {len(differences) - MAX_LISTED} more" if len(differences) > MAX_LISTED else ""
        )
        raise UnbagError(
            f"{names[0]} and {names[1]} differ in architecture: "
            f"{'; '.join(differences[:MAX_LISTED])}{rest}",
            expected="two models of one architecture, the second fine-tuned from the first",
            hint=hint,
        )


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "one number"


def check_same_vectors(
    base: DualEncoder, tuned: DualEncoder, filled: DualEncoder, *, hint: str = HINT_SAME_KIND
) -> None:
    """Compare activation, preparation and tokenizer of two models by running them on probes.

    `filled` is the base with all weights of the tuned model, so it must compute the same vectors.
    """
    images = [_probe(96, 64), _probe(50, 75)]
    prepared = [[encoder.prepare(image) for image in images] for encoder in (base, tuned)]
    image_pairs = zip(*prepared, strict=True)
    if not all(
        first.shape == second.shape and bool((first == second).all())
        for first, second in image_pairs
    ):
        raise _unlike(base, tuned, "prepare an image differently", hint)
    if base.context != tuned.context or base.count_tokens(PROBES) != tuned.count_tokens(PROBES):
        raise _unlike(base, tuned, "have different tokenizers", hint)
    pixels = torch.stack(prepared[0])
    vectors = [
        torch.cat([encoder.encode_images(pixels), encoder.encode_texts(PROBES)])
        for encoder in (filled, tuned)
    ]
    if not float((vectors[0] - vectors[1]).abs().max()) < MAX_DIFFERENCE:
        raise _unlike(base, tuned, "compute different vectors from the same weights", hint)


def _unlike(base: DualEncoder, tuned: DualEncoder, what: str, hint: str) -> UnbagError:
    return UnbagError(
        f"{base.name} and {tuned.name} {what}",
        expected="the same preparation, tokenizer, vocabulary and activation in both",
        hint=hint,
    )


def _probe(width: int, height: int) -> Image:
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
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

    `names` load the two models; `sides` overrides the side of a benchmark. Without benchmarks,
    those of the world are used.
    """
    weights = check_weights(weights, pick)
    all_sides = check_all_sides(benchmarks, sides or {}, pick)
    benchmarks = list(benchmarks or DEFAULT)
    check_run_folder(out, MERGE)
    mixes = mix(base, tuned, weights)
    # Another budget or pick chooses from the same curve, so they are not part of the identity.
    identity = RunIdentity(
        base=base.fingerprint, tuned=tuned.fingerprint, weights=weights, sides=all_sides, seed=seed
    )
    with open_run_folder(out, MERGE, resumes="scores that are there stay") as folder:
        folder.begin(identity, {"command": command})
        curve = measure_curve(
            mixes,
            names=names,
            benchmarks=benchmarks,
            sides=all_sides,
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
        chosen = next(item for item in mixes if item.weight == curve.choice.weight)
        model = _export(chosen, curve, out, command)
        folder.set_state("done")
    return Merged(curve, model, (DRAWINGS,) if are_drawings(benchmarks) else ())


def check_all_sides(
    benchmarks: Sequence[Benchmark], sides: Mapping[str, Side], pick: float | None
) -> dict[str, Side]:
    """Return the side of each benchmark, by default those of the world; both sides are needed."""
    sides_by_name = {
        benchmark.name: side_of(benchmark) for benchmark in benchmarks or DEFAULT
    } | dict(sides)
    check_sides(sides_by_name, pick)
    return sides_by_name


@dataclass(frozen=True)
class Merged:
    """Result of a merge."""

    curve: Curve
    model: Path
    """Folder of the exported mix; it loads as a model."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a table with a row per weight, and the reason for the choice."""
        choice = self.curve.choice
        lines = [
            f"weight {choice.weight:g} is chosen: {choice.why}",
            *self.curve.notes,
            *self.notes,
        ]
        return "\n".join([markdown(curve_table(self.curve)), "", *lines])


def _export(chosen: Mix, curve: Curve, out: Path, command: str) -> Path:
    """Export the chosen mix to a folder named by its weight, unless it is there already."""
    folder = out / f"weight-{chosen.weight:g}"
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = None
    if isinstance(record, dict) and record.get("fingerprint") == chosen.encoder.fingerprint:
        return folder
    description = f"{chosen.weight:g} of {curve.tuned}"
    card = Card(
        title=f"{curve.base} mixed with {description}",
        base=curve.base,
        recipe=f"merge with {description}",
        settings=f"Every weight is {1 - chosen.weight:g} of `{curve.base}` and {description}, "
        "temperature included (WiSE-FT).",
        table=curve_markdown(curve),
        command=command,
    )
    export(chosen.encoder, folder, card=card)
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
    """Measure all mixes in one run, which can be resumed, and choose a weight.

    Since it is one run, every difference from the base is paired. `mixes` start with weight 0;
    `names` are those of base and tuned model; `sides` is by benchmark.
    """
    check_sides(sides, pick)
    job = Job(
        scorers=[Cosine(mixed.encoder) for mixed in mixes],
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
    measured = []
    for benchmark in benchmarks:
        # The main metric and brittleness, where all mixes have a value.
        metrics = [c.metric for c in contents.comparisons if c.benchmark == benchmark.name]
        complete = {metric for metric in metrics if metrics.count(metric) == len(mixes) - 1}
        side = sides[benchmark.name]
        metric = STRICT if side == "composition" and STRICT in complete else benchmark.headline
        measured += [(benchmark.name, m, side) for m in (metric, BRITTLE) if m in complete]
    values_of_mixes = (
        (mixed, [_value(mixed, *what, contents) for what in measured]) for mixed in mixes
    )
    points = tuple(
        CurvePoint(mixed.weight, mixed.encoder.fingerprint, tuple(filter(None, values)))
        for mixed, values in values_of_mixes
    )
    choice = ChosenWeight(pick, "given with --pick") if pick is not None else choose(points, budget)
    used_budget = None if pick is not None else budget
    return Curve(*names, points, choice, used_budget, finished.folder.path, finished.problems)


@dataclass(frozen=True)
class Curve:
    """The measurements of all weights."""

    base: str
    tuned: str
    points: tuple[CurvePoint, ...]
    """Sorted by weight; the base is the first."""
    choice: ChosenWeight
    budget: float | None
    """None if the user gave the weight."""
    folder: Path
    """The run folder."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CurvePoint:
    """The measurements of one weight; averages are means over benchmarks, None without any."""

    weight: float
    fingerprint: str
    values: tuple[CurveValue, ...]

    @property
    def composition(self) -> float | None:
        """Mean of the main metrics of composition benchmarks."""
        return self._mean([v for v in self.values if v.side == "composition"], without=BRITTLE)

    @property
    def recognition(self) -> float | None:
        """Mean of the headline metrics of recognition benchmarks."""
        return self._mean([v for v in self.values if v.side == "recognition"], without=BRITTLE)

    @property
    def brittleness(self) -> float | None:
        """Mean over the composition benchmarks that have it; not used for the choice."""
        values = [v for v in self.values if v.metric == BRITTLE and v.side == "composition"]
        return self._mean(values)

    def _mean(self, values: Sequence[CurveValue], *, without: str = "") -> float | None:
        numbers = [value.estimate.value for value in values if value.metric != without]
        return fmean(numbers) if numbers else None


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
    """Paired difference from weight 0; None at weight 0."""


@dataclass(frozen=True)
class ChosenWeight:
    """The chosen weight and the reason."""

    weight: float
    why: str


def check_weights(weights: Sequence[float], pick: float | None) -> tuple[float, ...]:
    """Return the sorted unique weights with 0, the reference of all comparisons, and the pick."""
    all_weights = [*weights, *([] if pick is None else [pick])]
    wrong = [weight for weight in all_weights if not 0 <= weight <= 1]
    if wrong:
        raise UnbagError(f"the weight {wrong[0]:g}", expected="a number from 0 to 1")
    sorted_weights = tuple(sorted({0.0, *map(float, all_weights)}))
    if len(sorted_weights) == 1:
        raise UnbagError(
            "no weight besides 0, which is the base itself",
            expected=f"weights such as {','.join(f'{w:g}' for w in WEIGHTS)}",
        )
    return sorted_weights


def check_sides(sides: Mapping[str, Side], pick: float | None) -> None:
    """Raise UnbagError if a weight must be chosen and a side has no benchmark."""
    required: tuple[Side, ...] = ("composition", "recognition")
    for side in required:
        if pick is None and side not in sides.values():
            raise UnbagError(
                f"no {side} benchmark among {', '.join(sides) or 'none'}",
                expected="at least one of each side, since the weight is chosen by both",
                hint="name more with --bench, assign a benchmark to a side with --composition or "
                "--recognition, or choose the weight yourself with --pick",
            )


def choose(points: Sequence[CurvePoint], budget: float = BUDGET) -> ChosenWeight:
    """Choose the weight with the highest composition within `budget` points of recognition.

    Of equal weights, the one closest to the base is chosen.
    """
    base = points[0].recognition
    affordable = [
        p for p in points if 100 * (_known(base) - _known(p.recognition)) <= budget + 1e-9
    ]
    best = max(affordable, key=lambda p: (_known(p.composition), -p.weight))
    why = (
        f"highest composition among weights that lose at most {count_text(budget, 'point')} of "
        f"recognition; {CHOICE_NOTE}"
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
    mixed: Mix, benchmark: str, metric: str, side: Side, contents: RunContents
) -> CurveValue | None:
    comparisons = [
        c for c in contents.comparisons if (c.benchmark, c.metric) == (benchmark, metric)
    ]
    change = next((c for c in comparisons if c.second == mixed.encoder.name), None)
    rule = comparisons[0].aggregate
    estimate = estimate_of(contents, comparisons[0], mixed.encoder.name)
    return None if estimate is None else CurveValue(benchmark, side, metric, rule, estimate, change)


def curve_json(curve: Curve) -> str:
    """Return all measurements as JSON, as fractions."""
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
        # JSON has no NaN.
        **{name: number if number == number else None for name, number in numbers.items()},
    }


def curve_csv(curve: Curve) -> str:
    """Return a CSV row for each weight and metric, as fractions."""
    rows = []
    for point in curve.points:
        for value in point.values:
            is_chosen = point.weight == curve.choice.weight
            row = _value_json(value) | {"weight": point.weight, "is_chosen": str(is_chosen)}
            rows.append([row[name] for name in CSV_COLUMNS])
    return csv_text(CSV_COLUMNS, rows)


def curve_table(curve: Curve) -> Table:
    """Make the table with a row per weight; the chosen one is marked."""
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
    """Compare the chosen weight with the base, for a model card."""
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
    """Return the HTML page of the curve, without scripts or external resources."""
    from markupsafe import Markup

    drawable = [p for p in curve.points if p.composition is not None and p.recognition is not None]
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
            chart=Markup(_chart(curve, drawable)) if drawable else "",  # noqa: S704 - escaped there
            rows=rows,
            under=TABLE_NOTE,
            estimate_text=estimate_text,
            difference_of=difference_of,
            budget="" if curve.budget is None else count_text(curve.budget, "point"),
            lower_is_better=LOWER_IS_BETTER,
        )
    )


def point_texts(point: CurvePoint, base: CurvePoint) -> tuple[str, str, str]:
    """Format composition, recognition and brittleness with their differences from the base."""

    def mean_text(value: float | None, start: float | None) -> str:
        """Format a mean, as in `93.8 (+1.2)`."""
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
    """Format the difference from weight 0 with its paired interval; a dash at weight 0."""
    if value.change is None:
        return "–"
    return change_text(value.change, is_rate=value.estimate.is_rate)


def _chart(curve: Curve, points: Sequence[CurvePoint]) -> str:
    """Draw composition (y) against recognition (x) of all weights."""
    x_axis = curve_axis([p.recognition for p in points if p.recognition is not None])
    y_axis = curve_axis([p.composition for p in points if p.composition is not None])
    panel = Panel(x_axis, y_axis, high=CHART_HEIGHT)
    places = [(p.recognition or 0.0, p.composition or 0.0) for p in points]
    parts = [panel.ticks(ticks_of(x_axis), gap=16)]
    for tick in ticks_of(y_axis):
        parts += [panel.level(tick), text(0, panel.y(tick) - 4, y_axis.text(tick))]
    # A line at the lowest recognition within the budget, if it is on the axis.
    base = curve.points[0].recognition
    if curve.budget is not None and base is not None:
        min_recognition = base - curve.budget / 100
        parts += (
            [panel.upright(min_recognition, "chance")]
            if x_axis.low <= min_recognition <= x_axis.high
            else []
        )
    parts.append(panel.curve(places, "path"))
    for (x, y), point in zip(places, points, strict=True):
        ring = '<circle class="ring" r="9"/>' if point.weight == curve.choice.weight else ""
        mark = f'{ring}<g class="mark s0"><circle r="5"/></g>'
        parts.append(at(panel.place(x), panel.y(y), mark))
    # Points whose labels would overlap share one label: their weights with commas.
    labels: list[tuple[str, float, float]] = []
    for point, (recognition, composition) in zip(points, places, strict=True):
        name, x, y = f"{point.weight:g}", x_axis.part(recognition), panel.y(composition)
        for i, (names, other_x, other_y) in enumerate(labels):
            if abs(other_x - x) < 0.08 and abs(other_y - y) < 15:
                labels[i] = (f"{names}, {name}", other_x, other_y)
                break
        else:
            labels.append((name, x, y))
    for name, x, y in labels:
        parts.append(text(f"{100 * x:.2f}%", y + 4, name, "label", shift=13))
    description = "; ".join(
        f"weight {p.weight:g}: recognition {number_text(p.recognition or 0)}, composition "
        f"{number_text(p.composition or 0)}"
        for p in points
    )
    title = "Composition against recognition over the mixing weight"
    return page_chart(parts, CHART_HEIGHT + 22, title=title, said=description, kind="strip curve")


def curve_axis(values: Sequence[float]) -> Axis:
    """Return an axis that contains all values, with room at both ends for labels."""
    room = AXIS_MARGIN / (1 - 2 * AXIS_MARGIN)
    return Axis.over(values, is_rate=True, room=room, shortest=SHORTEST_AXIS)


def ticks_of(axis: Axis) -> list[float]:
    """Return the ticks of an axis between 0 and 1."""
    return [tick for tick in axis.ticks() if -1e-9 <= tick <= 1 + 1e-9]
