"""Items come in; what a chat model freely answers about each picture goes out, read by keywords.

Dimensions: P pictures, C captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.errors import UserError
from unbag.models.asks import Ask, ContrastiveGenerator, answers_of
from unbag.scorers.parsing import read_answer
from unbag.scorers.prompts import Prompt, filled
from unbag.scorers.questions import Asked, asked_of
from unbag.types import BoolArray, FloatArray, Generator, Item, Query, Scores


@dataclass(frozen=True)
class FreeAnswer:
    """The caption that an answer means gets 1, the other false ones 1/2, a true one not meant 0.

    Without a true one, as in `unbag score`, all others get 0.

    So a wrong answer is wrong under every tie rule, and an answer that cannot be read is a wrong
    one; such answers are counted apart. A caption that stands alone gets 1 for yes and 0 for no.
    """

    model: Generator
    prompt_set: Prompt
    name: str
    fingerprint: str
    is_variant: bool = False
    is_contrastive: bool = False
    """Decoded with M3ID instead of greedily."""
    longest: int = 32
    """Tokens of an answer."""
    is_blind: bool = False
    relaxed_form: str = "additive"

    @property
    def prompt(self) -> str:
        """The prompt's name, for the protocol."""
        return self.prompt_set.name

    @property
    def scoring(self) -> str:
        """For the protocol."""
        return "free answers, M3ID" if self.is_contrastive else "free answers"

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """One answer a picture."""
        asked = [self._checked(item) for item in items]
        asks = [
            Ask(picture, self._prompt(item, one))
            for item, one in zip(items, asked, strict=True)
            for picture in item.pictures
        ]
        answers = iter(self._answers(asks))
        return [
            _scores(item, one, [next(answers) for _ in item.pictures])
            for item, one in zip(items, asked, strict=True)
        ]

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Not possible: an answer chooses among the captions of an item."""
        raise UserError(
            f"the scorer {self.scoring!r} was given {len(queries)} captions without their items",
            expected="items of a benchmark, whose captions are the possible answers",
            way_out="use --scorer yes for single captions",
        )

    def _answers(self, asks: Sequence[Ask]) -> list[str]:
        if not self.is_contrastive:
            return answers_of(self.model, asks, longest=self.longest)
        assert isinstance(self.model, ContrastiveGenerator)
        return self.model.answers_of_m3id(asks, longest=self.longest)

    def _prompt(self, item: Item, asked: Asked) -> str:
        form = self.prompt_set.question if item.question else self.prompt_set.caption
        return filled(form, question=asked.text)

    def _checked(self, item: Item) -> Asked:
        truth = item.truth
        if not isinstance(truth, np.ndarray) or truth.dtype != np.bool_:
            raise UserError(
                f"item {item.id!r} has ratings or a gallery, and an answer names one caption",
                expected="items with a few captions, each true or false of each picture",
                way_out="score this benchmark with --scorer yes",
            )
        return asked_of(item)


def _scores(item: Item, asked: Asked, answers: Sequence[str]) -> Scores:
    true_PC: BoolArray = np.asarray(item.truth, dtype=np.bool_)
    # Nothing is true where nobody said what is: captions scored outside of a benchmark.
    value_PC: FloatArray = np.where(true_PC | ~true_PC.any(), 0.0, 0.5)
    unparsed = 0
    for p, answer in enumerate(answers):
        meant = read_answer(answer, asked.keywords, labels=asked.labels)
        unparsed += meant is None
        if asked.is_statement:
            says = not true_PC[p, 0] if meant is None else meant == 0
            value_PC[p, 0] = float(says)
        elif meant is not None:
            value_PC[p, meant] = 1.0
    return Scores(item.id, value_PC, answers=tuple(answers), unparsed=unparsed)
