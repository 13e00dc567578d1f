"""Predictions come in; a picture goes out with a lane for each, all on one axis of points.

A number that is held against a level stands as far from 0 as it is from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from textwrap import wrap

from unbag.lab.effect_marks import (
    FORMS,
    KINDS,
    LEFT,
    across,
    base_text,
    dot,
    label,
    mean,
    predicted,
    svg,
    tick_labels,
    ticks,
)
from unbag.lab.verdict import Tested, Verdict, Word
from unbag.lab.wording import difference_text, points
from unbag.reports.charts import Axis

MANY = 6
"""Predictions beyond which those of a claim stand in lanes on one axis."""
LANE, HIGH_LANE = 20, 36
"""Heights of a lane: with a name beside it, and with a sentence in two lines."""
NAMES, SAYS = 200, 320
"""Pixels beside lanes: for names of claims, and for sentences."""
MOST = 1.0
"""Effects beyond are drawn at the end of the overview's axis; fractions."""


@dataclass(frozen=True)
class _Lane:
    """A prediction with a name beside it, or a heading, which has none."""

    name: str
    one: Tested | None = None
    word: Word = "undecided"


def many_figure(verdict: Verdict, title: str) -> str:
    """Of a claim with many predictions."""
    rows = [_Lane(one.prediction.says, one, verdict.word_of(one)) for one in verdict.tested]
    return _lanes(rows, title, names=SAYS, lane=HIGH_LANE)


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


def _lanes(rows: Sequence[_Lane], title: str, *, names: float, lane: float = LANE) -> str:
    tested = [row.one for row in rows if row.one is not None]
    axis = _common(tested)
    high = 26.0 + lane * len(rows)
    parts = [ticks(axis, 10, high - 26, names=names)]
    for k, row in enumerate(rows):
        y = 10 + lane * (k + 0.5)
        if row.one is None:
            parts += [label(LEFT, y + 4, row.name, "says"), tick_labels(axis, y + 4, names=names)]
        else:
            parts.append(_lane(row, row.one, axis, y, names=names, lane=lane))
    parts.append(_words(high + 24))
    said = "; ".join(f"{one.prediction.says}: {difference_text(one)}" for one in tested)
    return svg(title, said, high + 40, parts)


def _lane(row: _Lane, one: Tested, axis: Axis, y: float, *, names: float, lane: float) -> str:
    lines = wrap(row.name, 50, max_lines=2, placeholder=" …")
    first = y + 4 - 7 * (len(lines) - 1)
    parts = [label(LEFT, first + 14 * n, line, "small") for n, line in enumerate(lines)]
    parts.append(predicted(one.prediction, axis, y - lane / 2 + 2, lane - 4, names=names))
    if lane != LANE:
        parts += [
            dot(axis, value, y - 8, base_text(one, base), names=names)
            for base, value in one.effects.items()
        ]
    parts.append(mean(one, axis, y if lane == LANE else y + 6, row.word, names=names))
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


def _common(tested: Sequence[Tested]) -> Axis:
    held = [v for one in tested for v in (one.mean, one.low, one.high, one.prediction.bound, 0.0)]
    known = [min(max(v, -MOST), MOST) for v in held if v is not None and isfinite(v)]
    return Axis.over(known or [-0.5, 0.5], is_rate=True)


def _words(y: float) -> str:
    parts, x = [], float(LEFT + 6)
    for word, form in FORMS.items():
        move = f'transform="translate({x:g} {y - 4:g})"'
        parts.append(f'<g class="mean {KINDS[word]}" {move}>{form}</g>')
        parts.append(label(x + 12, y, word, "small"))
        x += 34 + 6.6 * len(word)
    parts.append(f'<rect class="side" x="{x - 6:g}" y="{y - 12:g}" width="26" height="16"/>')
    return "".join([*parts, label(x + 26, y, "predicted", "small")])
