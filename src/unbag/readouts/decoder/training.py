"""Training a decoder: features and facts of the data, the task, and how much it has learned.

There are two stages, as for LLaVA: first the connector alone, then connector and language model.
Nothing of a step asks the device for a number, and the features never leave it.

Dimensions: N images, L patches, V width of features, M lessons, B rows, A tokens of an answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from unbag.errors import UnbagError
from unbag.models.features import FeatureStore, stacked
from unbag.models.weights import seeded
from unbag.readouts.data import (
    PoolRow,
    WorldRows,
    held_out,
    readable_rows,
    rows_of,
    world_pool,
    world_rows,
)
from unbag.readouts.decoder.language import (
    Language,
    add_lora,
    lean,
    read_language,
    scratch_language,
)
from unbag.readouts.decoder.lessons import (
    KINDS,
    NOTHING,
    DecoderFact,
    DecoderSettings,
    Draws,
    Lessons,
    Words,
    lessons_of,
    make_lessons,
    words_asked,
    words_of,
)
from unbag.readouts.decoder.model import DecoderNet, Made, image_tokens, view_of
from unbag.runs.progress import Progress
from unbag.training.optim import OptimizerSettings, compile_layers, lr_factor
from unbag.training.recipes import Precision
from unbag.training.repair import WORLD, DataConfig, TrainingArguments
from unbag.training.trainer import Task, Trainer, autocast
from unbag.types import DualEncoder, ImageSource, IntArray

MOST_BYTES = 24 << 30
"""Of features that are kept in memory."""
_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class DecoderData:
    """All that training needs of the data."""

    seen_NLV: Tensor | None
    """Features of the images; None where none is seen."""
    facts: tuple[DecoderFact, ...]
    count: int
    """Images, those that are kept apart included."""
    about: str
    fingerprint: str

    @cached_property
    def held_out(self) -> int:
        """Images at the end that no step sees; of two opposite ones both or none."""
        return held_out(self.count, self._are_opposite)

    def _are_opposite(self, image: int, other: int) -> bool:
        """Whether captions of the two are each other's edits."""
        own, rest = ([f for f in self.facts if f.image == p] for p in (image, other))
        return any(a.caption in b.negatives and b.caption in a.negatives for a in own for b in rest)


def gather(
    encoder: DualEncoder,
    wanted: DataConfig,
    settings: DecoderSettings,
    *,
    seed: int,
    where: TrainingArguments,
    progress: Progress,
) -> DecoderData:
    """Scenes of the world, or pairs of a file; each image is encoded once."""
    if wanted.path == WORLD:
        rows = world_rows(settings.scenes, seed=seed, workers=where.workers, progress=progress)
        return of_world(encoder, rows, settings, progress=progress)
    # Neighbours are for recipes with hard images, of which there are none here.
    pairs = replace(wanted, neighbours=None).open()
    found = _of_pairs(encoder, rows_of(pairs), settings, where=where, progress=progress)
    return replace(found, about=pairs.about)


def of_world(
    encoder: DualEncoder,
    rows: Sequence[WorldRows],
    settings: DecoderSettings,
    *,
    device: str = "cpu",
    progress: Progress,
) -> DecoderData:
    """Scenes that were made before; features are kept on `device`."""
    captions = [caption for some in rows for caption in some.captions]
    negatives = [one for some in rows for one in some.negatives]
    seen_NLV = None
    if settings.sees != "nothing":
        kept = torch.float16 if settings.keeps == "float16" else torch.float32
        pool = world_pool(
            encoder, view_of(settings), rows, dtype=kept, device=device, progress=progress
        )
        seen_NLV = image_tokens(pool.image, settings)
    return DecoderData(
        seen_NLV,
        tuple(_fact(n, *both) for n, both in enumerate(zip(captions, negatives, strict=True))),
        len(captions),
        f"{len(captions):,} scenes of the built-in world",
        _digest(captions, negatives),
    )


def _of_pairs(
    encoder: DualEncoder,
    rows: Sequence[PoolRow],
    settings: DecoderSettings,
    *,
    where: TrainingArguments,
    progress: Progress,
) -> DecoderData:
    seen_NLV = None
    if settings.sees != "nothing":
        store = FeatureStore(encoder, view_of(settings), cache=where.cache, progress=progress)
        rows = readable_rows(store, rows, [], progress)
        images = {row.image.key: row.image for row in rows}
        seen_NLV = _features(store, list(images.values()), settings)
    place_of = {key: n for n, key in enumerate(dict.fromkeys(row.image.key for row in rows))}
    return DecoderData(
        seen_NLV,
        tuple(_fact(place_of[row.image.key], row.caption, row.negatives) for row in rows),
        len(place_of),
        "",
        _digest(
            [f"{row.image.key}\0{row.caption}" for row in rows], [row.negatives for row in rows]
        ),
    )


