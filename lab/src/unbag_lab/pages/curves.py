"""Draws curves over the steps of a training: thresholds of losses, and accuracy of decoders.

Each base is one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from unbag.reports.charts import Axis, Panel, chart_file, dot, line, path, set_apart, text
from unbag.reports.formatting import count_text, number_text
from unbag_lab.experiments.decoders import CURVE
from unbag_lab.experiments.repair import SHARES, THRESHOLD
from unbag_lab.pages import style as style_of
from unbag_lab.pages.figures import STYLE, WIDE
from unbag_lab.results import ArmResult, in_order

LEFT, HEAD = 44, 30
"""Pixels to the left of and above a panel."""

THRESHOLD_ARMS: Mapping[str, str] = {
    "ce_clip": "as printed",
    "ce_clip_fixed": "mended",
    "ce_clip_fixed-unbounded": "mended, without the bound",
}
"""Labels of arms of the experiment `default`."""
KINDS: Mapping[str, str] = {"swap": "", "relation": "9 4", "attribute": "2 3", "object": "9 3 2 3"}
"""Dashes for kinds of negatives; each kind also has a colour."""

PATCHES, TOKEN = "decoder-long", "decoder-cls-long"
DECODERS: Mapping[str, str] = {PATCHES: "patches", TOKEN: "token"}
"""CSS classes of the lines of decoders; lines on patches have the name of their base."""
CHANCE = 0.5
TICKS = (0.4, CHANCE, 0.6, 0.7, 0.8, 0.9, 1.0)

Curve = Mapping[int, float]
"""Values by the number, or the percentage, of steps."""


def threshold_figure(results: Sequence[ArmResult]) -> str:
    """Draw a panel for each arm with recorded thresholds; empty without any."""
    parts, titles, top = [], [], 0.0
    for arm, label in THRESHOLD_ARMS.items():
        if curves := thresholds_of(arm, results):
            title = f"{arm}, {label}: {count_text(max(map(len, curves.values())), 'base')}"
            parts += [text(LEFT, top + HEAD - 12, title, "says"), *_thresholds(curves, top + HEAD)]
            titles.append(title)
            top += HEAD + 130 + 34
    if not parts:
        return ""
    title = "Thresholds over the steps"
    style = STYLE + style_of("thresholds")
    return chart_file(parts, WIDE, top, title=title, said="; ".join(titles), style=style)


def thresholds_of(arm: str, results: Sequence[ArmResult]) -> dict[str, list[Curve]]:
    """Return curves by kind of negatives, in units of the bound, for bases with all `SHARES`."""
    curves: dict[str, list[Curve]] = {}
    names = {share: f"{share}%" for share in SHARES}
    for result in results:
        for kind in KINDS if (result.experiment, result.arm) == ("default", arm) else ():
            numbers = result.numbers.get(f"{THRESHOLD}{kind}", {})
            if numbers.keys() >= set(names.values()):
                curve = {share: numbers[name] for share, name in names.items()}
                curves.setdefault(kind, []).append(curve)
    return curves


def _thresholds(curves: Mapping[str, Sequence[Curve]], top: float) -> list[str]:
    """Draw bases as thin lines, and their means as thick lines with labels."""
    top_value = max(
        1.0,
        *(
            value
            for kind_curves in curves.values()
            for curve in kind_curves
            for value in curve.values()
        ),
    )
    panel = _panel(Axis(0, 100), Axis(0, top_value), top, 130, names=96)
    rows = [
        (tick, f"{tick}", "bound" if tick == 1 else "grid") for tick in range(int(top_value) + 1)
    ]
    parts = _axes(panel, rows, [(share, f"{share} %") for share in (0, 20, 40, 60, 80, 100)])
    ends = {}
    for kind, kind_curves in curves.items():
        mean = {share: fmean(curve[share] for curve in kind_curves) for share in SHARES}
        # All thresholds start at 0.
        for curve, look in (*((curve, " thin") for curve in kind_curves), (mean, "")):
            points = {0: 0.0, **curve}.items()
            parts.append(panel.curve(points, f"line {kind}{look}", dashes=KINDS[kind]))
        ends[kind] = panel.y(mean[SHARES[-1]])
    x = panel.x(100)
    for kind, y in set_apart(ends).items():
        parts.append(path(f"M{x + 6:.1f} {y:.1f}h22", f"line {kind}", dashes=KINDS[kind]))
        parts.append(text(x + 32, y + 4, kind, "small"))
    return parts


def learning_figure(results: Sequence[ArmResult]) -> str:
    """Draw the accuracy on relations of decoders on patches and on one token."""
    curves = {arm: learned for arm in DECODERS if (learned := learned_of(arm, results))}
    if not curves:
        return ""
    last = max(
        step for arm_curves in curves.values() for curve in arm_curves.values() for step in curve
    )
    panel = _panel(Axis(0, last), Axis(TICKS[0], TICKS[-1]), HEAD, 230, names=150)
    title = "Accuracy on relations, percent: decoder on patches (solid) and on one token (dotted)"
    parts = [
        text(LEFT, 16, title, "says"),
        text(LEFT + 6, panel.y(CHANCE) + 18, "chance", "small"),
    ]
    rows = [
        (tick, number_text(tick, digits=0), "chance" if tick == CHANCE else "grid")
        for tick in TICKS
    ]
    steps = [last * fifth // 5 for fifth in range(6)]
    parts += _axes(panel, rows, [(step, f"{step:,}") for step in steps])
    parts.append(panel.below(last / 2, "steps", "small", gap=34))
    # Draw the first arm last, on top of the other.
    for arm, arm_curves in reversed(curves.items()):
        for base, curve in arm_curves.items():
            parts.append(panel.curve(curve.items(), f"line {DECODERS[arm]}"))
            for step, share in curve.items() if arm == PATCHES else ():
                # One dot for each measurement; its value is a tooltip.
                label = f"{base}, {step:,} steps: {number_text(share)}"
                kind = f"dot {DECODERS[PATCHES]}"
                parts.append(dot(panel.x(step), panel.y(share), 3, kind, said=label))
    parts += _names(panel, curves)
    description = "; ".join(
        f"{arm}, {base}: {', '.join(map(number_text, curve.values()))}"
        for arm, arm_curves in curves.items()
        for base, curve in arm_curves.items()
    )
    style = STYLE + style_of("decoders")
    return chart_file(parts, WIDE, panel.bottom + 44, title=title, said=description, style=style)


def learned_of(arm: str, results: Sequence[ArmResult]) -> dict[str, Curve]:
    """Return the accuracy on relations by base, for bases that were measured during training."""
    curves = {
        result.base: {int(step): share for step, share in result.numbers[CURVE].items()}
        for result in results
        if result.arm == arm and CURVE in result.numbers
    }
    return {base: dict(sorted(curves[base].items())) for base in in_order(curves)}


def _panel(across: Axis, up: Axis, top: float, high: float, *, names: float) -> Panel:
    """Return a panel with space for labels on its right."""
    return Panel(across, up, high=high, top=top, left=LEFT, wide=WIDE - LEFT - names)


def _names(panel: Panel, curves: Mapping[str, Mapping[str, Curve]]) -> list[str]:
    """Draw labels of bases at the ends of their lines; for one token only the number of bases."""
    ends = {
        arm: {base: panel.y(curve[max(curve)]) for base, curve in arm_curves.items()}
        for arm, arm_curves in curves.items()
    }
    named = dict(ends.get(PATCHES, {}))
    if token_ends := list(ends.get(TOKEN, {}).values()):
        named[f"one token, {count_text(len(token_ends), 'base')}"] = sum(token_ends) / len(
            token_ends
        )
    parts, x = [], panel.x(panel.across.high) + 6
    for name, y in set_apart(named).items():
        parts.append(line(x, x + 16, named[name], y, "zero"))
        parts.append(text(x + 20, y + 4, name, "small"))
    return parts


def _axes(
    panel: Panel, rows: Iterable[tuple[float, str, str]], columns: Iterable[tuple[float, str]]
) -> list[str]:
    """Draw horizontal lines with their labels, and the labels below the panel."""
    parts = []
    for value, label, look in rows:
        parts.append(panel.level(value, look))
        parts.append(text(panel.left - 8, panel.y(value) + 4, label, "small", anchor="end"))
    return parts + [panel.below(value, label, "small", gap=16) for value, label in columns]
