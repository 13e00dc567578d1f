"""Write the tables and figures of the page on read-outs from their shipped results.

python lab/docs/make_readouts.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from unbag.reports.charts import Axis, Panel, chart_file, dot, line, path, text
from unbag.reports.formatting import DASH, number_text
from unbag_lab.pages import renewed, table
from unbag_lab.pages.curves import learning_figure
from unbag_lab.pages.figures import LEFT, STYLE, WIDE, lanes_panel
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
    "text finds image": [("world-retrieval", "text_to_image@1")],
    "counts / denials, group": [("world-count", "group"), ("world-negation", "group")],
}
ARMS = {
    BEFORE: "cosine",
    "pooled": "reader of pooled vectors",
    "pooled-text": "the same, another text encoder",
    "dcsm_fixed": "DCSM, corrected",
    "dcsm_fixed-shuffled": "the same, patches shuffled",
    "pacl_fixed-rotary-2d": "PACL with positions",
    "pacl_fixed-rotary-2d-text": "the same, another text encoder",
    "sparc_fixed": "SPARC, corrected",
    "vlm2vec": "VLM2Vec, with the question",
    "vlm2vec-plain": "VLM2Vec, without it",
    "decoder": "decoder on patches",
    "decoder-cls": "decoder on one token",
    "decoder-nothing": "decoder without an image",
}
"""Arms of the short table and the figure, at the usual steps and at 20,000."""
TAUGHT = {
    "pooled": "pooled",
    "dcsm_fixed": "DCSM",
    "pacl_fixed-rotary-2d": "PACL with positions",
    "pacl_fixed-rotary-2d-text": "PACL with positions and MiniLM",
    "sparc_fixed": "SPARC",
}
"""Readers whose relations of trained and of held-out scenes are compared."""
NAMES, LANE, TOP = 210, 34, 12
"""Pixels: beside lanes, of a lane, above the first."""
MARKS = (
    ".few{stroke:#6b6b6b;fill:none;stroke-width:1.5}.many{fill:#0072b2}.chance{stroke:#6b6b6b;"
    "stroke-dasharray:4 3}@media (prefers-color-scheme:dark){.few{stroke:#b5b5b5}"
    ".many{fill:#56b4e9}.chance{stroke:#a0a0a0}}"
)


def made(results: Sequence[ArmResult]) -> tuple[dict[str, str], dict[str, str]]:
    """Tables by the name of their marks, and images by that of their file."""
    rows = rows_of(results)
    tables = {"short": short_table(rows), "taught": taught_table(results)}
    images = {
        "readouts-relation.svg": image(rows),
        "readouts-learning.svg": learning_figure(results),
    }
    return {**tables, "all": readout_tables(results) + "\n"}, images


def rows_of(results: Sequence[ArmResult]) -> list[Row]:
    """Every arm of `ARMS`, each followed by the same with 20,000 steps, if that was run."""
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
            " / ".join(number_text(fmean(row.values(*one))) for one in some)
            for some in ASKED.values()
        ]
        taught = f"{steps:,}" if steps else DASH
        cells = [row.said, f"{taught} ({len(row.results)})", *means]
        lines.append([f"**{cell}**" for cell in cells] if row.is_long else cells)
    return table(("read-out", "steps (bases)", *ASKED), lines)


def taught_table(results: Sequence[ArmResult]) -> str:
    """Accuracy on relations after 20,000 steps: lowest and highest over bases."""
    several, alone = ("learned relation", "held relation"), ("learned", "held")
    titles = ("training scenes", "held-out scenes")
    head = ("reader, 20,000 steps", *titles, f"relations only: {titles[0]}", titles[1])
    lines = []
    for arm, said in TAUGHT.items():
        cells = [_span(results, arm + LONG, name) for name in several]
        cells += [_span(results, arm + "-relations", name) for name in alone]
        lines.append([said, *cells])
    return table(head, lines)


def _span(results: Sequence[ArmResult], arm: str, name: str) -> str:
    found = [one.numbers["fit"][name] for one in results if one.arm == arm]
    return f"{number_text(min(found))} to {number_text(max(found))}" if found else DASH


def image(rows: Sequence[Row]) -> str:
    """Relations by base: a lane for each read-out, its usual steps above many."""
    usual = [row for row in rows if not row.is_long]
    axis = Axis.over([0.45, 0.95], is_rate=True)
    panel = lanes_panel(axis, TOP, LANE * len(usual), names=NAMES)
    parts = []
    for tick in axis.ticks():
        kind = "chance" if abs(tick - 0.5) < 1e-9 else "grid"
        parts += [panel.upright(tick, kind), panel.below(tick, axis.text(tick), "small")]
    said = []
    for lane, row in enumerate(usual):
        middle = TOP + LANE * (lane + 0.5)
        arm = row.results[0].arm
        long = [one for one in rows if one.is_long and one.results[0].arm == arm + LONG]
        parts.append(text(LEFT, middle + 4, row.said, "small"))
        for own in (row, *long):
            y = middle + (8 if own.is_long else -8) * bool(long)
            parts += [_mark(panel, y, one, is_long=own.is_long) for one in own.results]
            shown = number_text(fmean(own.values(*RELATION)))
            said.append(f"{own.said}{', 20,000 steps' if own.is_long else ''}: {shown}")
    parts += _legend(panel.bottom + 42)
    title = "Accuracy on relations, by read-out and base"
    style = STYLE + MARKS
    return chart_file(
        parts, WIDE, panel.bottom + 56, title=title, said="; ".join(said), style=style
    )


def _mark(panel: Panel, y: float, one: ArmResult, *, is_long: bool) -> str:
    value = one.numbers[RELATION[0]][RELATION[1]]
    said, x = f"{one.base}: {number_text(value)}", panel.x(value)
    if is_long:
        return path(f"M{x:.1f} {y - 6:.1f}l6 6-6 6-6-6Z", "many", said=said)
    return dot(x, y, 4, "few", said=said)


def _legend(y: float) -> list[str]:
    x = LEFT + NAMES
    return [
        dot(x, y - 4, 4, "few"),
        text(x + 12, y, "one base, usual steps", "small"),
        path(f"M{x + 166} {y - 10:g}l6 6-6 6-6-6Z", "many"),
        text(x + 178, y, "one base, 20,000 steps", "small"),
        line(x + 336, x + 358, y - 4, y - 4, "chance"),
        text(x + 364, y, "chance, percent", "small"),
    ]


if __name__ == "__main__":
    tables, drawn = made(read_results(RESULTS / "readouts.json"))
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
    for name, one in drawn.items():
        (IMAGES / name).write_text(one, encoding="utf-8")
