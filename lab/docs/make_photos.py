"""Write the tables and plots of the page on photographs from the numbers of their arms.

python lab/docs/make_photos.py
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from unbag.reports.charts import (
    Axis,
    Panel,
    at,
    chart_file,
    dot,
    element,
    path,
    set_apart,
    text,
)
from unbag_lab.experiments.photos_heads import ORDER_METRICS
from unbag_lab.experiments.photos_training import (
    ArmNumber,
    difference_text,
    read_numbers,
)
from unbag_lab.experiments.photos_training import tables as arm_tables
from unbag_lab.pages import renewed, table

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
LOCKS = {"": "both trainable", "-locked": "image encoder frozen", "-heads": "heads only"}
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
    building, *repairs = arm_tables(read_numbers(HERE / "photo_arms.json")).split("\n\n**")
    tables = {
        "building": f"{building}\n",
        "repairs": "\n\n".join(f"**{part}" for part in repairs) + "\n",
        "reading": reading_table(of),
        "order": order_table(of),
        "order-apart": order_apart(of),
        "curve": curve_table(of),
        "diagnosis": diagnosis(),
    }
    return tables, {"photo-repairs.svg": repairs_plot(of), "photo-mixing.svg": mixing_plot(of)}


def read(*names: str) -> Found:
    """All numbers by arm and metric."""
    every = [one for name in names for one in read_numbers(HERE / name)]
    return {(one.arm, one.metric): one for one in every}


def reading_table(of: Found) -> str:
    """The blind reader beside models, on kinds of edits seen and not seen."""
    arms = (BLIND, "heads", "hard_negative", "ce_clip_fixed")
    metrics = [metric for metric in PANELS if (BLIND, metric) in of]
    rows = [[PANELS[metric], *(of[arm, metric].text for arm in arms)] for metric in metrics]
    return table(["", *map(_named, arms)], rows)


def diagnosis() -> str:
    """What `unbag diagnose` printed of the heads before and after a repair."""
    answers = json.loads((HERE / "photo_diagnosis.json").read_text(encoding="utf-8"))["answers"]
    rows = [
        [answer["question"], when, answer[when]]
        for answer in answers
        for when in ("before", "after")
        if answer[when]
    ]
    return table(["question", "", "answer"], rows)


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
        apart = [difference_text(of[arm, one], of[control, one]) for one in ORDER_METRICS]
        rows.append([_named(arm), *apart])
    return table(["arm", *ORDER], rows)


def curve_table(of: Found) -> str:
    """A row a weight."""
    rows = [[f"{weight:g}", *_cells(of, arm, CURVE)] for weight, arm in _mixes(of)]
    return table(["weight", *CURVE.values()], rows)


def _mixes(of: Found) -> list[tuple[float, str]]:
    names = dict.fromkeys(arm for arm, _ in of if arm.startswith("mix "))
    return [(float(name.removeprefix("mix ")), name) for name in names]


def _cells(of: Found, arm: str, metrics: Sequence[str] | dict[str, str]) -> list[str]:
    return [of[arm, metric].text for metric in metrics]


def _named(arm: str) -> str:
    return arm if arm in (BLIND, LIKELIHOOD) else f"`{arm}`"


def repairs_plot(of: Found) -> str:
    """Four panels: every loss with three locks, with intervals, and the blind reader as a line."""
    parts = _legend()
    for place, (metric, title) in enumerate(PANELS.items()):
        row, column = divmod(place, 2)
        axis = Axis(0.15, 0.35, is_rate=True) if "R@1" in metric else Axis(0.5, 1, is_rate=True)
        panel = Panel(axis, high=150, top=62 + 205 * row, left=110 + 370 * column, wide=250)
        parts += [*_panel(panel, title), *_arms(of, metric, panel), *_blind(of, metric, panel)]
    said = "; ".join(
        f"{title}: " + ", ".join(f"{arm} {of[arm, metric].text}" for arm in ("heads", *LOSSES))
        for metric, title in PANELS.items()
    )
    title = "Repairs on photographs, three seeds, 95 % intervals"
    return chart_file(parts, 750, 470, title=title, said=said, style=STYLE, paper="#fff")


def _legend() -> list[str]:
    parts, x = [], 110.0
    for lock, words in LOCKS.items():
        parts += [at(x, 20, _mark(lock, COLOURS[lock])), text(x + 9, 24, words)]
        x += 40 + 7 * len(words)
    return [
        *parts,
        path(f"M{x:g} 12v16", "blind"),
        text(x + 9, 24, "a reader that sees no image"),
    ]


def _panel(panel: Panel, title: str) -> list[str]:
    parts = [text(panel.left, panel.top - 10, title, "title")]
    step = 5 if panel.across.high - panel.across.low <= 0.2 else 10
    for percent in range(round(100 * panel.across.low), round(100 * panel.across.high) + 1, step):
        tick = percent / 100
        parts += [panel.upright(tick), panel.below(tick, f"{percent}", "small")]
    return parts


def _arms(of: Found, metric: str, panel: Panel) -> list[str]:
    parts, step = [], panel.high / (1 + len(LOSSES))
    for place, name in enumerate(("heads", *LOSSES)):
        y = panel.top + step * (place + 0.5)
        is_base = name == "heads"
        parts.append(text(panel.left - 8, y + 4, "base (heads)" if is_base else name, anchor="end"))
        for lane, lock in enumerate([""] if is_base else LOCKS):
            one = of[f"{name}{lock}", metric]
            colour = "#222" if is_base else COLOURS[lock]
            parts += _whisker(one, panel, y if is_base else y + 6.5 * (lane - 1), lock, colour)
    return parts


def _whisker(one: ArmNumber, panel: Panel, y: float, lock: str, colour: str) -> list[str]:
    low, middle, high = (panel.x(v) for v in (one.low, one.mean, one.high))
    drawn = element("path", d=f"M{low:.1f} {y:.1f}H{high:.1f}", stroke=colour, stroke_width="1.5")
    return [drawn, at(middle, y, _mark(lock, colour))]


def _mark(lock: str, colour: str) -> str:
    """The form says the same as the colour."""
    if lock == "-locked":
        return element("rect", x=-3, y=-3, width=6, height=6, fill=colour)
    if lock == "-heads":
        return element("path", d="M0-4l4 7h-8z", fill=colour)
    return element("circle", r="3.4", fill=colour)


def _blind(of: Found, metric: str, panel: Panel) -> list[str]:
    if (BLIND, metric) not in of:
        return []
    one = of[BLIND, metric]
    low, high = panel.x(one.low), panel.x(one.high)
    band = element(
        "rect", x=low, y=panel.top, width=high - low, height=panel.high, fill="#888", opacity=".18"
    )
    return [band, panel.upright(one.mean, "blind")]


def mixing_plot(of: Found) -> str:
    """Percent over the mixing weight: means with bands over photographs, a dot a seed."""
    panel = Panel(Axis(0, 1), Axis(0.1, 0.95), high=360, top=20, left=45, wide=480)
    parts = []
    for percent in range(10, 91, 10):
        tick = percent / 100
        parts += [
            panel.level(tick),
            text(panel.left - 8, panel.y(tick) + 4, f"{percent}", "small", anchor="end"),
        ]
    mixes = _mixes(of)
    parts += [panel.below(weight, f"{weight:g}", "small", gap=18) for weight, _ in mixes[::2]]
    parts.append(panel.below(0.5, "weight of the repaired heads", gap=38))
    ends = {metric: panel.y(of[mixes[-1][1], metric].mean) for metric in CURVE}
    heights = set_apart(ends, least=15.0)
    for (metric, words), colour in zip(CURVE.items(), LINES, strict=True):
        parts += _line(of, mixes, metric, colour, panel)
        parts.append(text(panel.x(1) + 10, heights[metric] + 4, words, colour=colour))
    said = "; ".join(
        f"{words}: " + ", ".join(f"{w:g} {of[arm, metric].text}" for w, arm in mixes)
        for metric, words in CURVE.items()
    )
    title = "Weights between plain heads and repaired ones"
    return chart_file(parts, 740, 430, title=title, said=said, style=STYLE, paper="#fff")


def _line(
    of: Found, mixes: Sequence[tuple[float, str]], metric: str, colour: str, panel: Panel
) -> list[str]:
    some = [(panel.x(weight), of[arm, metric]) for weight, arm in mixes]

    def joined(value: Callable[[ArmNumber], float], *, back: bool = False) -> str:
        found = [f"{x:.1f} {panel.y(value(one)):.1f}" for x, one in some]
        return "L".join(found[::-1] if back else found)

    band = f"M{joined(lambda one: one.low)}L{joined(lambda one: one.high, back=True)}Z"
    mean = f"M{joined(lambda one: one.mean)}"
    return [
        element("path", d=band, fill=colour, opacity=".13"),
        element("path", d=mean, fill="none", stroke=colour, stroke_width=2),
        element(
            "g",
            "".join(dot(x, panel.y(v), 1.8, "") for x, one in some for v in one.by_seed),
            fill=colour,
        ),
    ]


if __name__ == "__main__":
    tables, plots = made(read("photo_heads.json", "photo_arms.json"))
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
    for name, plot in plots.items():
        (IMAGES / name).write_text(plot, encoding="utf-8")
