"""Protocols that score captions with a chat model: yes, letters, likelihoods, free answers.

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
from unbag.scorers.prompts import Prompt, choose_prompts, filled
from unbag.scorers.questions import (
    CLOSED,
    VERSION,
    AskedQuestion,
    alternatives,
    is_closed,
    lettered,
    option_of,
    question_for,
    read_answer,
)
from unbag.types import BoolArray, FloatArray, Generator, Item, Query, Scorer, Scores
from unbag.types.items import text_of


@dataclass(frozen=True)
class Protocol:
    """A way to compute scores from a chat model's answers, with its set of prompts."""

    name: str
    prompts: tuple[Prompt, ...]
    make: Callable[..., Scorer]
    """Takes the model, the prompt, and the name and fingerprint of the scorer."""
    needs: type[Any] = Generator
    """Interface that the model must have."""
    version: str = VERSION
    """Version of the code: part of the fingerprint."""

    def __call__(self, model: object) -> Scorer:
        """Make the scorer with the published prompt."""
        return self.scorers(model, prompts.PUBLISHED)[0]

    def scorers(self, model: object, prompt_choice: str = "all") -> list[Scorer]:
        """Make a scorer for each prompt, the published one first."""
        if not isinstance(model, Generator) or not isinstance(model, self.needs):
            name = getattr(model, "name", type(model).__name__)
            raise UnbagError(
                f"the scorer {self.name!r} asks questions, and {name!r} cannot answer them"
                if not isinstance(model, Generator)
                else f"the scorer {self.name!r} needs an interface that {name!r} does not have",
                expected="a chat model"
                if not isinstance(model, Generator)
                else "a chat model that decodes against its own language prior (hf:...)",
                hint="leave --scorer out to use the model's own",
            )
        return [
            self._scorer(model, prompt) for prompt in choose_prompts(self.prompts, prompt_choice)
        ]

    def _scorer(self, model: Generator, prompt: Prompt) -> Scorer:
        key = "\0".join((self.name, prompt.caption, prompt.question, self.version))
        digest = blake2b(key.encode(), digest_size=6).hexdigest()
        return self.make(
            model,
            prompt,
            name=model.name if prompt.is_published else f"{model.name} ({prompt.name})",
            fingerprint=f"{model.fingerprint}-{digest}",
            is_variant=not prompt.is_published,
        )


@dataclass(frozen=True)
class _AskingScorer:
    """Fields that all scorers of this module share."""

    model: Generator
    prompt_set: Prompt
    name: str
    fingerprint: str
    is_variant: bool = False
    """Whether the prompt is not the published one; then it is not compared with other models."""
    is_blind: bool = False

    @property
    def prompt(self) -> str:
        """Return the name of the prompt."""
        return self.prompt_set.name

    @property
    def relaxed_form(self) -> str:
        """Return "additive": log-probabilities are compared by difference."""
        return "additive"


