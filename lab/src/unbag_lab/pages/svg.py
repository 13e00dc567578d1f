"""What figures of the study are drawn with: an SVG file with its own colours for light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

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


def svg(
    title: str,
    said: str,
    high: float,
    parts: Sequence[str],
    *,
    wide: int = WIDE,
    style: str = STYLE,
    paper: str = "",
) -> str:
    """The whole figure; a colour for `paper` is one for light and dark pages alike."""
    around = ("", f' fill="{paper}"') if paper else (' class="paper"', "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high:.0f}" role="img">'
        f"<title>{escape(title)}</title><desc>{escape(said)}</desc><style>{style}</style>"
        f'<rect{around[0]} width="{wide}" height="{high:.0f}"{around[1]}/>{"".join(parts)}</svg>\n'
    )


def label(
    x: float, y: float, said: str, kind: str = "", *, anchor: str = "start", colour: str = ""
) -> str:
    """A line of text, by where it stands and what it looks like."""
    extra = f' class="{kind}"' if kind else ""
    extra += f' style="fill:{colour}"' if colour else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(said)}</text>'


def across(axis: Axis, value: float, *, names: float = 0) -> float:
    """Pixels from the left, on an axis over the whole width but that of names beside it."""
    return LEFT + names + (WIDE - LEFT - RIGHT - names) * axis.part(value)


@dataclass(frozen=True)
class Panel:
    """A rectangle of a figure with an axis along each of two sides."""

    left: float
    top: float
    wide: float
    high: float
    x: tuple[float, float] = (0.0, 1.0)
    """What its left and its right edge stand for."""
    y: tuple[float, float] = (0.0, 1.0)
    """What its lower and its upper edge stand for."""

    def across(self, value: float) -> float:
        """Pixels from the left of the figure."""
        low, high = self.x
        return self.left + self.wide * (value - low) / (high - low)

    def down(self, value: float) -> float:
        """Pixels from the top of the figure."""
        low, high = self.y
        return self.top + self.high * (high - value) / (high - low)


def set_apart(heights: Mapping[str, float], least: float = 16.0) -> dict[str, float]:
    """Where the names of lines that end at these heights stand: from the top, none upon another."""
    placed, free = {}, 0.0
    for name in sorted(heights, key=lambda name: heights[name]):
        placed[name] = max(heights[name], free)
        free = placed[name] + least
    return placed
