"""Figures of what rises over the steps of a training: thresholds of losses, and decoders learning.

Each base is a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from statistics import fmean

from unbag_lab.experiments.decoders import CURVE
from unbag_lab.experiments.repair import SHARES, THRESHOLD
from unbag_lab.pages.svg import STYLE, WIDE, Panel, label, set_apart, svg
from unbag_lab.plan import counted
from unbag_lab.results import ArmResult, in_order

LEFT, HEAD = 44, 30
"""Pixels beside and above a panel."""

THRESHOLD_ARMS: Mapping[str, str] = {
    "ce_clip": "as printed",
    "ce_clip_fixed": "mended",
    "ce_clip_fixed-unbounded": "mended, without the bound",
}
"""With what is said of each; of the experiment `default`."""
KINDS: Mapping[str, str] = {"swap": "", "relation": "9 4", "attribute": "2 3", "object": "9 3 2 3"}
"""Of negatives; colour and dashes say the same."""
THRESHOLD_STYLE = (
    ".line{fill:none;stroke-width:2.5}.thin{stroke-width:1;stroke-opacity:.4}"
    ".swap{stroke:#0072b2}.relation{stroke:#c44e00}.attribute{stroke:#007a5a}.object{stroke:#8c4a86}"
    "@media (prefers-color-scheme:dark){.swap{stroke:#56b4e9}.relation{stroke:#ff9d4d}"
    ".attribute{stroke:#3fc9a2}.object{stroke:#dd9fd6}}"
)

PATCHES, TOKEN = "decoder-long", "decoder-cls-long"
DECODERS: Mapping[str, str] = {PATCHES: "patches", TOKEN: "token"}
"""With the class of their lines; those of patches are named base by base."""
CHANCE = 0.5
TICKS = (0.4, CHANCE, 0.6, 0.7, 0.8, 0.9, 1.0)
DECODER_STYLE = (
    ".line{fill:none;stroke-width:1.5}.patches{stroke:#0072b2}.dot.patches{fill:#0072b2}"
    ".token{stroke:#c44e00;stroke-dasharray:2 3}.chance{stroke:#6b6b6b;stroke-dasharray:7 4}"
    "@media (prefers-color-scheme:dark){.patches{stroke:#56b4e9}.dot.patches{fill:#56b4e9}"
    ".token{stroke:#ff9d4d}.chance{stroke:#a0a0a0}}"
)

Curve = Mapping[int, float]
"""A number by the steps that were made, or by the percentage of them."""


def threshold_figure(results: Sequence[ArmResult]) -> str:
    """A panel for each arm whose thresholds were recorded; empty where none was."""
    parts, said, top = [], [], 0.0
    for arm, what in THRESHOLD_ARMS.items():
        if curves := thresholds_of(arm, results):
            title = f"{arm}, {what}: {counted(max(map(len, curves.values())), 'base')}"
            parts += [label(LEFT, top + HEAD - 12, title, "says"), *_thresholds(curves, top + HEAD)]
            said.append(title)
            top += HEAD + 130 + 34
    if not parts:
        return ""
    title = "Thresholds over the steps"
    return svg(title, "; ".join(said), top, parts, style=STYLE + THRESHOLD_STYLE)


def thresholds_of(arm: str, results: Sequence[ArmResult]) -> dict[str, list[Curve]]:
    """By kind of negatives, in units of the bound, one for each base that has all `SHARES`."""
    found: dict[str, list[Curve]] = {}
    names = {share: f"{share}%" for share in SHARES}
    for one in results:
        for kind in KINDS if (one.experiment, one.arm) == ("default", arm) else ():
            numbers = one.numbers.get(f"{THRESHOLD}{kind}", {})
            if numbers.keys() >= set(names.values()):
                curve = {share: numbers[name] for share, name in names.items()}
                found.setdefault(kind, []).append(curve)
    return found


def _thresholds(curves: Mapping[str, Sequence[Curve]], top: float) -> list[str]:
    """Thin lines are bases, thick ones their means, which are named at their ends."""
    most = max(1.0, *(value for some in curves.values() for one in some for value in one.values()))
    panel = Panel(LEFT, top, WIDE - LEFT - 96, 130, x=(0, 100), y=(0.0, most))
    rows = [(tick, f"{tick}", "bound" if tick == 1 else "grid") for tick in range(int(most) + 1)]
    parts = _axes(panel, rows, [(share, f"{share} %") for share in (0, 20, 40, 60, 80, 100)])
    ends = {}
    for kind, some in curves.items():
        mean = {share: fmean(one[share] for one in some) for share in SHARES}
        # All thresholds begin at 0.
        for curve, look in (*((one, " thin") for one in some), (mean, "")):
            parts.append(_line(_points(panel, {0: 0.0, **curve}), kind + look, KINDS[kind]))
        ends[kind] = panel.down(mean[SHARES[-1]])
    right = panel.left + panel.wide
    for kind, y in set_apart(ends).items():
        parts.append(_line(f"{right + 6} {y:.1f}h22", kind, KINDS[kind]))
        parts.append(label(right + 32, y + 4, kind, "small"))
    return parts


def learning_figure(results: Sequence[ArmResult]) -> str:
    """Accuracy on relations of decoders on patches and on one token; empty without results."""
    curves = {arm: found for arm in DECODERS if (found := learned_of(arm, results))}
    if not curves:
        return ""
    last = max(step for some in curves.values() for one in some.values() for step in one)
    panel = Panel(LEFT, HEAD, WIDE - LEFT - 150, 230, x=(0, last), y=(TICKS[0], TICKS[-1]))
    title = "Relations told right, percent: decoder on patches (solid) and on one token (dotted)"
    parts = [
        label(LEFT, 16, title, "says"),
        label(LEFT + 6, panel.down(CHANCE) + 18, "chance", "small"),
    ]
    rows = [(tick, f"{100 * tick:.0f}", "chance" if tick == CHANCE else "grid") for tick in TICKS]
    steps = [last * fifth // 5 for fifth in range(6)]
    parts += _axes(panel, rows, [(step, f"{step:,}") for step in steps])
    below = panel.top + panel.high + 34
    parts.append(label(panel.across(last / 2), below, "steps", "small", anchor="middle"))
    # The first arm is drawn last, upon the other.
    for arm, some in reversed(curves.items()):
        for base, curve in some.items():
            parts.append(_line(_points(panel, curve), DECODERS[arm]))
            parts += _dots(panel, base, curve) if arm == PATCHES else []
    parts += _names(panel, curves)
    said = "; ".join(
        f"{arm}, {base}: {', '.join(f'{100 * share:.1f}' for share in curve.values())}"
        for arm, some in curves.items()
        for base, curve in some.items()
    )
    return svg(title, said, panel.top + panel.high + 44, parts, style=STYLE + DECODER_STYLE)


def learned_of(arm: str, results: Sequence[ArmResult]) -> dict[str, Curve]:
    """By base, accuracy on relations, of bases that were measured on the way."""
    found = {
        one.base: {int(step): share for step, share in one.numbers[CURVE].items()}
        for one in results
        if one.arm == arm and CURVE in one.numbers
    }
    return {base: dict(sorted(found[base].items())) for base in in_order(found)}


def _dots(panel: Panel, base: str, curve: Curve) -> list[str]:
    """One for each time that a base was asked; its number shows under a pointer."""
    return [
        f'<circle class="dot {DECODERS[PATCHES]}" cx="{panel.across(step):.1f}" '
        f'cy="{panel.down(share):.1f}" r="3">'
        f"<title>{escape(base)}, {step:,} steps: {100 * share:.1f}</title></circle>"
        for step, share in curve.items()
    ]


def _names(panel: Panel, curves: Mapping[str, Mapping[str, Curve]]) -> list[str]:
    """Bases, each tied to the end of its line; of one token only how many there are."""
    ends = {
        arm: {base: panel.down(curve[max(curve)]) for base, curve in some.items()}
        for arm, some in curves.items()
    }
    named = dict(ends.get(PATCHES, {}))
    if others := list(ends.get(TOKEN, {}).values()):
        named[f"one token, {counted(len(others), 'base')}"] = sum(others) / len(others)
    parts, x = [], panel.left + panel.wide + 6
    for name, y in set_apart(named).items():
        parts.append(f'<path class="zero" d="M{x} {named[name]:.1f}L{x + 16} {y:.1f}"/>')
        parts.append(label(x + 20, y + 4, name, "small"))
    return parts


def _axes(
    panel: Panel, rows: Iterable[tuple[float, str, str]], columns: Iterable[tuple[float, str]]
) -> list[str]:
    """Lines over the whole width with their numbers and looks, and the numbers below."""
    parts = []
    for value, text, look in rows:
        y = panel.down(value)
        line = f"M{panel.left} {y:.1f}H{panel.left + panel.wide}"
        parts.append(f'<path class="{look}" d="{line}"/>')
        parts.append(label(panel.left - 8, y + 4, text, "small", anchor="end"))
    y = panel.top + panel.high + 16
    return parts + [
        label(panel.across(value), y, text, "small", anchor="middle") for value, text in columns
    ]


def _points(panel: Panel, curve: Curve) -> str:
    return "L".join(f"{panel.across(x):.1f} {panel.down(y):.1f}" for x, y in curve.items())


def _line(points: str, look: str, dashes: str = "") -> str:
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path class="line {look}"{dash} d="M{points}"/>'
