"""Figures of verdicts: effects by base against what was predicted, and all predictions at once.

The figure of a claim has a row for each prediction, each with an axis of its own, since points of
accuracy and hundredths of a cosine do not share one; a number that is held against a level is shown
as it is. The overview, and claims with many predictions, have a lane for each on one axis of
points, where such a number stands as far from 0 as it is from its level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite
from textwrap import wrap

from unbag.reports.charts import Axis
from unbag_lab.claim import Prediction
from unbag_lab.pages.svg import LEFT, across, label, svg
from unbag_lab.plan import counted
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

MANY = 6
"""Predictions beyond which those of a claim stand in lanes on one axis."""
LANE, HIGH_LANE = 20, 36
"""Heights of a lane: with a name beside it, and with a sentence in two lines."""
NAMES, SAYS = 200, 320
"""Pixels beside lanes: for names of claims, and for sentences."""
MOST = 1.0
"""Effects beyond are drawn at the end of the overview's axis; fractions."""
LINE, STRIP = 18, 52
"""Heights in pixels: of a line of text, and of the band that holds dots and interval."""
LETTERS = 98
"""That fit into a line."""
KINDS: dict[Word, str] = {REPRODUCED: "right", FAILED: "wrong", UNDECIDED: "open"}
FORMS: dict[Word, str] = {
    REPRODUCED: '<path d="M0-6 6 0 0 6-6 0Z"/>',
    FAILED: '<path d="M-5-5 5 5M-5 5 5-5" fill="none" stroke-width="3"/>',
    UNDECIDED: '<circle r="5"/>',
}
"""The form says the same as the colour."""


def claim_figure(verdict: Verdict) -> str:
    """All predictions of a claim, below each other."""
    title = f"{verdict.claim.name}: effects by base"
    if len(verdict.tested) > MANY:
        rows = [_Lane(one.prediction.says, one, verdict.word_of(one)) for one in verdict.tested]
        return _lanes(rows, title, names=SAYS, lane=HIGH_LANE)
    parts, top = [], 10.0
    for one in verdict.tested:
        drawing, high = _row(one, top, verdict.word_of(one), verdict)
        parts.append(drawing)
        top += high
    parts.append(_legend(top + 14))
    said = "; ".join(f"{one.prediction.says}: {effect_text(one)}" for one in verdict.tested)
    return svg(title, said, top + 30, parts)


def _row(one: Tested, top: float, word: Word, verdict: Verdict) -> tuple[str, float]:
    lines = wrap(one.prediction.says, LETTERS)
    parts = [label(LEFT, top + LINE * (k + 0.8), line, "says") for k, line in enumerate(lines)]
    bases = f"{counted(len(one.effects), 'base')}: {verdict.about(word)}"
    below = top + LINE * (len(lines) + 0.8)
    parts.append(label(LEFT, below, f"{effect_text(one)} points over {bases}"))
    # An effect of 0 stands at 0, or at the level that a number is held against.
    start, level = below + 10, one.prediction.level or 0.0
    axis = _axis_of(one)
    parts.append(_predicted_side(one.prediction, axis, start, STRIP, at=level))
    parts.append(_grid(axis, start, STRIP, signed=one.prediction.level is None))
    parts += [
        _dot(axis, level + value, start + 10 + 5 * (k % 3), _base_text(one, base))
        for k, (base, value) in enumerate(one.effects.items())
    ]
    parts.append(_mean_mark(one, axis, start + STRIP - 14, word, at=level))
    return "".join(parts), LINE * (len(lines) + 0.8) + 10 + STRIP + 34


def _axis_of(one: Tested) -> Axis:
    """Holds all effects, the interval, the bound and where nothing differs."""
    bound, level = one.prediction.bound, one.prediction.level or 0.0
    held = [*one.effects.values(), one.low, one.high, bound, 0.0]
    if one.prediction.side == "within":
        held.append(-bound)
    known = [value for value in held if value is not None and isfinite(value)]
    wide = max(max(known) - min(known), 0.02)
    # The side that is predicted has no end; some of it must be seen.
    known += {"above": [bound + 0.3 * wide], "below": [bound - 0.3 * wide], "within": []}[
        one.prediction.side
    ]
    return Axis.over([level + value for value in known], is_rate=True)


