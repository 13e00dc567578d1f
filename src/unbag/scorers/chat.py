"""Protocols that score captions by asking a chat model: yes, letters, likelihoods, free answers.

Dimensions: P images, C captions, O orders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from string import ascii_uppercase
from typing import Any

import numpy as np

from unbag.errors import UnbagError
from unbag.models.huggingface.chat import (
    Ask,
    ContrastiveGenerator,
    answers_of,
    logprobs_of,
    scores_ends,
)
from unbag.scorers import prompts
from unbag.scorers.prompts import Prompt, chosen, filled
from unbag.scorers.questions import (
    CLOSED,
    VERSION,
    AskedQuestion,
    alternatives,
    asked_of,
    is_closed,
    lettered,
    option_of,
    read_answer,
)
from unbag.types import BoolArray, FloatArray, Generator, Item, Query, Scorer, Scores
from unbag.types.items import text_of


@dataclass(frozen=True)
class Protocol:
    """A way to have a score from answers, with the prompts it is run with."""

    name: str
    prompts: tuple[Prompt, ...]
    make: Callable[..., Scorer]
    """Takes the model, the prompt, and what the result is known by."""
    needs: type[Any] = Generator
    """What the model must be able to do."""
    version: str = VERSION
    """Of its code: part of the fingerprint."""

    def __call__(self, model: object) -> Scorer:
        """With the published prompt."""
        return self.scorers(model, prompts.PUBLISHED)[0]

    def scorers(self, model: object, asked: str = "all") -> list[Scorer]:
        """One for each prompt, the published one first."""
        if not isinstance(model, Generator) or not isinstance(model, self.needs):
            what = getattr(model, "name", type(model).__name__)
            raise UnbagError(
                f"the scorer {self.name!r} asks questions, and {what!r} cannot answer them"
                if not isinstance(model, Generator)
                else f"the scorer {self.name!r} needs what {what!r} cannot do",
                expected="a chat model"
                if not isinstance(model, Generator)
                else "a chat model that decodes against its own language prior (hf:...)",
                hint="leave --scorer out to use the model's own",
            )
        return [self._scorer(model, prompt) for prompt in chosen(self.prompts, asked)]

    def _scorer(self, model: Generator, prompt: Prompt) -> Scorer:
        said = "\0".join((self.name, prompt.caption, prompt.question, self.version))
        digest = blake2b(said.encode(), digest_size=6).hexdigest()
        return self.make(
            model,
            prompt,
            name=model.name if prompt.is_published else f"{model.name} ({prompt.name})",
            fingerprint=f"{model.fingerprint}-{digest}",
            is_variant=not prompt.is_published,
        )


@dataclass(frozen=True)
class _AskingScorer:
    """What all scorers that ask have."""

    model: Generator
    prompt_set: Prompt
    name: str
    fingerprint: str
    is_variant: bool = False
    """Another prompt than the published one; not compared with other models."""
    is_blind: bool = False

    @property
    def prompt(self) -> str:
        """The prompt's name, for the protocol."""
        return self.prompt_set.name

    @property
    def relaxed_form(self) -> str:
        """Log-probabilities are compared by difference."""
        return "additive"


