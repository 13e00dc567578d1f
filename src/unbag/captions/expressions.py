"""Words of a caption come in; where relations of several words stand goes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

EXPRESSIONS: tuple[str, ...] = (
    "at the back of",
    "at the bottom of",
    "at the edge of",
    "at the end of",
    "at the foot of",
    "at the front of",
    "at the left of",
    "at the right of",
    "at the side of",
    "at the top of",
    "in back of",
    "in between",
    "in front of",
    "in front",
    "in the back of",
    "in the background of",
    "in the background",
    "in the back",
    "in the center of",
    "in the centre of",
    "in the corner of",
    "in the distance",
    "in the foreground of",
    "in the foreground",
    "in the front of",
    "in the middle of",
    "in the middle",
    "inside of",
    "left of",
    "next to",
    "on the back of",
    "on the bottom of",
    "on the edge of",
    "on the left of",
    "on the left side of",
    "on the left side",
    "on the left",
    "on the right of",
    "on the right side of",
    "on the right side",
    "on the right",
    "on the side of",
    "on the top of",
    "on top of",
    "out of",
    "outside of",
    "right of",
    "the left of",
    "the right of",
    "to the left of",
    "to the left",
    "to the rear of",
    "to the right of",
    "to the right",
    "to the side of",
    "up and down",
)
"""Their nouns name places in the picture, not things: "front" is nothing to swap with "dog"."""


def _by_first(expressions: Sequence[str]) -> Mapping[str, tuple[tuple[str, ...], ...]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for text in expressions:
        words = tuple(text.split())
        found.setdefault(words[0], []).append(words)
    # The longest first: "on the left side of" before "on the left".
    return MappingProxyType(
        {first: tuple(sorted(some, key=len, reverse=True)) for first, some in found.items()}
    )


_BY_FIRST = _by_first(EXPRESSIONS)


def expressions_in(words: Sequence[str]) -> list[tuple[int, int]]:
    """First and last word of each, from left to right, the longest that fits.

    Args:
        words: The caption's words in lower case.
    """
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(words):
        length = _length(words, at)
        if length:
            found.append((at, at + length - 1))
        at += length or 1
    return found


def _length(words: Sequence[str], at: int) -> int:
    for expression in _BY_FIRST.get(words[at], ()):
        if tuple(words[at : at + len(expression)]) == expression:
            return len(expression)
    return 0
