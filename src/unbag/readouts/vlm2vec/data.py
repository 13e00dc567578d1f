"""What VLM2Vec is shown: the question behind an image, and the queries and targets of a step.

The question is the item's own, or one about the relation that its captions state. It names the same
things and the same relations whichever caption is true.

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
"""Of these prompts and of how questions are made: part of a scorer's fingerprint."""
OPPOSITE: Mapping[str, str] = MappingProxyType(
    {BETWEEN[name].phrase: BETWEEN[other].phrase for name, other in INVERSE.items()}
)
_PHRASES = tuple(dict.fromkeys(relation.phrase for relation in BETWEEN.values()))
"""The order in which a question lists them."""
_KNOWN: Mapping[str, str] = MappingProxyType(
    {form: relation.phrase for form, relation in BETWEEN.items()}
    | {rare: BETWEEN[name].phrase for name, (_, rare) in RELATIONS.items()}
)
"""Relations as captions write them, and as a question does."""
_PLACE_PAIRS = (("left", "right"), ("top", "bottom"))
_BETWEEN = says_relation(_KNOWN)
_SEEDS = 2**31
"""Half of the seeds of the training split; those of `tiny:base` are in the other."""
_FORM = "vlm2vec 1"
_TRIES = 100
_MEASURED = 4
"""Steps' worth of pairs on which before and after are measured."""
_FRESH = 10_000_000
"""Steps of the world from here on are never trained on."""


@dataclass(frozen=True, eq=False)
class EmbeddingLesson:
    """What one step is shown."""

    queries: tuple[tuple[ImageSource, str], ...]
    targets: tuple[str, ...]
    """Each text once: captions, then the hard negatives that say something else."""
    own_B: Tensor
    """Which of the targets is the caption of each query."""
    masked_BT: Tensor
    """True for targets that also fit, so that they are no negatives."""


@dataclass(frozen=True)
class Showing:
    """How pairs are shown."""

    batch_size: int = 64
    negatives: int = 2
    """Most hard negatives of a caption."""
    asks: bool = True
    """Whether a caption that states a relation is asked about."""
    seed: int = 0

    @property
    def fingerprint(self) -> str:
        """Of the form of prompts and of these settings."""
        return f"{_FORM}-{self.batch_size}-{self.negatives}-{int(self.asks)}-{self.seed}"

    def prompt(self, caption: str, *, is_turned: bool) -> str:
        """What stands behind the image."""
        return instruction(about_caption(caption, is_turned=is_turned) if self.asks else None)


@dataclass(frozen=True, eq=False)
class WorldLessons:
    """Fresh scenes, of which every true caption is known."""

    showing: Showing

    @property
    def about(self) -> str:
        """The data, for people."""
        return f"the built-in world, preset {DEFAULT_PRESET}: fresh scenes in every step"

    @property
    def fingerprint(self) -> str:
        """Of all that decides a step."""
        return f"world-{DEFAULT.name}-{self.showing.fingerprint}"

    def step(self, number: int) -> EmbeddingLesson:
        """Scenes, captions and their negatives, with what holds in which scene; steps from 0."""
        showing, knobs = self.showing, find_preset(DEFAULT_PRESET)
        seed = split_seed("train", _SEEDS + showing.seed)
        samples = batch(DEFAULT, knobs, seed=seed, step=number, size=showing.batch_size)
        never = withheld(DEFAULT, knobs).combinations
        slots = [Slot("negatives", ("negatives",))] * showing.negatives
        columns = columns_of(slots, ())
        dice = [np.random.default_rng((seed, number, at, 1)) for at in range(len(samples))]
        told = [
            scene_texts(sample, columns, rng, world=DEFAULT, withheld=never)
            for sample, rng in zip(samples, dice, strict=True)
        ]
        queries = []
        for sample, one, rng in zip(samples, told, dice, strict=True):
            prompt = showing.prompt(one.caption.text, is_turned=bool(rng.integers(2)))
            queries.append((SceneImage(sample.scene, ""), prompt))
        negatives = [[None if n is None else n.text for n in one.negatives] for one in told]
        truth = FindWorldTruth()(encode([sample.scene for sample in samples], told))
        return lesson(
            queries,
            [one.caption.text for one in told],
            negatives,
            also_true_BB=truth.also_true_BB,
            negative_true_BBK=truth.negative_true_BBK,
        )

    def measured(self) -> list[EmbeddingLesson]:
        """Scenes that no step of training has."""
        return [self.step(_FRESH + at) for at in range(_MEASURED)]


