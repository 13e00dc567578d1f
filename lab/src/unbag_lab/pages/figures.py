"""Draws verdicts: effects by base with the predicted side, and an overview of all predictions.

The figure of a claim has a row for each prediction, each with its own axis, since points of
accuracy and hundredths of a cosine cannot share one. A number compared with a constant is shown
itself. The overview, and claims with many predictions, have one lane for each prediction on a
shared axis of points; there, a number compared with a constant is shown as the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from textwrap import wrap

from unbag.reports.charts import Axis, Panel, at, box, chart_file, dot, element, line, path, text
from unbag.reports.formatting import count_text
from unbag_lab.claims import Prediction
from unbag_lab.pages import style
from unbag_lab.verdict import (
    FAILED,
    REPRODUCED,
    UNDECIDED,
    Tested,
    Verdict,
    Word,
    difference_text,
    effect_text,
    found_text,
    points,
)

WIDE = 760
LEFT, RIGHT = 16, 16
"""Free pixels at the sides."""
STYLE = style("verdicts")
MANY = 6
"""Largest number of predictions with a row each; more are lanes on one axis."""
LANE, HIGH_LANE = 20, 36
"""Heights of a lane with a name, and with a sentence in two lines."""
NAMES, SAYS = 200, 320
"""Pixels to the left of lanes, for names of claims and for sentences."""
MOST = 1.0
"""Largest effect on the axis of the overview, as a fraction."""
LINE, STRIP = 18, 52
"""Heights in pixels of a line of text, and of the band with dots and interval."""
LETTERS = 98
"""Letters that fit into a line."""
KINDS: dict[Word, str] = {REPRODUCED: "right", FAILED: "wrong", UNDECIDED: "open"}
FORMS: dict[Word, str] = {
    REPRODUCED: path("M0-6 6 0 0 6-6 0Z"),
    FAILED: element("path", d="M-5-5 5 5M-5 5 5-5", fill="none", stroke_width=3),
    UNDECIDED: element("circle", r=5),
}
"""Shapes of the verdicts, for readers who cannot see the colours."""


def claim_figure(verdict: Verdict) -> str:
    """Draw all predictions of a claim, one below the other."""
    title = f"{verdict.claim.name}: effects by base"
    if len(verdict.tested) > MANY:
        rows = [
            _Lane(tested.prediction.says, tested, verdict.word_of(tested))
            for tested in verdict.tested
        ]
        return _lanes(rows, title, names=SAYS, lane=HIGH_LANE)
    parts, top = [], 10.0
    for tested in verdict.tested:
        drawing, high = _row(tested, top, verdict.word_of(tested), verdict)
        parts.append(drawing)
        top += high
    parts += _legend(top + 14)
    description = "; ".join(
        f"{tested.prediction.says}: {effect_text(tested)}" for tested in verdict.tested
    )
    return chart_file(parts, WIDE, top + 30, title=title, said=description, style=STYLE)


def lanes_panel(axis: Axis, top: float, high: float, *, names: float = 0) -> Panel:
    """Return a panel over the width of a figure, without the width of names."""
    wide = WIDE - LEFT - RIGHT - names
    return Panel(axis, high=high, top=top, left=LEFT + names, wide=wide)


def _row(tested: Tested, top: float, word: Word, verdict: Verdict) -> tuple[str, float]:
    lines = wrap(tested.prediction.says, LETTERS)
    parts = [
        text(LEFT, top + LINE * (k + 0.8), line_text, "says") for k, line_text in enumerate(lines)
    ]
    bases = f"{count_text(len(tested.effects), 'base')}: {verdict.about(word)}"
    below = top + LINE * (len(lines) + 0.8)
    parts.append(text(LEFT, below, f"{effect_text(tested)} points over {bases}"))
    # An effect of 0 is at 0, or at the constant that a number is compared with.
    level = tested.prediction.level or 0.0
    panel = lanes_panel(_axis_of(tested), below + 10, STRIP)
    parts.append(_predicted_side(tested.prediction, panel, level=level))
    parts.append(_grid(panel, signed=tested.prediction.level is None))
    parts += [
        _dot(tested, base, panel, panel.top + 10 + 5 * (k % 3), level=level)
        for k, base in enumerate(tested.effects)
    ]
    parts.append(_mean_mark(tested, panel, panel.bottom - 14, word, level=level))
    return "".join(parts), LINE * (len(lines) + 0.8) + 10 + STRIP + 34


def _axis_of(tested: Tested) -> Axis:
    """Return an axis that includes all effects, the interval, the bound and zero."""
    bound, level = tested.prediction.bound, tested.prediction.level or 0.0
    candidates = [*tested.effects.values(), tested.low, tested.high, bound, 0.0]
    if tested.prediction.side == "within":
        candidates.append(-bound)
    values = [value for value in candidates if value is not None and isfinite(value)]
    span = max(max(values) - min(values), 0.02)
    # The predicted side is unbounded; show a part of it.
    values += {"above": [bound + 0.3 * span], "below": [bound - 0.3 * span], "within": []}[
        tested.prediction.side
    ]
    return Axis.over([level + value for value in values], is_rate=True)


def _legend(y: float) -> list[str]:
    return [
        dot(LEFT + 6, y - 4, 4, "dot"),
        text(LEFT + 16, y, "one base", "small"),
        line(LEFT + 92, LEFT + 118, y - 4, y - 4, "mean open"),
        text(LEFT + 124, y, "mean with 95 % interval, in points", "small"),
        box(LEFT + 350, y - 12, 26, 16, "side"),
        text(LEFT + 382, y, "where the prediction puts it", "small"),
    ]


def overview_figure(papers: dict[str, list[Verdict]]) -> str:
    """Draw all predictions that were run, by paper; a claim with many has one lane."""
    rows: list[_Lane] = []
    for paper, verdicts in papers.items():
        lanes = []
        for verdict in verdicts:
            name, ran = verdict.claim.name, [tested for tested in verdict.tested if tested.effects]
            if len(ran) > MANY:
                name = f"{name}, 1 of {len(ran)}"
                # Show the one with the largest p-value.
                ran = [max(ran, key=lambda tested: min(tested.p_right, tested.p_wrong))]
            for place, tested in enumerate(ran):
                lanes.append(_Lane("" if place else name, tested, verdict.word_of(tested)))
        rows += [_Lane(paper), *lanes] if lanes else []
    return _lanes(rows, "Effects of predictions that were run, in points", names=NAMES)


@dataclass(frozen=True)
class _Lane:
    """A prediction with its name, or a heading."""

    name: str
    one: Tested | None = None
    word: Word = "undecided"


def _lanes(rows: Sequence[_Lane], title: str, *, names: float, lane: float = LANE) -> str:
    all_tested = [row.one for row in rows if row.one is not None]
    high = lane * len(rows)
    candidates = [
        v
        for tested in all_tested
        for v in (tested.mean, tested.low, tested.high, tested.prediction.bound, 0.0)
    ]
    values = [min(max(v, -MOST), MOST) for v in candidates if v is not None and isfinite(v)]
    axis = Axis.over(values or [-0.5, 0.5], is_rate=True)
    whole = lanes_panel(axis, 10, high, names=names)
    parts = [_grid(whole)]
    for k, row in enumerate(rows):
        panel = replace(whole, top=10 + lane * k, high=lane)
        y = panel.top + lane / 2
        if row.one is None:
            parts += [text(LEFT, y + 4, row.name, "says"), _numbers(panel, gap=4 - lane / 2)]
        else:
            parts.append(_lane(row, row.one, panel, y))
    x, y = LEFT + 6.0, high + 50
    for word, form in FORMS.items():
        parts += [at(x, y - 4, form, kind=f"mean {KINDS[word]}"), text(x + 12, y, word, "small")]
        x += 34 + 6.6 * len(word)
    parts += [box(x - 6, y - 12, 26, 16, "side"), text(x + 26, y, "predicted", "small")]
    description = "; ".join(
        f"{tested.prediction.says}: {difference_text(tested)}" for tested in all_tested
    )
    return chart_file(parts, WIDE, high + 66, title=title, said=description, style=STYLE)


def _lane(row: _Lane, tested: Tested, panel: Panel, y: float) -> str:
    lines = wrap(row.name, 50, max_lines=2, placeholder=" …")
    first = y + 4 - 7 * (len(lines) - 1)
    parts = [text(LEFT, first + 14 * n, line_text, "small") for n, line_text in enumerate(lines)]
    inner = replace(panel, top=panel.top + 2, high=panel.high - 4)
    parts.append(_predicted_side(tested.prediction, inner))
    is_low = panel.high == LANE
    parts += [] if is_low else [_dot(tested, base, panel, y - 8, size=3) for base in tested.effects]
    parts.append(_mean_mark(tested, panel, y if is_low else y + 6, row.word))
    return "".join([*parts, _beyond(tested, panel, y)])


def _beyond(tested: Tested, panel: Panel, y: float) -> str:
    """Draw a mean that is beyond the axis as a number next to its interval."""
    if tested.mean is None or not isfinite(tested.mean) or abs(tested.mean) <= MOST:
        return ""
    ends = [panel.x(end) for end in (tested.low, tested.mean, tested.high) if end is not None]
    if tested.mean > 0:
        return text(min(ends) - 10, y + 4, f"{points(tested.mean)} ▸", "small", anchor="end")
    return text(max(ends) + 10, y + 4, f"◂ {points(tested.mean)}", "small")


def _predicted_side(prediction: Prediction, panel: Panel, *, level: float = 0) -> str:
    """Draw the predicted side as a shaded area that starts at the bound."""
    bound, axis = prediction.bound, panel.across
    low, high = {
        "above": (level + bound, axis.high),
        "below": (axis.low, level + bound),
        "within": (level - bound, level + bound),
    }[prediction.side]
    edges = {"above": [low], "below": [high], "within": [low, high]}[prediction.side]
    shaded = box(panel.x(low), panel.top, panel.x(high) - panel.x(low), panel.high, "side")
    return shaded + "".join(panel.upright(edge, "bound") for edge in edges)


def _grid(panel: Panel, *, signed: bool = True) -> str:
    """Draw vertical lines with their numbers below."""
    ticks = panel.across.ticks()
    lines = (panel.upright(tick, "zero" if abs(tick) < 1e-9 else "grid") for tick in ticks)
    return "".join([*lines, _numbers(panel, signed=signed)])


def _numbers(panel: Panel, *, signed: bool = True, gap: float = 15) -> str:
    """Draw the numbers of an axis."""
    parts = []
    for tick in panel.across.ticks():
        label = panel.across.text(tick)
        is_plain = not signed or (label.startswith(("-", "0")) and float(label) <= 0)
        parts.append(panel.below(tick, label if is_plain else f"+{label}", "small", gap=gap))
    return "".join(parts)


def _dot(
    tested: Tested, base: str, panel: Panel, y: float, *, level: float = 0, size: int = 4
) -> str:
    """Draw one base as a dot; its effect is a tooltip."""
    effect = tested.effects[base]
    if not isfinite(effect):
        return ""
    label = f"{base}: {found_text(tested.prediction, effect)}"
    return dot(panel.x(level + effect), y, size, "dot", said=label)


def _mean_mark(tested: Tested, panel: Panel, y: float, word: Word, *, level: float = 0) -> str:
    """Draw the mark of the verdict on the line of the interval."""
    if tested.mean is None or not isfinite(tested.mean):
        return ""
    interval_line = ""
    if tested.low is not None and tested.high is not None and isfinite(tested.low):
        interval_line = line(panel.x(level + tested.low), panel.x(level + tested.high), y, y, "")
    interval_line += at(panel.x(level + tested.mean), y, FORMS[word])
    return element("g", interval_line, kind=f"mean {KINDS[word]}")