def _features(
    store: FeatureStore, images: Sequence[ImageSource], settings: DecoderSettings
) -> Tensor | None:
    """Features of the images; refused where memory cannot hold them."""
    size = store.images(images[:1]).vector_NLW.nbytes * len(images)
    if settings.sees == "patches" and size > MOST_BYTES:
        raise UnbagError(
            f"patches of {len(images):,} images take {size >> 30} gigabytes",
            expected=f"at most {MOST_BYTES >> 30}, since a decoder is trained from memory",
            hint="train on fewer images",
        )
    found = [store.images(images[at : at + _AT_ONCE]) for at in range(0, len(images), _AT_ONCE)]
    return image_tokens(stacked(found), settings)


def _fact(image: int, caption: str, negatives: Sequence[str | None]) -> DecoderFact:
    """Each negative once, without gaps and without the caption itself."""
    some = (one for one in negatives if one is not None and one != caption)
    return DecoderFact(image, caption, tuple(dict.fromkeys(some)))


def _digest(captions: Sequence[str], negatives: Sequence[Sequence[str | None]]) -> str:
    """The fingerprint of facts."""
    digest = blake2b(digest_size=12)
    for both in zip(captions, negatives, strict=True):
        digest.update(repr(both).encode())
    return f"facts-{digest.hexdigest()}"


def begin(
    material: DecoderData,
    settings: DecoderSettings,
    *,
    device: str = "cpu",
    precision: Precision = "float32",
    seed: int = 0,
    language: Language | None = None,
    inputs: Mapping[str, object] = MappingProxyType({}),
) -> Begun:
    """Tokens of all questions, first weights, and features on the device.

    `language` is that of the settings, where it was read before; it is trained in place. `inputs`
    are what else decides the weights.
    """
    every = lessons_of(material.facts, settings, seed=seed)
    if language is None and not settings.is_scratch:
        language = read_language(settings.language, asks=settings.asks)
    words: Words
    if language is None:
        texts = {text for lesson in every for text in (lesson.prompt, lesson.answer)}
        words = words_of([*texts, *words_asked()], asks=settings.asks)
    else:
        words = language.words
    first = material.count - material.held_out
    trained = [lesson for lesson in every if lesson.image < first]
    held = [lesson for lesson in every if lesson.image >= first]
    lessons = make_lessons(trained, words, context=settings.context)
    seen_NLV = material.seen_NLV
    places, width = (0, 1) if seen_NLV is None else (seen_NLV.shape[1], seen_NLV.shape[2])
    # Connector and language model before training are the same for the same seed.
    with seeded(seed):
        if language is None:
            model = scratch_language(settings, words, places=places)
        else:
            model = language.model
            if settings.lora:
                add_lora(model, settings.lora)
        net = DecoderNet(model, width=width)
    context = getattr(net.language.config, "max_position_embeddings", None)
    made = Made(net, words, settings, places, context or places + settings.context)
    if made.context < places + settings.context:
        raise UnbagError(
            f"{places} tokens of an image and {settings.context} of text",
            expected=f"at most {made.context}, the context of the language model",
            hint=f"--set context={max(1, made.context - places)}",
        )
    task = DecoderTask(
        net,
        seen_NLV,
        lessons,
        settings,
        device=device,
        precision=precision,
        seed=seed,
        inputs={**inputs, "data_fingerprint": material.fingerprint},
    )
    apart = make_lessons(held, words, context=settings.context) if held else None
    return Begun(made, task, apart)


@dataclass(frozen=True, eq=False)
class Begun:
    """A decoder with everything that is needed to train it, and to ask it afterwards."""

    made: Made
    task: DecoderTask
    held: Lessons | None
    """Questions about images that no step sees, if there are any."""


DecoderBatch: TypeAlias = tuple[IntArray | Tensor, bool]
"""Numbers of lessons, on the device where a step is recorded; and whether no image is seen."""


