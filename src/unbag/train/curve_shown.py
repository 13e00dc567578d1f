"""A measured curve comes in; JSON, CSV, Markdown and a table for the terminal go out."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from unbag.reports.exports import escaped, guarded
from unbag.reports.layout import LOWER_IS_BETTER
from unbag.reports.wording import interval_text, value_text
from unbag.train.curve import Curve, Point, Value
from unbag.train.price_shown import change_text
from unbag.types import Estimate
from unbag.version import __version__

if TYPE_CHECKING:
    from rich.table import Table

UNDER = (
    "percent; composition and recognition are plain means over the benchmarks of each side, in "
    "brackets the difference from weight 0"
)
CSV_HEAD = (
    "weight", "benchmark", "side", "metric", "aggregate", "value", "low", "high", "n",
    "difference", "difference_low", "difference_high", "is_chosen",
)  # fmt: skip


def curve_json(curve: Curve) -> str:
    """Everything, as fractions."""
    content = {
        "unbag": __version__,
        "base": curve.base,
        "tuned": curve.tuned,
        "chosen": {"weight": curve.choice.weight, "why": curve.choice.why, "budget": curve.budget},
        "points": [_point_json(point) for point in curve.points],
        "notes": list(curve.notes),
    }
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def curve_csv(curve: Curve) -> str:
    """A row for each weight and number, as fractions."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(CSV_HEAD)
    for point in curve.points:
        for value in point.values:
            found = {"weight": point.weight, "is_chosen": point.weight == curve.choice.weight}
            row = found | _value_json(value)
            texts = {name: guarded(one) for name, one in row.items() if isinstance(one, str)}
            writer.writerow([(row | texts)[name] for name in CSV_HEAD])
    return file.getvalue()


def curve_table(curve: Curve) -> Table:
    """A row a weight; the chosen one is marked."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=UNDER, caption_justify="left")
    for name in ("weight", "composition", "recognition", "brittleness ↓", ""):
        table.add_column(name, justify="left" if not name else "right")
    for point in curve.points:
        is_chosen = point.weight == curve.choice.weight
        means = point_texts(point, curve.points[0])
        mark = "chosen" if is_chosen else ""
        table.add_row(f"{point.weight:g}", *means, mark, style="bold" if is_chosen else "")
    return table


def point_texts(point: Point, base: Point) -> tuple[str, str, str]:
    """Composition, recognition and brittleness as people read them, with the difference."""
    pairs = (
        (point.composition, base.composition),
        (point.recognition, base.recognition),
        (point.brittleness, base.brittleness),
    )
    first, second, third = (
        mean_text(value, start, is_base=point is base) for value, start in pairs
    )
    return first, second, third


def mean_text(value: float | None, start: float | None, *, is_base: bool) -> str:
    """As `93.8 (+1.2)`."""
    if value is None or start is None or value != value:
        return "–"
    shown = f"{100 * value:.1f}"
    return shown if is_base else f"{shown} ({100 * (value - start):+.1f})"


def curve_markdown(curve: Curve) -> str:
    """The chosen weight against the base, for a model card."""
    chosen = next(point for point in curve.points if point.weight == curve.choice.weight)
    lines = [
        "| side | benchmark | metric | base | mixed | difference | n |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for before, after in zip(curve.points[0].values, chosen.values, strict=True):
        name = f"{after.metric}{' ↓' if after.metric in LOWER_IS_BETTER else ''}"
        texts = (after.side, escaped(after.benchmark), escaped(name))
        numbers = (estimate_text(before.estimate), estimate_text(after.estimate))
        count = f"{after.estimate.n:,}"
        lines.append(f"| {' | '.join((*texts, *numbers, difference_of(after), count))} |")
    why = f"{curve.choice.weight:g} of the tuned weights: {curve.choice.why}."
    return "\n".join([*lines, "", f"- {why}", *(f"- {note}" for note in curve.notes), ""])


def estimate_text(estimate: Estimate) -> str:
    """As `93.8 [92.1, 95.0]`."""
    return f"{value_text(estimate)} {interval_text(estimate)}".strip()


def difference_of(value: Value) -> str:
    """From weight 0, with its paired interval; a dash at weight 0 itself."""
    if value.change is None:
        return "–"
    return change_text(value.change, is_rate=value.estimate.is_rate)


def _point_json(point: Point) -> dict[str, object]:
    return {
        "weight": point.weight,
        "fingerprint": point.fingerprint,
        "composition": point.composition,
        "recognition": point.recognition,
        "brittleness": point.brittleness,
        "values": [_value_json(value) for value in point.values],
    }


def _value_json(value: Value) -> dict[str, object]:
    change = value.change
    return {
        "benchmark": value.benchmark,
        "side": value.side,
        "metric": value.metric,
        "aggregate": value.aggregate,
        "value": _finite(value.estimate.value),
        "low": _finite(value.estimate.low),
        "high": _finite(value.estimate.high),
        "n": value.estimate.n,
        "difference": None if change is None else _finite(change.difference),
        "difference_low": None if change is None else _finite(change.low),
        "difference_high": None if change is None else _finite(change.high),
    }


def _finite(value: float) -> float | None:
    return value if value == value else None
