"""Proposed edits come in; which of them a language model or a sentence encoder lets stay goes out.

Dimensions: N proposals, D vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from unbag.captions.filters import Proposal
from unbag.models.caption_likelihood import Likelihood, load_likelihood
from unbag.models.caption_sentence import Sentence, load_sentence


@dataclass(frozen=True, eq=False)
class Fluency:
    """Rejects an edit that a language model finds much less likely than its caption.

    Compared are log-probabilities per token, so that a longer edit is not rejected for its length.
    What the model cannot read, such as a text longer than its context, is rejected too.
    """

    model: Likelihood
    """One with `is_mean`."""
    drop: float = 1.0
    """Nats per token that an edit may lose against its caption. With SmolLM2-135M on some 200 edits
    of real captions a kind, 1.0 rejects 37 % of noun swaps, the most absurd ones, 28 % of argument
    swaps, 3 % of replaced nouns, 1 % of replaced colours and 3 % of synonyms."""
    reason: str = "fluency"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Whether each is about as fluent as its caption."""
        before = self.model.of([p.caption.text for p in proposals])
        after = self.model.of([p.edit.text for p in proposals])
        return [a >= b - self.drop for a, b in zip(after, before, strict=True)]


@dataclass(frozen=True, eq=False)
class Meaning:
    """Rejects a hard positive that a sentence encoder finds far from its caption.

    Hard negatives always stay. A largest cosine for them would be of no use: such encoders are bags
    of words themselves. all-MiniLM-L6-v2 gives attribute-swapped captions .990 and paraphrases
    .702, so what passes as far enough would be what changes many words, not what changes the
    meaning.
    """

    encoder: Sentence
    least: float = 0.8
    """Cosine that a hard positive needs. With all-MiniLM-L6-v2, of 1,388 hard positives that rules
    made of real captions 0.4 % are below, of 800 captions with one wrong word 26 %, of 1,343 with
    words exchanged 0.1 %."""
    reason: str = "meaning"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Whether each is close enough to its caption."""
        asked = [p for p in proposals if p.kind.keeps_meaning]
        if not asked:
            return [True] * len(proposals)
        before_ND = self.encoder.vectors([p.caption.text for p in asked])
        after_ND = self.encoder.vectors([p.edit.text for p in asked])
        cosine_N = iter((before_ND * after_ND).sum(axis=1).tolist())
        return [not p.kind.keeps_meaning or next(cosine_N) >= self.least for p in proposals]


def load_fluency(path: str, *, device: str = "cpu") -> Fluency:
    """From a causal language model: a folder of transformers, a .gguf file, or a hub name."""
    return Fluency(_likelihood(path, device))


def load_meaning(path: str, *, device: str = "cpu") -> Meaning:
    """From a sentence encoder: a folder of sentence-transformers, or a hub name."""
    return Meaning(load_sentence(path, device=device))


@lru_cache(maxsize=1)
def _likelihood(path: str, device: str) -> Likelihood:
    # A GGUF file takes most of a minute to read.
    return load_likelihood(path, is_mean=True, device=device)
