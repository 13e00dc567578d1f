"""Finds published numbers that contradict each other, from the numbers alone.

A flag says that numbers do not fit together, not which of them is wrong or why. The result ships
with unbag as published/doubts.json: `python -m unbag_lab published-checks` writes it again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import MappingProxyType

import unbag.published
from unbag.metrics.granularity import counts
from unbag.published.averaging import MMVP_PATTERNS, PrintedNumber, averages
from unbag.published.lookup import (
    NO_CUTOFF,
    Flag,
    NumberEntry,
    Table,
    TableCell,
    entries,
    fitting_rules,
    likely_cutoffs,
    row,
    tables,
    usual_rule,
)
from unbag.runs.files import write_text
from unbag.types import Published

DOUBTS = Path(unbag.published.__file__).parent / "doubts.json"
CE_CLIP_PAPER = "Zhang et al. 2024 (CE-CLIP)"
HARD_POSITIVES_PAPER = "Kamath et al. 2024 (hard positives)"
TWO_VALUES = " has two values"
"""Ending of the flag of a contradiction."""
CE_CLIP, CE_CLIP_PLUS, NEGCLIP, HUMAN = "CE-CLIP", "CE-CLIP+", "NegCLIP", "human"
CLIP_B32 = "CLIP ViT-B/32 (openai)"


def published_checks_script() -> None:
    """Find what does not add up in published numbers, and write it as the file that unbag ships."""
    parser = argparse.ArgumentParser(description=published_checks_script.__doc__)
    text = "the file to write (default: published/doubts.json of the installed unbag)"
    parser.add_argument("--out", type=Path, default=DOUBTS, metavar="FILE", help=text)
    options = parser.parse_args()
    write_text(options.out, as_json())
    print(options.out)


@cache
def flags() -> tuple[Flag, ...]:
    """Return all flags."""
    return tuple(
        flag
        for check_flags in (
            wrong_averages(),
            wrong_columns(),
            wrong_claims(),
            impossible_shares(),
            impossible_counts(),
            swapped_totals(),
            contradictions(),
            vague_recalls(),
        )
        for flag in check_flags
    )


def as_json() -> str:
    """Return the content of doubts.json, one flag or remark a line."""
    remarks = [(entry.published, other_total(entry)) for entry in entries()]
    document = {
        "flags": [
            {
                **{
                    name: getattr(flag, name)
                    for name in ("source", "model", "what", "found", "expected")
                },
                "concerns": [_number(number) for number in flag.concerns],
            }
            for flag in flags()
        ],
        "remarks": [{"number": _number(n), "text": text} for n, text in remarks if text],
    }
    blocks = []
    for name, rows in document.items():
        lines = ",\n".join(f"    {json.dumps(entry, ensure_ascii=False)}" for entry in rows)
        blocks.append(f'  "{name}": [\n{lines}\n  ]')
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _number(number: Published) -> dict[str, object]:
    """Return the fields of a published number that differ from their defaults."""
    field_values = {
        field.name: (getattr(number, field.name), field.default) for field in fields(number)
    }
    return {name: value for name, (value, usual) in field_values.items() if value != usual}


def wrong_averages() -> Iterator[Flag]:
    """Flag averages that follow from no rule, or not from the rule stated or usual in the source.

    A number that a source prints in several tables is flagged once.
    """
    reported: set[tuple[str, str, str, str]] = set()
    for entry in entries():
        cell, is_stated = entry.cell, entry.cell.column.rule is not None
        key = (cell.table.paper, cell.model, cell.column.benchmark, f"{cell.number}")
        problem = _against_rule(entry) if is_stated else _against_any_rule(cell)
        if problem and (is_stated or key not in reported):
            reported.add(key)
            numbers = (entry.published,)
            yield Flag(
                cell.table.source, cell.model, problem[0], f"{cell.number}", problem[1], numbers
            )


def _against_rule(entry: NumberEntry) -> tuple[str, str] | None:
    """Return the problem and the expected value, for an average with a stated rule."""
    cell, rule = entry.cell, entry.published.aggregate
    ends = averages(cell.column.benchmark, row(cell), name=rule).get(rule)
    if ends is None or cell.number.agrees(*ends):
        return None
    what = f"{cell.column.name} is not the mean of its cells"
    return what, f"its cells give {percent(middle(ends))}"


def _against_any_rule(cell: TableCell) -> tuple[str, str] | None:
    averages_by_rule = averages(cell.column.benchmark, row(cell))
    fitting = fitting_rules(cell)
    usual = usual_rule(cell.table.paper, cell.column.benchmark)
    if not averages_by_rule or usual in fitting:
        return None
    if not fitting:
        gives = ", ".join(
            f"{name} {percent(middle(ends))}" for name, ends in averages_by_rule.items()
        )
        return f"{cell.column.name} fits no rule", f"its cells give {gives}"
    expected = f"{usual}, as in other rows, would be {percent(middle(averages_by_rule[usual]))}"
    return f"{cell.column.name} fits only {either(fitting)}", expected


def wrong_columns() -> Iterator[Flag]:
    """Flag means and differences of columns that do not follow from their row."""
    for table in tables():
        rows: dict[str, dict[str, TableCell]] = {}
        for cell in table.cells():
            rows.setdefault(cell.model, {})[cell.column.name] = cell
        for model, cells in rows.items():
            for cell in cells.values():
                column = cell.column
                names = column.minus or column.mean_of
                if not names or not all(name in cells for name in names):
                    continue
                numbers = [cells[name].number for name in names]
                if column.minus:
                    ends = difference(numbers[0], numbers[1])
                else:
                    low = sum((number.low for number in numbers), Fraction(0))
                    high = sum((number.high for number in numbers), Fraction(0))
                    ends = low / len(numbers), high / len(numbers)
                if not cell.number.agrees(*ends):
                    what = f"{column.name} does not follow from its row"
                    gives = f"the row gives {percent(middle(ends))}"
                    yield Flag(table.source, model, what, f"{cell.number}", gives)


def wrong_claims() -> Iterator[Flag]:
    """Flag gains, orders and numbers in the text that contradict the tables."""
    for gain in GAINS:
        if flag := gain.flag(tables()):
            yield flag
    for order in ORDERS:
        yield from order.flags()
    for restated in RESTATED:
        if flag := restated.flag():
            yield flag


@dataclass(frozen=True, eq=False)
class Gain:
    """A stated difference between two models."""

    source: str
    printed: str
    model: str
    base: str
    table: Table
    columns: tuple[str, ...]
    """The columns that it can refer to."""
    what: str

    def flag(self, tables: Sequence[Table]) -> Flag | None:
        """Return None if it follows from one of its columns, with one averaging rule."""
        pairs = [pair for c in self.columns if (pair := self._pair(self.table, self.model, c))]
        fitting = [pair for pair in pairs if self._fits(pair)]
        if fitting:
            return self._mixed(*fitting[0])
        follow = ", ".join(percent(a.number.value - b.number.value, 1) for a, b in pairs)
        hint = self._hint(tables)
        expected = f"{follow} would follow" + (f"; it is {hint}" if hint else "")
        return Flag(self.source, self.model, self.what, self.printed, expected)

    def _pair(self, table: Table, model: str, column: str) -> tuple[TableCell, TableCell] | None:
        cell, base_cell = table.cell(model, column), table.cell(self.base, column)
        return (cell, base_cell) if cell and base_cell else None

    def _fits(self, pair: tuple[TableCell, TableCell]) -> bool:
        ends = difference(pair[0].number, pair[1].number)
        return self.table.number(self.printed).agrees(*ends)

    def _mixed(self, cell: TableCell, base: TableCell) -> Flag | None:
        """Flag a difference of two averages that no single rule gives."""
        fitting = (*fitting_rules(cell), *fitting_rules(base))
        if cell.column.rule is not None or set(fitting_rules(cell)) & set(fitting_rules(base)):
            return None
        model_averages, base_averages = (averages(c.column.benchmark, row(c)) for c in (cell, base))
        names = [name for name in model_averages if name in fitting and name in base_averages]
        gains = [
            f"{percent(middle(model_averages[n]) - middle(base_averages[n]), 1)} ({n})"
            for n in names
        ]
        what = f"{self.what}: the two are averaged by different rules"
        expected = f"like for like it is {' or '.join(gains)}"
        return Flag(self.source, self.model, what, self.printed, expected)

    def _hint(self, tables: Sequence[Table]) -> str:
        """Return the closest gain of another model, or of this model in another column."""
        matches: list[tuple[Fraction, str]] = []
        for model in self.table.rows:
            for column in self.columns if model not in (self.model, self.base) else ():
                matches += self._match(self.table, model, column, f"the gain of {model}")
        names = {c.benchmark for c in self.table.columns if c.name in self.columns}
        for table in tables:
            for other in table.columns if table.paper == self.table.paper else ():
                if other.benchmark in names:
                    matches += self._match(
                        table, self.model, other.name, f"the gain in {other.name}"
                    )
        return min(matches)[1] if matches else ""

    def _match(
        self, table: Table, model: str, column: str, what: str
    ) -> list[tuple[Fraction, str]]:
        pair = self._pair(table, model, column)
        if not pair or not self._fits(pair):
            return []
        gain = pair[0].number.value - pair[1].number.value
        return [(abs(gain - Fraction(self.printed)), what)]


@dataclass(frozen=True, eq=False)
class Ranking:
    """A statement that some models are above another one, or not below it."""

    source: str
    models: tuple[str, ...]
    base: str
    table: Table
    columns: tuple[str, ...]
    what: str
    is_strict: bool = True

    def flags(self) -> Iterator[Flag]:
        """Yield a flag for every number that contradicts the statement."""
        for model in self.models:
            for column in self.columns:
                cell, base_cell = self.table.cell(model, column), self.table.cell(self.base, column)
                if cell is None or base_cell is None:
                    continue
                high, low = cell.number.high, base_cell.number.low
                if high < low or (self.is_strict and high == low):
                    what = f"{self.what}, {column}"
                    expected = f"{self.base} has {base_cell.number}"
                    yield Flag(self.source, model, what, f"{cell.number}", expected)


@dataclass(frozen=True)
class Restated:
    """A number in the text that should equal numbers printed or counted elsewhere."""

    source: str
    model: str
    what: str
    printed: str
    elsewhere: Mapping[str, str]
    """Numbers by the place where they are printed."""

    def flag(self) -> Flag | None:
        """Return None if all agree."""
        if all(Fraction(value) == Fraction(self.printed) for value in self.elsewhere.values()):
            return None
        expected = " and ".join(f"{value} {where}" for where, value in self.elsewhere.items())
        return Flag(self.source, self.model, self.what, self.printed, expected)


def _table(paper: str, place: str, scoring: str = "cosine") -> Table:
    key = (f"{paper}, {place}", scoring)
    return next(table for table in tables() if (table.source, table.scoring) == key)


CE_T1, CE_T2, CE_T5 = (_table(CE_CLIP_PAPER, f"table {number}") for number in (1, 2, 5))
T1, T10 = (_table(HARD_POSITIVES_PAPER, f"table {number}") for number in (1, 10))
PEOPLE = _table(HARD_POSITIVES_PAPER, "table 1", "people")


def _people(column: str) -> str:
    cell = PEOPLE.cell(HUMAN, column)
    return str(cell.number) if cell else ""


_ABSTRACT, _TEXT = f"{CE_CLIP_PAPER}, abstract", f"{CE_CLIP_PAPER}, text"
_WORDS = f"{HARD_POSITIVES_PAPER}, text"
_FILES = "in the released files"
_RECALLS = ("COCO text-to-image", "COCO image-to-text")
_CHECKLIST = ("VL-CheckList Avg.",)
_REPLACED = ("CREPE-Replace", "SVLC", "SVLC+Pos", "DAC-LLM", "DAC-SAM")
GAINS = (
    Gain(_TEXT, "11.4", CE_CLIP_PLUS, CLIP_B32, CE_T1, ("VALSE Avg.",), "gain on VALSE"),
    Gain(_ABSTRACT, "5.9", CE_CLIP, CLIP_B32, CE_T2, _CHECKLIST, "gain on VL-CheckList"),
    Gain(_TEXT, "5.2", CE_CLIP, CLIP_B32, CE_T2, _CHECKLIST, "gain on VL-CheckList"),
    Gain(CE_T5.source, "13.4", CE_CLIP_PLUS, CLIP_B32, CE_T5, _RECALLS[:1], "text-to-image gain"),
    Gain(_TEXT, "7.5", CE_CLIP_PLUS, CLIP_B32, CE_T5, _RECALLS, "gain in retrieval"),
)
ORDERS = (
    Ranking(_WORDS, _REPLACED, CLIP_B32, T1, ("SWAP brittleness",), "said to be more brittle"),
    Ranking(
        _WORDS,
        (NEGCLIP, "CREPE-Swap", *_REPLACED),
        CLIP_B32,
        T1,
        ("REPLACE orig.", "SWAP orig."),
        "hard negatives are said to help",
    ),
    Ranking(
        _WORDS,
        ("HP+HN",),
        CLIP_B32,
        T10,
        tuple(column.name for column in T10.columns),
        "said to lose nothing on standard tasks",
        is_strict=False,
    ),
)
RESTATED = (
    Restated(
        _WORDS,
        HUMAN,
        "accuracy of people",
        "99",
        {f"for {column} in table 1": _people(column) for column in ("REPLACE orig.", "SWAP orig.")},
    ),
    Restated(_WORDS, "all models", "source words of relations", "14", {_FILES: "15"}),
    Restated(_WORDS, "all models", "source words of attributes", "24", {_FILES: "23"}),
)


def impossible_shares() -> Iterator[Flag]:
    """Flag drops from original to augmented accuracy above the brittleness, their upper bound."""
    entries_by_key: dict[tuple[str, str, str], dict[str, NumberEntry]] = {}
    for entry in entries():
        key = (entry.cell.table.paper, entry.cell.column.benchmark, entry.cell.model)
        entries_by_key.setdefault(key, {})[entry.cell.column.metric] = entry
    for (paper, benchmark, model), by_metric in entries_by_key.items():
        if not {"original", "augmented", "brittleness"} <= set(by_metric):
            continue
        original, augmented, brittle = (
            by_metric[name].number for name in ("original", "augmented", "brittleness")
        )
        if original.low - augmented.high > brittle.high:
            yield Flag(
                paper,
                model,
                f"original - augmented exceeds brittleness on {benchmark}",
                f"{brittle}",
                f"at least {percent(original.value - augmented.value)} must be",
                tuple(entry.published for entry in by_metric.values()),
            )


def impossible_counts() -> Iterator[Flag]:
    """Flag numbers that are not k/n for any k, where the number n of units is known."""
    for entry in entries():
        total = total_of(entry)
        if total is None or _fits(entry, total.n) or (total.other and _fits(entry, total.other)):
            continue
        cell, number, n = entry.cell, entry.number, total.n
        what = f"{cell.column.name} ({cell.column.benchmark}) fits no count"
        below = int(number.value * n / 100)
        nearest = [f"{k} of {n} is {100 * k / n:.{number.digits}f}" for k in (below, below + 1)]
        numbers = (entry.published,)
        expected = " and ".join(nearest)
        yield Flag(cell.table.source, cell.model, what, f"{number}", expected, numbers)


def swapped_totals() -> Iterator[Flag]:
    """Flag What'sUp: the text gives 408 images in A and 412 in B; the numbers imply the reverse."""
    stated = {"whatsup_a": 102, "whatsup_b": 103}
    two_way = [
        e
        for e in entries()
        if e.published.metric in ("individual", "pair") and e.cell.column.benchmark in SETS
    ]
    for half, sets in stated.items():
        half_entries = [e for e in two_way if e.cell.column.benchmark == half]
        off, true = (
            sum(not _fits(e, n * _IN_A_SET[e.published.metric]) for e in half_entries)
            for n in (sets, SETS[half])
        )
        if off > true:
            yield Flag(
                "Li et al. 2024 (erroneous agreements), text",
                "all models",
                f"number of images in {half}",
                f"{4 * sets}",
                f"{4 * SETS[half]} fits: {off} of {len(half_entries)} two-way values fit no count "
                f"with the printed number, {true} with the other",
            )


