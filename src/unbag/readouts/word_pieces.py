"""Captions come in; where the pieces of each word stand among a tokenizer's go out.

Nothing is asked of a tokenizer but how many pieces a text has, so that this works for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unbag.types import DualEncoder

_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True)
class Placed:
    """A word and the columns of its pieces."""

    word: str
    start: int
    stop: int


def ends(count: int, once: Sequence[int], twice: Sequence[int]) -> list[tuple[int, int]] | None:
    """Where the pieces of each word begin and end; None where that does not add up.

    One special piece is the end, two are start and end; that is so in all tokenizers of CLIP's
    kind, of SentencePiece and of BERT.

    Args:
        count: Pieces of the whole text.
        once: Pieces of each word alone.
        twice: Pieces of each word said twice: the difference is its own, the rest special ones.
    """
    pieces = [b - a for a, b in zip(once, twice, strict=True)]
    special = {a - piece for a, piece in zip(once, pieces, strict=True)}
    if len(special) != 1 or min(pieces) < 0 or not special <= {0, 1, 2}:
        return None
    extra = special.pop()
    if sum(pieces) + extra != count:
        return None
    stops = (np.cumsum(pieces) + (1 if extra == 2 else 0)).tolist()
    return [(stop - piece, stop) for stop, piece in zip(stops, pieces, strict=True)]


def placed_words(encoder: DualEncoder, captions: Sequence[str]) -> list[tuple[Placed, ...] | None]:
    """The words of each caption with their columns; None where pieces do not add up.

    Signs are set apart from words where the tokenizer does so too; else "left," is one word.
    """
    ways = [(_WORD_OR_SIGN.findall(caption), caption.split()) for caption in captions]
    known = _counted(encoder, ways)
    found = []
    for count, way in zip(encoder.count_tokens(captions), ways, strict=True):
        tried = (_placed(words, count, known) for words in way)
        found.append(next((one for one in tried if one is not None), None))
    return found


def _counted(
    encoder: DualEncoder, ways: Sequence[tuple[list[str], list[str]]]
) -> Mapping[str, tuple[int, int]]:
    """Pieces of every word, said once and twice; a word is asked for once."""
    words = list(dict.fromkeys(word for way in ways for said in way for word in said))
    once = encoder.count_tokens(words)
    twice = encoder.count_tokens([f"{word} {word}" for word in words])
    return dict(zip(words, zip(once, twice, strict=True), strict=True))


def _placed(
    words: Sequence[str], count: int, known: Mapping[str, tuple[int, int]]
) -> tuple[Placed, ...] | None:
    counts = [known[word] for word in words]
    found = ends(count, [once for once, _ in counts], [twice for _, twice in counts])
    if found is None:
        return None
    return tuple(Placed(word, *both) for word, both in zip(words, found, strict=True))
