"""Items come in; which of their captions a chat model picks by letter goes out, in several orders.

Models like some letters better than others, so options are shown in as many orders as there are of
them, each at every letter once, and log-probabilities are averaged. For two, that is both orders.

Dimensions: P pictures, C captions, O orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

import numpy as np

from unbag.errors import UserError
from unbag.models.asks import Ask, logprobs_of, scores_ends
from unbag.models.caption_only import text_of
from unbag.scorers.prompts import Prompt, filled
from unbag.scorers.questions import is_closed, lettered
from unbag.types import Generator, Item, Query, Scores


@dataclass(frozen=True)
class Letters:
    """Multiple choice. A question that brings its own letters is asked as it is, in one order."""

    model: Generator
    prompt_set: Prompt
    name: str
    fingerprint: str
    is_variant: bool = False
    is_blind: bool = False
    relaxed_form: str = "additive"

    @property
    def prompt(self) -> str:
        """The prompt's name, for the protocol."""
        return self.prompt_set.name

    @property
    def scoring(self) -> str:
        """For the protocol."""
        end = "" if scores_ends(self.model) else ", without end"
        return f"letters, as many orders as options{end}"

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Mean log-probability of each caption's letter; each order is kept beside it."""
        asks = [ask for item in items for ask in self._asks(item)]
        found = iter(logprobs_of(self.model, asks))
        return [self._scores(item, [next(found) for _ in self._asks(item)]) for item in items]

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Captions asked about one picture under one question are the options of one choice."""
        groups: dict[tuple[str, object], list[int]] = {}
        for n, query in enumerate(queries):
            groups.setdefault((query.picture.key, query.question), []).append(n)
        found: dict[int, float] = {}
        for number, places in enumerate(groups.values()):
            first = queries[places[0]]
            captions = tuple(dict.fromkeys(queries[n].caption for n in places))
            nothing = np.zeros((1, len(captions)), dtype=np.bool_)
            item = Item(str(number), (first.picture,), captions, nothing, question=first.question)
            (scores,) = self.score_items([item])
            assert scores.values is not None
            for n in places:
                found[n] = float(scores.values[0, captions.index(queries[n].caption)])
        return [found[n] for n in range(len(queries))]

    def _orders(self, item: Item) -> list[list[int]]:
        """Which caption stands at which letter: every rotation, so each at every letter once."""
        order = list(range(len(item.captions)))
        if _answers_itself(item):
            return [order]
        return [order[n:] + order[:n] for n in order]

    def _asks(self, item: Item) -> list[Ask]:
        """For each picture, each order."""
        texts = [text_of(caption) for caption in item.captions]
        ends = scores_ends(self.model)
        if item.question is not None and _answers_itself(item):
            return [Ask(p, item.question.text, tuple(texts), ends) for p in item.pictures]
        if len(texts) == 1:
            raise UserError(
                f"item {item.id!r} has one caption, and a letter chooses among several",
                expected="items with two captions or more",
                way_out="score this benchmark with --scorer yes",
            )
        letters = tuple(ascii_uppercase[: len(texts)])
        asks = []
        for order in self._orders(item):
            options = lettered([texts[n] for n in order])
            if item.question is None:
                prompt = filled(self.prompt_set.caption, options=options)
            else:
                question = item.question.text
                prompt = filled(self.prompt_set.question, question=question, options=options)
            asks.append((prompt, letters))
        return [Ask(p, prompt, letters, ends) for p in item.pictures for prompt, letters in asks]

    def _scores(self, item: Item, found: Sequence[list[list[float]]]) -> Scores:
        orders = self._orders(item)
        rows = []
        for number, one in enumerate(found):
            order = orders[number % len(orders)]
            by_place = [float(np.sum(tokens)) for tokens in one]
            rows.append(tuple(by_place[order.index(n)] for n in range(len(order))))
        log_POC = np.array(rows).reshape(len(item.pictures), len(orders), len(item.captions))
        kept = tuple(rows) if len(orders) > 1 else ()
        # Sorted, since a sum in another order ends in other digits, and breaks an exact tie.
        mean_PC = np.sort(log_POC, axis=1).mean(axis=1)
        return Scores(item.id, mean_PC, order_logprobs=kept)


def _answers_itself(item: Item) -> bool:
    """The item's own question says what Yes, No or a letter means."""
    return item.question is not None and is_closed(item.captions)
