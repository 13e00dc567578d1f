"""Results of decoders that were asked on the way come in; a picture of how they learned goes out.

A line for each base: relations told right after so many steps, as SVG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from unbag.lab.arm_result import ArmResult
from unbag.lab.base_names import in_order
from unbag.lab.clock import counted
from unbag.lab.effect_marks import STYLE, WIDE, label, svg
from unbag.lab.readout_decoders import CURVE
from unbag.lab.threshold_figure import beside

PATCHES, TOKEN = "decoder-long", "decoder-cls-long"
ARMS: Mapping[str, str] = {PATCHES: "patches", TOKEN: "token"}
"""With the class of their lines; those of patches are named base by base."""
TITLE = "Relations told right, percent: decoder on patches (solid) and on one token (dotted)"
LEFT, RIGHT, TOP, HIGH = 44, 150, 30, 230
"""Pixels: beside and above the panel, and its height."""
CHANCE = 0.5
TICKS = (0.4, CHANCE, 0.6, 0.7, 0.8, 0.9, 1.0)
MARKS = (
    ".line{fill:none;stroke-width:1.5}.patches{stroke:#0072b2}.dot.patches{fill:#0072b2}"
    ".token{stroke:#c44e00;stroke-dasharray:2 3}.chance{stroke:#6b6b6b;stroke-dasharray:7 4}"
    "@media (prefers-color-scheme:dark){.patches{stroke:#56b4e9}.dot.patches{fill:#56b4e9}"
    ".token{stroke:#ff9d4d}.chance{stroke:#a0a0a0}}"
)

Curve = Mapping[int, float]
"""Share of relations by the steps that were made."""


def learned_of(arm: str, results: Sequence[ArmResult]) -> dict[str, Curve]:
    """By base, of those that were asked on the way."""
    found = {
        one.base: {int(step): share for step, share in one.numbers[CURVE].items()}
        for one in results
        if one.arm == arm and CURVE in one.numbers
    }
    return {base: dict(sorted(found[base].items())) for base in in_order(found)}


def learning_figure(results: Sequence[ArmResult]) -> str:
    """Both arms on one panel; empty where none was asked on the way."""
    curves = {arm: found for arm in ARMS if (found := learned_of(arm, results))}
    if not curves:
        return ""
    last = max(step for some in curves.values() for one in some.values() for step in one)
    parts = [label(LEFT, 16, TITLE, "says"), _panel(last)]
    # The first arm is drawn last, upon the other.
    for arm, some in reversed(curves.items()):
        parts += [_line(arm, base, curve, last) for base, curve in some.items()]
    said = "; ".join(
        f"{arm}, {base}: {', '.join(f'{100 * share:.1f}' for share in curve.values())}"
        for arm, some in curves.items()
        for base, curve in some.items()
    )
    parts += _names(curves)
    return svg(TITLE, said, TOP + HIGH + 44, parts, style=STYLE + MARKS)


def _panel(last: int) -> str:
    parts = [label(LEFT + 6, _down(CHANCE) + 18, "chance", "small")]
    for tick in TICKS:
        y, kind = _down(tick), "chance" if tick == CHANCE else "grid"
        parts.append(f'<path class="{kind}" d="M{LEFT} {y:.1f}H{WIDE - RIGHT}"/>')
        parts.append(label(LEFT - 8, y + 4, f"{100 * tick:.0f}", "small", anchor="end"))
    for fifth in range(6):
        step = last * fifth // 5
        x = _across(step, last)
        parts.append(label(x, TOP + HIGH + 16, f"{step:,}", "small", anchor="middle"))
    middle = _across(last / 2, last)
    return "".join([*parts, label(middle, TOP + HIGH + 34, "steps", "small", anchor="middle")])


def _line(arm: str, base: str, curve: Curve, last: int) -> str:
    points = [(_across(step, last), _down(share)) for step, share in curve.items()]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    parts = [f'<path class="line {ARMS[arm]}" d="{path}"/>']
    if arm == PATCHES:
        for (x, y), (step, share) in zip(points, curve.items(), strict=True):
            said = f"<title>{escape(base)}, {step:,} steps: {100 * share:.1f}</title>"
            at = f'cx="{x:.1f}" cy="{y:.1f}" r="3"'
            parts.append(f'<circle class="dot {ARMS[arm]}" {at}>{said}</circle>')
    return "".join(parts)


def _names(curves: Mapping[str, Mapping[str, Curve]]) -> list[str]:
    """Bases, each tied to the end of its line; of one token only how many there are."""
    ends = {base: _end(curve) for base, curve in curves.get(PATCHES, {}).items()}
    if others := [_end(curve) for curve in curves.get(TOKEN, {}).values()]:
        ends[f"one token, {counted(len(others), 'base')}"] = sum(others) / len(others)
    parts, x = [], WIDE - RIGHT + 6
    for name, y in beside(ends).items():
        parts.append(f'<path class="zero" d="M{x} {ends[name]:.1f}L{x + 16} {y:.1f}"/>')
        parts.append(label(x + 20, y + 4, name, "small"))
    return parts


def _end(curve: Curve) -> float:
    return _down(curve[max(curve)])


def _across(step: float, last: int) -> float:
    return LEFT + (WIDE - LEFT - RIGHT) * step / last


def _down(share: float) -> float:
    return TOP + HIGH * (TICKS[-1] - share) / (TICKS[-1] - TICKS[0])
