"""The shuffles of ARO: a caption's words in another order, or None where there is no other.

The four of ARO, and one of all words. The two by part of speech need a tagger, such as spaCy's with
en_core_web_sm, which the published numbers used; the others need none. ARO cuts trigrams from
NLTK's tokens and draws once; here punctuation and English clitics are split off by a pattern, and a
draw that changes nothing is drawn again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from unbag.edits.parsed import ADJECTIVE_TAGS, NOUN_TAGS

DRAWS = 20
MOST_WORDS = 30
_REMOVED = re.compile(r'[.!"()*#:;~]')
_TOKEN = re.compile(
    r"\w+?(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|\w+(?:[-/&]\w+)*|[^\w\s]", re.IGNORECASE
)
Tagged: TypeAlias = Sequence[tuple[str, str]]
"""The tokens of a caption with their Penn Treebank tags, in order (of spaCy: `text`, `tag_`)."""


@runtime_checkable
class Tagger(Protocol):
    """Anything that cuts captions into tokens and names the part of speech of each."""

    @property
    def name(self) -> str:
        """With its version: another tagger makes other captions."""

    def __call__(self, captions: Sequence[str]) -> Iterable[Tagged]:
        """As many as captions, in their order."""


def normalised(caption: str) -> str:
    """Lower case, without some punctuation, at most 30 words: as ARO hands it to the model."""
    return " ".join(_REMOVED.sub(" ", caption.lower()).split()[:MOST_WORDS])


def spaced(caption: str) -> str:
    """As it is, with single spaces."""
    return " ".join(caption.split())


def words(caption: str) -> list[str]:
    """Words with punctuation and clitics split off."""
    return _TOKEN.findall(caption)


def trigrams(tokens: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Blocks of three change places; the last may be shorter."""
    blocks = _blocks(tokens)
    return [token for at in rng.permutation(len(blocks)) for token in blocks[at]]


def within_trigrams(tokens: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Tokens change places inside each block of three."""
    return [block[at] for block in _blocks(tokens) for at in rng.permutation(len(block))]


def all_words(tokens: Sequence[str], rng: np.random.Generator) -> list[str]:
    """All tokens change places, punctuation included."""
    return _permuted(tokens, range(len(tokens)), rng)


def nouns_and_adjectives(tagged: Tagged, rng: np.random.Generator) -> list[str]:
    """Nouns change places with nouns, adjectives with adjectives."""
    tokens = [token for token, _ in tagged]
    for tags in (NOUN_TAGS, ADJECTIVE_TAGS):
        tokens = _permuted(tokens, [i for i, (_, tag) in enumerate(tagged) if tag in tags], rng)
    return tokens


def all_but_nouns_and_adjectives(tagged: Tagged, rng: np.random.Generator) -> list[str]:
    """Nouns and adjectives stay; all other tokens change places, punctuation included."""
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
"""Those of ARO, in the order of the official options."""


def shuffle(
    caption: str,
    name: str,
    *,
    rng: np.random.Generator,
    tagged: Tagged | None = None,
    form: Callable[[str], str] = normalised,
) -> str | None:
    """The caption shuffled, in the form in which the model gets it.

    None where 20 draws gave no other order, and for a shuffle by part of speech without tags.
    """
    if name in BY_WORD:
        tokens = words(caption)
        return _other(caption, tokens, lambda: BY_WORD[name](tokens, rng), form)
    if tagged is None:
        return None
    return _other(caption, [token for token, _ in tagged], lambda: BY_TAG[name](tagged, rng), form)


def _other(
    caption: str, tokens: Sequence[str], draw: Callable[[], list[str]], form: Callable[[str], str]
) -> str | None:
    # Splitting "man's" into two tokens is no new order of words.
    same = {form(caption), form(" ".join(tokens))}
    for _ in range(DRAWS):
        found = form(" ".join(draw()))
        if found not in same:
            return found
    return None


def _blocks(tokens: Sequence[str]) -> list[Sequence[str]]:
    return [tokens[start : start + 3] for start in range(0, len(tokens), 3)]


def _permuted(tokens: Sequence[str], slots: Sequence[int], rng: np.random.Generator) -> list[str]:
    found = list(tokens)
    for slot, source in zip(slots, rng.permutation(np.array(slots, dtype=np.int64)), strict=True):
        found[slot] = tokens[source]
    return found
