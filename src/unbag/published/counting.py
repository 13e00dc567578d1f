"""All printed numbers come in; those that no count of right answers gives go out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from unbag.metrics.granularity import counts
from unbag.published.every import Entry, entries
from unbag.published.flags import Flag
from unbag.published.rules import MMVP_PATTERNS


@dataclass(frozen=True)
class Total:
    """How many units a number is a share of."""

    n: int
    other: int = 0
    """The same without (or with) known errata; 0 if there is no such number."""
    why: str = ""
    """When it is the other one."""


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
"""Sets of four pictures in each half of What'sUp."""
_IN_A_SET = {"individual": 2, "pair": 1, "individual4": 4, "pair4": 2, "set": 1}
"""Units of a metric for each set; two-way ones for each opposite pair."""
_SPATIAL = {"coco_spatial": (2247, 440), "gqa_spatial": (1160, 291)}

Key = tuple[str, str, str]
"""Benchmark, metric, averaging rule."""


def _totals() -> Iterator[tuple[Key, Total]]:
    for name, (valid, every) in _VALSE.items():
        yield ("valse", "accuracy", f"micro[instrument={name}]"), Total(valid, every, _REJECTED)
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
    for name, (one, two) in _SPATIAL.items():
        yield (name, "accuracy", "micro[objects=one]"), Total(one)
        yield (name, "accuracy", "micro[objects=two]"), Total(two)
    for metric in ("text", "image", "group"):
        yield ("winoground", metric, "micro"), Total(400)
        yield ("colorswap", metric, "micro"), Total(300)
        yield ("mmvp_vlm", metric, "micro"), Total(135)
        for pattern in MMVP_PATTERNS:
            yield ("mmvp_vlm", metric, f"micro[pattern={pattern}]"), Total(15)
    yield ("mmvp", "accuracy", "micro"), Total(300)
    yield ("mmvp", "pair", "micro"), Total(150)


TOTALS: Mapping[Key, Total] = MappingProxyType(dict(_totals()))


def total_of(entry: Entry) -> Total | None:
    """What a number is a share of, where that is known; people judged samples."""
    number, benchmark = entry.published, entry.cell.column.benchmark
    if number.scoring == "people":
        return None
    found = TOTALS.get((benchmark, number.metric, number.aggregate))
    return found or TOTALS.get((benchmark, number.metric, ""))


def impossible_counts() -> Iterator[Flag]:
    """Numbers that are no share of any number of units they can have been counted on."""
    for entry in entries():
        total = total_of(entry)
        if total is None or _fits(entry, total.n) or (total.other and _fits(entry, total.other)):
            continue
        cell = entry.cell
        what = f"{cell.column.name} ({cell.column.benchmark}) fits no count"
        expected = _nearest(entry, total.n)
        concerned = (entry.published,)
        yield Flag(cell.table.source, cell.model, what, f"{entry.number}", expected, concerned)


def other_total(entry: Entry) -> str:
    """A remark where a number fits only the other total; empty otherwise."""
    total = total_of(entry)
    if total is None or not total.other or _fits(entry, total.n) or not _fits(entry, total.other):
        return ""
    right = counts(f"{entry.number.alone}", total.other)[0]
    return f"{entry.number} is {right} of {total.other} ({total.why}), no share of {total.n}"


def _fits(entry: Entry, n: int) -> bool:
    return bool(counts(f"{entry.number.alone}", n))


def _nearest(entry: Entry, n: int) -> str:
    below = int(entry.number.value * n / 100)
    digits = entry.number.digits
    shown = (f"{k} of {n} is {100 * k / n:.{digits}f}" for k in (below, below + 1))
    return " and ".join(shown)


def swapped_totals() -> Iterator[Flag]:
    """What'sUp: the paper's text gives 408 pictures in A and 412 in B; its numbers, the reverse."""
    stated = {"whatsup_a": 102, "whatsup_b": 103}
    two_way = [
        e
        for e in entries()
        if e.published.metric in ("individual", "pair") and e.cell.column.benchmark in SETS
    ]
    for half, sets in stated.items():
        some = [e for e in two_way if e.cell.column.benchmark == half]
        off, true = (
            sum(not _fits(e, n * _IN_A_SET[e.published.metric]) for e in some)
            for n in (sets, SETS[half])
        )
        if off > true:
            yield Flag(
                "Li et al. 2024 (erroneous agreements), text",
                "all models",
                f"number of pictures in {half}",
                f"{4 * sets}",
                f"{4 * SETS[half]} fits: {off} of {len(some)} two-way values fit no count with the "
                f"printed number, {true} with the other",
            )