def other_total(entry: NumberEntry) -> str:
    """Return a remark if a number fits only the other total; else an empty string."""
    total = total_of(entry)
    if total is None or not total.other or _fits(entry, total.n) or not _fits(entry, total.other):
        return ""
    right = counts(f"{entry.number.alone}", total.other)[0]
    return f"{entry.number} is {right} of {total.other} ({total.why}), no share of {total.n}"


def _fits(entry: NumberEntry, n: int) -> bool:
    return bool(counts(f"{entry.number.alone}", n))


def total_of(entry: NumberEntry) -> Total | None:
    """Return the total of a number if known; people were measured on samples."""
    number, benchmark = entry.published, entry.cell.column.benchmark
    if number.scoring == "people":
        return None
    total = TOTALS.get((benchmark, number.metric, number.aggregate))
    return total or TOTALS.get((benchmark, number.metric, ""))


@dataclass(frozen=True)
class Total:
    """Number of units on which a number was counted."""

    n: int
    other: int = 0
    """Number of units without (or with) known errata; 0 if there is none."""
    why: str = ""
    """When the other number applies."""


Key = tuple[str, str, str]
"""Benchmark, metric, averaging rule."""
_REJECTED = "with the rows that annotators rejected"
_VALSE = {
    "existence": (505, 534), "plurals": (851, 1000), "relations": (535, 614),
    "counting-hard": (868, 1000), "counting-small-quant": (900, 1000),
    "counting-adversarial": (691, 756), "action-replacement": (648, 779),
    "actant-swap": (949, 1042), "coreference-standard": (708, 916),
    "coreference-hard": (104, 141), "foil-it": (943, 1000),
}  # fmt: skip
_SUGARCREPE = {
    "add_att": 692, "add_obj": 2062, "replace_att": 788, "replace_obj": 1652,
    "replace_rel": 1406, "swap_att": 666,
}  # fmt: skip
SETS: Mapping[str, int] = MappingProxyType({"whatsup_a": 103, "whatsup_b": 102})
"""Sets of four images in each half of What'sUp."""
_IN_A_SET = {"individual": 2, "pair": 1, "individual4": 4, "pair4": 2, "set": 1}
"""Units of a metric for each set; two-way ones for each opposite pair."""
_SPATIAL = {"coco_spatial": (2247, 440), "gqa_spatial": (1160, 291)}