def _legend(y: float) -> str:
    return (
        f'<circle class="dot" cx="{LEFT + 6}" cy="{y - 4:g}" r="4"/>'
        + label(LEFT + 16, y, "one base", "small")
        + f'<path class="mean open" d="M{LEFT + 92} {y - 4:g}h26"/>'
        + label(LEFT + 124, y, "mean with 95 % interval, in points", "small")
        + f'<rect class="side" x="{LEFT + 350}" y="{y - 12:g}" width="26" height="16"/>'
        + label(LEFT + 382, y, "where the prediction puts it", "small")
    )


def overview_figure(papers: dict[str, list[Verdict]]) -> str:
    """All predictions that were run, by paper; claims with many have one lane that counts them."""
    rows: list[_Lane] = []
    for paper, verdicts in papers.items():
        own = [lane for verdict in verdicts for lane in _of_claim(verdict)]
        rows += [_Lane(paper), *own] if own else []
    return _lanes(rows, "Effects of predictions that were run, in points", names=NAMES)


def _of_claim(verdict: Verdict) -> list[_Lane]:
    name, ran = verdict.claim.name, [one for one in verdict.tested if one.effects]
    if len(ran) > MANY:
        # The one that is least sure of its side stands for all.
        least = max(ran, key=lambda one: min(one.p_right, one.p_wrong))
        return [_Lane(f"{name}, 1 of {len(ran)}", least, verdict.word_of(least))]
    return [
        _Lane(name if place == 0 else "", one, verdict.word_of(one))
        for place, one in enumerate(ran)
    ]


@dataclass(frozen=True)
class _Lane:
    """A prediction with a name beside it, or a heading, which has none."""

    name: str
    one: Tested | None = None
    word: Word = "undecided"


def _lanes(rows: Sequence[_Lane], title: str, *, names: float, lane: float = LANE) -> str:
    tested = [row.one for row in rows if row.one is not None]
    axis = _common_axis(tested)
    high = 26.0 + lane * len(rows)
    parts = [_grid(axis, 10, high - 26, names=names)]
    for k, row in enumerate(rows):
        y = 10 + lane * (k + 0.5)
        if row.one is None:
            parts += [label(LEFT, y + 4, row.name, "says"), _tick_labels(axis, y + 4, names=names)]
        else:
            parts.append(_lane(row, row.one, axis, y, names=names, lane=lane))
    parts.append(_lanes_legend(high + 24))
    said = "; ".join(f"{one.prediction.says}: {difference_text(one)}" for one in tested)
    return svg(title, said, high + 40, parts)


def _lane(row: _Lane, one: Tested, axis: Axis, y: float, *, names: float, lane: float) -> str:
    lines = wrap(row.name, 50, max_lines=2, placeholder=" …")
    first = y + 4 - 7 * (len(lines) - 1)
    parts = [label(LEFT, first + 14 * n, line, "small") for n, line in enumerate(lines)]
    parts.append(_predicted_side(one.prediction, axis, y - lane / 2 + 2, lane - 4, names=names))
    if lane != LANE:
        parts += [
            _dot(axis, value, y - 8, _base_text(one, base), names=names)
            for base, value in one.effects.items()
        ]
    parts.append(_mean_mark(one, axis, y if lane == LANE else y + 6, row.word, names=names))
    return "".join([*parts, _beyond(one, axis, y, names=names)])


def _beyond(one: Tested, axis: Axis, y: float, *, names: float) -> str:
    """A mean that does not fit on the axis in figures, beside its interval."""
    if one.mean is None or not isfinite(one.mean) or abs(one.mean) <= MOST:
        return ""
    ends = [end for end in (one.low, one.mean, one.high) if end is not None]
    if one.mean > 0:
        x = across(axis, min(ends), names=names) - 10
        return label(x, y + 4, f"{points(one.mean)} ▸", "small", anchor="end")
    x = across(axis, max(ends), names=names) + 10
    return label(x, y + 4, f"◂ {points(one.mean)}", "small")


