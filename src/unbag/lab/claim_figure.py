"""A verdict comes in; a picture goes out: effects by base against what was predicted.

One row for each prediction, each with an axis of its own, since points of accuracy and hundredths
of a cosine do not share one, and a number that is held against a level is shown as it is.
"""

from __future__ import annotations

from math import isfinite
from textwrap import wrap

from unbag.lab.clock import counted
from unbag.lab.effect_marks import (
    LEFT,
    base_text,
    dot,
    label,
    level_of,
    mean,
    predicted,
    svg,
    ticks,
)
from unbag.lab.overview_figure import MANY, many_figure
from unbag.lab.verdict import Tested, Verdict, Word
from unbag.lab.wording import effect_text
from unbag.reports.charts import Axis

LINE, STRIP = 18, 52
"""Heights in pixels: of a line of text, and of the band that holds dots and interval."""
LETTERS = 98
"""That fit into a line."""


def claim_figure(verdict: Verdict) -> str:
    """All predictions of a claim, below each other."""
    title = f"{verdict.claim.name}: effects by base"
    if len(verdict.tested) > MANY:
        return many_figure(verdict, title)
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
    start, level = below + 10, level_of(one.prediction)
    axis = _axis_of(one)
    parts.append(predicted(one.prediction, axis, start, STRIP, at=level))
    parts.append(ticks(axis, start, STRIP, signed=one.prediction.level is None))
    parts += [
        dot(axis, level + value, start + 10 + 5 * (k % 3), base_text(one, base))
        for k, (base, value) in enumerate(one.effects.items())
    ]
    parts.append(mean(one, axis, start + STRIP - 14, word, at=level))
    return "".join(parts), LINE * (len(lines) + 0.8) + 10 + STRIP + 34


def _axis_of(one: Tested) -> Axis:
    """Holds all effects, the interval, the bound and where nothing differs."""
    bound, level = one.prediction.bound, level_of(one.prediction)
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