@dataclass(frozen=True)
class Yes(_AskingScorer):
    """VQAScore: P(Yes) after a question about image and caption, exp of the mean over its tokens.

    If the item has a closed question (answered by Yes or No, or by a letter), it is asked
    unchanged, and the score of a caption is its probability as the answer.
    """

    is_normalised: bool = False
    """Divide by the sum over Yes and No, or over all answers of a closed question."""
    is_contrast: bool = False
    """Subtract log P(Yes) without the image: the score is what the image adds to the prior."""

    @property
    def scoring(self) -> str:
        """Return the name of the score."""
        if self.is_contrast:
            return "yes-probability, log ratio to the language prior"
        return "yes-probability, normalised" if self.is_normalised else "yes-probability"

    @property
    def relaxed_form(self) -> str:
        """Return how scores compare: probabilities by ratio, log-probabilities by difference."""
        return "additive" if self.is_contrast else "ratio"

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Return one score per query."""
        asks = [self._ask(query) for query in queries]
        means = [
            [float(np.mean(tokens)) for tokens in row] for row in logprobs_of(self.model, asks)
        ]
        if self.is_contrast:
            prior = self._prior(asks)
            return [row[0] - prior[ask.prompt, ask.continuations] for row, ask in
                    zip(means, asks, strict=True)]  # fmt: skip
        if self.is_normalised:
            return [float(np.exp(row[0] - np.logaddexp.reduce(row))) for row in means]
        return [float(np.exp(row[0])) for row in means]

    def _ask(self, query: Query) -> Ask:
        """Return the question to ask; its first continuation is the answer to score."""
        text = text_of(query.caption)
        if query.question is None:
            prompt = filled(self.prompt_set.caption, text=text)
            return Ask(query.image, prompt, self._with("Yes", CLOSED))
        if is_closed([text]):
            others = alternatives(query.question, text)
            return Ask(query.image, query.question.text, self._with(text, others))
        prompt = filled(self.prompt_set.question, question=query.question.text, text=text)
        return Ask(query.image, prompt, self._with("Yes", CLOSED))

    def _with(self, answer: str, others: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((answer, *others))) if self.is_normalised else (answer,)

    def _prior(self, asks: Sequence[Ask]) -> dict[tuple[str, tuple[str, ...]], float]:
        """Return log-probabilities of the same answers without the image, each computed once."""
        keys = list(dict.fromkeys((ask.prompt, ask.continuations) for ask in asks))
        priors = logprobs_of(self.model, [Ask(None, *key) for key in keys])
        return {key: float(np.mean(row[0])) for key, row in zip(keys, priors, strict=True)}


@dataclass(frozen=True)
class Letters(_AskingScorer):
    """Multiple choice. A question with letters of its own is asked unchanged, in one order.

    Models prefer some letters to others. So n options are shown in n orders, each option once at
    each letter, and log-probabilities are averaged. Two options are shown in both orders.
    """

    @property
    def scoring(self) -> str:
        """Return the name of the score."""
        end = "" if scores_ends(self.model) else ", without end"
        return f"letters, as many orders as options{end}"

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Return the mean log-probability of each caption's letter, and those of each order."""
        asks = [ask for item in items for ask in self._asks(item)]
        logprobs = iter(logprobs_of(self.model, asks))
        return [self._scores(item, [next(logprobs) for _ in self._asks(item)]) for item in items]

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Score captions; those with the same image and question are options of one choice."""
        groups: dict[tuple[str, object], list[int]] = {}
        for i, query in enumerate(queries):
            groups.setdefault((query.image.key, query.question), []).append(i)
        score_of: dict[int, float] = {}
        for number, members in enumerate(groups.values()):
            first = queries[members[0]]
            captions = tuple(dict.fromkeys(queries[i].caption for i in members))
            no_truth = np.zeros((1, len(captions)), dtype=np.bool_)
            item = Item(str(number), (first.image,), captions, no_truth, question=first.question)
            (scores,) = self.score_items([item])
            assert scores.values is not None
            for i in members:
                score_of[i] = float(scores.values[0, captions.index(queries[i].caption)])
        return [score_of[i] for i in range(len(queries))]

    def _orders(self, item: Item) -> list[list[int]]:
        """Return orders of captions: all rotations, so that each caption has each letter once."""
        order = list(range(len(item.captions)))
        if _answers_itself(item):
            return [order]
        return [order[start:] + order[:start] for start in order]

    def _asks(self, item: Item) -> list[Ask]:
        """Return the questions of an item: for each image, one per order."""
        texts = [text_of(caption) for caption in item.captions]
        ends = scores_ends(self.model)
        if item.question is not None and _answers_itself(item):
            return [Ask(image, item.question.text, tuple(texts), ends) for image in item.images]
        if len(texts) == 1:
            raise UnbagError(
                f"item {item.id!r} has one caption, and a letter chooses among several",
                expected="items with two captions or more",
                hint="score this benchmark with --scorer yes",
            )
        letters = tuple(ascii_uppercase[: len(texts)])
        asks = []
        for order in self._orders(item):
            options = lettered([texts[i] for i in order])
            if item.question is None:
                prompt = filled(self.prompt_set.caption, options=options)
            else:
                question = item.question.text
                prompt = filled(self.prompt_set.question, question=question, options=options)
            asks.append((prompt, letters))
        return [
            Ask(image, prompt, letters, ends) for image in item.images for prompt, letters in asks
        ]

    def _scores(self, item: Item, logprobs: Sequence[list[list[float]]]) -> Scores:
        orders = self._orders(item)
        rows = []
        for number, letter_logprobs in enumerate(logprobs):
            order = orders[number % len(orders)]
            by_letter = [float(np.sum(tokens)) for tokens in letter_logprobs]
            rows.append(tuple(by_letter[order.index(i)] for i in range(len(order))))
        log_POC = np.array(rows).reshape(len(item.images), len(orders), len(item.captions))
        order_rows = tuple(rows) if len(orders) > 1 else ()
        # Sorted, since rounding depends on the order of a sum and could break an exact tie.
        mean_PC = np.sort(log_POC, axis=1).mean(axis=1)
        return Scores(item.id, mean_PC, order_logprobs=order_rows)


def _answers_itself(item: Item) -> bool:
    """Return whether the item's own question is closed (Yes, No or letters)."""
    return item.question is not None and is_closed(item.captions)


