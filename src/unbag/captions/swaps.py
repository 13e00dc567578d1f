"""A parsed caption comes in; the same words with two of a kind exchanged go out (NegCLIP)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed, Phrase


def exchanged(parsed: Parsed, one: Sequence[int], other: Sequence[int]) -> Changes:
    """The words from one[0] to one[1] and those from other[0] to other[1] change places."""
    return (
        parsed.change(one[0], one[1], parsed.text_of(other[0], other[1])),
        parsed.change(other[0], other[1], parsed.text_of(one[0], one[1])),
    )


def swap_nouns(parsed: Parsed) -> list[Changes]:
    """Two nouns, with the nouns that specify them."""
    return [
        exchanged(parsed, one[:2], other[:2])
        for one, other in _pairs(parsed.nouns)
        if parsed.text_of(one.first, one.last).lower()
        != parsed.text_of(other.first, other.last).lower()
    ]


def _pairs(nouns: Sequence[Phrase]) -> Iterator[tuple[Phrase, Phrase]]:
    yield from combinations(nouns, 2)


SWAP_NOUNS = Kind(
    name="swap_nouns",
    keeps_meaning=False,
    about="two nouns change places: a dog on a sofa -> a sofa on a dog",
    source="NegCLIP",
    editor=by_rule(swap_nouns),
    keeps_words=True,
)