@dataclass(frozen=True)
class Yes(_AskingScorer):
    """VQAScore: P(Yes) after a question about image and caption, exp of the mean over its tokens.

    A question of the item that says itself how to answer (Yes or No, or a letter) is asked as it
    is, and the score of such a caption is its probability as the answer.
    """

    is_normalised: bool = False
    """Divided by the sum over Yes and No, or over all answers of a closed question."""
    is_contrast: bool = False
    """log P(Yes) with the image minus that without it: what the image adds to the prior."""

    @property
    def scoring(self) -> str:
        """For the protocol."""
        if self.is_contrast:
            return "yes-probability, log ratio to the language prior"
        return "yes-probability, normalised" if self.is_normalised else "yes-probability"

    @property
    def relaxed_form(self) -> str:
        """Probabilities are compared by ratio, log-probabilities by difference."""
        return "additive" if self.is_contrast else "ratio"

    def score(self, queries: Sequence[Query]) -> list[float]:
        """One number a query."""
        asks = [self._ask(query) for query in queries]
        mean = [[float(np.mean(tokens)) for tokens in one] for one in logprobs_of(self.model, asks)]
        if self.is_contrast:
            prior = self._prior(asks)
            return [one[0] - prior[ask.prompt, ask.continuations] for one, ask in
                    zip(mean, asks, strict=True)]  # fmt: skip
        if self.is_normalised:
            return [float(np.exp(one[0] - np.logaddexp.reduce(one))) for one in mean]
        return [float(np.exp(one[0])) for one in mean]

    def _ask(self, query: Query) -> Ask:
        """The wanted answer comes first among the continuations."""
        text = text_of(query.caption)
        if query.question is None:
            prompt = filled(self.prompt_set.caption, text=text)
            return Ask(query.image, prompt, self._with("Yes", CLOSED))
        if is_closed([text]):
            others = alternatives(query.question, text)
            return Ask(query.image, query.question.text, self._with(text, others))
        prompt = filled(self.prompt_set.question, question=query.question.text, text=text)
        return Ask(query.image, prompt, self._with("Yes", CLOSED))

    def _with(self, wanted: str, others: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((wanted, *others))) if self.is_normalised else (wanted,)

    def _prior(self, asks: Sequence[Ask]) -> dict[tuple[str, tuple[str, ...]], float]:
        """Log-probability of the same answer to the same prompt without the image, each once."""
        keys = list(dict.fromkeys((ask.prompt, ask.continuations) for ask in asks))
        found = logprobs_of(self.model, [Ask(None, *key) for key in keys])
        return {key: float(np.mean(one[0])) for key, one in zip(keys, found, strict=True)}


