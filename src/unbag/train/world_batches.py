"""A recipe and a seed come in; batches of fresh scenes of the world, with their truth, go out.

Scenes are made on the fly and never repeat; they are neither those of the benchmarks nor those that
`tiny:base` was trained on. Every cell of the truth is computed (`holds`), so captions and negatives
that happen to fit another picture are known.

Dimensions: B batch, K negatives of a caption, T things of a scene, R relations, 6 integers of a
caption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from unbag.engine.collector import paused_collector
from unbag.errors import UserError
from unbag.train.batch import Batch, Pixels, Said, Truth, make_batch
from unbag.train.batches import Share
from unbag.train.config import Recipe, Slot
from unbag.train.trainable import Reads
from unbag.train.world_captions import DEFAULT_PRESET, Columns, Told, columns_of, find_preset, tell
from unbag.train.world_pixels import drawn, prepared, takes_bytes
from unbag.types import IntArray
from unbag.world.grammar import Ast, Obj
from unbag.world.knobs import withheld
from unbag.world.realise import Statement
from unbag.world.scene import Scene
from unbag.world.stream import Sample, batch, split_seed
from unbag.world.truth import CaptionCodes, SceneCodes, encode_captions, encode_scenes, holds_codes
from unbag.world.words import DEFAULT, World

PER_EPOCH = 250
"""The world has no end, so an epoch is a word for so many steps."""
_SEEDS = 2**31
"""Half of the seeds of the training split; `unbag.lab.pretrain` takes its seeds from the other."""
_EDITS = 1
"""Sets the randomness of edits apart from that of scenes."""
_MISSING = -1
"""Kind of a negative that is not there: no rule of truth knows it, so it holds nowhere."""
_FORM = "world batches 1"
"""Part of the fingerprint: to be raised when the same settings give other batches."""


@dataclass(frozen=True)
class WorldBatches:
    """Batches for one recipe, seed and share of the work; see `Batches`."""

    recipe: Recipe
    reads: Reads
    seed: int = 0
    share: Share = field(default_factory=Share)
    preset: str = DEFAULT_PRESET
    world: World = DEFAULT
    per_epoch: int = PER_EPOCH
    largest: int | None = None
    """Strings that a tower takes at once."""

    def __post_init__(self) -> None:
        """Refuse what cannot be made, before any worker starts."""
        find_preset(self.preset)
        columns_of(self.recipe.negatives, self.recipe.positives)
        if self.recipe.hard_pictures:
            raise UserError(
                "scenes of the world are drawn while training and have no neighbours",
                expected="a recipe without hard pictures",
                way_out="--set hard_pictures=false",
            )
        self.share.part(self.recipe.batch)
        if not 0 <= self.seed < _SEEDS:
            raise UserError(f"seed {self.seed}", expected=f"a whole number from 0 to {_SEEDS - 1}")
        if self.per_epoch < 1:
            raise UserError(f"{self.per_epoch} steps in an epoch", expected="at least one")

    @property
    def about(self) -> str:
        """Fresh scenes, how many, and what stands in each column."""
        made = [
            f"{slot.name}: {', '.join(kinds) or 'none on the world'}"
            for slot, kinds in zip(
                (*self.recipe.negatives, *self.recipe.positives),
                (*self._columns.negatives, *self._columns.positives),
                strict=True,
            )
        ]
        scenes = f"{len(self)} steps of {self.recipe.batch} fresh scenes"
        return "; ".join((f"the built-in world, preset {self.preset}: {scenes}", *made))

    @property
    def fingerprint(self) -> str:
        """Of everything that decides a batch, besides the model's own preparation."""
        settings = (
            _FORM,
            find_preset(self.preset),
            self.world.name,
            self.seed,
            self.recipe.batch,
            self.recipe.masks_equal,
            len(self),
            [_named(slot) for slot in self.recipe.negatives],
            [_named(slot) for slot in self.recipe.positives],
        )
        return f"world-{blake2b(repr(settings).encode(), digest_size=12).hexdigest()}"

    @property
    def find_truth(self) -> FindWorldTruth | None:
        """Captions and negatives that hold in another picture, unless the recipe masks none."""
        return FindWorldTruth() if self.recipe.masks_equal else None

    def __len__(self) -> int:
        """Steps of all epochs."""
        return self.recipe.epochs * self.per_epoch

    @paused_collector()
    def __getitem__(self, step: int) -> Batch:
        """This process's part of the batch of a step."""
        samples, told = self.told(step)
        scenes = [sample.scene for sample in samples]
        return make_batch(
            self._pixels(scenes),
            [_said(one) for one in told],
            tokenize=self.reads.tokenize,
            count_tokens=self.reads.count_tokens,
            code=encode(scenes, told),
            largest=self.largest,
        )

    def told(self, step: int) -> tuple[tuple[Sample, ...], tuple[Told, ...]]:
        """Scenes of our share, and what is said of each."""
        if not 0 <= step < len(self):
            raise IndexError(step)
        knobs = find_preset(self.preset)
        seed = split_seed("train", _SEEDS + self.seed)
        whole = batch(self.world, knobs, seed=seed, step=step, size=self.recipe.batch)
        part = self.share.part(self.recipe.batch)
        never = withheld(self.world, knobs).combinations
        told = tuple(
            tell(
                whole[place],
                self._columns,
                np.random.default_rng((seed, step, place, _EDITS)),
                world=self.world,
                withheld=never,
            )
            for place in range(part.start, part.stop)
        )
        return whole[part], told

    @cached_property
    def _columns(self) -> Columns:
        return columns_of(self.recipe.negatives, self.recipe.positives)

    @cached_property
    def _takes_bytes(self) -> bool:
        first = batch(self.world, find_preset(self.preset), seed=0, step=0, size=1)
        return takes_bytes(self.reads, first[0].scene)

    def _pixels(self, scenes: Sequence[Scene]) -> Pixels:
        return drawn(scenes) if self._takes_bytes else prepared(scenes, self.reads)