def _common_axis(tested: Sequence[Tested]) -> Axis:
    held = [v for one in tested for v in (one.mean, one.low, one.high, one.prediction.bound, 0.0)]
    known = [min(max(v, -MOST), MOST) for v in held if v is not None and isfinite(v)]
    return Axis.over(known or [-0.5, 0.5], is_rate=True)


def _lanes_legend(y: float) -> str:
    parts, x = [], float(LEFT + 6)
    for word, form in FORMS.items():
        move = f'transform="translate({x:g} {y - 4:g})"'
        parts.append(f'<g class="mean {KINDS[word]}" {move}>{form}</g>')
        parts.append(label(x + 12, y, word, "small"))
        x += 34 + 6.6 * len(word)
    parts.append(f'<rect class="side" x="{x - 6:g}" y="{y - 12:g}" width="26" height="16"/>')
    return "".join([*parts, label(x + 26, y, "predicted", "small")])


def _predicted_side(
    prediction: Prediction, axis: Axis, top: float, high: float, *, names: float = 0, at: float = 0
) -> str:
    """The side where the effect should lie, shaded from the bound on; 0 stands at `at`."""
    bound = prediction.bound
    ends = {
        "above": (at + bound, axis.high),
        "below": (axis.low, at + bound),
        "within": (at - bound, at + bound),
    }[prediction.side]
    x1, x2 = (across(axis, value, names=names) for value in ends)
    edges = {"above": [x1], "below": [x2], "within": [x1, x2]}[prediction.side]
    lines = "".join(f'<path class="bound" d="M{x:.1f} {top:.1f}v{high:g}"/>' for x in edges)
    return (
        f'<rect class="side" x="{x1:.1f}" y="{top:.1f}" width="{x2 - x1:.1f}" height="{high:g}"/>'
        f"{lines}"
    )


def _grid(axis: Axis, top: float, high: float, *, names: float = 0, signed: bool = True) -> str:
    """Lines over the whole height, with their numbers below."""
    parts = []
    for tick in axis.ticks():
        x = across(axis, tick, names=names)
        kind = "zero" if abs(tick) < 1e-9 else "grid"
        parts.append(f'<path class="{kind}" d="M{x:.1f} {top:.1f}v{high:g}"/>')
    return "".join([*parts, _tick_labels(axis, top + high + 15, names=names, signed=signed)])


def _tick_labels(axis: Axis, y: float, *, names: float = 0, signed: bool = True) -> str:
    """The numbers of an axis in one line."""
    parts = []
    for tick in axis.ticks():
        text = axis.text(tick)
        is_plain = not signed or (text.startswith(("-", "0")) and float(text) <= 0)
        x = across(axis, tick, names=names)
        parts.append(label(x, y, text if is_plain else f"+{text}", "small", anchor="middle"))
    return "".join(parts)


def _dot(axis: Axis, value: float, y: float, said: str, *, names: float = 0) -> str:
    """One base; what is said of it shows under a pointer."""
    if not isfinite(value):
        return ""
    x, size = across(axis, value, names=names), 3 if names else 4
    title = f"<title>{escape(said)}</title>"
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{size}">{title}</circle>'


def _base_text(one: Tested, base: str) -> str:
    """A base and what was found on it."""
    return f"{base}: {found_text(one.prediction, one.effects[base])}"


def _mean_mark(
    one: Tested, axis: Axis, y: float, word: Word, *, names: float = 0, at: float = 0
) -> str:
    """The mark of the verdict on the line of the interval; an effect of 0 stands at `at`."""
    if one.mean is None or not isfinite(one.mean):
        return ""
    line = ""
    if one.low is not None and one.high is not None and isfinite(one.low):
        x1, x2 = (across(axis, at + value, names=names) for value in (one.low, one.high))
        line = f'<path d="M{x1:.1f} {y:.1f}H{x2:.1f}"/>'
    x = across(axis, at + one.mean, names=names)
    mark = f'<g transform="translate({x:.1f} {y:.1f})">{FORMS[word]}</g>'
    return f'<g class="mean {KINDS[word]}">{line}{mark}</g>'
