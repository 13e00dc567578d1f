"""Batches of images with captions and edits, drawn from pairs by a recipe and a seed.

With hard images, each of the `batch_size` images of a step is followed by one of its nearest
neighbours, so a step has twice as many, 2 x 256 by NegCLIP's defaults. The parts of all processes
together are the whole batch, in order.

Every random choice is a function of seed, epoch and the pair's id: workers, ranks and the order of
pairs do not change it.

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
"""Kinds of edits in a column of the batch."""
WINDOW = 16
"""Shards that are shuffled together, which are read at the same time."""
_TRIES = 100
"""Training stops after so many consecutive pairs that cannot be read."""


@dataclass(eq=False)
class Orders:
    """Caches the order of the last epoch."""

    epoch: int = -1
    order_N: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    def of(self, pairs: Pairs, *, seed: int, epoch: int) -> IntArray:
        """Return what `order_of` returns."""
        if epoch != self.epoch:
            self.order_N = order_of(pairs, seed=seed, epoch=epoch)
            self.epoch = epoch
        return self.order_N


@dataclass(frozen=True, eq=False)
class PairBatches:
    """Batches of images with captions from a file; any worker can make any batch."""

    pairs: Pairs
    recipe: Recipe
    reads: Reads
    seed: int
    share: Share = field(default_factory=Share)
    micro_batch_size: int | None = None
    """Largest number of strings that are encoded together."""
    online_edits: OnlineEdits | None = None
    """Makes the edits while training, for pairs without edits."""
    columns: Columns = field(init=False)
    orders: Orders = field(init=False, repr=False, default_factory=Orders)

    def __post_init__(self) -> None:
        """Raise UnbagError if there are fewer pairs than a batch needs."""
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
        """Name of the pairs, for the model card."""
        return self.pairs.about + (", edits made while training" if self.online_edits else "")

    @property
    def fingerprint(self) -> str:
        """Fingerprint of pairs, seed and the settings that decide batches; not of the share."""
        settings = (
            self.pairs.fingerprint,
            self.seed,
            self.recipe.batch_size,
            self.recipe.hard_images,
            [sorted(column) for column in self.columns.negatives],
            [sorted(column) for column in self.columns.positives],
            self.online_edits.fingerprint if self.online_edits else "",
        )
        return blake2b(repr(settings).encode(), digest_size=16).hexdigest()

    @property
    def per_epoch(self) -> int:
        """Complete batches per epoch; the remaining pairs are skipped in this epoch."""
        return len(self.pairs) // self.recipe.batch_size

    @property
    def find_truth(self) -> FindTruth | None:
        """Finds equal captions in the whole batch, if the recipe masks them."""
        return find_equal if self.recipe.masks_equal else None

    def __len__(self) -> int:
        """Return the steps of all epochs."""
        return self.recipe.epochs * self.per_epoch

    def __getitem__(self, step: int) -> Batch:
        """Return this process's part of the batch of a step."""
        if not 0 <= step < len(self):
            raise IndexError(step)
        draw = Draw(self.seed, step // self.per_epoch)
        opened = self._opened(step, draw)
        pairs = [item.pair for item in opened]
        texts = draw_texts(pairs, draw, self.columns, self.online_edits)
        images = [pair.image.name for pair in pairs]
        return make_batch(
            torch.stack([item.pixels for item in opened]),
            texts,
            tokenize=self.reads.tokenize,
            count_tokens=self.reads.count_tokens,
            code=code_of(texts, images) if self.recipe.masks_equal else None,
            max_group_size=self.micro_batch_size,
            unread=tuple(bad for item in opened for bad in item.unread),
        )

    def _opened(self, step: int, draw: Draw) -> list[_Opened]:
        order_N = self.orders.of(self.pairs, seed=self.seed, epoch=draw.epoch)
        first = step % self.per_epoch * self.recipe.batch_size
        places = order_N[first : first + self.recipe.batch_size][
            self.share.part(self.recipe.batch_size)
        ]
        opened: list[_Opened] = []
        for place in places.tolist():
            item = self._open(place)
            opened.append(item)
            if self.recipe.hard_images:
                neighbour = draw.nearest(item.pair)
                # A random image for one without neighbours.
                random_place = draw.number(len(self.pairs), "instead", item.pair.id)
                opened.append(self._open(random_place if neighbour is None else neighbour))
        return opened

    def _open(self, place: int) -> _Opened:
        """Return the pair at a place, or the next one that can be read."""
        unread: list[tuple[str, str]] = []
        for tried in range(min(_TRIES, len(self.pairs))):
            index = (place + tried) % len(self.pairs)
            name = f"pair {index + 1:,}"
            try:
                pair = self.pairs[index]
                name = pair.image.name
                return _Opened(pair, read_image(self.reads, pair.image), tuple(unread))
            except (OSError, ValueError, UnbagError) as error:
                unread.append((name, said_by(error)))
        raise UnbagError(
            f"{len(unread)} consecutive pairs cannot be read; the first: {unread[0][1]}",
            expected="images that open",
            hint="check the disk that the images are on, then give the same command again",
        )


class _Opened(NamedTuple):
    pair: Pair
    pixels: Tensor
    unread: tuple[tuple[str, str], ...]
    """Name and reason of the pairs that it replaces, which could not be read."""


@dataclass(frozen=True)
class Columns:
    """Kinds of edits for each slot of a recipe."""

    negatives: tuple[Column, ...] = ()
    positives: tuple[Column, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """All kinds, in a fixed order."""
        columns = (*self.negatives, *self.positives)
        return tuple(sorted({kind for column in columns for kind in column}))


def columns_of(recipe: Recipe) -> Columns:
    """Return the kinds of edits of each slot, with groups expanded."""
    return Columns(
        tuple(map(_column, recipe.negatives)),
        tuple(map(_column, recipe.positives)),
    )


def _column(slot: Slot) -> Column:
    names: set[str] = set()
    for kind in slot.kinds:
        try:
            names.update(found.name for found in find_kinds([kind]))
        except UnbagError:
            # Edits from elsewhere may have unregistered kinds. If no caption has an edit of the
            # kind, training does not start.
            names.add(kind)
    return frozenset(names)


@dataclass(frozen=True)
class Draw:
    """Random choices of one epoch, each by a hash of what is chosen."""

    seed: int
    epoch: int

    def number(self, below: int, *what: object) -> int:
        """Draw a number from 0 to below - 1; `what` identifies the choice."""
        text = "\0".join(map(str, (self.seed, self.epoch, *what)))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") % below

    def caption(self, pair: Pair) -> int:
        """Choose one of the pair's captions."""
        return self.number(len(pair.captions), "caption", pair.id)

    def nearest(self, pair: Pair) -> int | None:
        """Choose one of the pair's nearest neighbours; None if it has none."""
        if not pair.nearest:
            return None
        return pair.nearest[self.number(len(pair.nearest), "nearest", pair.id)]

    def texts(self, pair: Pair, at: int, edits: Sequence[Edit], columns: Columns) -> CaptionTexts:
        """Return caption `at` with one of its edits for each column.

        No edit is drawn twice. A negative that equals a caption of the image is dropped.
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
        texts: list[str | None] = []
        for number, column in enumerate(columns):
            candidates = [e.text for e in edits if e.kind in column and e.text not in texts]
            choice = self.number(len(candidates), what, number, name) if candidates else -1
            texts.append(candidates[choice] if candidates else None)
        return tuple(texts)


def draw_texts(
    pairs: Sequence[Pair], draw: Draw, columns: Columns, online_edits: OnlineEdits | None
) -> list[CaptionTexts]:
    """Draw a caption of each pair with its edits; `online_edits` makes edits for pairs without."""
    chosen = [draw.caption(pair) for pair in pairs]
    edits_of_pairs = (
        online_edits(pairs, chosen, epoch=draw.epoch)
        if online_edits
        else [pair.edits[at] for pair, at in zip(pairs, chosen, strict=True)]
    )
    return [
        draw.texts(pair, at, edits, columns)
        for pair, at, edits in zip(pairs, chosen, edits_of_pairs, strict=True)
    ]


def readable_pairs(pairs: Pairs, places: Iterable[int]) -> Iterator[Pair]:
    """Yield the pairs at some places, without those that cannot be read, as in training."""
    for place in places:
        try:
            yield pairs[place]
        except UnbagError:
            continue


def order_of(pairs: Pairs, *, seed: int, epoch: int) -> IntArray:
    """Return the permutation of places of an epoch.

    Of pairs in blocks (shards), the blocks are shuffled, then the pairs within each window of them.
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
        place = np.concatenate([np.arange(start_S[block], end_S[block]) for block in blocks])
        windows.append(random.permutation(place))
    return np.concatenate(windows)


@runtime_checkable
class InBlocks(Protocol):
    """Pairs in blocks, such as shards, that are fastest to read block by block."""

    @property
    def block_ends(self) -> IntArray:
        """The place at which each block ends."""


def make_online_edits(
    columns: Columns, *, seed: int, parts: EditParts | None = None
) -> OnlineEdits:
    """Make an editor that makes as many edits of a kind as there are columns of that kind."""
    times = Counter(kind for column in (*columns.negatives, *columns.positives) for kind in column)
    return OnlineEdits(columns.kinds, seed, max(times.values()), parts or EditParts())


@dataclass(eq=False)
class OnlineEdits:
    """Makes edits while training, new ones in every epoch; each data worker loads the editor."""

    kinds: tuple[str, ...]
    seed: int
    per_kind: int = 1
    parts: EditParts = field(default_factory=EditParts)
    editor: CaptionEditor | None = field(default=None, repr=False)
    """Loaded when first needed."""

    @property
    def fingerprint(self) -> str:
        """Differs whenever any edit differs."""
        parts = self.parts
        models = parsing.described(parts.pipeline), wordnet.described(parts.wordnet)
        settings = (
            __version__,
            self.kinds,
            self.seed,
            self.per_kind,
            *models,
            parts.fill,
            parts.rewrite,
        )
        return repr(settings)

    def load(self) -> CaptionEditor:
        """Load the editor; UnbagError if a pipeline or model is missing."""
        if self.editor is None:
            self.editor = make_editor(
                self.kinds, parts=self.parts, seed=self.seed, per_kind=self.per_kind
            )
        return self.editor

    def __call__(
        self, pairs: Sequence[Pair], chosen: Sequence[int], *, epoch: int
    ) -> list[tuple[Edit, ...]]:
        """Edit the chosen caption of each pair."""
        captions = [
            Given(
                f"{epoch}\0{pair.id}\0{at}",
                pair.captions[at],
                pair.captions[:at] + pair.captions[at + 1 :],
            )
            for pair, at in zip(pairs, chosen, strict=True)
        ]
        edited, _ = self.load()(captions)
        return [result.edits for result in edited]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the editor: another process loads its own."""
        return self.__dict__ | {"editor": None}
