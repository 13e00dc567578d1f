"""A scorer and captions come in; the words that it does not know go out, and into a sentence.

A model that reads word by word takes all words it was not taught for one and the same. Captions
that differ in such words alone get one score, which looks like blindness to word order and is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from unbag.types import EmbeddingScorer, FittedScorer, Scorer

_SHOWN = 8


@runtime_checkable
class WordReader(Protocol):
    """Reads word by word, and says which words it was not taught."""

    def unknown_words(self, captions: Sequence[str]) -> list[str]:
        """Each once, in their order."""


def unknown_words(scorer: Scorer, captions: Sequence[str]) -> list[str]:
    """To the scorer or its model; none for a scorer that reads pieces of words, or no captions."""
    if isinstance(scorer, FittedScorer):
        return []
    if isinstance(scorer, EmbeddingScorer):
        return unknown_to(scorer.encoder, captions)
    return unknown_to(scorer, captions) or unknown_to(getattr(scorer, "model", None), captions)


def unknown_to(reader: object, captions: Sequence[str]) -> list[str]:
    """To a model; none where it does not say."""
    return reader.unknown_words(captions) if isinstance(reader, WordReader) else []


def said_unknown(scorer: str, words: Sequence[str]) -> str:
    """For a user."""
    rest = len(words) - _SHOWN
    more = f" (and {rest:,} more {'word' if rest == 1 else 'words'})" if rest > 0 else ""
    shown = ", ".join(words[:_SHOWN])
    return f"{scorer} does not know: {shown}{more}: unknown words are all one token to it"
