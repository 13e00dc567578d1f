"""Pictures and captions come in; how probable a chat model finds the caption itself goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.models.asks import Ask, logprobs_of, scores_ends
from unbag.models.caption_only import text_of
from unbag.scorers.prompts import Prompt, filled
from unbag.scorers.questions import is_closed, option_of
from unbag.types import Generator, Query


@dataclass(frozen=True)
class OptionLikelihood:
    """Log-probability of the whole option as the answer, with its end where the model has it.

    By default the mean over tokens, which orders options as their perplexity does; else the sum,
    which prefers short options.
    """

    model: Generator
    prompt_set: Prompt
    name: str
    fingerprint: str
    is_variant: bool = False
    is_mean: bool = True
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
        return f"option {'perplexity' if self.is_mean else 'likelihood'}{end}"

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Mean or sum of log-probabilities; larger is better, unlike a perplexity."""
        found = logprobs_of(self.model, [self._ask(query) for query in queries])
        return [float(np.mean(one[0]) if self.is_mean else np.sum(one[0])) for one in found]

    def _ask(self, query: Query) -> Ask:
        text = text_of(query.caption)
        ends = scores_ends(self.model)
        if query.question is None:
            return Ask(query.picture, self.prompt_set.caption, (text,), ends)
        if is_closed([text]):
            return Ask(query.picture, query.question.text, (text,), ends)
        options = " ".join(query.question.options)
        prompt = filled(self.prompt_set.question, question=query.question.text, options=options)
        return Ask(query.picture, prompt.strip(), (option_of(query.question, text),), ends)
