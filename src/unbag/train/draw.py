"""A pair comes in; what is said of it in an epoch goes out: one caption, and its edits by column.

Every choice follows from seed, epoch and the pair's id: neither workers, ranks nor the order of
pairs can change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from unbag.captions.changes import normalised
from unbag.captions.kinds import find_kinds
from unbag.errors import UserError
from unbag.train.batch import Said
from unbag.train.config import Recipe, Slot
from unbag.train.pairs import Pair
from unbag.types import Edit

Column = frozenset[str]
"""Kinds of edits that a column of the batch takes."""


@dataclass(frozen=True)
class Columns:
    """Of a recipe."""

    negatives: tuple[Column, ...] = ()
    positives: tuple[Column, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds, in a fixed order."""
        every = (*self.negatives, *self.positives)
        return tuple(sorted({kind for column in every for kind in column}))


@dataclass(frozen=True)
class Draw:
    """The dice of one epoch."""

    seed: int
    epoch: int

    def number(self, below: int, *what: object) -> int:
        """One of 0 ... below - 1, for whatever is named."""
        said = "\0".join(map(str, (self.seed, self.epoch, *what)))
        return int.from_bytes(blake2b(said.encode(), digest_size=8).digest(), "big") % below

    def caption(self, pair: Pair) -> int:
        """Which of its captions."""
        return self.number(len(pair.captions), "caption", pair.id)

    def nearest(self, pair: Pair) -> int | None:
        """Place of one of the pictures most like it; None where it has none."""
        if not pair.nearest:
            return None
        return pair.nearest[self.number(len(pair.nearest), "nearest", pair.id)]

    def said(self, pair: Pair, at: int, edits: Sequence[Edit], columns: Columns) -> Said:
        """Caption `at`, and for each column one of its edits.

        An edit is drawn once, by the first column that takes it. A negative that says the same as
        a caption of the picture is none.
        """
        true = {normalised(caption) for caption in pair.captions}
        negatives = [e for e in edits if not e.keeps_meaning and normalised(e.text) not in true]
        positives = [e for e in edits if e.keeps_meaning]
        return Said(
            pair.captions[at],
            self._drawn(pair.id, "negative", negatives, columns.negatives),
            self._drawn(pair.id, "positive", positives, columns.positives),
        )

    def _drawn(
        self, name: str, what: str, edits: Sequence[Edit], columns: Sequence[Column]
    ) -> tuple[str | None, ...]:
        found: list[str | None] = []
        for number, column in enumerate(columns):
            fits = [e.text for e in edits if e.kind in column and e.text not in found]
            at = self.number(len(fits), what, number, name) if fits else -1
            found.append(fits[at] if fits else None)
        return tuple(found)


def columns_of(recipe: Recipe) -> Columns:
    """Groups of kinds written out."""
    return Columns(
        tuple(map(_column, recipe.negatives)),
        tuple(map(_column, recipe.positives)),
    )


def _column(slot: Slot) -> Column:
    return frozenset(name for wanted in slot.kinds for name in _names(wanted))


def _names(wanted: str) -> tuple[str, ...]:
    try:
        return tuple(kind.name for kind in find_kinds([wanted]))
    except UserError:
        # Edits that were made elsewhere may be of kinds nobody registered here. Where no caption
        # has any, training does not start.
        return (wanted,)
