"""Results of arms with thresholds come in; a picture of how they rose goes out, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from unbag.lab.arm_result import ArmResult
from unbag.lab.clock import counted
from unbag.lab.effect_marks import STYLE, WIDE, label, svg
from unbag.lab.repair_curve import SHARES, THRESHOLD

ARMS: Mapping[str, str] = {
    "ce_clip": "as printed",
    "ce_clip_fixed": "mended",
    "ce_clip_fixed-unbounded": "mended, without the bound",
}
"""With what is said of each; of the experiment `default`."""
KINDS: Mapping[str, str] = {"swap": "", "relation": "9 4", "attribute": "2 3", "object": "9 3 2 3"}
"""Of negatives; colour and dashes say the same."""
LEFT, RIGHT, HIGH, HEAD, GAP = 44, 96, 130, 30, 34
"""Pixels: beside and above a panel, its height, and what is free below it."""
COLOURS = (
    ".line{fill:none;stroke-width:2.5}.thin{stroke-width:1;stroke-opacity:.4}"
    ".swap{stroke:#0072b2}.relation{stroke:#c44e00}.attribute{stroke:#007a5a}.object{stroke:#8c4a86}"
    "@media (prefers-color-scheme:dark){.swap{stroke:#56b4e9}.relation{stroke:#ff9d4d}"
    ".attribute{stroke:#3fc9a2}.object{stroke:#dd9fd6}}"
)

Curve = tuple[float, ...]
"""After each of `SHARES`, in units of the bound."""


def curves_of(arm: str, results: Sequence[ArmResult]) -> dict[str, list[Curve]]:
    """By kind of negatives, one for each base that has them all."""
    found: dict[str, list[Curve]] = {}
    names = [f"{share}%" for share in SHARES]
    for one in results:
        for kind in KINDS if (one.experiment, one.arm) == ("default", arm) else ():
            numbers = one.numbers.get(f"{THRESHOLD}{kind}", {})
            if numbers.keys() >= set(names):
                found.setdefault(kind, []).append(tuple(numbers[name] for name in names))
    return found


def threshold_figure(results: Sequence[ArmResult]) -> str:
    """A panel for each arm that was recorded; empty where none was."""
    parts, said, top = [], [], 0.0
    for arm, what in ARMS.items():
        curves = curves_of(arm, results)
        if curves:
            title = f"{arm}, {what}: {counted(max(map(len, curves.values())), 'base')}"
            parts.append(_panel(title, curves, top + HEAD))
            said.append(title)
            top += HEAD + HIGH + GAP
    if not parts:
        return ""
    title = "Thresholds over the steps"
    return svg(title, "; ".join(said), top, parts, style=STYLE + COLOURS)


def _panel(title: str, curves: Mapping[str, Sequence[Curve]], top: float) -> str:
    """Thin lines are bases, thick ones their means."""
    most = max(1.0, *(value for some in curves.values() for one in some for value in one))
    parts = [label(LEFT, top - 12, title, "says")]
    for tick in range(int(most) + 1):
        y = _down(tick, most, top)
        kind = "bound" if tick == 1 else "grid"
        parts.append(f'<path class="{kind}" d="M{LEFT} {y:.1f}H{WIDE - RIGHT}"/>')
        parts.append(label(LEFT - 8, y + 4, f"{tick}", "small", anchor="end"))
    for share in (0, 20, 40, 60, 80, 100):
        parts.append(label(_across(share), top + HIGH + 16, f"{share} %", "small", anchor="middle"))
    for kind, some in curves.items():
        mean = tuple(fmean(at) for at in zip(*some, strict=True))
        parts += [_path(kind, _line(one, most, top), " thin") for one in some]
        parts.append(_path(kind, _line(mean, most, top)))
    return "".join([*parts, *_names(curves, most, top)])


def _names(curves: Mapping[str, Sequence[Curve]], most: float, top: float) -> list[str]:
    """Beside the ends of the means, the highest first, none upon another."""
    ends = {kind: _down(fmean(one[-1] for one in some), most, top) for kind, some in curves.items()}
    parts = []
    for kind, y in beside(ends).items():
        parts.append(_path(kind, f"M{WIDE - RIGHT + 6} {y:.1f}h22"))
        parts.append(label(WIDE - RIGHT + 32, y + 4, kind, "small"))
    return parts


def beside(ends: Mapping[str, float]) -> dict[str, float]:
    """Where names of lines stand that end there: the highest first, none upon another."""
    placed, free = {}, 0.0
    for name in sorted(ends, key=lambda name: ends[name]):
        placed[name] = max(ends[name], free)
        free = placed[name] + 16
    return placed


def _line(curve: Curve, most: float, top: float) -> str:
    """All thresholds begin at 0."""
    points = [(0, 0.0), *zip(SHARES, curve, strict=True)]
    return "M" + "L".join(f"{_across(share):.1f} {_down(y, most, top):.1f}" for share, y in points)


def _path(kind: str, line: str, more: str = "") -> str:
    dash = f' stroke-dasharray="{KINDS[kind]}"' if KINDS[kind] else ""
    return f'<path class="line {kind}{more}"{dash} d="{line}"/>'


def _across(share: float) -> float:
    return LEFT + (WIDE - LEFT - RIGHT) * share / 100


def _down(value: float, most: float, top: float) -> float:
    return top + HIGH * (1 - value / most)
