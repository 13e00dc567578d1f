"""Batches of fresh scenes of the world for a recipe and a seed, with their computed truth.

Scenes are made while training and never repeat; no benchmark uses them, and `tiny:base` was not
trained on them. Whether a caption or negative holds in another image of the batch is computed.

Dimensions: B batch, K negatives of a caption, T things of a scene, R relations, 6 integers of a
caption; N scenes, H rows, W columns, 3 colour channels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from hashlib import blake2b
from types import MappingProxyType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbag.edits.kinds import GROUPS
from unbag.errors import UnbagError, unknown_name
from unbag.runs.files import paused_collector
from unbag.training.data.batch import Batch, CaptionTexts, Pixels, Share, Truth, make_batch
from unbag.training.encoders.base import Reads
from unbag.training.recipes import Recipe, Slot
from unbag.types import IntArray
from unbag.world.edits import NEGATIVES, POSITIVES, edit
from unbag.world.grammar import Ast, Obj, Statement, read
from unbag.world.rendering import Packed, SceneImage, draw_batch, noise, pack, sprite_table
from unbag.world.scenes import Scene
from unbag.world.stream import Knobs, Mixture, Sample, batch, split_seed, withheld
from unbag.world.truth import CaptionCodes, SceneCodes, encode_scenes, encode_texts, holds_codes
from unbag.world.vocabulary import DEFAULT, WORLDS, Combination, World

DEFAULT_PRESET = "default"
_REPAIR = Knobs(
    mixture=Mixture(
        two_plain=0.245,
        one_coloured=0.155,
        one_coloured_one_plain=0.09,
        two_colours=0.05,
        both_bound=0.06,
        relation=0.40,
    ),
    withheld_combinations=0.2,
)
PRESETS: Mapping[str, Knobs] = MappingProxyType(
    {
        # A third of all captions state a relation (40 % of those of two things); the other kinds
        # of caption keep the proportions of the training data of `tiny:base`.
        DEFAULT_PRESET: _REPAIR,
        # One naming order: the forms of the test positives, "b and a" and "b right of a", are never
        # captions, so training without positives never presents them as true.
        "ordered": replace(_REPAIR, order="listed_first", order_strength=1.0),
    }
)
"""Captions to repair on, fixed before any experiment was run (methods.md 12.10, variant C)."""
PER_EPOCH = 250
"""Steps per epoch; the world is endless, so their number is a convention."""
_SEEDS = 2**31
"""Half of the seeds of the training split; `python -m unbag_lab pretrain` uses the other half."""
_EDITS = 1
"""Seeds edits differently from scenes."""
_MISSING = -1
"""Kind of a missing negative; no rule of truth knows it, so it is true in no scene."""
_FORM = "world batches 1"
"""Part of the fingerprint; to be increased when the same settings give other batches."""
_SWAPS = ("swap_attributes", "swap_arguments")
_ATTRIBUTES = ("replace_colour", "replace_size", "replace_texture")
_SYNONYMS = ("synonym_colour", "synonym_shape", "synonym_size", "synonym_texture")
SAME_AS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "swap_nouns": _SWAPS,
        "swap_adjectives": ("swap_attributes",),
        "swap_phrases": ("swap_arguments",),
        "swap_words": _SWAPS,
        "neg_clip_swap": _SWAPS,
        "rewrite_swap": _SWAPS,
        "replace_material": ("replace_texture",),
        "replace_number": ("replace_count",),
        "replace_noun": ("replace_shape",),
        "replace_attribute": _ATTRIBUTES,
        "antonym": ("replace_size", "replace_relation"),
        "left_right": ("replace_relation",),
        "above_below": ("replace_relation",),
        "front_behind": ("replace_relation",),
        "fill_attribute": _ATTRIBUTES,
        "fill_object": ("replace_shape",),
        "fill_relation": ("replace_relation",),
        "rewrite_replace": ("replace_shape", *_ATTRIBUTES, "replace_relation"),
        "synonym": (*_SYNONYMS, "relation_synonym"),
        "synonym_wordnet": (*_SYNONYMS, "relation_synonym"),
        "relation_inverse": ("inverse",),
        "word_form": ("digit", "double_form"),
        "negatives": tuple(NEGATIVES),
        "positives": tuple(POSITIVES),
        "default": (*NEGATIVES, *POSITIVES),
        "all": (*NEGATIVES, *POSITIVES),
        # Nothing acts, is inside or lies near in the world, and a caption has one article.
        "swap_verbs": (),
        "swap_adverbs": (),
        "replace_state": (),
        "replace_action": (),
        "fill_action": (),
        "replace_quantifier": (),
        "inside_outside": (),
        "near_far": (),
        "passive": (),
        "article": (),
    }
)
"""The world's operators for each kind and group of edits of real captions, so that the recipe of a
paper can be run on the world. Kinds of the world stand for themselves."""


@dataclass(frozen=True)
class WorldBatches:
    """Batches of fresh scenes for one recipe, seed and share of the work; see `Batches`."""

    recipe: Recipe
    reads: Reads
    seed: int = 0
    share: Share = field(default_factory=Share)
    preset: str = DEFAULT_PRESET
    world: World = DEFAULT
    per_epoch: int = PER_EPOCH
    max_group_size: int | None = None
    """Largest number of strings that are encoded together."""

    def __post_init__(self) -> None:
        """Refuse settings that the world cannot provide, before any worker starts."""
        find_preset(self.preset)
        columns_of(self.recipe.negatives, self.recipe.positives)
        if self.recipe.hard_images:
            raise UnbagError(
                "scenes of the world are drawn while training and have no neighbours",
                expected="a recipe without hard images",
                hint="--set hard_images=false",
            )
        self.share.part(self.recipe.batch_size)
        if not 0 <= self.seed < _SEEDS:
            raise UnbagError(f"seed {self.seed}", expected=f"a whole number from 0 to {_SEEDS - 1}")
        if self.per_epoch < 1:
            raise UnbagError(f"{self.per_epoch} steps in an epoch", expected="at least one")

    @property
    def about(self) -> str:
        """The number of scenes and the edits of each column, for the model card."""
        columns = [
            f"{slot.name}: {', '.join(kinds) or 'none on the world'}"
            for slot, kinds in zip(
                (*self.recipe.negatives, *self.recipe.positives),
                (*self._columns.negatives, *self._columns.positives),
                strict=True,
            )
        ]
        scenes = f"{len(self)} steps of {self.recipe.batch_size} fresh scenes"
        return "; ".join((f"the built-in world, preset {self.preset}: {scenes}", *columns))

    @property
    def fingerprint(self) -> str:
        """Fingerprint of everything that decides a batch, except the model's preparation."""
        settings = (
            _FORM,
            find_preset(self.preset),
            self.world.name,
            self.seed,
            self.recipe.batch_size,
            self.recipe.masks_equal,
            len(self),
            [_name_and_kinds(slot) for slot in self.recipe.negatives],
            [_name_and_kinds(slot) for slot in self.recipe.positives],
        )
        return f"world-{blake2b(repr(settings).encode(), digest_size=12).hexdigest()}"

    @property
    def find_truth(self) -> FindWorldTruth | None:
        """Finds captions and negatives that are true in another image, if the recipe masks them."""
        return FindWorldTruth() if self.recipe.masks_equal else None

    def __len__(self) -> int:
        """Return the steps of all epochs."""
        return self.recipe.epochs * self.per_epoch

    @paused_collector()
    def __getitem__(self, step: int) -> Batch:
        """Return this process's part of the batch of a step."""
        samples, texts = self.scenes_and_texts(step)
        scenes = [sample.scene for sample in samples]
        return make_batch(
            self._pixels(scenes),
            [_texts(item) for item in texts],
            tokenize=self.reads.tokenize,
            count_tokens=self.reads.count_tokens,
            code=encode(scenes, texts),
            max_group_size=self.max_group_size,
        )

    def scenes_and_texts(self, step: int) -> tuple[tuple[Sample, ...], tuple[SceneTexts, ...]]:
        """Return the scenes of this process's share, and the caption and edits of each."""
        if not 0 <= step < len(self):
            raise IndexError(step)
        knobs = find_preset(self.preset)
        seed = split_seed("train", _SEEDS + self.seed)
        whole = batch(self.world, knobs, seed=seed, step=step, size=self.recipe.batch_size)
        part = self.share.part(self.recipe.batch_size)
        withheld_combinations = withheld(self.world, knobs).combinations
        texts = tuple(
            scene_texts(
                whole[place],
                self._columns,
                np.random.default_rng((seed, step, place, _EDITS)),
                world=self.world,
                withheld=withheld_combinations,
            )
            for place in range(part.start, part.stop)
        )
        return whole[part], texts

    @cached_property
    def _columns(self) -> WorldColumns:
        return columns_of(self.recipe.negatives, self.recipe.positives)

    @cached_property
    def _takes_bytes(self) -> bool:
        first = batch(self.world, find_preset(self.preset), seed=0, step=0, size=1)
        return takes_bytes(self.reads, first[0].scene)

    def _pixels(self, scenes: Sequence[Scene]) -> Pixels:
        return drawn(scenes) if self._takes_bytes else prepared(scenes, self.reads)


