"""Writes the lists of docs/published.md anew, from the data: `python docs/make_published.py`.

It needs `unbag-lab`, whose helpers put tables into pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unbag.published.lookup import Flag, flags
from unbag_lab import pages

PAGE = Path(__file__).parent / "published.md"
TWO_VALUES = " has two values"
"""How the flag of a contradiction ends."""


def renewed(page: str) -> str:
    """The page with its lists as the data has them now."""
    return pages.renewed(page, {"flags": as_markdown()})


def as_markdown() -> str:
    """All flags: single ones as rows, contradictions of two sources counted by model."""
    parts = [*_single(), "", *_contradictions()]
    return "\n".join(parts) + "\n"


def _single() -> Iterator[str]:
    yield "| source | model | what | printed | instead |"
    yield "|---|---|---|---|---|"
    for flag in flags():
        if not _is_across(flag):
            cells = (flag.source, flag.model, flag.what, flag.found, flag.expected)
            yield f"| {' | '.join(cells)} |"


def _contradictions() -> Iterator[str]:
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for flag in flags():
        if _is_across(flag):
            one, other = flag.concerns
            benchmark = flag.what.removesuffix(TWO_VALUES).rpartition(" of ")[2]
            papers = (one.source.partition(", ")[0], other.source.partition(", ")[0])
            off = 100 * abs(one.value - other.value)
            found.setdefault((benchmark, one.model, *papers), []).append(off)
    yield "| benchmark | model | one source | another | numbers that differ | by up to |"
    yield "|---|---|---|---|---|---|"
    for key, offs in found.items():
        yield f"| {' | '.join(key)} | {len(offs)} | {max(offs):.1f} |"


def _is_across(flag: Flag) -> bool:
    """Two papers with two numbers, rather than one paper with itself."""
    if not flag.what.endswith(TWO_VALUES):
        return False
    one, other = flag.concerns
    return one.source.partition(", ")[0] != other.source.partition(", ")[0]


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
