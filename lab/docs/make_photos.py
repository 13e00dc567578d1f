"""Write the tables and plots of the page on photographs from the numbers of their arms.

python lab/docs/make_photos.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from unbag_lab.experiments.photos_heads import ORDER_METRICS
from unbag_lab.experiments.photos_table import ArmNumber, difference, read_numbers
from unbag_lab.pages import renewed, table
from unbag_lab.pages.svg import Panel, label, set_apart, svg

HERE = Path(__file__).parent
PAGE, IMAGES = HERE / "photos.md", HERE / "images"
LOSSES = ("clip_ft", "neg_clip", "hard_negative", "hard_positive", "ce_clip_fixed")
HEADS = ("heads", *(f"{name}-heads" for name in LOSSES))
BLIND, LIKELIHOOD = "blind reader", "language model"
PANELS = {
    "swap, seen: original": "exchanged words, kinds seen",
    "replace, seen: original": "replaced words, kinds seen",
    "unseen: original": "kinds not seen",
    "text to image R@1": "text to image R@1 among 491",
}
LOCKS = {"": "all open", "-locked": "picture part locked", "-heads": "heads only"}
COLOURS = {"": "#0072b2", "-locked": "#d55e00", "-heads": "#007a5a"}
ORDER = ("any of the four", "nouns, adjectives", "all but these", "within trigrams", "trigrams")
CURVE = {**PANELS, ORDER_METRICS[0]: "order precision"}
LINES = ("#d55e00", "#0072b2", "#7a3b8f", "#222222", "#007a5a")
STYLE = (
    "text{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#222}"
    ".title{font-weight:600}.small{font-size:11px;fill:#555}.grid{stroke:#ddd}"
    ".blind{stroke:#888;stroke-dasharray:4 3;stroke-width:1.5}"
)


Found = dict[tuple[str, str], ArmNumber]


def made(of: Found) -> tuple[dict[str, str], dict[str, str]]:
    """Tables by name, and plots by file name."""
    tables = {"order": order_table(of), "order-apart": order_apart(of), "curve": curve_table(of)}
    return tables, {"photo-repairs.svg": repairs_plot(of), "photo-mixing.svg": mixing_plot(of)}


def read(*names: str) -> Found:
    """All numbers by arm and metric."""
    every = [one for name in names for one in read_numbers(HERE / name)]
    return {(one.arm, one.metric): one for one in every}


def order_table(of: Found) -> str:
    """A row an arm and a blind reader, a column a kind of shuffle."""
    arms = [arm for arm in (*HEADS, BLIND, LIKELIHOOD) if (arm, ORDER_METRICS[0]) in of]
    return table(["arm", *ORDER], [[_named(arm), *_cells(of, arm, ORDER_METRICS)] for arm in arms])


def order_apart(of: Found) -> str:
    """Differences to plain fine-tuning, paired within seeds."""
    control, rows = "clip_ft-heads", []
    if len(of[control, ORDER_METRICS[0]].by_seed) == 1:
        return "One seed, so there is no difference over seeds.\n"
    for arm in HEADS[2:]:
        apart = (difference(of[arm, metric], of[control, metric]) for metric in ORDER_METRICS)
        said = [_signed(mean, mean - half, mean + half) for mean, half in apart]
        rows.append([_named(arm), *said])
    return table(["arm", *ORDER], rows)


def curve_table(of: Found) -> str:
    """A row a weight."""
    rows = [[f"{weight:g}", *_cells(of, arm, CURVE)] for weight, arm in _mixes(of)]
    return table(["weight", *CURVE.values()], rows)


def _mixes(of: Found) -> list[tuple[float, str]]:
    names = dict.fromkeys(arm for arm, _ in of if arm.startswith("mix "))
    return [(float(name.removeprefix("mix ")), name) for name in names]


def _cells(of: Found, arm: str, metrics: Sequence[str] | dict[str, str]) -> list[str]:
    return [_shown(of[arm, metric]) for metric in metrics]


def _shown(one: ArmNumber) -> str:
    return f"{100 * one.mean:.1f} [{100 * one.low:.1f}, {100 * one.high:.1f}]"


def _signed(*values: float) -> str:
    mean, low, high = (f"{100 * value:+.1f}" for value in values)
    return f"{mean} [{low}, {high}]"


def _named(arm: str) -> str:
    return arm if arm in (BLIND, LIKELIHOOD) else f"`{arm}`"


def repairs_plot(of: Found) -> str:
    """Four panels: every loss with three locks, with intervals, and the blind reader as a line."""
    parts = [_legend()]
    for at, (metric, title) in enumerate(PANELS.items()):
        row, column = divmod(at, 2)
        low, most = (15.0, 35.0) if "R@1" in metric else (50.0, 100.0)
        panel = Panel(110 + 370 * column, 62 + 205 * row, 250, 150, x=(low, most))
        parts += [_panel(panel, title), *_arms(of, metric, panel), _blind(of, metric, panel)]
    said = "; ".join(
        f"{title}: " + ", ".join(f"{arm} {_shown(of[arm, metric])}" for arm in ("heads", *LOSSES))
        for metric, title in PANELS.items()
    )
    return svg(
        "Repairs on photographs, three seeds, 95 % intervals",
        said,
        470,
        parts,
        wide=750,
        style=STYLE,
        paper="#fff",
    )


def _legend() -> str:
    parts, x = [], 110
    for lock, words in LOCKS.items():
        parts += [_mark(x, 20, lock, COLOURS[lock]), label(x + 9, 24, words)]
        x += 40 + 7 * len(words)
    parts.append(f'<path class="blind" d="M{x} 12v16"/>')
    return "".join([*parts, label(x + 9, 24, "a reader that sees no picture")])


def _panel(panel: Panel, title: str) -> str:
    parts = [label(panel.left, panel.top - 10, title, kind="title")]
    for tick in _ticks(panel):
        x = panel.across(tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {panel.top}v{panel.high}"/>')
        parts.append(
            label(x, panel.top + panel.high + 15, f"{tick:g}", anchor="middle", kind="small")
        )
    return "".join(parts)


def _ticks(panel: Panel) -> list[float]:
    low, high = panel.x
    step = 5 if high - low <= 20 else 10
    return [float(v) for v in range(int(low), int(high) + 1, step)]


def _arms(of: Found, metric: str, panel: Panel) -> list[str]:
    parts, step = [], panel.high / (1 + len(LOSSES))
    for at, name in enumerate(("heads", *LOSSES)):
        y = panel.top + step * (at + 0.5)
        shown = "base (heads)" if name == "heads" else name
        parts.append(label(panel.left - 8, y + 4, shown, anchor="end"))
        locks = [""] if name == "heads" else list(LOCKS)
        for lane, lock in enumerate(locks):
            one = of[f"{name}{lock}", metric]
            lift = 0.0 if name == "heads" else 6.5 * (lane - 1)
            parts.append(_whisker(one, panel, y + lift, lock, is_base=name == "heads"))
    return parts


def _whisker(one: ArmNumber, panel: Panel, y: float, lock: str, *, is_base: bool) -> str:
    low, middle, high = (panel.across(100 * v) for v in (one.low, one.mean, one.high))
    colour = "#222" if is_base else COLOURS[lock]
    line = f'<path d="M{low:.1f} {y:.1f}H{high:.1f}" stroke="{colour}" stroke-width="1.5"/>'
    return line + _mark(middle, y, "" if is_base else lock, colour)


def _mark(x: float, y: float, lock: str, colour: str) -> str:
    """The form says the same as the colour."""
    if lock == "-locked":
        return f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6" fill="{colour}"/>'
    if lock == "-heads":
        return f'<path d="M{x:.1f} {y - 4:.1f}l4 7h-8z" fill="{colour}"/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" fill="{colour}"/>'


def _blind(of: Found, metric: str, panel: Panel) -> str:
    if (BLIND, metric) not in of:
        return ""
    one = of[BLIND, metric]
    low, x, high = (panel.across(100 * v) for v in (one.low, one.mean, one.high))
    return (
        f'<rect x="{low:.1f}" y="{panel.top}" width="{high - low:.1f}" height="{panel.high}" '
        f'fill="#888" opacity=".18"/><path class="blind" d="M{x:.1f} {panel.top}v{panel.high}"/>'
    )


def mixing_plot(of: Found) -> str:
    """Percent over the mixing weight: means with bands over photographs, a dot a seed."""
    panel = Panel(45, 20, 480, 360, y=(10.0, 95.0))
    parts = []
    for tick in range(10, 91, 10):
        y = panel.down(tick)
        parts.append(f'<path class="grid" d="M{panel.left} {y:.1f}h{panel.wide}"/>')
        parts.append(label(panel.left - 8, y + 4, f"{tick}", anchor="end", kind="small"))
    mixes = _mixes(of)
    for weight, _ in mixes[::2]:
        x = panel.across(weight)
        parts.append(label(x, 398, f"{weight:g}", anchor="middle", kind="small"))
    parts.append(label(285, 418, "weight of the repaired heads", anchor="middle"))
    ends = {metric: panel.down(100 * of[mixes[-1][1], metric].mean) for metric in CURVE}
    heights = set_apart(ends, least=15.0)
    for (metric, words), colour in zip(CURVE.items(), LINES, strict=True):
        parts.append(_line(of, mixes, metric, colour, panel))
        parts.append(label(panel.left + panel.wide + 10, heights[metric] + 4, words, colour=colour))
    said = "; ".join(
        f"{words}: " + ", ".join(f"{w:g} {_shown(of[arm, metric])}" for w, arm in mixes)
        for metric, words in CURVE.items()
    )
    return svg(
        "Weights between plain heads and repaired ones",
        said,
        430,
        parts,
        wide=740,
        style=STYLE,
        paper="#fff",
    )


def _line(
    of: Found, mixes: Sequence[tuple[float, str]], metric: str, colour: str, panel: Panel
) -> str:
    some = [(panel.across(weight), of[arm, metric]) for weight, arm in mixes]

    def path(value: Callable[[ArmNumber], float], *, back: bool = False) -> str:
        found = [f"{x:.1f} {panel.down(100 * value(one)):.1f}" for x, one in some]
        return "L".join(found[::-1] if back else found)

    band = f"M{path(lambda one: one.low)}L{path(lambda one: one.high, back=True)}Z"
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{panel.down(100 * value):.1f}" r="1.8" fill="{colour}"/>'
        for x, one in some
        for value in one.by_seed
    )
    return (
        f'<path d="{band}" fill="{colour}" opacity=".13"/>'
        f'<path d="M{path(lambda one: one.mean)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        f"{dots}"
    )


if __name__ == "__main__":
    tables, plots = made(read("photo_heads.json", "photo_arms.json"))
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
    for name, plot in plots.items():
        (IMAGES / name).write_text(plot, encoding="utf-8")
