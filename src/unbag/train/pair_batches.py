"""Pairs, a recipe and a seed come in; the batch of every step goes out.

With hard pictures each of the `batch` pictures of a step brings one of its nearest ones with it,
so a step has twice as many, 2 x 256 by NegCLIP's defaults. They stand side by side, each after the
one that brought it: the parts of all processes are then the whole batch, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import torch

from unbag.errors import UserError, said_by
from unbag.train.batch import Batch, FindTruth, make_batch
from unbag.train.batches import Share
from unbag.train.config import Recipe
from unbag.train.draw import Columns, Draw, columns_of
from unbag.train.equal import code_of, find_equal
from unbag.train.made_edits import MadeEdits
from unbag.train.order import Orders
from unbag.train.pairs import Pair, Pairs
from unbag.train.trainable import Reads, read_picture

if TYPE_CHECKING:
    from torch import Tensor

_TRIES = 100
"""Pairs one after the other that cannot be read before training stops."""


class _Opened(NamedTuple):
    pair: Pair
    pixels: Tensor
    unread: tuple[tuple[str, str], ...]
    """Pairs before it that could not be read: name and reason."""


@dataclass(frozen=True, eq=False)
class PairBatches:
    """Batches of pictures with captions, made by whichever worker is asked."""

    pairs: Pairs
    recipe: Recipe
    reads: Reads
    seed: int
    share: Share = field(default_factory=Share)
    micro: int | None = None
    """Strings that are encoded together at most."""
    made: MadeEdits | None = None
    """Makes edits for captions that come without."""
    columns: Columns = field(init=False)
    orders: Orders = field(init=False, repr=False, default_factory=Orders)

    def __post_init__(self) -> None:
        """Raises UserError if an epoch would have no batch."""
        object.__setattr__(self, "columns", columns_of(self.recipe))
        self.share.part(self.recipe.batch)
        if not self.per_epoch:
            raise UserError(
                f"{len(self.pairs):,} pairs make no batch of {self.recipe.batch:,}",
                expected="at least as many pairs as a batch has",
                way_out=f"--set batch={len(self.pairs)}, or fewer",
            )

    @property
    def about(self) -> str:
        """What was trained on."""
        return self.pairs.about + (", edits made while training" if self.made else "")

    @property
    def fingerprint(self) -> str:
        """Of pairs, seed and what in the recipe decides batches; not of the share."""
        said = (
            self.pairs.fingerprint,
            self.seed,
            self.recipe.batch,
            self.recipe.hard_pictures,
            [sorted(column) for column in self.columns.negatives],
            [sorted(column) for column in self.columns.positives],
            self.made.fingerprint if self.made else "",
        )
        return blake2b(repr(said).encode(), digest_size=16).hexdigest()

    @property
    def per_epoch(self) -> int:
        """Whole batches; what is left over waits for the next order."""
        return len(self.pairs) // self.recipe.batch

    @property
    def find_truth(self) -> FindTruth | None:
        """Finds equal captions over the whole batch."""
        return find_equal if self.recipe.masks_equal else None

    def __len__(self) -> int:
        """Steps of all epochs."""
        return self.recipe.epochs * self.per_epoch

    def __getitem__(self, step: int) -> Batch:
        """This process's part of a step."""
        if not 0 <= step < len(self):
            raise IndexError(step)
        epoch = step // self.per_epoch
        draw = Draw(self.seed, epoch)
        opened = self._opened(step, draw)
        pairs = [one.pair for one in opened]
        chosen = [draw.caption(pair) for pair in pairs]
        if self.made:
            edits = self.made(pairs, chosen, epoch=epoch)
        else:
            edits = [pair.edits[at] for pair, at in zip(pairs, chosen, strict=True)]
        said = [
            draw.said(pair, at, some, self.columns)
            for pair, at, some in zip(pairs, chosen, edits, strict=True)
        ]
        pictures = [pair.picture.name for pair in pairs]
        return make_batch(
            torch.stack([one.pixels for one in opened]),
            said,
            tokenize=self.reads.tokenize,
            count_tokens=self.reads.count_tokens,
            code=code_of(said, pictures) if self.recipe.masks_equal else None,
            largest=self.micro,
            unread=tuple(bad for one in opened for bad in one.unread),
        )

    def _opened(self, step: int, draw: Draw) -> list[_Opened]:
        order_N = self.orders.of(self.pairs, seed=self.seed, epoch=draw.epoch)
        first = step % self.per_epoch * self.recipe.batch
        ours = order_N[first : first + self.recipe.batch][self.share.part(self.recipe.batch)]
        found: list[_Opened] = []
        for place in ours.tolist():
            one = self._open(place)
            found.append(one)
            if self.recipe.hard_pictures:
                near = draw.nearest(one.pair)
                # One without neighbours brings any other.
                other = draw.number(len(self.pairs), "instead", one.pair.id)
                found.append(self._open(other if near is None else near))
        return found

    def _open(self, place: int) -> _Opened:
        """The pair at a place, or the next that can be read."""
        unread: list[tuple[str, str]] = []
        for tried in range(min(_TRIES, len(self.pairs))):
            at = (place + tried) % len(self.pairs)
            name = f"pair {at + 1:,}"
            try:
                pair = self.pairs[at]
                name = pair.picture.name
                return _Opened(pair, read_picture(self.reads, pair.picture), tuple(unread))
            except (OSError, ValueError, UserError) as error:
                unread.append((name, said_by(error)))
        raise UserError(
            f"{len(unread)} pairs one after the other cannot be read; the first: {unread[0][1]}",
            expected="pictures that open",
            way_out="check the disk that the pictures are on, then give the same command again",
        )
