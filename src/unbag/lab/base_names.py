"""Names of bases come in; their order and their numbers go out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

_NUMBER = re.compile(r"[- ](\d+)")


def named(seed: int) -> str:
    """The base that is trained from a seed."""
    return f"tiny-{seed}"


def seeds_for(bases: int, *, after: int = 0, seen: Collection[str] = ()) -> int:
    """How many seeds there must be for so many bases beyond the first, those seen left out."""
    seeds = after
    while bases > 0:
        bases -= named(seeds) not in seen
        seeds += 1
    return seeds


def place(base: str) -> tuple[int, str]:
    """To sort by: tiny-10 comes after tiny-9."""
    found = _NUMBER.search(base)
    return (int(found[1]) if found else 0), base


def in_order(bases: Iterable[str]) -> list[str]:
    """Each once."""
    return sorted(set(bases), key=place)


def number(base: str) -> str:
    """What stands behind the last dash."""
    return base.rpartition("-")[2]


def numbers(bases: Sequence[str]) -> str:
    """Of several, one after the other."""
    return ", ".join(map(number, bases))
