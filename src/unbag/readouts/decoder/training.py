"""Teaching a decoder: features and facts of the data, the steps, and how much it has learned.

There are two stages, as for LLaVA: first the connector alone, then connector and language model.
Nothing of a step asks the device for a number, and the features never leave it.

Dimensions: N pictures, L patches, V width of features, M lessons, B rows, A tokens of an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unbag.errors import UserError
from unbag.models.features import FeatureStore, stacked
from unbag.models.weights import seeded
from unbag.readouts.data import PoolRow, WorldRows, rows_of, world_pool, world_rows
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
    LessonBatch,
    Lessons,
    Words,
    lessons_of,
    make_lessons,
    words_asked,
    words_of,
)
from unbag.readouts.decoder.model import DecoderNet, Made, picture_tokens, view_of
from unbag.runs.checkpoint import load_optimizer_state, optimizer_state
from unbag.runs.progress import Progress
from unbag.training.data.loader import left_out_lines
from unbag.training.optim import Recorded, compile_layers, decay_groups, lr_factor, set_lr
from unbag.training.recipes import Precision
from unbag.training.repair import WORLD, Wanted, Where
from unbag.types import DualEncoder, IntArray, Picture

HELD, MOST_HELD = 0.1, 2_000
"""Share of the pictures that no step sees, and the most of them."""
MOST_BYTES = 24 << 30
"""Of features that are kept in memory."""
_AT_ONCE = 512
_LOOK = 50
"""Steps after which the loss is read: asking a GPU for a number makes it wait."""
_CLIP = 1.0
"""Longest gradient."""


@dataclass(frozen=True, eq=False)
class DecoderData:
    """All that training needs of the data."""

    seen_NLV: Tensor | None
    """Features of the pictures; None where none is seen."""
    facts: tuple[DecoderFact, ...]
    count: int
    """Pictures, those that are kept apart included."""
    about: str
    fingerprint: str

    @property
    def held(self) -> int:
        """Pictures at the end that no step sees; of two opposite ones both or none."""
        first = self.count - min(MOST_HELD, int(HELD * self.count))
        while 0 < first < self.count and self._are_opposite(first - 1, first):
            first += 1
        return self.count - first

    def _are_opposite(self, picture: int, other: int) -> bool:
        """Whether captions of the two are each other's edits."""
        own, rest = ([f for f in self.facts if f.picture == p] for p in (picture, other))
        return any(a.caption in b.negatives and b.caption in a.negatives for a in own for b in rest)


def gather(
    encoder: DualEncoder,
    wanted: Wanted,
    settings: DecoderSettings,
    *,
    seed: int,
    where: Where,
    progress: Progress,
) -> DecoderData:
    """Scenes of the world, or pairs of a file; each picture is encoded once."""
    if wanted.path == WORLD:
        rows = world_rows(settings.scenes, seed=seed, workers=where.workers, progress=progress)
        return of_world(encoder, rows, settings, progress=progress)
    # Neighbours are for recipes with hard pictures, of which there are none here.
    pairs = replace(wanted, neighbours=None).opened()
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
        seen_NLV = picture_tokens(pool.picture, settings)
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
    where: Where,
    progress: Progress,
) -> DecoderData:
    pictures = {row.picture.key: row.picture for row in rows}
    seen_NLV, damaged = None, frozenset[str]()
    if settings.sees != "nothing":
        store = FeatureStore(encoder, view_of(settings), cache=where.cache, progress=progress)
        store.precompute(list(pictures.values()), [])
        damaged = frozenset(store.damaged)
        for line in left_out_lines({pictures[k].name: why for k, why in store.damaged.items()}):
            progress.say(line)
        pictures = {key: one for key, one in pictures.items() if key not in damaged}
        if not pictures:
            raise UserError("no picture can be opened", expected="at least one, to train on")
        seen_NLV = _features(store, list(pictures.values()), settings)
    place_of = {key: n for n, key in enumerate(pictures)}
    whole = [row for row in rows if row.picture.key not in damaged]
    return DecoderData(
        seen_NLV,
        tuple(_fact(place_of[row.picture.key], row.caption, row.negatives) for row in whole),
        len(pictures),
        "",
        _digest([f"{row.picture.key}\0{row.caption}" for row in whole],
                [row.negatives for row in whole]),
    )  # fmt: skip