class DecoderTask(Task[DecoderBatch]):
    """Connector and language model on frozen features and lessons."""

    name = "decoder"

    def __init__(
        self,
        net: DecoderNet,
        seen_NLV: Tensor | None,
        lessons: Lessons,
        settings: DecoderSettings,
        *,
        device: str = "cpu",
        precision: Precision = "float32",
        seed: int = 0,
        inputs: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Moves all to the device, once; `inputs` decide the weights besides the settings."""
        self.net = self.module = net.to(device)
        self.seen_NLV = None if seen_NLV is None else seen_NLV.to(device)
        self.lessons, self.settings = lessons.to(device), settings
        self.device, self.precision, self.seed = device, precision, seed
        self.optimizer = OptimizerSettings(
            steps=settings.steps,
            learning_rate=settings.rate,
            warmup_steps=settings.warmup_steps,
            betas=(0.9, 0.98),
            weight_decay=settings.weight_decay,
            clip_norm=1.0,
        )
        self.is_recorded = device.startswith("cuda")
        # Of a real language model steps are long, and rows of one length would be mostly padding.
        self._has_static_batch = settings.is_scratch and not settings.frozen_steps
        self._inputs = inputs
        self._draws = Draws(lessons, settings.shares, batch_size=settings.batch_size, seed=seed)
        named = {n: w for n, w in net.named_parameters() if w.requires_grad}
        connector = {n: w for n, w in named.items() if n.startswith("connector.")}
        self._language = {n: w for n, w in named.items() if n not in connector}
        self._parameters = connector | self._language
        self._row_B = torch.zeros(settings.batch_size, dtype=torch.int64, device=device)
        self._ran: list[nn.Module] = []
        """Language models that steps were recorded of: a recording knows by where they lie."""

    def batch(self, step: int) -> DecoderBatch:
        """Lessons of every kind with a share; while the language model is frozen none is blind."""
        row_B, drawn = self._draws(step)
        return row_B, drawn < self.settings.blind and step >= self.settings.frozen_steps

    def loss(self, batch: DecoderBatch, step: int) -> Tensor:
        """The mean over lessons."""
        row_B, is_blind = batch
        if isinstance(row_B, Tensor):
            lessons = self.lessons.whole(row_B)
        else:
            lessons = self.lessons.batch(row_B)
        seen_NLV = None if is_blind else self.seen_NLV
        return self.net.loss(None if seen_NLV is None else seen_NLV[lessons.image_B], lessons)

    def identity(self) -> dict[str, object]:
        """Inputs and settings."""
        return {**self._inputs, "settings": self.settings}

    def parameters(self) -> dict[str, nn.Parameter]:
        """Also those that are frozen in the first stage."""
        return self._parameters

    def learning_rate(self, step: int) -> float:
        """Each stage has a rate of its own, a warmup and half a cosine to zero."""
        settings, first = self.settings, self.settings.frozen_steps
        is_first = step < first
        at, steps = (step, first) if is_first else (step - first, settings.steps - first)
        share = lr_factor(at, steps=steps, warmup_steps=min(settings.warmup_steps, steps))
        return share * (settings.connector_rate if is_first else settings.rate)

    def before_step(self, step: int) -> None:
        """Freeze the language model in the first stage."""
        for weight in self._language.values():
            weight.requires_grad_(step >= self.settings.frozen_steps)

    def static_batch(self, batch: DecoderBatch) -> tuple[Hashable, DecoderBatch] | None:
        """Steps with and without the image are recorded apart."""
        if not self._has_static_batch:
            return None
        row_B, is_blind = batch
        return is_blind, (self._row_B.copy_(torch.as_tensor(row_B)), is_blind)

    @contextmanager
    def running(self) -> Iterator[None]:
        """A small language model is computed here while its steps are recorded."""
        if not (self.is_recorded and self._has_static_batch):
            yield
            return
        with lean(self.net):
            self._ran.append(self.net.language)
            compile_layers(self.net.language.base_model.layers, device=self.device)
            yield


@torch.inference_mode()
def share_right(
    net: DecoderNet,
    seen_NLV: Tensor | None,
    lessons: Lessons,
    *,
    rows: IntArray | None = None,
    batch_size: int = 256,
    device: str = "cpu",
    precision: Precision = "float32",
) -> Fitted:
    """The share of some lessons, of all by default, that are answered right."""
    net.eval()
    every = np.arange(len(lessons)) if rows is None else rows
    # Of like length together, so that little is padded.
    every = every[np.argsort(lessons.length_M[every], kind="stable")]
    found = []
    for start in range(0, len(every), batch_size):
        some = lessons.batch(every[start : start + batch_size])
        seen_BLV = None if seen_NLV is None else seen_NLV[some.image_B]
        with autocast(device, precision):
            token_BA = net.answered(seen_BLV, some).argmax(dim=-1)
        found.append(((token_BA == some.target_BA) | (some.target_BA == NOTHING)).all(dim=1))
    right_M = torch.cat(found).cpu().numpy()
    kind_M = lessons.kind_M[every]
    by_kind = {name: float(right_M[kind_M == k].mean()) for k, name in enumerate(KINDS)
               if (kind_M == k).any()}  # fmt: skip
    return Fitted(float(right_M.mean()), MappingProxyType(by_kind), len(every))


@dataclass(frozen=True)
class Fitted:
    """Lessons that a decoder answers right: the most probable token is the right one throughout."""

    share: float
    """Of all lessons."""
    by_kind: Mapping[str, float]
    count: int


def fits(
    net: DecoderNet,
    seen_NLV: Tensor | None,
    lessons: Lessons,
    settings: DecoderSettings,
    *,
    device: str = "cpu",
    precision: Precision = "float32",
    seed: int = 0,
) -> Fitted:
    """Teach on a fixed set and ask the same again: whether the decoder can learn at all.

    A decoder that cannot fit a few thousand fixed questions says nothing about the features.
    """
    task = DecoderTask(
        net, seen_NLV, lessons, settings, device=device, precision=precision, seed=seed
    )
    Trainer(task).run()
    return share_right(net, task.seen_NLV, task.lessons, device=device, precision=precision)
