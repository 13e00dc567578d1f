"""Pictures and captions come in; how probable a chat model finds the answer Yes goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.models.asks import Ask, logprobs_of
from unbag.models.caption_only import text_of
from unbag.scorers.prompts import Prompt, filled
from unbag.scorers.questions import CLOSED, alternatives, is_closed
from unbag.types import Generator, Query


@dataclass(frozen=True)
class Yes:
    """VQAScore: P(Yes) after a question about picture and caption, exp of the mean over its tokens.

    A question of the item that says itself how to answer (Yes or No, or a letter) is asked as it
    is, and the score of such a caption is its probability as the answer.
    """

    model: Generator
    prompt_set: Prompt
    name: str
    fingerprint: str
    is_variant: bool = False
    """Another prompt than the published one; not compared with other models."""
    is_normalised: bool = False
    """Divided by the sum over Yes and No, or over all answers of a closed question."""
    is_contrast: bool = False
    """log P(Yes) with the picture minus that without it: what the picture adds to the prior."""
    is_blind: bool = False

    @property
    def prompt(self) -> str:
        """The prompt's name, for the protocol."""
        return self.prompt_set.name

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
            return Ask(query.picture, prompt, self._with("Yes", CLOSED))
        if is_closed([text]):
            others = alternatives(query.question, text)
            return Ask(query.picture, query.question.text, self._with(text, others))
        prompt = filled(self.prompt_set.question, question=query.question.text, text=text)
        return Ask(query.picture, prompt, self._with("Yes", CLOSED))

    def _with(self, wanted: str, others: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((wanted, *others))) if self.is_normalised else (wanted,)

    def _prior(self, asks: Sequence[Ask]) -> dict[tuple[str, tuple[str, ...]], float]:
        """Log-probability of the same answer to the same prompt without the picture, each once."""
        keys = list(dict.fromkeys((ask.prompt, ask.continuations) for ask in asks))
        found = logprobs_of(self.model, [Ask(None, *key) for key in keys])
        return {key: float(np.mean(one[0])) for key, one in zip(keys, found, strict=True)}
