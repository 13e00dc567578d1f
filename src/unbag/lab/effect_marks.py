"""Effects come in; the pieces of their pictures go out: axis, predicted side, dots, marks, words.

Pictures are SVG files with their own colours for light and dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isfinite

from unbag.lab.claim import Prediction
from unbag.lab.verdict import FAILED, REPRODUCED, UNDECIDED, Tested, Word
from unbag.lab.wording import found_text
from unbag.reports.charts import Axis

WIDE = 760
LEFT, RIGHT = 16, 16
"""Free pixels at the sides."""
STYLE = (
    "text{font:13px system-ui,'DejaVu Sans',sans-serif;fill:#1a1a1a}.says{font-weight:600}"
    ".small{font-size:12px;fill:#4a4a4a}.paper{fill:#fff}.grid{stroke:#d4d4d4}"
    ".zero{stroke:#6b6b6b}.side{fill:#0072b2;fill-opacity:.13}"
    ".bound{stroke:#0072b2;stroke-width:2;stroke-dasharray:5 3}.dot{fill:#6b6b6b;fill-opacity:.75}"
    ".mean{stroke-width:2.5;stroke-linejoin:round}.right{stroke:#0072b2;fill:#0072b2}"
    ".wrong{stroke:#c44e00;fill:#c44e00}.open{stroke:#1a1a1a;fill:#fff}"
    "@media (prefers-color-scheme:dark){text{fill:#ececec}.small{fill:#bdbdbd}.paper{fill:#1e2129}"
    ".grid{stroke:#3d414d}.zero{stroke:#a0a0a0}.side{fill:#56b4e9;fill-opacity:.2}"
    ".bound{stroke:#56b4e9}.dot{fill:#b5b5b5}.right{stroke:#56b4e9;fill:#56b4e9}"
    ".wrong{stroke:#ff9d4d;fill:#ff9d4d}.open{stroke:#ececec;fill:#1e2129}}"
)
KINDS: dict[Word, str] = {REPRODUCED: "right", FAILED: "wrong", UNDECIDED: "open"}
FORMS: dict[Word, str] = {
    REPRODUCED: '<path d="M0-6 6 0 0 6-6 0Z"/>',
    FAILED: '<path d="M-5-5 5 5M-5 5 5-5" fill="none" stroke-width="3"/>',
    UNDECIDED: '<circle r="5"/>',
}
"""The form says the same as the colour."""


def level_of(prediction: Prediction) -> float:
    """Where an effect of 0 stands: at 0, or at the level that a number is held against."""
    return prediction.level or 0.0


def predicted(
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


def ticks(axis: Axis, top: float, high: float, *, names: float = 0, signed: bool = True) -> str:
    """Lines over the whole height, with their numbers below."""
    parts = []
    for tick in axis.ticks():
        x = across(axis, tick, names=names)
        kind = "zero" if abs(tick) < 1e-9 else "grid"
        parts.append(f'<path class="{kind}" d="M{x:.1f} {top:.1f}v{high:g}"/>')
    return "".join([*parts, tick_labels(axis, top + high + 15, names=names, signed=signed)])


def tick_labels(axis: Axis, y: float, *, names: float = 0, signed: bool = True) -> str:
    """The numbers of an axis in one line."""
    parts = []
    for tick in axis.ticks():
        text = axis.text(tick)
        is_plain = not signed or (text.startswith(("-", "0")) and float(text) <= 0)
        x = across(axis, tick, names=names)
        parts.append(label(x, y, text if is_plain else f"+{text}", "small", anchor="middle"))
    return "".join(parts)


def dot(axis: Axis, value: float, y: float, said: str, *, names: float = 0) -> str:
    """One base; what is said of it shows under a pointer."""
    if not isfinite(value):
        return ""
    x, size = across(axis, value, names=names), 3 if names else 4
    title = f"<title>{escape(said)}</title>"
    return f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{size}">{title}</circle>'


def base_text(one: Tested, base: str) -> str:
    """A base and what was found on it."""
    return f"{base}: {found_text(one.prediction, one.effects[base])}"


def mean(one: Tested, axis: Axis, y: float, word: Word, *, names: float = 0, at: float = 0) -> str:
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


def across(axis: Axis, value: float, *, names: float = 0) -> float:
    """Pixels from the left."""
    return LEFT + names + (WIDE - LEFT - RIGHT - names) * axis.part(value)


def label(x: float, y: float, said: str, kind: str = "", *, anchor: str = "start") -> str:
    """A line of it, by where it stands and what it looks like."""
    extra = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(said)}</text>'


def svg(title: str, said: str, high: float, parts: Sequence[str], *, style: str = STYLE) -> str:
    """The whole picture, as wide as those of all claims."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {high:.0f}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(said)}</desc><style>{style}</style>"
        f'<rect class="paper" width="{WIDE}" height="{high:.0f}"/>{"".join(parts)}</svg>\n'
    )
