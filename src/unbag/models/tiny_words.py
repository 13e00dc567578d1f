"""The word-level tokenizer of the tiny dual encoder: captions in, padded ids out."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from unbag.types import IntArray

PAD, END, UNKNOWN = 0, 1, 2
_WORD = re.compile(r"[a-z0-9]+")


class WordTokenizer:
    """Lower-cases, keeps letters and digits, one id a word; closes every caption with END."""

    def __init__(self, words: Sequence[str], *, context: int) -> None:
        """`words` in the order of their ids; ids 0 to 2 are the special tokens."""
        self.context = context
        self._ids = {word: i + 3 for i, word in enumerate(words)}

    def split(self, caption: str) -> list[int]:
        """Ids of a caption before cutting, the end token included."""
        return [self._ids.get(word, UNKNOWN) for word in _words(caption)] + [END]

    def unknown_words(self, captions: Sequence[str]) -> list[str]:
        """Words that share the one token of all unknown ones: each once, in their order."""
        found = dict.fromkeys(word for caption in captions for word in _words(caption))
        return [word for word in found if word not in self._ids]

    def __call__(self, captions: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Ids [N, L] padded to the longest caption at hand, and the place of each end token."""
        rows = [self._cut(self.split(caption)) for caption in captions]
        end_N = np.array([len(row) - 1 for row in rows], dtype=np.int64)
        token_NL = np.full((len(rows), int(end_N.max(initial=0)) + 1), PAD, dtype=np.int64)
        for i, row in enumerate(rows):
            token_NL[i, : len(row)] = row
        return token_NL, end_N

    def _cut(self, row: list[int]) -> list[int]:
        return row if len(row) <= self.context else [*row[: self.context - 1], END]


def _words(caption: str) -> list[str]:
    return _WORD.findall(caption.lower())
