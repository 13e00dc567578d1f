"""Batches of images with captions and edits, drawn from pairs, a recipe and a seed.

With hard images each of the `batch` images of a step brings one of its nearest ones with it,
so a step has twice as many, 2 x 256 by NegCLIP's defaults. They stand side by side, each after the
one that brought it: the parts of all processes are then the whole batch, in order.

Every choice follows from seed, epoch and the pair's id: neither workers, ranks nor the order of
pairs can change it.

Dimensions: N pairs, S shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch

from unbag.data.pairs import Pair, Pairs
from unbag.edits import parsing, wordnet
from unbag.edits.editor import CaptionEditor, make_editor
from unbag.edits.kinds import EditParts, find_kinds, normalised
from unbag.errors import UnbagError, said_by
from unbag.training.data.batch import (
    Batch,
    CaptionTexts,
    FindTruth,
    Share,
    code_of,
    find_equal,
    make_batch,
)
from unbag.training.encoders.base import Reads, read_image
from unbag.training.recipes import Recipe, Slot
from unbag.types import Edit, Given, IntArray
from unbag.version import __version__

if TYPE_CHECKING:
    from torch import Tensor


Column = frozenset[str]
"""Kinds of edits that a column of the batch takes."""


WINDOW = 16
"""Shards that are shuffled together: so many are read from at a time."""


_TRIES = 100
"""Pairs one after the other that cannot be read before training stops."""


@dataclass(eq=False)
class Orders:
    """Keeps the order of the epoch that was asked for last."""

    epoch: int = -1
    order_N: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    def of(self, pairs: Pairs, *, seed: int, epoch: int) -> IntArray:
        """As `order_of`."""
        if epoch != self.epoch:
            self.order_N = order_of(pairs, seed=seed, epoch=epoch)
            self.epoch = epoch
        return self.order_N


@dataclass(frozen=True, eq=False)
class PairBatches:
    """Batches of images with captions, made by whichever worker is asked."""

    pairs: Pairs
    recipe: Recipe
    reads: Reads
    seed: int
    share: Share = field(default_factory=Share)
    micro_batch_size: int | None = None
    """Strings that are encoded together at most."""
    made: MadeEdits | None = None
    """Makes edits for captions that come without."""
    columns: Columns = field(init=False)
    orders: Orders = field(init=False, repr=False, default_factory=Orders)

    def __post_init__(self) -> None:
        """Raises UnbagError if an epoch would have no batch."""
        object.__setattr__(self, "columns", columns_of(self.recipe))
        self.share.part(self.recipe.batch_size)
        if not self.per_epoch:
            raise UnbagError(
                f"{len(self.pairs):,} pairs make no batch of {self.recipe.batch_size:,}",
                expected="at least as many pairs as a batch has",
                hint=f"--set batch_size={len(self.pairs)}, or fewer",
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
            self.recipe.batch_size,
            self.recipe.hard_images,
            [sorted(column) for column in self.columns.negatives],
            [sorted(column) for column in self.columns.positives],
            self.made.fingerprint if self.made else "",
        )
        return blake2b(repr(said).encode(), digest_size=16).hexdigest()

    @property
    def per_epoch(self) -> int:
        """Whole batches; what is left over waits for the next order."""
        return len(self.pairs) // self.recipe.batch_size

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
        draw = Draw(self.seed, step // self.per_epoch)
        opened = self._opened(step, draw)
        pairs = [one.pair for one in opened]
        said = draw_texts(pairs, draw, self.columns, self.made)
        images = [pair.image.name for pair in pairs]
        return make_batch(
            torch.stack([one.pixels for one in opened]),
            said,
            tokenize=self.reads.tokenize,
            count_tokens=self.reads.count_tokens,
            code=code_of(said, images) if self.recipe.masks_equal else None,
            largest=self.micro_batch_size,
            unread=tuple(bad for one in opened for bad in one.unread),
        )

    def _opened(self, step: int, draw: Draw) -> list[_Opened]:
        order_N = self.orders.of(self.pairs, seed=self.seed, epoch=draw.epoch)
        first = step % self.per_epoch * self.recipe.batch_size
        ours = order_N[first : first + self.recipe.batch_size][
            self.share.part(self.recipe.batch_size)
        ]
        found: list[_Opened] = []
        for place in ours.tolist():
            one = self._open(place)
            found.append(one)
            if self.recipe.hard_images:
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
                name = pair.image.name
                return _Opened(pair, read_image(self.reads, pair.image), tuple(unread))
            except (OSError, ValueError, UnbagError) as error:
                unread.append((name, said_by(error)))
        raise UnbagError(
            f"{len(unread)} pairs one after the other cannot be read; the first: {unread[0][1]}",
            expected="images that open",
            hint="check the disk that the images are on, then give the same command again",
        )


class _Opened(NamedTuple):
    pair: Pair
    pixels: Tensor
    unread: tuple[tuple[str, str], ...]
    """Pairs before it that could not be read: name and reason."""


@dataclass(frozen=True)
class Columns:
    """Kinds of edits for each slot of a recipe."""

    negatives: tuple[Column, ...] = ()
    positives: tuple[Column, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds, in a fixed order."""
        every = (*self.negatives, *self.positives)
        return tuple(sorted({kind for column in every for kind in column}))


