"""Results of decoders that were asked on the way come in; a picture of how they learned goes out.

A line for each base: relations told right after so many steps, as SVG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from statistics import fmean

from unbag_lab.experiments.decoders import CURVE
from unbag_lab.experiments.repair import SHARES, THRESHOLD
from unbag_lab.pages.figures import STYLE, WIDE, label, svg
from unbag_lab.plan import counted
from unbag_lab.results import ArmResult, in_order

THRESHOLD_FIGURE_ARMS: Mapping[str, str] = {
    "ce_clip": "as printed",
    "ce_clip_fixed": "mended",
    "ce_clip_fixed-unbounded": "mended, without the bound",
}
"""With what is said of each; of the experiment `default`."""
KINDS: Mapping[str, str] = {"swap": "", "relation": "9 4", "attribute": "2 3", "object": "9 3 2 3"}
"""Of negatives; colour and dashes say the same."""
THRESHOLD_FIGURE_LEFT, THRESHOLD_FIGURE_RIGHT, THRESHOLD_FIGURE_HIGH, HEAD, GAP = (
    44,
    96,
    130,
    30,
    34,
)
"""Pixels: beside and above a panel, its height, and what is free below it."""
COLOURS = (
    ".line{fill:none;stroke-width:2.5}.thin{stroke-width:1;stroke-opacity:.4}"
    ".swap{stroke:#0072b2}.relation{stroke:#c44e00}.attribute{stroke:#007a5a}.object{stroke:#8c4a86}"
    "@media (prefers-color-scheme:dark){.swap{stroke:#56b4e9}.relation{stroke:#ff9d4d}"
    ".attribute{stroke:#3fc9a2}.object{stroke:#dd9fd6}}"
)

ThresholdFigureCurve = tuple[float, ...]
"""After each of `SHARES`, in units of the bound."""


def curves_of(arm: str, results: Sequence[ArmResult]) -> dict[str, list[ThresholdFigureCurve]]:
    """By kind of negatives, one for each base that has them all."""
    found: dict[str, list[ThresholdFigureCurve]] = {}
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
    for arm, what in THRESHOLD_FIGURE_ARMS.items():
        curves = curves_of(arm, results)
        if curves:
            title = f"{arm}, {what}: {counted(max(map(len, curves.values())), 'base')}"
            parts.append(_threshold_figure_panel(title, curves, top + HEAD))
            said.append(title)
            top += HEAD + THRESHOLD_FIGURE_HIGH + GAP
    if not parts:
        return ""
    title = "Thresholds over the steps"
    return svg(title, "; ".join(said), top, parts, style=STYLE + COLOURS)


def _threshold_figure_panel(
    title: str, curves: Mapping[str, Sequence[ThresholdFigureCurve]], top: float
) -> str:
    """Thin lines are bases, thick ones their means."""
    most = max(1.0, *(value for some in curves.values() for one in some for value in one))
    parts = [label(THRESHOLD_FIGURE_LEFT, top - 12, title, "says")]
    for tick in range(int(most) + 1):
        y = _threshold_figure_down(tick, most, top)
        kind = "bound" if tick == 1 else "grid"
        parts.append(
            f'<path class="{kind}" d="M{THRESHOLD_FIGURE_LEFT} {y:.1f}H{WIDE - THRESHOLD_FIGURE_RIGHT}"/>'
        )
        parts.append(label(THRESHOLD_FIGURE_LEFT - 8, y + 4, f"{tick}", "small", anchor="end"))
    for share in (0, 20, 40, 60, 80, 100):
        parts.append(
            label(
                _threshold_figure_across(share),
                top + THRESHOLD_FIGURE_HIGH + 16,
                f"{share} %",
                "small",
                anchor="middle",
            )
        )
    for kind, some in curves.items():
        mean = tuple(fmean(at) for at in zip(*some, strict=True))
        parts += [_path(kind, _threshold_figure_line(one, most, top), " thin") for one in some]
        parts.append(_path(kind, _threshold_figure_line(mean, most, top)))
    return "".join([*parts, *_threshold_figure_names(curves, most, top)])


def _threshold_figure_names(
    curves: Mapping[str, Sequence[ThresholdFigureCurve]], most: float, top: float
) -> list[str]:
    """Beside the ends of the means, the highest first, none upon another."""
    ends = {
        kind: _threshold_figure_down(fmean(one[-1] for one in some), most, top)
        for kind, some in curves.items()
    }
    parts = []
    for kind, y in beside(ends).items():
        parts.append(_path(kind, f"M{WIDE - THRESHOLD_FIGURE_RIGHT + 6} {y:.1f}h22"))
        parts.append(label(WIDE - THRESHOLD_FIGURE_RIGHT + 32, y + 4, kind, "small"))
    return parts


def beside(ends: Mapping[str, float]) -> dict[str, float]:
    """Where names of lines stand that end there: the highest first, none upon another."""
    placed, free = {}, 0.0
    for name in sorted(ends, key=lambda name: ends[name]):
        placed[name] = max(ends[name], free)
        free = placed[name] + 16
    return placed


def _threshold_figure_line(curve: ThresholdFigureCurve, most: float, top: float) -> str:
    """All thresholds begin at 0."""
    points = [(0, 0.0), *zip(SHARES, curve, strict=True)]
    return "M" + "L".join(
        f"{_threshold_figure_across(share):.1f} {_threshold_figure_down(y, most, top):.1f}"
        for share, y in points
    )


def _path(kind: str, line: str, more: str = "") -> str:
    dash = f' stroke-dasharray="{KINDS[kind]}"' if KINDS[kind] else ""
    return f'<path class="line {kind}{more}"{dash} d="{line}"/>'


def _threshold_figure_across(share: float) -> float:
    return (
        THRESHOLD_FIGURE_LEFT
        + (WIDE - THRESHOLD_FIGURE_LEFT - THRESHOLD_FIGURE_RIGHT) * share / 100
    )


def _threshold_figure_down(value: float, most: float, top: float) -> float:
    return top + THRESHOLD_FIGURE_HIGH * (1 - value / most)


PATCHES, TOKEN = "decoder-long", "decoder-cls-long"
LEARNING_FIGURE_ARMS: Mapping[str, str] = {PATCHES: "patches", TOKEN: "token"}
"""With the class of their lines; those of patches are named base by base."""
TITLE = "Relations told right, percent: decoder on patches (solid) and on one token (dotted)"
LEARNING_FIGURE_LEFT, LEARNING_FIGURE_RIGHT, TOP, LEARNING_FIGURE_HIGH = 44, 150, 30, 230
"""Pixels: beside and above the panel, and its height."""
CHANCE = 0.5
TICKS = (0.4, CHANCE, 0.6, 0.7, 0.8, 0.9, 1.0)
MARKS = (
    ".line{fill:none;stroke-width:1.5}.patches{stroke:#0072b2}.dot.patches{fill:#0072b2}"
    ".token{stroke:#c44e00;stroke-dasharray:2 3}.chance{stroke:#6b6b6b;stroke-dasharray:7 4}"
    "@media (prefers-color-scheme:dark){.patches{stroke:#56b4e9}.dot.patches{fill:#56b4e9}"
    ".token{stroke:#ff9d4d}.chance{stroke:#a0a0a0}}"
)

LearningFigureCurve = Mapping[int, float]
"""Share of relations by the steps that were made."""


def learned_of(arm: str, results: Sequence[ArmResult]) -> dict[str, LearningFigureCurve]:
    """By base, of those that were asked on the way."""
    found = {
        one.base: {int(step): share for step, share in one.numbers[CURVE].items()}
        for one in results
        if one.arm == arm and CURVE in one.numbers
    }
    return {base: dict(sorted(found[base].items())) for base in in_order(found)}


def learning_figure(results: Sequence[ArmResult]) -> str:
    """Both arms on one panel; empty where none was asked on the way."""
    curves = {arm: found for arm in LEARNING_FIGURE_ARMS if (found := learned_of(arm, results))}
    if not curves:
        return ""
    last = max(step for some in curves.values() for one in some.values() for step in one)
    parts = [label(LEARNING_FIGURE_LEFT, 16, TITLE, "says"), _learning_figure_panel(last)]
    # The first arm is drawn last, upon the other.
    for arm, some in reversed(curves.items()):
        parts += [_learning_figure_line(arm, base, curve, last) for base, curve in some.items()]
    said = "; ".join(
        f"{arm}, {base}: {', '.join(f'{100 * share:.1f}' for share in curve.values())}"
        for arm, some in curves.items()
        for base, curve in some.items()
    )
    parts += _learning_figure_names(curves)
    return svg(TITLE, said, TOP + LEARNING_FIGURE_HIGH + 44, parts, style=STYLE + MARKS)


def _learning_figure_panel(last: int) -> str:
    parts = [label(LEARNING_FIGURE_LEFT + 6, _learning_figure_down(CHANCE) + 18, "chance", "small")]
    for tick in TICKS:
        y, kind = _learning_figure_down(tick), "chance" if tick == CHANCE else "grid"
        parts.append(
            f'<path class="{kind}" d="M{LEARNING_FIGURE_LEFT} {y:.1f}H{WIDE - LEARNING_FIGURE_RIGHT}"/>'
        )
        parts.append(
            label(LEARNING_FIGURE_LEFT - 8, y + 4, f"{100 * tick:.0f}", "small", anchor="end")
        )
    for fifth in range(6):
        step = last * fifth // 5
        x = _learning_figure_across(step, last)
        parts.append(
            label(x, TOP + LEARNING_FIGURE_HIGH + 16, f"{step:,}", "small", anchor="middle")
        )
    middle = _learning_figure_across(last / 2, last)
    return "".join(
        [*parts, label(middle, TOP + LEARNING_FIGURE_HIGH + 34, "steps", "small", anchor="middle")]
    )


def _learning_figure_line(arm: str, base: str, curve: LearningFigureCurve, last: int) -> str:
    points = [
        (_learning_figure_across(step, last), _learning_figure_down(share))
        for step, share in curve.items()
    ]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    parts = [f'<path class="line {LEARNING_FIGURE_ARMS[arm]}" d="{path}"/>']
    if arm == PATCHES:
        for (x, y), (step, share) in zip(points, curve.items(), strict=True):
            said = f"<title>{escape(base)}, {step:,} steps: {100 * share:.1f}</title>"
            at = f'cx="{x:.1f}" cy="{y:.1f}" r="3"'
            parts.append(f'<circle class="dot {LEARNING_FIGURE_ARMS[arm]}" {at}>{said}</circle>')
    return "".join(parts)


def _learning_figure_names(curves: Mapping[str, Mapping[str, LearningFigureCurve]]) -> list[str]:
    """Bases, each tied to the end of its line; of one token only how many there are."""
    ends = {base: _end(curve) for base, curve in curves.get(PATCHES, {}).items()}
    if others := [_end(curve) for curve in curves.get(TOKEN, {}).values()]:
        ends[f"one token, {counted(len(others), 'base')}"] = sum(others) / len(others)
    parts, x = [], WIDE - LEARNING_FIGURE_RIGHT + 6
    for name, y in beside(ends).items():
        parts.append(f'<path class="zero" d="M{x} {ends[name]:.1f}L{x + 16} {y:.1f}"/>')
        parts.append(label(x + 20, y + 4, name, "small"))
    return parts


def _end(curve: LearningFigureCurve) -> float:
    return _learning_figure_down(curve[max(curve)])


def _learning_figure_across(step: float, last: int) -> float:
    return (
        LEARNING_FIGURE_LEFT + (WIDE - LEARNING_FIGURE_LEFT - LEARNING_FIGURE_RIGHT) * step / last
    )


def _learning_figure_down(share: float) -> float:
    return TOP + LEARNING_FIGURE_HIGH * (TICKS[-1] - share) / (TICKS[-1] - TICKS[0])