@dataclass(frozen=True)
class FindWorldTruth:
    """From integers of scenes, captions and negatives to every cell of what holds."""

    def __call__(self, code: Mapping[str, Tensor], /) -> Truth:
        """Of the whole batch."""
        scenes = SceneCodes(code["thing_BT"], code["related_BRT"])
        size, negatives = code["negative_BK6"].shape[:2]
        holds_BB = holds_codes(_columns_of(code["caption_B6"]), scenes)
        is_own = torch.eye(size, dtype=torch.bool, device=holds_BB.device)
        if not negatives:
            return Truth(holds_BB & ~is_own)
        negative_BM = holds_codes(_columns_of(code["negative_BK6"].flatten(0, 1)), scenes)
        return Truth(holds_BB & ~is_own, negative_BM.view(size, size, negatives))


def encode(scenes: Sequence[Scene], told: Sequence[Told]) -> dict[str, Tensor]:
    """What `FindWorldTruth` needs, one row a picture."""
    codes = encode_scenes(scenes)
    negatives = [one for row in told for one in row.negatives]
    negative_M6 = _rows([Obj() if one is None else one.ast for one in negatives])
    negative_M6[[one is None for one in negatives], 0] = _MISSING
    found = {
        "thing_BT": codes.thing_ST,
        "related_BRT": codes.related_SRT,
        "caption_B6": _rows([one.caption.ast for one in told]),
        "negative_BK6": negative_M6.reshape(len(told), len(negatives) // len(told), 6),
    }
    return {name: torch.from_numpy(value) for name, value in found.items()}


def _rows(asts: Sequence[Ast]) -> IntArray:
    return np.stack(list(vars(encode_captions(asts)).values()), axis=1)


def _columns_of(code_C6: Tensor) -> CaptionCodes[Tensor]:
    return CaptionCodes(*code_C6.unbind(dim=1))


def _said(told: Told) -> Said:
    return Said(told.caption.text, _texts(told.negatives), _texts(told.positives))


def _texts(statements: Sequence[Statement | None]) -> tuple[str | None, ...]:
    return tuple(None if one is None else one.text for one in statements)


def _named(slot: Slot) -> tuple[str, tuple[str, ...]]:
    return slot.name, slot.kinds