@dataclass(frozen=True, eq=False)
class PairLessons:
    """Images of files, with the edits that were made of their captions."""

    pairs: Pairs
    showing: Showing
    orders: Orders = field(init=False, repr=False, default_factory=Orders)

    def __post_init__(self) -> None:
        """Raises UnbagError if there is no whole step."""
        if len(self.pairs) < self.showing.batch_size:
            raise UnbagError(
                f"{len(self.pairs):,} pairs make no batch of {self.showing.batch_size:,}",
                expected="at least as many pairs as a batch has",
                hint=f"--set batch_size={len(self.pairs)}, or fewer",
            )

    @property
    def about(self) -> str:
        """The data, for people."""
        edits = "with hard negatives" if self._negatives else "without hard negatives"
        return f"{self.pairs.about}, {edits}"

    @property
    def fingerprint(self) -> str:
        """Of all that decides a step."""
        return f"{self.pairs.fingerprint}-{self.showing.fingerprint}"

    @cached_property
    def _negatives(self) -> int:
        return self.showing.negatives if self.pairs.has_edits else 0

    def step(self, number: int) -> EmbeddingLesson:
        """Pairs in the order of their epoch; one that cannot be opened is replaced by the next."""
        showing = self.showing
        epoch, part = divmod(number, len(self.pairs) // showing.batch_size)
        order_N = self.orders.of(self.pairs, seed=showing.seed, epoch=epoch)
        draw = Draw(showing.seed, epoch)
        places = order_N[part * showing.batch_size : (part + 1) * showing.batch_size]
        shown = [self._shown(int(place), draw) for place in places]
        return lesson(*(list(column) for column in zip(*shown, strict=True)))

    def measured(self) -> list[EmbeddingLesson]:
        """Of the first epoch: pairs that were trained on."""
        count = min(_MEASURED, len(self.pairs) // self.showing.batch_size)
        return [self.step(at) for at in range(count)]

    def _shown(
        self, place: int, draw: Draw
    ) -> tuple[tuple[ImageSource, str], str, list[str | None]]:
        pair = self._opened(place)
        at = draw.caption(pair)
        caption = pair.captions[at]
        is_turned = bool(draw.number(2, "turned", pair.id))
        true = {normalised(one) for one in pair.captions}
        edits = pair.edits[at] if self._negatives else ()
        false = [e.text for e in edits if not e.is_positive and normalised(e.text) not in true]
        false = sorted(set(false), key=lambda text: draw.number(2**62, "negative", pair.id, text))
        drawn: list[str | None] = [*false[: self._negatives]]
        drawn += [None] * (self._negatives - len(drawn))
        return (pair.image, self.showing.prompt(caption, is_turned=is_turned)), caption, drawn

    def _opened(self, place: int) -> Pair:
        for tried in range(_TRIES):
            pair = self.pairs[(place + tried) % len(self.pairs)]
            try:
                pair.image.open()
            except (OSError, ValueError) as error:
                why = f"{pair.image.name}: {error}"
            else:
                return pair
        raise UnbagError(
            f"{_TRIES} pictures one after the other cannot be opened, the last {why}",
            expected="images",
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
    """Number the texts; one that several images share is one target, so no false negative."""
    row: dict[str, int] = {}
    own = [row.setdefault(caption, len(row)) for caption in captions]
    further = [[None if t is None else row.setdefault(t, len(row)) for t in n] for n in negatives]
    masked_BT = torch.zeros((len(captions), len(row)), dtype=torch.bool)
    if also_true_BB is not None:
        for j, at in enumerate(own):
            masked_BT[:, at] |= also_true_BB[:, j]
    if negative_true_BBK is not None:
        for j, places in enumerate(further):
            for k, place in enumerate(places):
                if place is not None:
                    masked_BT[:, place] |= negative_true_BBK[:, j, k]
    return EmbeddingLesson(tuple(queries), tuple(row), torch.tensor(own), masked_BT)


def question_of(item: Item) -> str | None:
    """The question about every image of an item; None where there is nothing to ask."""
    if item.question is not None:
        return item.question.text
    captions = [text_of(caption) for caption in item.captions]
    return about_relation(captions, is_turned=is_turned(item.id))


def instruction(question: str | None) -> str:
    """What stands behind an image."""
    return WITHOUT if question is None else WITH_QUESTION.replace("{question}", question)


def text_instruction(question: str) -> str:
    """What a query says that has a question and no image: all that is known without looking."""
    return TEXT_ONLY.replace("{question}", question)


def about_relation(captions: Sequence[str], *, is_turned: bool) -> str | None:
    """The question about captions that say how the same things stand; None if they do not.

    `is_turned` decides which thing is named first where the captions do not agree about it.
    """
    found = [stated(caption) for caption in captions]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found) or len({one.things for one in known}) > 1:
        return None
    if not known[0].second:
        return _about_place(known)
    firsts = sorted({one.first for one in known})
    first = firsts[-1 if is_turned else 0]
    (second,) = known[0].things - {first} or {first}
    said = {one.seen_from(first) for one in known}
    if len(said) == 1:
        said |= {OPPOSITE[relation] for relation in said}
    return f"Is the {first} {joined_by_or([p for p in _PHRASES if p in said])} the {second}?"


def about_caption(caption: str, *, is_turned: bool) -> str | None:
    """The question that a caption answers; `is_turned` names its second thing first."""
    found = stated(caption)
    if found is None or not found.second:
        return None if found is None else _about_place([found])
    first, second = (found.second, found.first) if is_turned else (found.first, found.second)
    pair = {found.seen_from(first), OPPOSITE[found.seen_from(first)]}
    return f"Is the {first} {joined_by_or([p for p in _PHRASES if p in pair])} the {second}?"


@dataclass(frozen=True)
class Stated:
    """What a caption says of two things, or of one and its place in the image."""

    first: str
    relation: str
    second: str = ""

    @property
    def things(self) -> frozenset[str]:
        """The things, in no order."""
        return frozenset({self.first, self.second})

    def seen_from(self, first: str) -> str:
        """The relation, if this thing is named first."""
        return self.relation if first == self.first else OPPOSITE[self.relation]


def stated(caption: str) -> Stated | None:
    """How two things stand, such as "a cup left of a plate", or where one is."""
    place = SAYS_PLACE.fullmatch(caption.strip())
    if place:
        return Stated(place["first"].lower(), place["relation"].lower())
    found = _BETWEEN.fullmatch(caption.strip())
    if not found:
        return None
    return Stated(
        found["first"].lower(), _KNOWN[found["relation"].lower()], found["second"].lower()
    )


def _about_place(known: Sequence[Stated]) -> str:
    said = {one.relation for one in known}
    shown = [place for pair in _PLACE_PAIRS if said & set(pair) for place in pair]
    return f"Is the {known[0].first} {joined_by_or([f'on the {place}' for place in shown])}?"
