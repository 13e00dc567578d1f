"""Captions with their edits come in; how often a caption-only model tells them apart goes out.

A model that never sees the picture should not know which of the two is the original. Where it does,
whoever trains on the edits can learn to spot edits instead of looking at pictures: the closer to
50 %, the better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from unbag.metrics.intervals import Interval, wilson
from unbag.types import Edited

Likely: TypeAlias = Callable[[Sequence[str]], Sequence[float]]
"""How likely each text is: larger is likelier, NaN is unknown. `Likelihood.of` is one."""


class Pair(NamedTuple):
    """A caption and an edit of it."""

    original: str
    edit: str
    kind: str


class Leak(NamedTuple):
    """What a caption-only model knows about the edits of one kind."""

    pairs: int
    """Those that it can read."""
    preferred: float
    """Share of them in which the original is likelier; ties count half."""
    interval: Interval
    """Where that share may lie, at 95 % (Wilson)."""

    def as_json(self) -> dict[str, object]:
        """Plain numbers."""
        return {
            "pairs": self.pairs,
            "preferred": self.preferred,
            "low": self.interval.low,
            "high": self.interval.high,
        }


def pairs_of(found: Iterable[Edited]) -> list[Pair]:
    """Every edit with its caption."""
    return [Pair(one.text, made.text, made.kind) for one in found for made in one.edits]


def leak_of(pairs: Sequence[Pair], likely: Likely) -> dict[str, Leak]:
    """By kind, in the order in which kinds appear; a kind without a readable pair is left out."""
    before = likely([pair.original for pair in pairs])
    after = likely([pair.edit for pair in pairs])
    verdicts: dict[str, list[float]] = {}
    for pair, one, other in zip(pairs, before, after, strict=True):
        # NaN equals nothing, itself included.
        if one == one and other == other:
            verdicts.setdefault(pair.kind, []).append(0.5 if one == other else float(one > other))
    return {kind: _leak(found) for kind, found in verdicts.items()}


def _leak(verdicts: Sequence[float]) -> Leak:
    n, preferred = len(verdicts), sum(verdicts)
    return Leak(n, preferred / n, wilson(preferred, n))
