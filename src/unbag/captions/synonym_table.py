"""Our table of synonyms comes in as lines of text; entries by the first word they replace go out.

A line is `old > new`, or `old = new` for both ways, and conditions after bars. Conditions are
looked up in `synonym_conditions`, except those that say which forms are made:

    plural         nouns: stands as it is written, in the plural; adjectives: before plurals
    singular       nouns: the singular only; adjectives: before singulars
    active         verbs: no past forms
    passive        verbs: the past participle only
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from unbag.captions.agreement import inflected
from unbag.captions.synonym_nouns import NOUNS
from unbag.captions.synonym_others import ADJECTIVES, PHRASES
from unbag.captions.synonym_verbs import GROUPS, VERBS

WordClass: TypeAlias = Literal["noun", "verb", "adjective", "phrase"]
_TEXTS: Mapping[WordClass, str] = MappingProxyType(
    {"noun": NOUNS, "verb": VERBS, "adjective": ADJECTIVES, "phrase": PHRASES}
)
_VERB_TAGS = ("VB", "VBP", "VBZ", "VBG", "VBD", "VBN")
_ACTIVE_TAGS = ("VB", "VBP", "VBZ", "VBG")


class Condition(NamedTuple):
    """What must hold where an entry is used."""

    name: str
    words: frozenset[str]


class Synonym(NamedTuple):
    """Words that may be replaced, in one of their forms."""

    old: tuple[str, ...]
    """In lower case, as they stand."""
    new: str
    word_class: WordClass
    tag: str
    """That the inflected word of `old` must have; empty for any."""
    conditions: tuple[Condition, ...]

    @property
    def inflected_at(self) -> int:
        """Which word of `old` shows the form: the last of nouns, the first of verbs."""
        return len(self.old) - 1 if self.word_class == "noun" else 0


class Line(NamedTuple):
    """An entry as written."""

    old: str
    new: str
    conditions: tuple[Condition, ...]


def lines_of(text: str) -> Iterator[Line]:
    """Entries of a text; one that goes both ways is two."""
    for line in text.replace("\\\n", "").strip().splitlines():
        pair, *rest = (part.strip() for part in line.split("|"))
        conditions = tuple(_condition(part) for part in rest for part in _flags(part))
        if " = " in pair:
            one, other = pair.split(" = ")
            yield Line(one, other, conditions)
            yield Line(other, one, conditions)
        else:
            old, new = pair.split(" > ")
            yield Line(old, new, conditions)


@cache
def synonyms() -> Mapping[str, tuple[Synonym, ...]]:
    """Every form of every entry, by the first word it replaces."""
    found: dict[str, list[Synonym]] = {}
    for word_class, text in _TEXTS.items():
        for line in lines_of(text):
            for one in _forms(line, word_class):
                if " ".join(one.old) != one.new:
                    found.setdefault(one.old[0], []).append(one)
    return MappingProxyType({first: tuple(some) for first, some in found.items()})


def _flags(part: str) -> list[str]:
    """One condition with its words, or several that take none."""
    words = part.split()
    return words if all(word in _WITHOUT_WORDS for word in words) else [part]


_WITHOUT_WORDS = frozenset(("c", "m", "det", "bare", "singular", "plural", "end", "early"))


def _condition(part: str) -> Condition:
    name, *words = part.split()
    groups = [GROUPS[word] for word in words if word in GROUPS]
    plain = (word for word in words if word not in GROUPS)
    return Condition(name, frozenset(plain).union(*groups))


def _forms(line: Line, word_class: WordClass) -> Iterator[Synonym]:
    names = {one.name for one in line.conditions}
    if word_class == "noun" and "plural" not in names:
        yield _form(line, word_class, "NN", line.old, line.new)
        if "singular" not in names:
            yield _form(line, word_class, "NNS", _plural(line.old), _plural(line.new))
    elif word_class == "noun":
        yield _form(line, word_class, "NNS", line.old, line.new)
    elif word_class == "verb":
        tags = ("VBN",) if "passive" in names else _VERB_TAGS
        for tag in _ACTIVE_TAGS if "active" in names else tags:
            yield _form(line, word_class, tag, _verb(line.old, tag), _verb(line.new, tag))
    else:
        yield _form(line, word_class, "", line.old, line.new)


def _form(line: Line, word_class: WordClass, tag: str, old: str, new: str) -> Synonym:
    return Synonym(tuple(old.split()), new, word_class, tag, line.conditions)


def _plural(noun: str) -> str:
    *before, last = noun.split()
    return " ".join((*before, inflected(last, "NNS")))


def _verb(verb: str, tag: str) -> str:
    first, *after = verb.split()
    return " ".join((inflected(first, tag), *after))
