"""All printed numbers come in; those that two sources print differently, or vaguely, go out."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from unbag.published.every import NO_CUTOFF, Entry, entries, likely_cutoffs
from unbag.published.flags import Flag

TWO_VALUES = " has two values"
"""How such a flag ends."""


def contradictions() -> Iterator[Flag]:
    """One model, metric, rule and protocol with two numbers further apart than rounding.

    Where a source does not say how it averages, its numbers are compared with its own only.
    """
    seen: dict[Hashable, list[Entry]] = {}
    for entry in entries():
        for key in _keys(entry):
            others = seen.setdefault(key, [])
            if any(_differ(entry, other) for other in others):
                if all(_differ(entry, other) for other in others):
                    yield _contradiction(entry, others[0])
                    others.append(entry)
                break
            others.append(entry)


def _keys(entry: Entry) -> Iterator[Hashable]:
    cell, number = entry.cell, entry.published
    same = (cell.column.benchmark, cell.column.metric, cell.model, number.scoring)
    protocol = (number.has_errata, number.note)
    if cell.column.rule is None:
        yield (*same, *protocol, cell.table.paper)
    if number.aggregate:
        yield (*same, *protocol, number.aggregate, "rule")


def _differ(one: Entry, other: Entry) -> bool:
    """No number but one on the border is printed in both ways."""
    first, second = one.number.alone, other.number.alone
    return first.low >= second.high or second.low >= first.high


def _contradiction(entry: Entry, earlier: Entry) -> Flag:
    number = earlier.published
    where = number.aggregate or entry.published.aggregate or "rule not stated"
    return Flag(
        number.source,
        number.model,
        f"{number.metric} ({where}) of {earlier.cell.column.benchmark}{TWO_VALUES}",
        f"{earlier.number}",
        f"{entry.number} in {entry.published.source}",
        (number, entry.published),
    )


def vague_recalls() -> Iterator[Flag]:
    """Recalls without a rank, with the rank that other sources suggest; once for each column."""
    columns: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries():
        if entry.cell.column.metric.endswith(NO_CUTOFF):
            key = (entry.published.source, entry.cell.column.name)
            columns.setdefault(key, []).append(entry)
    for (source, name), found in columns.items():
        likely = likely_cutoffs(found[0].cell.column.benchmark, found[0].cell.column.metric)
        yield Flag(
            source,
            "all models",
            f"{name}: recall without a rank",
            "R@",
            f"other sources print {' or '.join(likely)} alike" if likely else "no rank fits",
            tuple(entry.published for entry in found),
        )
