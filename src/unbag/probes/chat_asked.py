"""Material and a chat model come in; cases go out: a few items with what the model said of them.

The picture can be another or none at all, which asks the language prior. A model that tells no
probabilities is asked to answer freely instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from unbag.engine.asking import QueryScoring
from unbag.engine.progress import Progress
from unbag.errors import PictureError, UserError
from unbag.models.asks import Ask, answers_of, logprobs_of, scores_ends
from unbag.probes.chosen import unite
from unbag.probes.finding import Options
from unbag.probes.material import Material
from unbag.scorers.chat import Protocol
from unbag.scorers.parsing import read_answer
from unbag.scorers.questions import CLOSED
from unbag.types import Case, Generator, Item, Picture

MOST = 60
"""Pairs and rows that are asked about unless all are wanted: chat models are slow."""
CHUNK = 8
"""Items asked about together."""
LONGEST = 16
"""Tokens of a free answer, which is yes, no or a letter."""
SAID, UNSAID = 0.0, -20.0
"""Stand for the log-probabilities of a word that was answered and of one that was not."""


@dataclass(frozen=True, eq=False)
class Replies:
    """What a chat model said of some items."""

    cases: tuple[Case, ...]
    model: Generator
    """As it was asked: by probabilities, or by free answers."""
    notes: tuple[str, ...] = ()

    @property
    def is_spoken(self) -> bool:
        """Read from free answers: there are no probabilities."""
        inner = self.model.model if isinstance(self.model, Instead) else self.model
        return isinstance(inner, Spoken)


@dataclass(frozen=True)
class Instead:
    """A chat model that is shown one and the same picture, or none, whatever it is asked about."""

    model: Generator
    picture: Picture | None

    @property
    def name(self) -> str:
        """That of the model."""
        return self.model.name

    @property
    def fingerprint(self) -> str:
        """Of the model and what it is shown."""
        return f"{self.model.fingerprint}-{self.picture.key if self.picture else 'blind'}"

    @property
    def scores_ends(self) -> bool:
        """As the model does."""
        return scores_ends(self.model)

    def logprobs(
        self, picture: Picture | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """Those of the model, shown something else."""
        return self.model.logprobs(self.picture, prompt, continuations)

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """Likewise for many."""
        return logprobs_of(self.model, [ask._replace(picture=self.picture) for ask in asks])

    def answer(self, picture: Picture | None, prompt: str, *, longest: int = 32) -> str:
        """That of the model, shown something else."""
        return self.model.answer(self.picture, prompt, longest=longest)

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """Likewise for many."""
        shown = [ask._replace(picture=self.picture) for ask in asks]
        return answers_of(self.model, shown, longest=longest)


@dataclass(frozen=True)
class Spoken:
    """A chat model by its free answers: what it answers is likely, all else is not."""

    model: Generator

    @property
    def name(self) -> str:
        """That of the model."""
        return self.model.name

    @property
    def fingerprint(self) -> str:
        """Of the model and this way to ask."""
        return f"{self.model.fingerprint}-spoken"

    def logprobs(
        self, picture: Picture | None, prompt: str, continuations: Sequence[str]
    ) -> list[list[float]]:
        """One number a continuation, NaN where the answer cannot be read."""
        return self.logprobs_of([Ask(picture, prompt, tuple(continuations))])[0]

    def logprobs_of(self, asks: Sequence[Ask]) -> list[list[list[float]]]:
        """Likewise for many."""
        answers = answers_of(self.model, asks, longest=LONGEST)
        return [_read(answer, ask) for answer, ask in zip(answers, asks, strict=True)]

    def answer(self, picture: Picture | None, prompt: str, *, longest: int = 32) -> str:
        """That of the model."""
        return self.model.answer(picture, prompt, longest=longest)

    def answers_of(self, asks: Sequence[Ask], *, longest: int = 32) -> list[str]:
        """Those of the model."""
        return answers_of(self.model, asks, longest=longest)


def items_of(material: Material, options: Options) -> tuple[Item, ...]:
    """Pairs with captions as 2 x 2 items, then captions with their negatives as 1 x 2 items.

    As many of each as are quick, unless all are wanted.
    """
    pairs = [
        Item(
            id=pair.id,
            pictures=(pair.first, pair.second),
            captions=pair.captions,
            truth=np.eye(2, dtype=np.bool_),
            group=pair.cluster or pair.id,
            tags={"relation": pair.relation},
        )
        for pair in material.pairs
        if pair.captions is not None and len(set(pair.captions)) == 2
    ]
    rows = [
        Item(
            id=row.id,
            pictures=(row.picture,),
            captions=(row.caption, row.negative),
            truth=np.array([[True, False]]),
            group=row.cluster or row.id,
            tags={"kind": row.kind},
        )
        # A few of many seldom share a picture, and to know it all files would have to be read.
        for row in (unite(material.rows) if options.is_full else material.rows)
        if row.negative is not None and row.negative != row.caption
    ]
    return (*_chosen(pairs, options), *_chosen(rows, options))


def is_pair(item: Item) -> bool:
    """Two pictures and a caption for each: what a prior prefers is right for one of them."""
    return len(item.pictures) == 2


def ask_items(
    model: Generator, protocol: Protocol, items: Sequence[Item], *, what: str, progress: Progress
) -> Replies:
    """Every item by a protocol of `unbag.scorers.chat`, by free answers where that cannot be done.

    Pictures that cannot be opened give NaN, and a note.
    """
    try:
        return _replies(model, protocol, items, what, progress)
    except PictureError:
        raise
    except UserError as error:
        spoken = _replies(Spoken(model), protocol, items, what, progress)
        why = f"read from free answers, without probabilities: {error.found}"
        return replace(spoken, notes=(why, *spoken.notes))


def not_asked(name: str) -> str:
    """Why a model that gives scores alone is left out, though a chat model may stand behind it."""
    return f"{name} gives scores; chat models are asked (--model hf:FOLDER, decoder:FOLDER)"


def told(items: Sequence[Item], material: Material) -> tuple[str, ...]:
    """What part of the material was asked about."""
    pairs = sum(map(is_pair, items))
    counts = (
        (pairs, len(material.pairs), "pairs"),
        (len(items) - pairs, len(material.rows), "hard negatives"),
    )
    return tuple(f"{n:,} of {of:,} {what} were asked about" for n, of, what in counts if n < of)


def _replies(
    model: Generator, protocol: Protocol, items: Sequence[Item], what: str, progress: Progress
) -> Replies:
    scoring = QueryScoring(protocol(model))
    cases: list[Case] = []
    # Log-probabilities of -inf for all answers, or NaN, are counted as invalid later.
    with np.errstate(invalid="ignore"), progress.task(what, _questions(items)) as advance:
        for start in range(0, len(items), CHUNK):
            part = items[start : start + CHUNK]
            cases += map(Case, part, scoring.chunk(part))
            advance(_questions(part))
    damaged = sorted(scoring.damaged.items())
    notes = [f"picture {name} cannot be used: {why}" for name, why in damaged]
    found = Replies(tuple(cases), model)
    if found.is_spoken and (unread := _unread(cases, scoring.damaged)):
        notes.append(f"{unread:,} of {_questions(items):,} answers could not be read ({what})")
    return replace(found, notes=tuple(notes))


def _questions(items: Sequence[Item]) -> int:
    """A question a caption, or as many orders as there are captions."""
    return sum(len(item.pictures) * len(item.captions) for item in items)


def _unread(cases: Sequence[Case], damaged: Mapping[str, str]) -> int:
    """Answers: one a caption, or one an order in which the captions were shown."""
    count = 0
    for item, scores in cases:
        if scores.values is None or any(picture.name in damaged for picture in item.pictures):
            continue
        orders = np.array(scores.order_logprobs)
        count += int(np.isnan(orders[:, 0] if len(orders) else scores.values).sum())
    return count


def _read(answer: str, ask: Ask) -> list[list[float]]:
    is_closed = set(ask.continuations) <= set(CLOSED)
    # The probability of Yes alone may be asked for; a No is an answer all the same.
    words = CLOSED if is_closed else ask.continuations
    keywords = [(word,) for word in CLOSED] if is_closed else []
    meant = read_answer(answer, keywords, labels=() if is_closed else words)
    if meant is None:
        return [[float("nan")] for _ in ask.continuations]
    return [[SAID if one == words[meant] else UNSAID] for one in ask.continuations]


def _chosen(items: Sequence[Item], options: Options) -> list[Item]:
    """By a hash of seed and id: neither the order nor the number of the others matters."""
    if options.is_full or len(items) <= MOST:
        return list(items)
    drawn = sorted(items, key=lambda item: blake2b(f"{options.seed}\0{item.id}".encode()).digest())
    wanted = {item.id for item in drawn[:MOST]}
    return [item for item in items if item.id in wanted]
