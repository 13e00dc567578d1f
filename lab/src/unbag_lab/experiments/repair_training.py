"""Trains the arms of the repair experiments side by side on the same batches.

All arms of an experiment see the same images, captions, negatives and positives for the same number
of steps; they differ in the loss, and in whether the image encoder is frozen (methods.md 12.7,
12.10). Arms with a view see only the edits of one family, or other positives: the words of the
caption in another form.

A batch is made and drawn once for all arms. An arm does not depend on the other arms, nor on
interruptions: every arm has its own checkpoint and resumes from there, on a CPU bit-identically.

Dimensions: B batch, K negatives, P positives of a caption, U strings, L tokens.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from unbag.errors import unknown_name
from unbag.models.tiny import Tiny, read
from unbag.readouts.data import WORLD_NEGATIVES
from unbag.runs.files import paused_collector
from unbag.training.data.batch import Batch, CaptionGroup, CaptionTexts, Pixels, Truth, make_batch
from unbag.training.data.loader import load
from unbag.training.data.world import (
    DEFAULT_PRESET,
    FindWorldTruth,
    SceneTexts,
    WorldBatches,
    encode,
    texts_of,
)
from unbag.training.encoders.adapters import TinyTrainable
from unbag.training.fine_tuning import FineTuning, TrainJob
from unbag.training.objective import Objective
from unbag.training.optim import compile_layers, shared_memory
from unbag.training.recipes import (
    Freeze,
    Precision,
    Recipe,
    Slot,
    ce_clip,
    ce_clip_fixed,
    clip_ft,
    hard_negative,
    hard_positive,
    neg_clip,
)
from unbag.training.trainer import Trainer
from unbag.world.grammar import Statement, Style
from unbag_lab.plan import Say
from unbag_lab.results import Size
from unbag_lab.training import precision_of, train_together

CONTROL = "clip_ft"
"""Plain fine-tuning on the same captions, the control of every other arm."""
LOCKED = "-locked"
"""Suffix of the name of an arm with a frozen image encoder."""
View = Literal["all", "swap", "replace", "rephrased"]
"""What an arm sees: all edits, those that swap words, those that replace a word, or captions in
another form instead of hard positives."""
_WORDS = (
    "relation_synonym",
    "synonym_colour",
    "synonym_shape",
    "synonym_size",
    "synonym_texture",
)


@dataclass(frozen=True)
class ArmData:
    """The training data of all arms of an experiment."""

    about: str
    preset: str
    """Of `unbag.training.data.world`."""
    positives: tuple[Slot, ...]


EXPERIMENTS: Mapping[str, ArmData] = MappingProxyType(
    {
        "default": ArmData(
            "things are named in random order; positives of the same families as the negatives",
            DEFAULT_PRESET,
            (Slot("positive", ("conjunct_swap", "inverse", *_WORDS)),),
        ),
        "ordered": ArmData(
            "things are named in one order, so only positives have the other; else as default",
            "ordered",
            (Slot("positive", ("conjunct_swap", "inverse", *_WORDS)),),
        ),
        "held_out": ArmData(
            "as ordered, but positives are synonyms: the other order is true in no arm",
            "ordered",
            (Slot("positive", _WORDS),),
        ),
    }
)
PUBLISHED_REPAIRS: Mapping[str, Recipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            clip_ft(),
            neg_clip(hard_images=False),
            hard_negative(),
            hard_positive(),
            ce_clip_fixed(),
        )
    }
)
"""The published recipes; arms use only their losses, everything else is shared."""
ARMS: tuple[str, ...] = (*PUBLISHED_REPAIRS, *(f"{name}{LOCKED}" for name in PUBLISHED_REPAIRS))
"""The published repairs, with both encoders trainable and with the image encoder frozen."""


def _without(recipe: Recipe, term: str) -> Objective:
    """Return the loss of a recipe without one of its terms; only ranks need thresholds."""
    terms = tuple(loss_term for loss_term in recipe.objective.terms if loss_term.name != term)
    return Objective(terms, None if term == "rank" else recipe.objective.threshold)


_VARIANTS: Mapping[str, Objective] = MappingProxyType(
    {
        "positives_only": hard_positive(negative=0.0).objective,
        "hard_positive-n25": hard_positive(negative=0.25).objective,
        "hard_positive-n50": hard_positive(negative=0.5).objective,
        "swap_only": hard_positive().objective,
        "replace_only": hard_positive().objective,
        "rephrased": hard_positive(rephrases=True).objective,
        "ce_clip_fixed-intra": _without(ce_clip_fixed(), "rank"),
        "ce_clip_fixed-rank": _without(ce_clip_fixed(), "intra_modal"),
        "ce_clip_fixed-margin2": ce_clip_fixed(thresholds="fixed", fixed=2.0).objective,
        "ce_clip_fixed-margin10": ce_clip_fixed(thresholds="fixed", fixed=10.0).objective,
        "ce_clip_fixed-unbounded": ce_clip_fixed(upper=None).objective,
        "ce_clip": ce_clip().objective,
    }
)
VARIANTS: tuple[str, ...] = tuple(_VARIANTS)
"""Ablations and controls of the papers, all with both encoders trainable: weights of the negatives'
loss of 25 and 50 %, one family of edits, other positives, parts of CE-CLIP, and CE-CLIP as printed.
"""
_VIEWS: Mapping[str, View] = MappingProxyType(
    {"swap_only": "swap", "replace_only": "replace", "rephrased": "rephrased"}
)


def view_of(arm: str) -> View:
    """Return the view of an arm."""
    return _VIEWS.get(arm, "all")


def make_recipe(arm: str, experiment: ArmData, *, batch_size: int) -> Recipe:
    """Return the recipe of an arm; the learning rate and the rest are those of pilot C, for all."""
    if arm not in (*ARMS, *VARIANTS):
        raise unknown_name("arm", arm, (*ARMS, *VARIANTS))
    is_locked = arm.endswith(LOCKED)
    name = arm.removesuffix(LOCKED)
    shared = Recipe(
        name=arm,
        source="methods.md 12.10, variant C",
        objective=_VARIANTS[name] if name in _VARIANTS else PUBLISHED_REPAIRS[name].objective,
        negatives=WORLD_NEGATIVES,
        positives=experiment.positives,
        epochs=1,
        batch_size=batch_size,
        learning_rate=3e-4,
        weight_decay=0.05,
        warmup_steps=100,
        clip_norm=None,
    )
    return replace(shared, freeze=Freeze(image="all")) if is_locked else shared


@dataclass(frozen=True)
class RepairSettings:
    """Settings of the experiment besides the bases; the defaults are those of pilot C."""

    experiment: str = "default"
    arms: tuple[str, ...] = ARMS
    steps: int = 1_250
    batch_size: int = 512
    seed: int = 0
    """Combined with the name of a base into the seed of its scenes."""
    times: int = 5
    """Multiplies the number of items of the registered benchmarks."""
    device: str = "cpu"
    workers: int = 0
    save_every: int = 250
    """Steps between checkpoints."""
    size: Size = "full"
    asks_base: bool = True
    """Whether the base and the random network are measured too."""

    @property
    def precision(self) -> Precision:
        """Precision of training, as in pre-training."""
        return precision_of(self.device)


def train_arms(
    base: Path,
    names: Sequence[str],
    settings: RepairSettings,
    *,
    folder: Path | None = None,
    say: Say,
) -> dict[str, RepairArm]:
    """Train arms side by side; with a folder they save checkpoints and resume."""
    started = time.monotonic()
    encoder = read(base, name=base.stem, device=settings.device)
    places = make_places(encoder, settings.device)
    shared, seed = SharedImages(is_shared=places is None), seed_of(base, settings)
    arms = {name: RepairArm(encoder, name, settings, seed, shared, places) for name in names}
    memory = shared_memory() if settings.device.startswith("cuda") else None
    trainers = {name: Trainer(arm, memory=memory) for name, arm in arms.items()}
    paths = {} if folder is None else {name: checkpoint_of(folder, name) for name in arms}
    for name, path in paths.items():
        if path.exists():
            trainers[name].resume(path)
    # After an interruption while checkpoints were written, some arms are behind the others.
    first = min(trainer.state.step for trainer in trainers.values())
    batches = replace(arms[names[0]].world, views=frozenset({"all", *map(view_of, names)}))
    resumed = f"; from step {first}" if first else ""
    say(f"{base.stem}: {', '.join(names)}; {batches.about}{resumed}")
    flow = views_on_device(batches, first=first, workers=settings.workers, device=settings.device)

    def after_step(steps: int) -> None:
        for name, arm in arms.items():
            if arm.threshold_K is not None and trainers[name].state.step == steps:
                arm.curve_SK[steps - 1] = arm.threshold_K
        # After the last step the weights are written at once, without a checkpoint.
        if steps % settings.save_every == 0 and steps < settings.steps:
            for name, path in paths.items():
                trainers[name].save(path)

    arm_batches = ({name: views[arm.view] for name, arm in arms.items()} for views in flow)
    losses = train_together(
        trainers, arm_batches, say=lambda line: say(f"{base.stem}: {line}"), after_step=after_step
    )
    for name, arm in arms.items():
        arm.last_loss = losses[name]
        # The last progress line has synchronized with the device.
        arm.seconds = None if first else (time.monotonic() - started) / len(arms)
    return arms


def make_places(encoder: Tiny, device: str) -> FixedViews | None:
    """Return the fixed tensors for recorded steps; None on a CPU, which records nothing."""
    return FixedViews(encoder.config.context) if device.startswith("cuda") else None


def seed_of(base: Path, settings: RepairSettings) -> int:
    """Return the seed of a base's scenes, whatever the order of the bases."""
    return crc32(f"{settings.seed}/{base.stem}".encode()) & 0x7FFF_FFFF