def _name_and_kinds(slot: Slot) -> tuple[str, tuple[str, ...]]:
    return slot.name, slot.kinds


def _texts(texts: SceneTexts) -> CaptionTexts:
    return CaptionTexts(texts.caption.text, texts_of(texts.negatives), texts_of(texts.positives))


def texts_of(statements: Sequence[Statement | None]) -> tuple[str | None, ...]:
    """Return the text of each statement; None stays None."""
    return tuple(None if one is None else one.text for one in statements)


def find_preset(name: str) -> Knobs:
    """Return the settings of a preset by name."""
    if name not in PRESETS:
        raise unknown_name("preset of the world", name, PRESETS)
    return PRESETS[name]


def columns_of(negatives: Sequence[Slot], positives: Sequence[Slot]) -> WorldColumns:
    """Return the world's operators for the slots of a recipe."""
    columns = WorldColumns(
        tuple(_operators(slot, NEGATIVES) for slot in negatives),
        tuple(_operators(slot, POSITIVES) for slot in positives),
    )
    for what, slots, operators in (
        ("negative", negatives, columns.negatives),
        ("positive", positives, columns.positives),
    ):
        if slots and not any(operators):
            kinds = ", ".join(kind for slot in slots for kind in slot.kinds)
            raise UnbagError(
                f"no {what} of this recipe can be made on the world: {kinds}",
                expected=f"at least one kind that the world has a {what} for",
                hint="see unbag.training.data.world.SAME_AS",
            )
    return columns


