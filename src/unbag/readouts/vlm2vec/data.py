"""Data of VLM2Vec: prompts with the question of an image, and queries and targets of each step.

The question is the item's own, or one about the relation that its captions state. It names the same
things and relations whichever caption is true.

Dimensions: B images of a step, K hard negatives of a caption, T different texts of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from unbag.data.pairs import Pair, Pairs
from unbag.edits.kinds import normalised
from unbag.errors import UnbagError
from unbag.scorers.questions import BETWEEN, SAYS_PLACE, is_turned, joined_by_or, says_relation
from unbag.training.data.pairs import Draw, Orders
from unbag.training.data.world import (
    DEFAULT_PRESET,
    FindWorldTruth,
    columns_of,
    encode,
    find_preset,
    scene_texts,
)
from unbag.training.recipes import Slot
from unbag.types import ImageSource, Item
from unbag.types.items import text_of
from unbag.world.rendering import SceneImage
from unbag.world.stream import batch, split_seed, withheld
from unbag.world.vocabulary import DEFAULT, INVERSE, RELATIONS

WITH_QUESTION = "Represent the given image with the following question: {question}"
WITHOUT = "Represent the given image"
TEXT_ONLY = "Find the text that can answer the given query: {question}"
VERSION = "1"
"""Version of prompts and questions: part of a scorer's fingerprint."""
OPPOSITE: Mapping[str, str] = MappingProxyType(
    {BETWEEN[name].phrase: BETWEEN[other].phrase for name, other in INVERSE.items()}
)
_PHRASES = tuple(dict.fromkeys(relation.phrase for relation in BETWEEN.values()))
"""Relations in the order in which a question lists them."""
_KNOWN: Mapping[str, str] = MappingProxyType(
    {form: relation.phrase for form, relation in BETWEEN.items()}
    | {rare: BETWEEN[name].phrase for name, (_, rare) in RELATIONS.items()}
)
"""Relations of questions by their words in captions."""
_PLACE_PAIRS = (("left", "right"), ("top", "bottom"))
_BETWEEN = says_relation(_KNOWN)
_SEEDS = 2**31
"""First seed: `tiny:base` was trained with the lower half of the training split's seeds."""
_FORM = "vlm2vec 1"
_TRIES = 100
_EVALUATION_STEPS = 4
"""Number of steps that measure accuracy before and after training."""
_FIRST_EVALUATION_STEP = 10_000_000
"""First step of the world that is never trained on."""


@dataclass(frozen=True, eq=False)
class EmbeddingLesson:
    """The queries and targets of a step."""

    queries: tuple[tuple[ImageSource, str], ...]
    targets: tuple[str, ...]
    """Distinct texts: captions, then hard negatives."""
    own_B: Tensor
    """Target of each query, its caption."""
    masked_BT: Tensor
    """True for targets that also fit, so that they are no negatives."""


@dataclass(frozen=True)
class LessonSettings:
    """Batch size, negatives and prompts of a training."""

    batch_size: int = 64
    negatives: int = 2
    """Maximum hard negatives per caption."""
    asks: bool = True
    """Whether the prompt asks about the relation of a caption."""
    seed: int = 0

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of the prompt format and of these settings."""
        return f"{_FORM}-{self.batch_size}-{self.negatives}-{int(self.asks)}-{self.seed}"

    def prompt(self, caption: str, *, is_turned: bool) -> str:
        """Return the prompt after the image."""
        return instruction(about_caption(caption, is_turned=is_turned) if self.asks else None)


@dataclass(frozen=True, eq=False)
class WorldLessons:
    """Training steps of new scenes of the world, whose true captions are all known."""

    settings: LessonSettings

    @property
    def about(self) -> str:
        """Describe the data."""
        return f"the built-in world, preset {DEFAULT_PRESET}: fresh scenes in every step"

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of all that determines a step."""
        return f"world-{DEFAULT.name}-{self.settings.fingerprint}"

    def step(self, number: int) -> EmbeddingLesson:
        """Return scenes, captions and negatives of a step, with the captions true of each scene."""
        settings, preset = self.settings, find_preset(DEFAULT_PRESET)
        seed = split_seed("train", _SEEDS + settings.seed)
        samples = batch(DEFAULT, preset, seed=seed, step=number, size=settings.batch_size)
        withheld_pairs = withheld(DEFAULT, preset).combinations
        slots = [Slot("negatives", ("negatives",))] * settings.negatives
        columns = columns_of(slots, ())
        generators = [np.random.default_rng((seed, number, i, 1)) for i in range(len(samples))]
        descriptions = [
            scene_texts(sample, columns, rng, world=DEFAULT, withheld=withheld_pairs)
            for sample, rng in zip(samples, generators, strict=True)
        ]
        queries = []
        for sample, description, rng in zip(samples, descriptions, generators, strict=True):
            prompt = settings.prompt(description.caption.text, is_turned=bool(rng.integers(2)))
            queries.append((SceneImage(sample.scene, ""), prompt))
        negatives = [
            [None if n is None else n.text for n in description.negatives]
            for description in descriptions
        ]
        truth = FindWorldTruth()(encode([sample.scene for sample in samples], descriptions))
        return lesson(
            queries,
            [description.caption.text for description in descriptions],
            negatives,
            also_true_BB=truth.also_true_BB,
            negative_true_BBK=truth.negative_true_BBK,
        )

    def evaluation_steps(self) -> list[EmbeddingLesson]:
        """Return steps of scenes that are never trained on."""
        return [self.step(_FIRST_EVALUATION_STEP + i) for i in range(_EVALUATION_STEPS)]