def checkpoint_of(folder: Path, arm: str) -> Path:
    """Return the path of the checkpoint of an arm."""
    return folder / f"{arm}.checkpoint"


WAITS = ("ce_clip",)
"""Arms whose loss synchronizes with the device in every step, so that it cannot be recorded."""


class RepairArm(FineTuning):
    """The fine-tuning of one arm, side by side with others."""

    trainable: TinyTrainable
    logs_gradient = False

    def __init__(
        self,
        base: Tiny,
        name: str,
        settings: RepairSettings,
        seed: int,
        shared: SharedImages,
        places: FixedViews | None,
    ) -> None:
        """Prepare an arm; `places` has fixed tensors if steps are recorded."""
        experiment, device = EXPERIMENTS[settings.experiment], settings.device
        recipe = make_recipe(name, experiment, batch_size=settings.batch_size)
        is_locked = recipe.freeze.image == "all"
        network = (
            LockedTiny(base, shared, device=device)
            if is_locked
            else TinyTrainable(base, device=device)
        )
        self.world = RepairBatches(
            recipe, network.reads, seed, preset=experiment.preset, per_epoch=settings.steps
        )
        job = TrainJob(
            network,
            self.world,
            recipe,
            out=Path(),
            seed=seed,
            device=device,
            precision=settings.precision,
        )
        super().__init__(job)
        self.recipe, self.view = recipe, view_of(name)
        self.is_recorded = places is not None and name not in WAITS
        self.plan = replace(self.plan, find_truth=known_truth, is_seeded=not self.is_recorded)
        self.last_loss = 0.0
        self.seconds: float | None = None
        """Its share of the time of all arms trained with it; None if the training was resumed."""
        self.curve_SK = torch.zeros(settings.steps, len(recipe.negatives), device=device)
        """Thresholds after each step; on the device, so that no step waits for a copy."""
        self._shared, self._places = shared, places
        if self.is_recorded:
            if not is_locked:
                compile_layers(network.module.picture.blocks, device=device)
            compile_layers(network.module.caption.blocks, device=device, varies=True)

    def identity(self) -> dict[str, object]:
        """Add the preset and the number of steps."""
        return {**super().identity(), "preset": self.world.preset, "steps": self.world.per_epoch}

    def gradient(self, batch: Batch, step: int) -> dict[str, Tensor]:
        """Compute the gradient; thresholds change in place, as recorded steps require."""
        self._shared.look_at(batch)
        place_K = self.threshold_K
        numbers = super().gradient(batch, step)
        if place_K is not None and self.threshold_K is not None:
            place_K.copy_(self.threshold_K)
            self.threshold_K = place_K
        return numbers

    def static_batch(self, batch: Batch) -> tuple[Hashable, Batch]:
        """Copy the batch into the fixed tensors of its size and view."""
        assert self._places is not None
        return self._places.fill(self.view, batch)

    def recorded_tensors(self) -> tuple[Tensor, ...]:
        """Return the thresholds."""
        return () if self.threshold_K is None else (self.threshold_K,)

    def extra_state(self) -> dict[str, Any]:
        """Add the curve of thresholds."""
        curve = {} if self.threshold_K is None else {"curve": self.curve_SK}
        return {**super().extra_state(), **curve}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `extra_state` gave."""
        super().load_extra_state(state)
        if "curve" in state:
            self.curve_SK.copy_(state["curve"])


def known_truth(code: Mapping[str, Tensor]) -> Truth:
    """Return the truth in the codes of a batch, computed once for all arms."""
    return Truth(code["also_true_BB"], code["negative_true_BBK"])


class SharedImages:
    """Vectors of the images of a batch, shared by all arms with a frozen image encoder."""

    def __init__(self, *, is_shared: bool) -> None:
        """Set `is_shared`; recorded steps cannot depend on one another and share none."""
        self._batch: Batch | None = None
        self.vector_BD: Tensor | None = None
        self.is_shared = is_shared

    def look_at(self, batch: Batch) -> None:
        """Drop the vectors of another batch."""
        if batch is not self._batch:
            self._batch, self.vector_BD = batch, None


class LockedTiny(TinyTrainable):
    """Encoders with a frozen image encoder."""

    def __init__(self, encoder: Tiny, shared: SharedImages, *, device: str) -> None:
        super().__init__(encoder, device=device)
        self._shared = shared

    def embed_images(self, pixels: Tensor) -> Tensor:
        """Return the shared vectors of the current batch, computed by the first arm."""
        if not self._shared.is_shared:
            return super().embed_images(pixels).detach()
        if self._shared.vector_BD is None:
            self._shared.vector_BD = super().embed_images(pixels).detach()
        return self._shared.vector_BD


SWAPS = "swap"
"""The slot of negatives that swap words; all others replace a word."""
_FORMS = 2
"""Separates the seeds of other forms from those of scenes and edits."""


@dataclass(frozen=True, eq=False)
class RepairBatch(Batch):
    """A batch, and the same images and captions with other positives."""

    rephrased: Batch | None = None

    def pin_memory(self) -> RepairBatch:
        """Pin both batches."""
        pinned = super().pin_memory()
        assert isinstance(pinned, RepairBatch)
        return replace(pinned, rephrased=self.rephrased and self.rephrased.pin_memory())


@dataclass(frozen=True)
class RepairBatches(WorldBatches):
    """The batches of `unbag train`, bit-identical, with additional data for views."""

    views: frozenset[View] = frozenset({"all"})

    @paused_collector()
    def __getitem__(self, step: int) -> Batch:
        """Return the batch of a step."""
        if self.views == {"all"}:
            return super().__getitem__(step)
        samples, rows = self.scenes_and_texts(step)
        scenes = [sample.scene for sample in samples]
        pixels, code = self._pixels(scenes), encode(scenes, rows)
        batch = self._made(pixels, rows, [texts_of(row.positives) for row in rows], code)
        # Whether a positive names things in the other order; synonyms do not change the AST.
        turned_BP = torch.tensor(
            [[p is not None and p.ast != row.caption.ast for p in row.positives] for row in rows]
        )
        rephrased = None
        if "rephrased" in self.views:
            dice = (np.random.default_rng((self.seed, step, n, _FORMS)) for n in range(len(rows)))
            forms = [(rephrase(row.caption, rng),) for row, rng in zip(rows, dice, strict=True)]
            rephrased = self._made(pixels, rows, forms, {})
        fields = {**vars(batch), "code": {**code, "turned_BP": turned_BP}}
        return RepairBatch(**fields, rephrased=rephrased)

    def _made(
        self,
        pixels: Pixels,
        rows: Sequence[SceneTexts],
        positives: Sequence[tuple[str | None, ...]],
        code: Mapping[str, Tensor],
    ) -> Batch:
        return make_batch(
            pixels,
            [
                CaptionTexts(row.caption.text, texts_of(row.negatives), positive_texts)
                for row, positive_texts in zip(rows, positives, strict=True)
            ],
            tokenize=self.reads.tokenize,
            count_tokens=self.reads.count_tokens,
            code=code,
            max_group_size=self.max_group_size,
        )


def rephrase(statement: Statement, rng: np.random.Generator) -> str | None:
    """Return a caption in another form with the same words, or None if there is none.

    No benchmark uses these: articles, "with" or "and", long or short relations, "there is", digits.
    """
    style = statement.style
    other_styles: tuple[Style, ...] = (
        replace(style, article="a" if style.article == "the" else "the"),
        replace(style, joint="and" if style.joint == "with" else "with"),
        replace(style, long=not style.long),
        replace(style, double=not style.double),
        replace(style, digit=not style.digit),
    )
    texts = [Statement(statement.ast, other_style).text for other_style in other_styles]
    changed = [text for text in texts if text != statement.text]
    return changed[rng.integers(len(changed))] if changed else None


def views_on_device(
    batches: RepairBatches, *, first: int, workers: int, device: str
) -> Generator[dict[View, Batch]]:
    """Yield the batches of each view, step by step; copied and drawn once for all arms."""
    flow = load(batches, first=first, workers=workers, device=device)
    is_swap_K = torch.tensor([slot.name == SWAPS for slot in WORLD_NEGATIVES]).to(device)
    for batch in flow:
        code = {k: v.to(device, non_blocking=True) for k, v in batch.code.items()}
        turned_BP = code.pop("turned_BP", None)
        truth = FindWorldTruth()(code)
        assert truth.negative_true_BBK is not None
        truth_code = {
            "also_true_BB": truth.also_true_BB,
            "negative_true_BBK": truth.negative_true_BBK,
        }
        pixels = batch.pixels.to(device, non_blocking=True)
        whole = _placed(batch, pixels, truth_code, device)
        other = batch.rephrased if isinstance(batch, RepairBatch) else None
        views: dict[View, Batch] = {"all": whole}
        if other is not None:
            views["rephrased"] = _placed(other, pixels, truth_code, device)
        if turned_BP is not None:
            # Only the edits of one family.
            families: dict[View, tuple[Tensor, Tensor]] = {
                "swap": (is_swap_K, turned_BP),
                "replace": (~is_swap_K, ~turned_BP),
            }
            for view, (keep_K, keep_BP) in families.items():
                if view in batches.views:
                    views[view] = replace(
                        whole,
                        negative_BK=whole.negative_BK.masked_fill(~keep_K, -1),
                        positive_BP=whole.positive_BP.masked_fill(~keep_BP, -1),
                    )
        yield views


def _placed(batch: Batch, pixels: Tensor, code: Mapping[str, Tensor], device: str) -> Batch:
    """Copy a batch to the device."""

    def put(value: Tensor) -> Tensor:
        return value.to(device, non_blocking=True)

    groups = tuple(
        CaptionGroup(group.row_G, {name: put(tokens) for name, tokens in group.inputs.items()})
        for group in batch.groups
    )
    return Batch(
        pixels=pixels,
        caption_B=put(batch.caption_B),
        negative_BK=put(batch.negative_BK),
        positive_BP=put(batch.positive_BP),
        groups=groups,
        place_U=put(batch.place_U),
        code=code,
    )


_TOKENS, _ENDS = "token_NL", "end_N"
"""Names of the inputs of the text encoder in `unbag.training.encoders.adapters`."""
_ROUND_STRINGS, _ROUND_TOKENS = 256, 8
"""Sizes are rounded up to these: each size needs a recording of every arm, but padding costs time
in every step."""


class FixedViews:
    """Fixed tensors for the batches of each view and size."""

    def __init__(self, context: int) -> None:
        """Take the context length of the text encoder."""
        self._context = context
        self._rooms: dict[tuple[View, int, int], FixedBatch] = {}
        self._latest: dict[View, tuple[Batch, tuple[View, int, int]]] = {}

    def fill(self, view: View, batch: Batch) -> tuple[Hashable, Batch]:
        """Copy a batch into the fixed tensors of its size, once for all arms; return key, copy."""
        if view not in self._latest or self._latest[view][0] is not batch:
            lengths = [group.inputs[_TOKENS].shape[1] for group in batch.groups]
            strings = ceil(len(batch.place_U) / _ROUND_STRINGS) * _ROUND_STRINGS
            tokens = min(ceil(max(lengths) / _ROUND_TOKENS) * _ROUND_TOKENS, self._context)
            key = view, strings, tokens
            if key not in self._rooms:
                self._rooms[key] = FixedBatch(batch, strings=strings, tokens=tokens)
            self._rooms[key].fill(batch)
            self._latest[view] = batch, key
        key = self._latest[view][1]
        return key, self._rooms[key].batch_size


class FixedBatch:
    """A batch of fixed tensors."""

    def __init__(self, like: Batch, *, strings: int, tokens: int) -> None:
        """Allocate tensors for batches like this one, with this many strings and tokens."""
        assert isinstance(like.pixels, torch.Tensor)
        device = like.pixels.device
        inputs = {
            _TOKENS: torch.zeros((strings, tokens), dtype=torch.int64, device=device),
            _ENDS: torch.zeros(strings, dtype=torch.int64, device=device),
        }
        self.batch_size = Batch(
            pixels=torch.empty(like.pixels.shape, dtype=torch.float32, device=device),
            caption_B=torch.empty_like(like.caption_B),
            negative_BK=torch.empty_like(like.negative_BK),
            positive_BP=torch.empty_like(like.positive_BP),
            groups=(CaptionGroup(torch.arange(strings), inputs),),
            place_U=torch.zeros(strings, dtype=torch.int64, device=device),
            code={name: torch.empty_like(value) for name, value in like.code.items()},
        )

    def fill(self, batch: Batch) -> None:
        """Copy another batch here, without synchronizing with the device."""
        place, inputs = self.batch_size, self.batch_size.groups[0].inputs
        assert isinstance(place.pixels, torch.Tensor)
        assert isinstance(batch.pixels, torch.Tensor)
        is_bytes = batch.pixels.dtype == torch.uint8
        place.pixels.copy_(batch.pixels)
        if is_bytes:
            # Normalize here: the encoders' lookup table needs a copy, which cannot be recorded.
            place.pixels.div_(127.5).sub_(1.0)
        end = 0
        for group in batch.groups:
            token_GL = group.inputs[_TOKENS]
            start, end = end, end + len(token_GL)
            inputs[_TOKENS][start:end, : token_GL.shape[1]].copy_(token_GL)
            inputs[_ENDS][start:end].copy_(group.inputs[_ENDS])
        place.place_U[:end].copy_(batch.place_U)
        for name in ("caption_B", "negative_BK", "positive_BP"):
            getattr(place, name).copy_(getattr(batch, name))
        for name, value in place.code.items():
            value.copy_(batch.code[name])
