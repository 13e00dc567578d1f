"""Write the tables and figures of the page on read-outs from their shipped results.

python lab/docs/make_readouts.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import fmean

from unbag.reports.charts import Axis
from unbag_lab.pages import renewed, table
from unbag_lab.pages.curves import learning_figure
from unbag_lab.pages.svg import LEFT, STYLE, across, label, svg
from unbag_lab.pages.tables import readout_tables
from unbag_lab.results import BEFORE, RESULTS, ArmResult, in_order, read_results

HERE = Path(__file__).parent
PAGE, IMAGES = HERE / "readouts-on-the-world.md", HERE / "images"
LONG = "-long"
RELATION = ("world-relation", "original")
ASKED = {
    "relation": [RELATION],
    "exchanged colours": [("world-swap", "original")],
    "pairs-a, strict": [("world-pairs-a", "pair")],
    "text finds picture": [("world-retrieval", "text_to_image@1")],
    "counts / denials, group": [("world-count", "group"), ("world-negation", "group")],
}
ARMS = {
    BEFORE: "cosine",
    "pooled": "reader of pooled vectors",
    "pooled-text": "the same, another text tower",
    "dcsm_fixed": "DCSM, as mended",
    "dcsm_fixed-shuffled": "the same, patches shuffled",
    "pacl_fixed-rotary-2d": "PACL with places",
    "pacl_fixed-rotary-2d-text": "the same, another text tower",
    "sparc_fixed": "SPARC, as mended",
    "vlm2vec": "VLM2Vec, with the question",
    "vlm2vec-plain": "VLM2Vec, without it",
    "decoder": "decoder on patches",
    "decoder-cls": "decoder on one token",
    "decoder-nothing": "decoder without a picture",
}
"""What the short table and the picture show, at the usual steps and where it was run for long."""
TAUGHT = {
    "pooled": "pooled",
    "dcsm_fixed": "DCSM",
    "pacl_fixed-rotary-2d": "PACL with places",
    "pacl_fixed-rotary-2d-text": "PACL with places and MiniLM",
    "sparc_fixed": "SPARC",
}
"""Readers whose relations of taught and of held out scenes are set side by side."""
NAMES, LANE, TOP = 210, 34, 12
"""Pixels: beside lanes, of a lane, above the first."""
MARKS = (
    ".few{stroke:#6b6b6b;fill:none;stroke-width:1.5}.many{fill:#0072b2}.chance{stroke:#6b6b6b;"
    "stroke-dasharray:4 3}@media (prefers-color-scheme:dark){.few{stroke:#b5b5b5}"
    ".many{fill:#56b4e9}.chance{stroke:#a0a0a0}}"
)


def made(results: Sequence[ArmResult]) -> tuple[dict[str, str], dict[str, str]]:
    """Tables by the name of their marks, and pictures by that of their file."""
    rows = rows_of(results)
    tables = {"short": short_table(rows), "taught": taught_table(results)}
    pictures = {
        "readouts-relation.svg": picture(rows),
        "readouts-learning.svg": learning_figure(results),
    }
    return {**tables, "all": readout_tables(results) + "\n"}, pictures


def rows_of(results: Sequence[ArmResult]) -> list[Row]:
    """Every arm of `ARMS`, each followed by the same taught for long, where that was run."""
    rows = []
    for arm, said in ARMS.items():
        for name in (arm, arm + LONG):
            own = {one.base: one for one in results if one.arm == name}
            if own:
                ordered = [own[base] for base in in_order(own)]
                rows.append(Row(said, ordered, name.endswith(LONG)))
    return rows


@dataclass(frozen=True)
class Row:
    """An arm on all its bases."""

    said: str
    results: Sequence[ArmResult]
    is_long: bool

    def values(self, bench: str, metric: str) -> list[float]:
        """By base."""
        return [one.numbers[bench][metric] for one in self.results]


def short_table(rows: Sequence[Row]) -> str:
    """Means over bases."""
    lines = []
    for row in rows:
        (steps,) = {one.steps for one in row.results}
        means = [
            " / ".join(f"{100 * fmean(row.values(*one)):.1f}" for one in some)
            for some in ASKED.values()
        ]
        taught = f"{steps:,}" if steps else "–"
        cells = [row.said, f"{taught} ({len(row.results)})", *means]
        lines.append([f"**{cell}**" for cell in cells] if row.is_long else cells)
    return table(("read-out", "steps (bases)", *ASKED), lines)


def taught_table(results: Sequence[ArmResult]) -> str:
    """Relations told from their opposites after many steps: least and most over bases."""
    several, alone = ("learned relation", "held relation"), ("learned", "held")
    titles = ("of taught scenes", "of held out scenes")
    head = ("reader, 20,000 steps", *titles, f"taught nothing else: {titles[0]}", titles[1])
    lines = []
    for arm, said in TAUGHT.items():
        cells = [_span(results, arm + LONG, name) for name in several]
        cells += [_span(results, arm + "-relations", name) for name in alone]
        lines.append([said, *cells])
    return table(head, lines)


def _span(results: Sequence[ArmResult], arm: str, name: str) -> str:
    found = [100 * one.numbers["fit"][name] for one in results if one.arm == arm]
    return f"{min(found):.1f} to {max(found):.1f}" if found else "–"


def picture(rows: Sequence[Row]) -> str:
    """Relations by base: a lane for each read-out, its usual steps above many."""
    axis = Axis.over([0.45, 0.95], is_rate=True)
    usual = [row for row in rows if not row.is_long]
    high = LANE * len(usual)
    parts = [_ticks(axis, high)]
    said = []
    for lane, row in enumerate(usual):
        middle = TOP + LANE * (lane + 0.5)
        arm = row.results[0].arm
        long = [one for one in rows if one.is_long and one.results[0].arm == arm + LONG]
        parts.append(label(LEFT, middle + 4, row.said, "small"))
        for own in (row, *long):
            y = middle + (8 if own.is_long else -8) * bool(long)
            for one in own.results:
                value = one.numbers[RELATION[0]][RELATION[1]]
                parts.append(
                    _mark(across(axis, value, names=NAMES), y, one, value, is_long=own.is_long)
                )
            shown = f"{100 * fmean(own.values(*RELATION)):.1f}"
            said.append(f"{own.said}{', 20,000 steps' if own.is_long else ''}: {shown}")
    parts.append(_legend(TOP + high + 42))
    title = "Relations told right, by read-out and base"
    return svg(title, "; ".join(said), TOP + high + 56, parts, style=STYLE + MARKS)


def _ticks(axis: Axis, high: float) -> str:
    parts = []
    for tick in axis.ticks():
        x = across(axis, tick, names=NAMES)
        kind = "chance" if abs(tick - 0.5) < 1e-9 else "grid"
        parts.append(f'<path class="{kind}" d="M{x:.1f} {TOP}v{high:g}"/>')
        parts.append(label(x, TOP + high + 15, axis.text(tick), "small", anchor="middle"))
    return "".join(parts)


def _mark(x: float, y: float, one: ArmResult, value: float, *, is_long: bool) -> str:
    said = f"<title>{escape(one.base)}: {100 * value:.1f}</title>"
    if is_long:
        return f'<path class="many" d="M{x:.1f} {y - 6:.1f}l6 6-6 6-6-6Z">{said}</path>'
    return f'<circle class="few" cx="{x:.1f}" cy="{y:.1f}" r="4">{said}</circle>'


def _legend(y: float) -> str:
    x = LEFT + NAMES
    return (
        f'<circle class="few" cx="{x}" cy="{y - 4:g}" r="4"/>'
        + label(x + 12, y, "one base, usual steps", "small")
        + f'<path class="many" d="M{x + 166} {y - 10:g}l6 6-6 6-6-6Z"/>'
        + label(x + 178, y, "one base, 20,000 steps", "small")
        + f'<path class="chance" d="M{x + 336} {y - 4:g}h22"/>'
        + label(x + 364, y, "chance, percent", "small")
    )


if __name__ == "__main__":
    tables, drawn = made(read_results(RESULTS / "readouts.json"))
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
    for name, one in drawn.items():
        (IMAGES / name).write_text(one, encoding="utf-8")