def _totals() -> Iterator[tuple[Key, Total]]:
    for name, (valid, all_rows) in _VALSE.items():
        yield ("valse", "accuracy", f"micro[instrument={name}]"), Total(valid, all_rows, _REJECTED)
    for kind, n in _SUGARCREPE.items():
        yield ("sugarcrepe", "accuracy", f"micro[kind={kind}]"), Total(n)
    swapped = Total(245, 246, "with the row of an earlier release")
    yield ("sugarcrepe", "accuracy", "micro[kind=swap_obj]"), swapped
    for half, sets in SETS.items():
        for metric, units in _IN_A_SET.items():
            yield (
                (half, metric, "micro" if metric.endswith(("4", "set")) else ""),
                Total(sets * units),
            )
    for name, (one_object, two_objects) in _SPATIAL.items():
        yield (name, "accuracy", "micro[objects=one]"), Total(one_object)
        yield (name, "accuracy", "micro[objects=two]"), Total(two_objects)
    for metric in ("text", "image", "group"):
        yield ("winoground", metric, "micro"), Total(400)
        yield ("colorswap", metric, "micro"), Total(300)
        yield ("mmvp_vlm", metric, "micro"), Total(135)
        for pattern in MMVP_PATTERNS:
            yield ("mmvp_vlm", metric, f"micro[pattern={pattern}]"), Total(15)
    yield ("mmvp", "accuracy", "micro"), Total(300)
    yield ("mmvp", "pair", "micro"), Total(150)


