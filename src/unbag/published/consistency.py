"""All published numbers come in; what does not add up in them goes out, as flags and doubts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from unbag.published.claimed import GAINS, ORDERS, RESTATED
from unbag.published.counting import impossible_counts, other_total, swapped_totals
from unbag.published.every import TABLES, entries
from unbag.published.flags import Flag
from unbag.published.repeats import contradictions, vague_recalls
from unbag.published.sums import impossible_shares, wrong_averages, wrong_columns
from unbag.types import Published


@cache
def flags() -> tuple[Flag, ...]:
    """Everything that is doubtful in the sources, found from their numbers alone."""
    return tuple(
        flag
        for found in (
            wrong_averages(),
            wrong_columns(),
            _claims(),
            impossible_shares(),
            impossible_counts(),
            swapped_totals(),
            contradictions(),
            vague_recalls(),
        )
        for flag in found
    )


def doubts(published: Published) -> tuple[str, ...]:
    """What is doubtful about one number, in sentences; empty where nothing is known against it."""
    return _doubts().get(published, ())


@cache
def _doubts() -> dict[Published, tuple[str, ...]]:
    found: dict[Published, list[str]] = {}
    for flag in flags():
        for number in flag.concerns:
            found.setdefault(number, []).append(str(flag))
    for entry in entries():
        remark = other_total(entry)
        if remark:
            found.setdefault(entry.published, []).append(remark)
    return {number: tuple(some) for number, some in found.items()}


def _claims() -> Iterator[Flag]:
    for gain in GAINS:
        if flag := gain.flag(TABLES):
            yield flag
    for order in ORDERS:
        yield from order.flags()
    for restated in RESTATED:
        if flag := restated.flag():
            yield flag