@dataclass(frozen=True)
class WorldColumns:
    """Operators of the world for each slot of a recipe; a slot without operators is masked."""

    negatives: tuple[tuple[str, ...], ...]
    positives: tuple[tuple[str, ...], ...]


def _operators(slot: Slot, among: Iterable[str]) -> tuple[str, ...]:
    operators = {operator for kind in slot.kinds for operator in _operators_of_kind(kind)}
    return tuple(name for name in among if name in operators)


def _operators_of_kind(kind: str) -> tuple[str, ...]:
    if kind in NEGATIVES or kind in POSITIVES:
        return (kind,)
    if kind in SAME_AS:
        return SAME_AS[kind]
    if kind in GROUPS:
        return tuple(operator for member in GROUPS[kind] for operator in _operators_of_kind(member))
    known = [*NEGATIVES, *POSITIVES, *SAME_AS, *GROUPS]
    raise unknown_name("kind of edit on the world", kind, known)


def scene_texts(
    sample: Sample,
    columns: WorldColumns,
    rng: np.random.Generator,
    *,
    world: World,
    withheld: frozenset[Combination],
) -> SceneTexts:
    """Return the caption and, per column, the edit of a random operator that applies."""

    def one_of(kinds: tuple[str, ...]) -> Statement | None:
        for index in rng.permutation(len(kinds)):
            statement = edit(
                kinds[index], caption, sample.scene, rng, world=world, withheld=withheld
            )
            if statement is not None:
                return statement
        return None

    caption = read(sample.caption)
    return SceneTexts(
        caption,
        tuple(one_of(kinds) for kinds in columns.negatives),
        tuple(one_of(kinds) for kinds in columns.positives),
    )


@dataclass(frozen=True)
class SceneTexts:
    """Caption and edits of one scene; None where no operator of a slot applies."""

    caption: Statement
    negatives: tuple[Statement | None, ...]
    positives: tuple[Statement | None, ...]


def drawn(scenes: Sequence[Scene]) -> DrawnPixels:
    """Return the pixels of at least one scene; all scenes are of one world."""
    world = WORLDS[scenes[0].world]
    shape = (world.pixels, world.pixels, 3)
    noise_NHW3 = np.empty((len(scenes), *shape), dtype=np.int8)
    for i, scene in enumerate(scenes):
        noise_NHW3[i] = noise(scene.noise_seed, noise_NHW3[i].size).reshape(shape)
    return DrawnPixels(world.name, pack(scenes), noise_NHW3)