TOTALS: Mapping[Key, Total] = MappingProxyType(dict(_totals()))


def contradictions() -> Iterator[Flag]:
    """Flag two numbers of one model, metric, rule and protocol that differ by more than rounding.

    Numbers without a stated averaging rule are compared only within their source.
    """
    entries_by_key: dict[Hashable, list[NumberEntry]] = {}
    for entry in entries():
        for key in _keys(entry):
            others = entries_by_key.setdefault(key, [])
            if any(_differ(entry, other) for other in others):
                if all(_differ(entry, other) for other in others):
                    earlier, number = others[0], others[0].published
                    where = number.aggregate or entry.published.aggregate or "rule not stated"
                    yield Flag(
                        number.source,
                        number.model,
                        f"{number.metric} ({where}) of {earlier.cell.column.benchmark}{TWO_VALUES}",
                        f"{earlier.number}",
                        f"{entry.number} in {entry.published.source}",
                        (number, entry.published),
                    )
                    others.append(entry)
                break
            others.append(entry)


def _keys(entry: NumberEntry) -> Iterator[Hashable]:
    cell, number = entry.cell, entry.published
    same = (cell.column.benchmark, cell.column.metric, cell.model, number.scoring)
    protocol = (number.has_errata, number.note)
    if cell.column.rule is None:
        yield (*same, *protocol, cell.table.paper)
    if number.aggregate:
        yield (*same, *protocol, number.aggregate, "rule")


