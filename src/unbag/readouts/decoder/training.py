"""Training of decoders: data, training task, and accuracy.

There are two stages, as for LLaVA: first the connector alone, then connector and language model.
A step never waits for the device, and features stay on it.

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
    Lessons,
    LessonSampler,
    Words,
    lessons_of,
    make_lessons,
    prompt_texts,
    words_of,
)
from unbag.readouts.decoder.model import DecoderNet, DecoderParts, image_tokens, view_of
from unbag.runs.progress import Progress
from unbag.training.optim import OptimizerSettings, compile_layers, lr_factor
from unbag.training.recipes import Precision
from unbag.training.repair import WORLD, DataConfig, TrainingArguments
from unbag.training.trainer import Task, Trainer, autocast
from unbag.types import DualEncoder, ImageSource, IntArray

MOST_BYTES = 24 << 30
"""Maximum size of the features in memory."""
_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class DecoderData:
    """The training data of a decoder."""

    seen_NLV: Tensor | None
    """Features of the images; None if images are not seen."""
    facts: tuple[DecoderFact, ...]
    count: int
    """Number of images, held-out ones included."""
    about: str
    fingerprint: str

    @cached_property
    def held_out(self) -> int:
        """Return the number of held-out images at the end, without splitting opposite pairs."""
        return held_out(self.count, self._are_opposite)

    def _are_opposite(self, image: int, other: int) -> bool:
        """Return whether captions of two images are edits of each other."""
        own_facts, other_facts = (
            [fact for fact in self.facts if fact.image == index] for index in (image, other)
        )
        return any(
            a.caption in b.negatives and b.caption in a.negatives
            for a in own_facts
            for b in other_facts
        )


def load_data(
    encoder: DualEncoder,
    data_config: DataConfig,
    settings: DecoderSettings,
    *,
    seed: int,
    arguments: TrainingArguments,
    progress: Progress,
) -> DecoderData:
    """Load scenes of the world or pairs of a file, and encode each image once."""
    if data_config.path == WORLD:
        rows = world_rows(settings.scenes, seed=seed, workers=arguments.workers, progress=progress)
        return of_world(encoder, rows, settings, progress=progress)
    # Neighbours are for recipes with hard images, which decoders do not use.
    pairs = replace(data_config, neighbours=None).open()
    data = _of_pairs(encoder, rows_of(pairs), settings, arguments=arguments, progress=progress)
    return replace(data, about=pairs.about)


def of_world(
    encoder: DualEncoder,
    rows: Sequence[WorldRows],
    settings: DecoderSettings,
    *,
    device: str = "cpu",
    progress: Progress,
) -> DecoderData:
    """Return the data of scenes, with features on `device`."""
    captions = [caption for block in rows for caption in block.captions]
    negatives = [row for block in rows for row in block.negatives]
    seen_NLV = None
    if settings.sees != "nothing":
        dtype = torch.float16 if settings.keeps == "float16" else torch.float32
        pool = world_pool(
            encoder, view_of(settings), rows, dtype=dtype, device=device, progress=progress
        )
        seen_NLV = image_tokens(pool.image, settings)
    return DecoderData(
        seen_NLV,
        tuple(
            _fact(i, *caption_and_negatives)
            for i, caption_and_negatives in enumerate(zip(captions, negatives, strict=True))
        ),
        len(captions),
        f"{len(captions):,} scenes of the built-in world",
        _digest(captions, negatives),
    )


def _of_pairs(
    encoder: DualEncoder,
    rows: Sequence[PoolRow],
    settings: DecoderSettings,
    *,
    arguments: TrainingArguments,
    progress: Progress,
) -> DecoderData:
    seen_NLV = None
    if settings.sees != "nothing":
        store = FeatureStore(encoder, view_of(settings), cache=arguments.cache, progress=progress)
        rows = readable_rows(store, rows, [], progress)
        images = {row.image.key: row.image for row in rows}
        seen_NLV = _features(store, list(images.values()), settings)
    index_of = {key: i for i, key in enumerate(dict.fromkeys(row.image.key for row in rows))}
    return DecoderData(
        seen_NLV,
        tuple(_fact(index_of[row.image.key], row.caption, row.negatives) for row in rows),
        len(index_of),
        "",
        _digest(
            [f"{row.image.key}\0{row.caption}" for row in rows], [row.negatives for row in rows]
        ),
    )


def _features(
    store: FeatureStore, images: Sequence[ImageSource], settings: DecoderSettings
) -> Tensor | None:
    """Return features of the images; raise UnbagError if memory cannot hold them."""
    size = store.images(images[:1]).vector_NLW.nbytes * len(images)
    if settings.sees == "patches" and size > MOST_BYTES:
        raise UnbagError(
            f"patches of {len(images):,} images take {size >> 30} gigabytes",
            expected=f"at most {MOST_BYTES >> 30}, since a decoder is trained from memory",
            hint="train on fewer images",
        )
    blocks = [
        store.images(images[start : start + _AT_ONCE]) for start in range(0, len(images), _AT_ONCE)
    ]
    return image_tokens(stacked(blocks), settings)


def _fact(image: int, caption: str, negatives: Sequence[str | None]) -> DecoderFact:
    """Return a fact with distinct negatives, without gaps and without the caption itself."""
    others = (negative for negative in negatives if negative is not None and negative != caption)
    return DecoderFact(image, caption, tuple(dict.fromkeys(others)))


def _digest(captions: Sequence[str], negatives: Sequence[Sequence[str | None]]) -> str:
    """Return the fingerprint of facts."""
    digest = blake2b(digest_size=12)
    for caption_and_negatives in zip(captions, negatives, strict=True):
        digest.update(repr(caption_and_negatives).encode())
    return f"facts-{digest.hexdigest()}"


def prepare_training(
    data: DecoderData,
    settings: DecoderSettings,
    *,
    device: str = "cpu",
    precision: Precision = "float32",
    seed: int = 0,
    language: Language | None = None,
    inputs: Mapping[str, object] = MappingProxyType({}),
) -> PreparedTraining:
    """Tokenise all questions, initialise weights and move features to the device.

    `language` is the language model of the settings, if it is already loaded; it is trained in
    place. `inputs` is all else that determines the weights.
    """
    all_lessons = lessons_of(data.facts, settings, seed=seed)
    if language is None and not settings.is_scratch:
        language = read_language(settings.language, asks=settings.asks)
    words: Words
    if language is None:
        texts = {text for lesson in all_lessons for text in (lesson.prompt, lesson.answer)}
        words = words_of([*texts, *prompt_texts()], asks=settings.asks)
    else:
        words = language.words
    train_images = data.count - data.held_out
    train_lessons = [lesson for lesson in all_lessons if lesson.image < train_images]
    held_out_lessons = [lesson for lesson in all_lessons if lesson.image >= train_images]
    lessons = make_lessons(train_lessons, words, context=settings.context)
    seen_NLV = data.seen_NLV
    places, width = (0, 1) if seen_NLV is None else (seen_NLV.shape[1], seen_NLV.shape[2])
    # Initial weights of connector and language model depend on the seed alone.
    with seeded(seed):
        if language is None:
            model = scratch_language(settings, words, places=places)
        else:
            model = language.model
            if settings.lora:
                add_lora(model, settings.lora)
        net = DecoderNet(model, width=width)
    context = getattr(net.language.config, "max_position_embeddings", None)
    parts = DecoderParts(net, words, settings, places, context or places + settings.context)
    if parts.context < places + settings.context:
        raise UnbagError(
            f"{places} tokens of an image and {settings.context} of text",
            expected=f"at most {parts.context}, the context of the language model",
            hint=f"--set context={max(1, parts.context - places)}",
        )
    task = DecoderTask(
        net,
        seen_NLV,
        lessons,
        settings,
        device=device,
        precision=precision,
        seed=seed,
        inputs={**inputs, "data_fingerprint": data.fingerprint},
    )
    held_out = (
        make_lessons(held_out_lessons, words, context=settings.context)
        if held_out_lessons
        else None
    )
    return PreparedTraining(parts, task, held_out)


@dataclass(frozen=True, eq=False)
class PreparedTraining:
    """A decoder before training, with its task and held-out questions."""

    made: DecoderParts
    task: DecoderTask
    held: Lessons | None
    """Questions about held-out images, if there are any."""


DecoderBatch: TypeAlias = tuple[IntArray | Tensor, bool]
"""Indices of lessons, on the device if steps are recorded; and whether the image is omitted."""


class DecoderTask(Task[DecoderBatch]):
    """Training connector and language model on frozen features and lessons."""

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
        """Move everything to the device; `inputs` is all else that determines the weights."""
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
        # Steps of a pretrained language model are long, and fixed lengths would be mostly padding.
        self._has_static_batch = settings.is_scratch and not settings.frozen_steps
        self._inputs = inputs
        self._sampler = LessonSampler(
            lessons, settings.shares, batch_size=settings.batch_size, seed=seed
        )
        trainable = {
            name: weight for name, weight in net.named_parameters() if weight.requires_grad
        }
        connector = {
            name: weight for name, weight in trainable.items() if name.startswith("connector.")
        }
        self._language = {
            name: weight for name, weight in trainable.items() if name not in connector
        }
        self._parameters = connector | self._language
        self._row_B = torch.zeros(settings.batch_size, dtype=torch.int64, device=device)
        self._recorded_models: list[nn.Module] = []
        """Language models of recorded steps, kept because a recording refers to their memory."""

    def batch(self, step: int) -> DecoderBatch:
        """Return lessons of all kinds; none is blind while the language model is frozen."""
        row_B, drawn = self._sampler(step)
        return row_B, drawn < self.settings.blind and step >= self.settings.frozen_steps

    def loss(self, batch: DecoderBatch, step: int) -> Tensor:
        """Return the mean loss over lessons."""
        row_B, is_blind = batch
        if isinstance(row_B, Tensor):
            lessons = self.lessons.whole(row_B)
        else:
            lessons = self.lessons.batch(row_B)
        seen_NLV = None if is_blind else self.seen_NLV
        return self.net.loss(None if seen_NLV is None else seen_NLV[lessons.image_B], lessons)

    def identity(self) -> dict[str, object]:
        """Return inputs and settings."""
        return {**self._inputs, "settings": self.settings}

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return all trained weights, also those frozen in the first stage."""
        return self._parameters

    def learning_rate(self, step: int) -> float:
        """Return the learning rate: each stage has its own, with warmup and a cosine to zero."""
        settings, first_steps = self.settings, self.settings.frozen_steps
        is_first = step < first_steps
        stage_step, steps = (
            (step, first_steps) if is_first else (step - first_steps, settings.steps - first_steps)
        )
        factor = lr_factor(stage_step, steps=steps, warmup_steps=min(settings.warmup_steps, steps))
        return factor * (settings.connector_rate if is_first else settings.rate)

    def before_step(self, step: int) -> None:
        """Freeze the language model in the first stage."""
        for weight in self._language.values():
            weight.requires_grad_(step >= self.settings.frozen_steps)

    def static_batch(self, batch: DecoderBatch) -> tuple[Hashable, DecoderBatch] | None:
        """Copy the batch to a fixed tensor; steps with and without image are recorded apart."""
        if not self._has_static_batch:
            return None
        row_B, is_blind = batch
        return is_blind, (self._row_B.copy_(torch.as_tensor(row_B)), is_blind)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run a small language model without transformers while its steps are recorded."""
        if not (self.is_recorded and self._has_static_batch):
            yield
            return
        with lean(self.net):
            self._recorded_models.append(self.net.language)
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
) -> AnswerAccuracy:
    """Return the share of lessons that are answered right, for all or for some rows."""
    net.eval()
    order_M = np.arange(len(lessons)) if rows is None else rows
    # Sorted by length, so that little is padded.
    order_M = order_M[np.argsort(lessons.length_M[order_M], kind="stable")]
    results = []
    for start in range(0, len(order_M), batch_size):
        batch = lessons.batch(order_M[start : start + batch_size])
        seen_BLV = None if seen_NLV is None else seen_NLV[batch.image_B]
        with autocast(device, precision):
            token_BA = net.answered(seen_BLV, batch).argmax(dim=-1)
        results.append(((token_BA == batch.target_BA) | (batch.target_BA == NOTHING)).all(dim=1))
    right_M = torch.cat(results).cpu().numpy()
    kind_M = lessons.kind_M[order_M]
    by_kind = {name: float(right_M[kind_M == k].mean()) for k, name in enumerate(KINDS)
               if (kind_M == k).any()}  # fmt: skip
    return AnswerAccuracy(float(right_M.mean()), MappingProxyType(by_kind), len(order_M))


@dataclass(frozen=True)
class AnswerAccuracy:
    """Accuracy on lessons: the most probable token is right at every position of the answer."""

    share: float
    """Accuracy on all lessons."""
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
) -> AnswerAccuracy:
    """Train on a fixed set and return the accuracy on it, to see if the decoder can learn at all.

    A decoder that cannot fit a few thousand fixed questions says nothing about the features.
    """
    task = DecoderTask(
        net, seen_NLV, lessons, settings, device=device, precision=precision, seed=seed
    )
    Trainer(task).run()
    return share_right(net, task.seen_NLV, task.lessons, device=device, precision=precision)
