"""Photographs with captions come in; each caption beside its shuffles, and who prefers it, go out.

The four shuffles of ARO as `aro_order_flickr30k` makes them (methods.md 3.3): precision at 1 among
a caption and those that differ. A tie is wrong. Dimensions: Q captions, K kinds of shuffles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unbag.benchmarks.aro import options_of
from unbag.benchmarks.taggers import tags_of
from unbag.data.pairs import Pair
from unbag.edits.shuffles import SHUFFLES, Tagger, spaced
from unbag.types import FloatArray

PRECISION = "order: precision"
METRICS = (PRECISION, *(f"order: {kind}" for kind in SHUFFLES))


@dataclass(frozen=True)
class Ordered:
    """A caption and its shuffles."""

    photograph: int
    texts: tuple[str, ...]
    """The caption first."""
    kinds: tuple[str, ...]

    @property
    def chance(self) -> float:
        """Of a guess."""
        return 1 / len(self.texts)


def make_ordered(pairs: Sequence[Pair], tagger: Tagger, *, seed: int = 0) -> list[Ordered]:
    """One for every caption that has another order."""
    captions = [
        (at, n, text) for at, pair in enumerate(pairs) for n, text in enumerate(pair.captions)
    ]
    tags = tags_of(tagger, [spaced(text) for *_, text in captions])
    found = []
    for (at, n, text), tagged in zip(captions, tags, strict=True):
        names = ("photographs", f"{pairs[at].id}#{n}")
        options = options_of(text, names, seed=seed, tagged=tagged)
        found.append(Ordered(at, tuple(options), tuple(options.values())))
    return [one for one in found if len(one.texts) > 1]


def order_right(
    asked: Sequence[Ordered], score: Callable[[int, Sequence[str]], Sequence[float]]
) -> dict[str, FloatArray]:
    """1 where the caption beats all its shuffles, and where it beats that of a kind; NaN: none.

    `score` is given the number of a photograph and texts.
    """
    found = {metric: np.full(len(asked), np.nan) for metric in METRICS}
    for at, one in enumerate(asked):
        own, *others = score(one.photograph, one.texts)
        found[PRECISION][at] = own > max(others)
        for kind, other in zip(one.kinds[1:], others, strict=True):
            found[f"order: {kind}"][at] = own > other
    return found
