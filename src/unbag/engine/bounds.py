"""A scorer comes in; how many of its probabilities are only upper bounds goes out, and into words.

A server lists the likeliest tokens only. An answer that is not among them gets the largest
probability it can have: a number, but not one to be quoted without saying so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, runtime_checkable

from unbag.engine.store import Key
from unbag.types import RunRecord, Scorer


@runtime_checkable
class Bounding(Protocol):
    """A model that sometimes only knows how large a probability can be, and counts it."""

    @property
    def bounded(self) -> int:
        """Such probabilities so far."""


def count_bounded(scorer: Scorer) -> int:
    """By the scorer's model so far; 0 for one that always knows."""
    model = getattr(scorer, "model", None)
    return model.bounded if isinstance(model, Bounding) else 0


def said_bounded(scorer: str, count: int) -> str:
    """For a user."""
    some = (
        "1 probability is an upper bound"
        if count == 1
        else f"{count:,} probabilities are upper bounds"
    )
    return f"{scorer}: {some}, because the server lists the likeliest tokens only"


def with_bounds(record: RunRecord, bounded: Mapping[Key, int]) -> RunRecord:
    """The record with a note on every benchmark whose scores hold bounds."""
    notes = dict(record.notes)
    for key, count in bounded.items():
        notes[key.benchmark] = (*notes.get(key.benchmark, ()), said_bounded(key.scorer, count))
    return replace(record, notes=notes)