def columns_of(recipe: Recipe) -> Columns:
    """Groups of kinds written out."""
    return Columns(
        tuple(map(_column, recipe.negatives)),
        tuple(map(_column, recipe.positives)),
    )


def _column(slot: Slot) -> Column:
    names: set[str] = set()
    for wanted in slot.kinds:
        try:
            names.update(kind.name for kind in find_kinds([wanted]))
        except UnbagError:
            # Edits that were made elsewhere may be of kinds nobody registered here. Where no
            # caption has any, training does not start.
            names.add(wanted)
    return frozenset(names)


@dataclass(frozen=True)
class Draw:
    """Random choices of one epoch, each by a hash of what it is for."""

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
        """Place of one of the images most like it; None where it has none."""
        if not pair.nearest:
            return None
        return pair.nearest[self.number(len(pair.nearest), "nearest", pair.id)]

    def said(self, pair: Pair, at: int, edits: Sequence[Edit], columns: Columns) -> CaptionTexts:
        """Caption `at`, and for each column one of its edits.

        An edit is drawn once, by the first column that takes it. A negative that says the same as
        a caption of the image is none.
        """
        true = {normalised(caption) for caption in pair.captions}
        negatives = [e for e in edits if not e.is_positive and normalised(e.text) not in true]
        positives = [e for e in edits if e.is_positive]
        return CaptionTexts(
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


def draw_texts(
    pairs: Sequence[Pair], draw: Draw, columns: Columns, made: MadeEdits | None
) -> list[CaptionTexts]:
    """A caption of each pair with its edits, which `made` makes where pairs come without."""
    chosen = [draw.caption(pair) for pair in pairs]
    edits = (
        made(pairs, chosen, epoch=draw.epoch)
        if made
        else [pair.edits[at] for pair, at in zip(pairs, chosen, strict=True)]
    )
    return [
        draw.said(pair, at, some, columns)
        for pair, at, some in zip(pairs, chosen, edits, strict=True)
    ]


def readable_pairs(pairs: Pairs, places: Iterable[int]) -> Iterator[Pair]:
    """The pairs at some places, without those that cannot be read; training skips them too."""
    for place in places:
        try:
            yield pairs[place]
        except UnbagError:
            continue


def order_of(pairs: Pairs, *, seed: int, epoch: int) -> IntArray:
    """A permutation of places, which seed and epoch decide.

    Shards come in any order, and within a window of them their pairs.
    """
    random = np.random.default_rng((abs(seed), seed < 0, epoch))
    if not isinstance(pairs, InBlocks):
        return random.permutation(len(pairs))
    end_S = pairs.block_ends
    start_S = np.concatenate(([0], end_S[:-1]))
    shuffled_S = random.permutation(len(end_S))
    windows = []
    for first in range(0, len(end_S), WINDOW):
        blocks = shuffled_S[first : first + WINDOW]
        place = np.concatenate([np.arange(start_S[at], end_S[at]) for at in blocks])
        windows.append(random.permutation(place))
    return np.concatenate(windows)


@runtime_checkable
class InBlocks(Protocol):
    """Pairs that are read quickest where they stand together."""

    @property
    def block_ends(self) -> IntArray:
        """Places at which blocks end."""


def made_edits(columns: Columns, *, seed: int, parts: EditParts | None = None) -> MadeEdits:
    """An editor that makes as many edits of a kind as columns take it."""
    times = Counter(kind for column in (*columns.negatives, *columns.positives) for kind in column)
    return MadeEdits(columns.kinds, seed, max(times.values()), parts or EditParts())


@dataclass(eq=False)
class MadeEdits:
    """Edits new captions in every epoch. Each data worker loads the editor for itself."""

    kinds: tuple[str, ...]
    seed: int
    per_kind: int = 1
    parts: EditParts = field(default_factory=EditParts)
    editor: CaptionEditor | None = field(default=None, repr=False)
    """Not there before it is needed."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever an edit could."""
        parts = self.parts
        found = parsing.described(parts.pipeline), wordnet.described(parts.wordnet)
        said = (
            __version__,
            self.kinds,
            self.seed,
            self.per_kind,
            *found,
            parts.fill,
            parts.rewrite,
        )
        return repr(said)

    def load(self) -> CaptionEditor:
        """The editor; raises its own UnbagError where a pipeline or model is missing."""
        if self.editor is None:
            self.editor = make_editor(
                self.kinds, parts=self.parts, seed=self.seed, per_kind=self.per_kind
            )
        return self.editor

    def __call__(
        self, pairs: Sequence[Pair], chosen: Sequence[int], *, epoch: int
    ) -> list[tuple[Edit, ...]]:
        """Edits of the chosen caption of each pair, made all at once."""
        given = [
            Given(
                f"{epoch}\0{pair.id}\0{at}",
                pair.captions[at],
                pair.captions[:at] + pair.captions[at + 1 :],
            )
            for pair, at in zip(pairs, chosen, strict=True)
        ]
        found, _ = self.load()(given)
        return [one.edits for one in found]

    def __getstate__(self) -> dict[str, Any]:
        """Without the editor: another process loads its own."""
        return self.__dict__ | {"editor": None}