def _differ(entry: NumberEntry, other: NumberEntry) -> bool:
    """Return whether rounding cannot explain the difference of two printed numbers."""
    first, second = entry.number.alone, other.number.alone
    return first.low >= second.high or second.low >= first.high


def vague_recalls() -> Iterator[Flag]:
    """Flag columns of recalls without a rank, with the rank that other sources suggest."""
    columns: dict[tuple[str, str], list[NumberEntry]] = {}
    for entry in entries():
        if entry.cell.column.metric.endswith(NO_CUTOFF):
            key = (entry.published.source, entry.cell.column.name)
            columns.setdefault(key, []).append(entry)
    for (source, name), column_entries in columns.items():
        likely = likely_cutoffs(
            column_entries[0].cell.column.benchmark, column_entries[0].cell.column.metric
        )
        yield Flag(
            source,
            "all models",
            f"{name}: recall without a rank",
            "R@",
            f"other sources print {' or '.join(likely)} alike" if likely else "no rank fits",
            tuple(entry.published for entry in column_entries),
        )


def difference(first: PrintedNumber, second: PrintedNumber) -> tuple[Fraction, Fraction]:
    """Return the smallest and largest difference of two numbers before rounding."""
    return first.low - second.high, first.high - second.low


def middle(ends: tuple[Fraction, Fraction]) -> Fraction:
    """Return the midpoint of an interval."""
    return (ends[0] + ends[1]) / 2


def percent(value: Fraction, digits: int = 2) -> str:
    """Format a computed number, with more digits than printed ones."""
    return f"{float(value):.{digits}f}"


def either(parts: Iterable[str]) -> str:
    """Join names as `a, b or c`."""
    names = list(parts)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
