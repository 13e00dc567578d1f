"""A scorer and captions come in; how many captions it cuts to its context goes out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from unbag.types import Caption, EmbeddingScorer, FittedScorer, Scorer


@runtime_checkable
class Cutting(Protocol):
    """A scorer that cuts long captions, and says so: as a dual encoder does."""

    @property
    def context(self) -> int:
        """Tokens a caption can have, special ones included."""

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""


def count_cut(scorer: Scorer, captions: Iterable[Caption]) -> int:
    """Unique prompts longer than the context; 0 for a scorer that cuts none, or does not say."""
    if isinstance(scorer, FittedScorer):
        return 0
    reader = scorer.encoder if isinstance(scorer, EmbeddingScorer) else scorer
    if not isinstance(reader, Cutting):
        return 0
    prompts: dict[str, None] = {}
    for caption in captions:
        prompts.update(dict.fromkeys([caption] if isinstance(caption, str) else caption.prompts))
    return sum(count > reader.context for count in reader.count_tokens(list(prompts)))


def said_cut(scorer: Scorer, count: int) -> str:
    """For a user."""
    captions = "1 caption" if count == 1 else f"{count:,} captions"
    return f"{scorer.name} cut {captions} to its context length"