@dataclass(frozen=True, eq=False)
class PairLessons:
    """Training steps of images in files, with edits of their captions."""

    pairs: Pairs
    settings: LessonSettings
    orders: Orders = field(init=False, repr=False, default_factory=Orders)

    def __post_init__(self) -> None:
        """Raise UnbagError if the pairs do not fill a batch."""
        if len(self.pairs) < self.settings.batch_size:
            raise UnbagError(
                f"{len(self.pairs):,} pairs do not fill a batch of {self.settings.batch_size:,}",
                expected="at least as many pairs as the batch size",
                hint=f"--set batch_size={len(self.pairs)}, or less",
            )

    @property
    def about(self) -> str:
        """Describe the data."""
        edits = "with hard negatives" if self._negatives else "without hard negatives"
        return f"{self.pairs.about}, {edits}"

    @property
    def fingerprint(self) -> str:
        """Return a fingerprint of all that determines a step."""
        return f"{self.pairs.fingerprint}-{self.settings.fingerprint}"

    @cached_property
    def _negatives(self) -> int:
        return self.settings.negatives if self.pairs.has_edits else 0

    def step(self, number: int) -> EmbeddingLesson:
        """Return the pairs of a step; one that cannot be opened is replaced by the next."""
        settings = self.settings
        epoch, part = divmod(number, len(self.pairs) // settings.batch_size)
        order_N = self.orders.of(self.pairs, seed=settings.seed, epoch=epoch)
        draw = Draw(settings.seed, epoch)
        places = order_N[part * settings.batch_size : (part + 1) * settings.batch_size]
        examples = [self._example(int(place), draw) for place in places]
        return lesson(*(list(column) for column in zip(*examples, strict=True)))

    def evaluation_steps(self) -> list[EmbeddingLesson]:
        """Return steps of the first epoch: pairs that were trained on."""
        count = min(_EVALUATION_STEPS, len(self.pairs) // self.settings.batch_size)
        return [self.step(i) for i in range(count)]

    def _example(
        self, place: int, draw: Draw
    ) -> tuple[tuple[ImageSource, str], str, list[str | None]]:
        pair = self._open_pair(place)
        index = draw.caption(pair)
        caption = pair.captions[index]
        is_turned = bool(draw.number(2, "turned", pair.id))
        true_texts = {normalised(text) for text in pair.captions}
        edits = pair.edits[index] if self._negatives else ()
        negatives = [
            e.text for e in edits if not e.is_positive and normalised(e.text) not in true_texts
        ]
        negatives = sorted(
            set(negatives), key=lambda text: draw.number(2**62, "negative", pair.id, text)
        )
        drawn: list[str | None] = [*negatives[: self._negatives]]
        drawn += [None] * (self._negatives - len(drawn))
        return (pair.image, self.settings.prompt(caption, is_turned=is_turned)), caption, drawn

    def _open_pair(self, place: int) -> Pair:
        for offset in range(_TRIES):
            pair = self.pairs[(place + offset) % len(self.pairs)]
            try:
                pair.image.open()
            except (OSError, ValueError) as error:
                reason = f"{pair.image.name}: {error}"
            else:
                return pair
        raise UnbagError(
            f"{_TRIES} consecutive images cannot be opened, the last is {reason}",
            expected="readable images",
            hint="check --images",
        )


def lesson(
    queries: Sequence[tuple[ImageSource, str]],
    captions: Sequence[str],
    negatives: Sequence[Sequence[str | None]],
    *,
    also_true_BB: Tensor | None = None,
    negative_true_BBK: Tensor | None = None,
) -> EmbeddingLesson:
    """Make a lesson; a text that several images share is one target, so no false negative."""
    row_of: dict[str, int] = {}
    own_rows = [row_of.setdefault(caption, len(row_of)) for caption in captions]
    negative_rows = [
        [None if t is None else row_of.setdefault(t, len(row_of)) for t in n] for n in negatives
    ]
    masked_BT = torch.zeros((len(captions), len(row_of)), dtype=torch.bool)
    if also_true_BB is not None:
        for j, row in enumerate(own_rows):
            masked_BT[:, row] |= also_true_BB[:, j]
    if negative_true_BBK is not None:
        for j, places in enumerate(negative_rows):
            for k, place in enumerate(places):
                if place is not None:
                    masked_BT[:, place] |= negative_true_BBK[:, j, k]
    return EmbeddingLesson(tuple(queries), tuple(row_of), torch.tensor(own_rows), masked_BT)


def question_of(item: Item) -> str | None:
    """Return the question about the images of an item; None if there is none."""
    if item.question is not None:
        return item.question.text
    captions = [text_of(caption) for caption in item.captions]
    return about_relation(captions, is_turned=is_turned(item.id))


def instruction(question: str | None) -> str:
    """Return the prompt after an image."""
    return WITHOUT if question is None else WITH_QUESTION.replace("{question}", question)


def text_instruction(question: str) -> str:
    """Return the prompt of a query with a question and no image."""
    return TEXT_ONLY.replace("{question}", question)


def about_relation(captions: Sequence[str], *, is_turned: bool) -> str | None:
    """Return the question about captions that state relations of the same things; None for others.

    `is_turned` decides which thing is named first if the captions differ in that.
    """
    parsed = [parse_relation(caption) for caption in captions]
    statements = [statement for statement in parsed if statement is not None]
    if (
        not statements
        or len(statements) < len(parsed)
        or len({statement.things for statement in statements}) > 1
    ):
        return None
    if not statements[0].second:
        return _about_place(statements)
    firsts = sorted({statement.first for statement in statements})
    first = firsts[-1 if is_turned else 0]
    (second,) = statements[0].things - {first} or {first}
    phrases = {statement.seen_from(first) for statement in statements}
    if len(phrases) == 1:
        phrases |= {OPPOSITE[relation] for relation in phrases}
    return f"Is the {first} {joined_by_or([p for p in _PHRASES if p in phrases])} the {second}?"


def about_caption(caption: str, *, is_turned: bool) -> str | None:
    """Return the question that a caption answers; `is_turned` names its second thing first."""
    statement = parse_relation(caption)
    if statement is None or not statement.second:
        return None if statement is None else _about_place([statement])
    first, second = (
        (statement.second, statement.first) if is_turned else (statement.first, statement.second)
    )
    pair = {statement.seen_from(first), OPPOSITE[statement.seen_from(first)]}
    return f"Is the {first} {joined_by_or([p for p in _PHRASES if p in pair])} the {second}?"


@dataclass(frozen=True)
class StatedRelation:
    """The relation of two things, or the place of one thing, that a caption states."""

    first: str
    relation: str
    second: str = ""

    @property
    def things(self) -> frozenset[str]:
        """Return the things as a set."""
        return frozenset({self.first, self.second})

    def seen_from(self, first: str) -> str:
        """Return the relation if this thing is named first."""
        return self.relation if first == self.first else OPPOSITE[self.relation]


def parse_relation(caption: str) -> StatedRelation | None:
    """Parse a caption such as "a cup left of a plate" or "a cup on the left"; None for others."""
    place = SAYS_PLACE.fullmatch(caption.strip())
    if place:
        return StatedRelation(place["first"].lower(), place["relation"].lower())
    match = _BETWEEN.fullmatch(caption.strip())
    if not match:
        return None
    return StatedRelation(
        match["first"].lower(), _KNOWN[match["relation"].lower()], match["second"].lower()
    )


def _about_place(statements: Sequence[StatedRelation]) -> str:
    relations = {statement.relation for statement in statements}
    places = [place for pair in _PLACE_PAIRS if relations & set(pair) for place in pair]
    return f"Is the {statements[0].first} {joined_by_or([f'on the {place}' for place in places])}?"