@dataclass(frozen=True)
class Letters(_AskingScorer):
    """Multiple choice. A question that brings its own letters is asked as it is, in one order.

    Models like some letters better than others, so options are shown in as many orders as there are
    of them, each at every letter once, and log-probabilities are averaged. For two, that is both
    orders.
    """

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
        """Captions asked about one image under one question are the options of one choice."""
        groups: dict[tuple[str, object], list[int]] = {}
        for n, query in enumerate(queries):
            groups.setdefault((query.image.key, query.question), []).append(n)
        found: dict[int, float] = {}
        for number, places in enumerate(groups.values()):
            first = queries[places[0]]
            captions = tuple(dict.fromkeys(queries[n].caption for n in places))
            nothing = np.zeros((1, len(captions)), dtype=np.bool_)
            item = Item(str(number), (first.image,), captions, nothing, question=first.question)
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
        """For each image, each order."""
        texts = [text_of(caption) for caption in item.captions]
        ends = scores_ends(self.model)
        if item.question is not None and _answers_itself(item):
            return [Ask(p, item.question.text, tuple(texts), ends) for p in item.images]
        if len(texts) == 1:
            raise UnbagError(
                f"item {item.id!r} has one caption, and a letter chooses among several",
                expected="items with two captions or more",
                hint="score this benchmark with --scorer yes",
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
        return [Ask(p, prompt, letters, ends) for p in item.images for prompt, letters in asks]

    def _scores(self, item: Item, found: Sequence[list[list[float]]]) -> Scores:
        orders = self._orders(item)
        rows = []
        for number, one in enumerate(found):
            order = orders[number % len(orders)]
            by_place = [float(np.sum(tokens)) for tokens in one]
            rows.append(tuple(by_place[order.index(n)] for n in range(len(order))))
        log_POC = np.array(rows).reshape(len(item.images), len(orders), len(item.captions))
        kept = tuple(rows) if len(orders) > 1 else ()
        # Sorted, since a sum in another order ends in other digits, and breaks an exact tie.
        mean_PC = np.sort(log_POC, axis=1).mean(axis=1)
        return Scores(item.id, mean_PC, order_logprobs=kept)


def _answers_itself(item: Item) -> bool:
    """The item's own question says what Yes, No or a letter means."""
    return item.question is not None and is_closed(item.captions)


@dataclass(frozen=True)
class OptionLikelihood(_AskingScorer):
    """Log-probability of the whole option as the answer, with its end where the model has it.

    By default the mean over tokens, which orders options as their perplexity does; else the sum,
    which prefers short options.
    """

    is_mean: bool = True

    @property
    def scoring(self) -> str:
        """For the protocol."""
        end = "" if scores_ends(self.model) else ", without end"
        return f"option {'perplexity' if self.is_mean else 'likelihood'}{end}"

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Mean or sum of log-probabilities; larger is better, unlike a perplexity."""
        found = logprobs_of(self.model, [self._ask(query) for query in queries])
        return [float(np.mean(one[0]) if self.is_mean else np.sum(one[0])) for one in found]

    def _ask(self, query: Query) -> Ask:
        text = text_of(query.caption)
        ends = scores_ends(self.model)
        if query.question is None:
            return Ask(query.image, self.prompt_set.caption, (text,), ends)
        if is_closed([text]):
            return Ask(query.image, query.question.text, (text,), ends)
        options = " ".join(query.question.options)
        prompt = filled(self.prompt_set.question, question=query.question.text, options=options)
        return Ask(query.image, prompt.strip(), (option_of(query.question, text),), ends)


@dataclass(frozen=True)
class FreeAnswer(_AskingScorer):
    """The caption that an answer means gets 1, the other false ones 1/2, a true one not meant 0.

    Without a true one, as in `unbag score`, all others get 0.

    So a wrong answer is wrong under every tie rule, and an answer that cannot be read is a wrong
    one; such answers are counted apart. A caption that stands alone gets 1 for yes and 0 for no.
    """

    is_contrastive: bool = False
    """Decoded with M3ID instead of greedily."""
    longest: int = 32
    """Tokens of an answer."""

    @property
    def scoring(self) -> str:
        """For the protocol."""
        return "free answers, M3ID" if self.is_contrastive else "free answers"

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """One answer an image."""
        asked = [self._checked(item) for item in items]
        asks = []
        for item, one in zip(items, asked, strict=True):
            form = self.prompt_set.question if item.question else self.prompt_set.caption
            asks += [Ask(p, filled(form, question=one.text)) for p in item.images]
        answers = iter(self._answers(asks))
        return [
            _scores(item, one, [next(answers) for _ in item.images])
            for item, one in zip(items, asked, strict=True)
        ]

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Not possible: an answer chooses among the captions of an item."""
        raise UnbagError(
            f"the scorer {self.scoring!r} was given {len(queries)} captions without their items",
            expected="items of a benchmark, whose captions are the possible answers",
            hint="use --scorer yes for single captions",
        )

    def _answers(self, asks: Sequence[Ask]) -> list[str]:
        if not self.is_contrastive:
            return answers_of(self.model, asks, longest=self.longest)
        assert isinstance(self.model, ContrastiveGenerator)
        return self.model.answers_of_m3id(asks, longest=self.longest)

    def _checked(self, item: Item) -> AskedQuestion:
        truth = item.truth
        if not isinstance(truth, np.ndarray) or truth.dtype != np.bool_:
            raise UnbagError(
                f"item {item.id!r} has ratings or a gallery, and an answer names one caption",
                expected="items with a few captions, each true or false of each image",
                hint="score this benchmark with --scorer yes",
            )
        return asked_of(item)


def _scores(item: Item, asked: AskedQuestion, answers: Sequence[str]) -> Scores:
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


YES = Protocol("yes", prompts.YES, Yes)
YES_NORMALISED = Protocol("yes-normalised", prompts.YES, partial(Yes, is_normalised=True))
YES_CONTRAST = Protocol("yes-contrast", prompts.YES, partial(Yes, is_contrast=True))
LETTERS = Protocol("letters", prompts.LETTERS, Letters, version=f"{VERSION}.1")
PERPLEXITY = Protocol("perplexity", prompts.OPTIONS, OptionLikelihood)
LIKELIHOOD = Protocol("likelihood", prompts.OPTIONS, partial(OptionLikelihood, is_mean=False))
ANSWER = Protocol("answer", prompts.ANSWER, FreeAnswer)
M3ID_ANSWER = Protocol(
    "m3id", prompts.ANSWER, partial(FreeAnswer, is_contrastive=True), needs=ContrastiveGenerator
)