@dataclass(frozen=True, eq=False)
class DrawnPixels:
    """Scenes of one world that are drawn on the device that needs them.

    The bytes equal those of `unbag.world.rendering` for each scene. The noise of an image depends
    on its scene only, so a part of a batch has the same images as the whole.
    """

    world: str
    packed: Packed
    noise_NHW3: NDArray[np.int8]
    # An array, not a tensor: workers send tensors in shared memory, which containers limit.

    def __len__(self) -> int:
        """Return the number of scenes."""
        return len(self.noise_NHW3)

    def __getitem__(self, part: slice, /) -> DrawnPixels:
        """Return some of the scenes."""
        packed = Packed(**{name: value[part] for name, value in vars(self.packed).items()})
        return DrawnPixels(self.world, packed, self.noise_NHW3[part])

    def to(self, device: str, /, *, non_blocking: bool = False) -> Tensor:
        """Draw the scenes on the device: bytes [N, 3, H, W]."""
        side = WORLDS[self.world].pixels
        plain_N3HW = draw_batch(
            _table(self.world, device), self.packed, pixels=side, generator=None
        )
        noise_NHW3 = torch.from_numpy(self.noise_NHW3).to(device, non_blocking=non_blocking)
        level_N3HW = (255 * plain_N3HW).round_() + noise_NHW3.permute(0, 3, 1, 2)
        return level_N3HW.clamp_(0, 255).to(torch.uint8)


def prepared(scenes: Sequence[Scene], reads: Reads) -> Tensor:
    """Draw and prepare scenes one by one, for a model with its own preparation."""
    return torch.stack([reads.prepare(SceneImage(scene, "").open()) for scene in scenes])


def takes_bytes(reads: Reads, scene: Scene) -> bool:
    """Return whether the preparation of a model leaves the bytes of a drawing unchanged."""
    drawn_bytes, prepared_pixels = drawn([scene]).to("cpu")[0], prepared([scene], reads)[0]
    return prepared_pixels.dtype == torch.uint8 and torch.equal(prepared_pixels, drawn_bytes)


@cache
def _table(world: str, device: str) -> Tensor:
    return torch.from_numpy(sprite_table(WORLDS[world])).to(device)


@dataclass(frozen=True)
class FindWorldTruth:
    """Computes from codes which captions and negatives are true in which scene."""

    def __call__(self, code: Mapping[str, Tensor], /) -> Truth:
        """Compute the truth of the whole batch."""
        scenes = SceneCodes(code["thing_BT"], code["related_BRT"])
        size, negatives = code["negative_BK6"].shape[:2]
        holds_BB = holds_codes(_columns_of(code["caption_B6"]), scenes)
        is_own = torch.eye(size, dtype=torch.bool, device=holds_BB.device)
        if not negatives:
            return Truth(holds_BB & ~is_own)
        negative_BM = holds_codes(_columns_of(code["negative_BK6"].flatten(0, 1)), scenes)
        return Truth(holds_BB & ~is_own, negative_BM.view(size, size, negatives))


def encode(scenes: Sequence[Scene], texts: Sequence[SceneTexts]) -> dict[str, Tensor]:
    """Encode captions and scenes as the integers that `FindWorldTruth` needs, one row per image."""
    codes = encode_scenes(scenes)
    negatives = [negative for row in texts for negative in row.negatives]
    negative_M6 = _rows([Obj() if negative is None else negative.ast for negative in negatives])
    negative_M6[[negative is None for negative in negatives], 0] = _MISSING
    arrays = {
        "thing_BT": codes.thing_ST,
        "related_BRT": codes.related_SRT,
        "caption_B6": _rows([row.caption.ast for row in texts]),
        "negative_BK6": negative_M6.reshape(len(texts), len(negatives) // len(texts), 6),
    }
    return {name: torch.from_numpy(value) for name, value in arrays.items()}


def _rows(asts: Sequence[Ast]) -> IntArray:
    return np.stack(list(vars(encode_texts(asts)).values()), axis=1)


def _columns_of(code_C6: Tensor) -> CaptionCodes[Tensor]:
    return CaptionCodes(*code_C6.unbind(dim=1))
