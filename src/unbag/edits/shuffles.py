"""The shuffles of ARO: the words of a caption in another order.

There are the four shuffles of ARO and one of all words. The two by part of speech need a tagger,
such as spaCy's en_core_web_sm, which the published numbers used. ARO cuts trigrams from NLTK's
tokens and draws once; here a pattern splits off punctuation and English clitics, and draws that
change nothing are repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from unbag.edits.parsed import ADJECTIVE_TAGS, NOUN_TAGS

DRAWS = 20
MAX_WORDS = 30
_REMOVED = re.compile(r'[.!"()*#:;~]')
_TOKEN = re.compile(
    r"\w+?(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\w+(?:[-/&]\w+)*|[^\w\s]", re.IGNORECASE
)
Tagged: TypeAlias = Sequence[tuple[str, str]]
"""The tokens of a caption with their Penn Treebank tags, in order (of spaCy: `text`, `tag_`)."""


@runtime_checkable
class Tagger(Protocol):
    """Splits captions into tokens with part-of-speech tags."""

    @property
    def name(self) -> str:
        """The name with its version, since another tagger gives other shuffles."""

    def __call__(self, captions: Sequence[str]) -> Iterable[Tagged]:
        """Tag captions; one result for each, in order."""


def normalised(caption: str) -> str:
    """The caption as ARO gives it to models: lower case, less punctuation, at most 30 words."""
    return " ".join(_REMOVED.sub(" ", caption.lower()).split()[:MAX_WORDS])


def spaced(caption: str) -> str:
    """The caption with single spaces, otherwise unchanged."""
    return " ".join(caption.split())


def words(caption: str) -> list[str]:
    """Split a caption into words, punctuation and clitics."""
    return _TOKEN.findall(caption)


def trigrams(tokens: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Shuffle blocks of three tokens; the last may be shorter."""
    blocks = _blocks(tokens)
    return [token for i in rng.permutation(len(blocks)) for token in blocks[i]]


def within_trigrams(tokens: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Shuffle the tokens inside each block of three."""
    return [block[i] for block in _blocks(tokens) for i in rng.permutation(len(block))]


def all_words(tokens: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Shuffle all tokens, including punctuation."""
    return _permuted(tokens, range(len(tokens)), rng)


def nouns_and_adjectives(tagged: Tagged, rng: np.random.Generator) -> list[str]:
    """Shuffle nouns among nouns and adjectives among adjectives."""
    tokens = [token for token, _ in tagged]
    for tags in (NOUN_TAGS, ADJECTIVE_TAGS):
        tokens = _permuted(tokens, [i for i, (_, tag) in enumerate(tagged) if tag in tags], rng)
    return tokens


def all_but_nouns_and_adjectives(tagged: Tagged, rng: np.random.Generator) -> list[str]:
    """Shuffle all tokens except nouns and adjectives, including punctuation."""
    slots = [i for i, (_, tag) in enumerate(tagged) if tag not in NOUN_TAGS | ADJECTIVE_TAGS]
    return _permuted([token for token, _ in tagged], slots, rng)


BY_TAG: Mapping[str, Callable[[Tagged, np.random.Generator], list[str]]] = MappingProxyType(
    {
        "nouns_and_adjectives": nouns_and_adjectives,
        "all_but_nouns_and_adjectives": all_but_nouns_and_adjectives,
    }
)
BY_WORD: Mapping[str, Callable[[Sequence[str], np.random.Generator], list[str]]] = MappingProxyType(
    {"within_trigrams": within_trigrams, "trigrams": trigrams, "all_words": all_words}
)
SHUFFLES = (*BY_TAG, "within_trigrams", "trigrams")
"""The shuffles of ARO, in the order of its options."""


def shuffle(
    caption: str,
    name: str,
    *,
    rng: np.random.Generator,
    tagged: Tagged | None = None,
    form: Callable[[str], str] = normalised,
) -> str | None:
    """Shuffle a caption, and normalise it with `form`.

    None if 20 draws give no other order, and for a shuffle by part of speech without tags.
    """
    if name in BY_WORD:
        tokens = words(caption)
        return _draw_other(caption, tokens, lambda: BY_WORD[name](tokens, rng), form)
    if tagged is None:
        return None
    return _draw_other(
        caption, [token for token, _ in tagged], lambda: BY_TAG[name](tagged, rng), form
    )


def _draw_other(
    caption: str, tokens: Sequence[str], draw: Callable[[], list[str]], form: Callable[[str], str]
) -> str | None:
    # Splitting "man's" into two tokens is not a new word order.
    same = {form(caption), form(" ".join(tokens))}
    for _ in range(DRAWS):
        text = form(" ".join(draw()))
        if text not in same:
            return text
    return None


def _blocks(tokens: Sequence[str]) -> list[Sequence[str]]:
    return [tokens[start : start + 3] for start in range(0, len(tokens), 3)]


def _permuted(tokens: Sequence[str], slots: Sequence[int], rng: np.random.Generator) -> list[str]:
    shuffled = list(tokens)
    for slot, source in zip(slots, rng.permutation(np.array(slots, dtype=np.int64)), strict=True):
        shuffled[slot] = tokens[source]
    return shuffled