@dataclass(frozen=True)
class OptionLikelihood(_AskingScorer):
    """Log-probability of the whole option as the answer, with its end token if the model has one.

    The default is the mean over tokens, which ranks options as perplexity does. The sum prefers
    short options.
    """

    is_mean: bool = True

    @property
    def scoring(self) -> str:
        """Return the name of the score."""
        end = "" if scores_ends(self.model) else ", without end"
        return f"option {'perplexity' if self.is_mean else 'likelihood'}{end}"

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Return mean or sum of log-probabilities; larger is better, unlike a perplexity."""
        logprobs = logprobs_of(self.model, [self._ask(query) for query in queries])
        return [float(np.mean(row[0]) if self.is_mean else np.sum(row[0])) for row in logprobs]

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
    """Score captions by the answer: the named one 1, other false ones 1/2, an unnamed true one 0.

    Without a true caption, as in `unbag score`, all others get 0.

    So a wrong answer is wrong under every tie rule. An answer that cannot be parsed counts as
    wrong, and its number is reported. A single caption gets 1 for yes and 0 for no.
    """

    is_contrastive: bool = False
    """Decode with M3ID instead of greedily."""
    longest: int = 32
    """Maximum number of tokens of an answer."""

    @property
    def scoring(self) -> str:
        """Return the name of the score."""
        return "free answers, M3ID" if self.is_contrastive else "free answers"

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        """Generate one answer per image and score the captions by it."""
        questions = [self._checked(item) for item in items]
        asks = []
        for item, question in zip(items, questions, strict=True):
            template = self.prompt_set.question if item.question else self.prompt_set.caption
            asks += [Ask(image, filled(template, question=question.text)) for image in item.images]
        answers = iter(self._answers(asks))
        return [
            _scores(item, question, [next(answers) for _ in item.images])
            for item, question in zip(items, questions, strict=True)
        ]

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Raise UnbagError: an answer chooses among the captions of an item."""
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
        return question_for(item)


def _scores(item: Item, question: AskedQuestion, answers: Sequence[str]) -> Scores:
    true_PC: BoolArray = np.asarray(item.truth, dtype=np.bool_)
    # Captions that are scored outside a benchmark have no truth.
    value_PC: FloatArray = np.where(true_PC | ~true_PC.any(), 0.0, 0.5)
    unparsed = 0
    for p, answer in enumerate(answers):
        choice = read_answer(answer, question.keywords, labels=question.labels)
        unparsed += choice is None
        if question.is_statement:
            is_yes = not true_PC[p, 0] if choice is None else choice == 0
            value_PC[p, 0] = float(is_yes)
        elif choice is not None:
            value_PC[p, choice] = 1.0
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
