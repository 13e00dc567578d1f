"""Captions come in; in which columns of a map their functional words stand goes out (7.1).

Dimensions: N captions, L columns of a map.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from unbag.readouts.word_pieces import placed_words
from unbag.types import DualEncoder, IntArray

Align: TypeAlias = Literal["token", "word_index"]
FUNCTIONAL = (
    "above",
    "below",
    "left",
    "right",
    "small",
    "big",
    "not",
    "no",
    "without",
    "but",
    "absent",
)
"""Mark k is the k-th of them, from 1 on; 0 is none."""
END = 16
"""Added to the mark of the column where a caption ends."""
_MARK_OF = {word: at for at, word in enumerate(FUNCTIONAL, start=1)}


@dataclass(frozen=True, eq=False)
class Marks:
    """Where functional words stand, and how many captions there was something to say about."""

    mark_NL: IntArray
    cut: int
    """Captions beyond the last column."""
    plain: int
    """Captions with no functional word in sight; fine, their map is of cosines alone."""
    unplaced: int
    """Captions with such words whose pieces do not add up, so that none was marked."""


def marks(encoder: DualEncoder, captions: Sequence[str], *, align: Align, length: int) -> Marks:
    """The first occurrence of each functional word, and the end of each caption."""
    mark_NL = np.zeros((len(captions), length), dtype=np.int64)
    count_N = np.array(encoder.count_tokens(captions), dtype=np.int64)
    columns = by_token(encoder, captions) if align == "token" else by_word_index(captions)
    # A caption that is cut ends in the last column, whatever word would have stood there.
    room_N = length - ((count_N > length) & (align == "token"))
    unplaced = 0
    for row, found in enumerate(columns):
        unplaced += found is None
        for mark, column in found or ():
            if column < room_N[row]:
                mark_NL[row, column] = mark
    plain = int((mark_NL == 0).all(axis=1).sum()) - unplaced
    mark_NL[np.arange(len(captions)), np.minimum(count_N, length) - 1] += END
    return Marks(mark_NL, int((count_N > length).sum()), plain, unplaced)


def by_word_index(captions: Sequence[str]) -> list[list[tuple[int, int]]]:
    """As released: number k of the words between single spaces marks column k.

    Column 0 is the start token where a model has one, so this is off by one, and more behind a
    word of several pieces. Words are compared as they are written.
    """
    return [list(_first(enumerate(caption.split(" ")))) for caption in captions]


def by_token(encoder: DualEncoder, captions: Sequence[str]) -> list[list[tuple[int, int]] | None]:
    """The columns of a word's own pieces, capitals and signs beside it aside.

    None where such a word is there and its pieces cannot be found.
    """
    asked = [at for at, caption in enumerate(captions) if _has_any(caption)]
    found: list[list[tuple[int, int]] | None] = [[] for _ in captions]
    for at, placed in zip(asked, placed_words(encoder, [captions[i] for i in asked]), strict=True):
        if placed is None:
            found[at] = None
            continue
        first = dict(_first((n, _bare(one.word)) for n, one in enumerate(placed)))
        found[at] = [
            (mark, column)
            for mark, n in first.items()
            for column in range(placed[n].start, placed[n].stop)
        ]
    return found


def _first(words: Iterable[tuple[int, str]]) -> Iterable[tuple[int, int]]:
    """Mark and place of each functional word that is met for the first time."""
    met: set[str] = set()
    for place, word in words:
        if word in _MARK_OF and word not in met:
            met.add(word)
            yield _MARK_OF[word], place


def _bare(word: str) -> str:
    return word.lower().strip(".,;:!?\"'()[]")


def _has_any(caption: str) -> bool:
    return any(_bare(word) in _MARK_OF for word in caption.replace("-", " ").split())