def _features(
    store: FeatureStore, pictures: Sequence[Picture], settings: DecoderSettings
) -> Tensor | None:
    """Features of the pictures; refused where memory cannot hold them."""
    size = store.images(pictures[:1]).vector_NLW.nbytes * len(pictures)
    if settings.sees == "patches" and size > MOST_BYTES:
        raise UserError(
            f"patches of {len(pictures):,} pictures take {size >> 30} gigabytes",
            expected=f"at most {MOST_BYTES >> 30}, since a decoder is trained from memory",
            way_out="train on fewer pictures",
        )
    found = [store.images(pictures[at : at + _AT_ONCE]) for at in range(0, len(pictures), _AT_ONCE)]
    return picture_tokens(stacked(found), settings)


def _fact(picture: int, caption: str, negatives: Sequence[str | None]) -> DecoderFact:
    """Each negative once, without gaps and without the caption itself."""
    some = (one for one in negatives if one is not None and one != caption)
    return DecoderFact(picture, caption, tuple(dict.fromkeys(some)))


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
) -> Begun:
    """Tokens of all questions, first weights, and features on the device.

    `language` is that of the settings, where it was read before; it is changed by teaching.
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
    first = material.count - material.held
    trained = [lesson for lesson in every if lesson.picture < first]
    held = [lesson for lesson in every if lesson.picture >= first]
    lessons = make_lessons(trained, words, context=settings.context)
    seen_NLV = material.seen_NLV
    places, width = (0, 1) if seen_NLV is None else (seen_NLV.shape[1], seen_NLV.shape[2])
    net = _net(settings, words, language, places=places, width=width, seed=seed)
    context = getattr(net.language.config, "max_position_embeddings", None)
    made = Made(net, words, settings, places, context or places + settings.context)
    if made.context < places + settings.context:
        raise UserError(
            f"{places} tokens of a picture and {settings.context} of text",
            expected=f"at most {made.context}, the context of the language model",
            way_out=f"--set context={max(1, made.context - places)}",
        )
    teaching = Teaching(
        net, seen_NLV, lessons, settings, device=device, precision=precision, seed=seed
    )
    apart = make_lessons(held, words, context=settings.context) if held else None
    return Begun(made, teaching, apart)


@dataclass(frozen=True, eq=False)
class Begun:
    """A decoder with everything that is needed to teach it, and to ask it afterwards."""

    made: Made
    teaching: Teaching
    held: Lessons | None
    """Questions about pictures that no step sees, if there are any."""


def _net(
    settings: DecoderSettings,
    words: Words,
    language: Language | None,
    *,
    places: int,
    width: int,
    seed: int,
) -> DecoderNet:
    """Connector and language model before training, the same for the same seed."""
    with seeded(seed):
        if language is None:
            return DecoderNet(scratch_language(settings, words, places=places), width=width)
        if settings.lora:
            add_lora(language.model, settings.lora)
        return DecoderNet(language.model, width=width)


class Teaching:
    """A decoder in training. A step depends on (features, lessons, settings, seed, step) alone."""

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
    ) -> None:
        """Moves all to the device, once."""
        self.net = net.to(device)
        self.seen_NLV = None if seen_NLV is None else seen_NLV.to(device)
        self.lessons, self.settings = lessons.to(device), settings
        self.device, self.precision = device, precision
        self.draws = Draws(lessons, settings.shares, batch=settings.batch, seed=seed)
        connector = {n: w for n, w in net.named_parameters() if n.startswith("connector.")}
        self._language = {
            n: w
            for n, w in net.named_parameters()
            if not n.startswith("connector.") and w.requires_grad
        }
        self.weights = connector | self._language
        """All that training may change, by name."""
        is_cuda = device.startswith("cuda")
        rate = settings.rate
        self.optimiser = torch.optim.AdamW(
            decay_groups(self.weights, settings.weight_decay),
            lr=torch.tensor(rate, device=device) if is_cuda else rate,
            betas=(0.9, 0.98),
            fused=is_cuda,
            capturable=is_cuda,
        )
        # Of a real language model steps are long, and rows of one length would be mostly padding.
        self._is_recorded = is_cuda and settings.is_scratch and not settings.locked_steps
        self._recorded: dict[bool, Recorded] = {}
        self._ran: list[Any] = []
        """Language models that steps were recorded of: a recording knows by where they lie."""
        self._row_B = torch.zeros(settings.batch, dtype=torch.int64, device=device)
        self.step = 0
        """Steps that were taken."""

    def take_step(self) -> Tensor:
        """One more; gives the loss, on the device."""
        rate, is_first = self._rate()
        for weight in self._language.values():
            weight.requires_grad_(not is_first)
        set_lr(self.optimiser, rate)
        row_B, drawn = self.draws(self.step)
        is_blind = drawn < self.settings.blind and not is_first
        self.net.train()
        if self._is_recorded and len(row_B) == len(self._row_B):
            loss = self._replayed(row_B, is_blind=is_blind)
        else:
            loss = self._learn(self.lessons.batch(row_B), is_blind=is_blind)
        self.step += 1
        return loss

    def _replayed(self, row_B: IntArray, *, is_blind: bool) -> Tensor:
        """A step as it was recorded; with and without the picture are recorded apart."""
        self._row_B.copy_(torch.from_numpy(row_B))
        if is_blind not in self._recorded:
            self._recorded[is_blind] = Recorded(
                lambda: {"loss": self._learn(self.lessons.whole(self._row_B), is_blind=is_blind)},
                self.optimiser,
                device=self.device,
            )
        return self._recorded[is_blind]()["loss"]

    def _learn(self, batch: LessonBatch, *, is_blind: bool) -> Tensor:
        seen_NLV = None if is_blind else self.seen_NLV
        with autocast(self.device, self.precision):
            loss = self.net.loss(None if seen_NLV is None else seen_NLV[batch.picture_B], batch)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.weights.values(), _CLIP)
        self.optimiser.step()
        return loss.detach()

    def run(self, on_step: Callable[[Taught], bool] | None = None) -> None:
        """To the last step, or until `on_step` says True: somebody stopped it."""
        if not self._is_recorded:
            self._run(on_step)
            return
        with lean(self.net):
            self._ran.append(self.net.language)
            compile_layers(self.net.language.base_model.layers, device=self.device)
            self._run(on_step)

    def _run(self, on_step: Callable[[Taught], bool] | None) -> None:
        steps = self.settings.steps
        while self.step < steps:
            loss = self.take_step()
            is_read = self.step % _LOOK == 0 or self.step == steps
            value = float(loss) if is_read else None
            if value is not None and not np.isfinite(value):
                raise UserError(
                    f"the loss of the decoder became {value} at step {self.step}",
                    expected="a finite number",
                    way_out=f"a smaller rate: --set learning_rate={self.settings.rate / 10:g}",
                )
            if on_step is not None and on_step(Taught(self.step, value)):
                break
        self.net.eval()

    def moments(self) -> dict[str, Tensor]:
        """What the optimiser keeps, by weight and name."""
        return optimizer_state(self.weights, self.optimiser)

    def restore(
        self, state: Mapping[str, Tensor], moments: Mapping[str, Tensor], step: int
    ) -> None:
        """Put weights and moments back where they were after a step."""
        self.net.load_state_dict(dict(state))
        # It knows moments by where they lay.
        self._recorded.clear()
        load_optimizer_state(self.weights, self.optimiser, moments)
        self.step = step

    def _rate(self) -> tuple[float, bool]:
        """The rate of this step, and whether the language model is locked."""
        settings, first = self.settings, self.settings.locked_steps
        is_first = self.step < first
        step, steps = (
            (self.step, first) if is_first else (self.step - first, settings.steps - first)
        )
        share = lr_factor(step, steps=steps, warmup_steps=min(settings.warm_up, steps))
        return share * (settings.connector_rate if is_first else settings.rate), is_first


@dataclass(frozen=True)
class Taught:
    """A step of teaching that was taken."""

    step: int
    loss: float | None
    """None where it was not read."""


def autocast(device: str, precision: Precision) -> AbstractContextManager[Any]:
    """Products in bfloat16, where asked for."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.partition(":")[0], dtype=torch.bfloat16)


@torch.inference_mode()
def share_right(
    net: DecoderNet,
    seen_NLV: Tensor | None,
    lessons: Lessons,
    *,
    rows: IntArray | None = None,
    batch: int = 256,
    device: str = "cpu",
    precision: Precision = "float32",
) -> Fitted:
    """The share of some lessons, of all by default, that are answered right."""
    net.eval()
    every = np.arange(len(lessons)) if rows is None else rows
    # Of like length together, so that little is padded.
    every = every[np.argsort(lessons.length_M[every], kind="stable")]
    found = []
    for start in range(0, len(every), batch):
        some = lessons.batch(every[start : start + batch])
        seen_BLV = None if seen_NLV is None else seen_NLV[some.picture_B]
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
    teaching = Teaching(
        net, seen_NLV, lessons, settings, device=device, precision=precision, seed=seed
    )
    teaching.run()
    return share_right(net, teaching.seen_NLV, teaching.lessons, device=device, precision=precision)
