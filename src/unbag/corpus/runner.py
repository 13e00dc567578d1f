"""The seam between a job and what does its work: chunks of captions in, edited chunks out.

A runner is a function of chunks and settings. It may take several chunks at once and give them
back in any order, as long as it takes no more from the iterator than it works on: a collection
need not fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from unbag.captions.kinds import Parts
from unbag.corpus.entries import Chunk


@dataclass(frozen=True)
class Settings:
    """What decides the edits of a caption. Plain data: every process makes its own editor of it."""

    kinds: tuple[str, ...] = ("default",)
    parts: Parts = field(default_factory=Parts)
    filters: tuple[str, ...] = ()
    """Besides those that are always on."""
    seed: int = 0
    per_kind: int = 1


@dataclass(frozen=True)
class Finished:
    """A chunk that is done, as it is saved."""

    index: int
    captions: int
    text: str
    """The content of its file; see `unbag.corpus.saved`."""


class Runner(Protocol):
    """Edits chunks, here or elsewhere."""

    def __call__(self, chunks: Iterator[Chunk], settings: Settings) -> Iterator[Finished]:
        """Every chunk once, in any order.

        Raises UserError where the work cannot go on, for example because the pipeline is missing.
        What was given back before is kept, and a later run is asked for the rest only.
        """
