"""A parsed caption comes in; the same with one word or phrase by a synonym goes out."""

from __future__ import annotations

from collections.abc import Iterator

from unbag.captions.attribute_lists import is_fixed
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import NOUN_TAGS, Parsed
from unbag.captions.synonym_conditions import CHECKS, Place
from unbag.captions.synonym_table import Synonym, synonyms

_LITTLE = frozenset(
    ("a", "an", "the", "in", "on", "of", "to", "up", "by", "with", "at", "is", "as")
)
_JOINED = frozenset("-‐–/&@#_")
_COMMON_NOUNS = frozenset(("NN", "NNS"))


def synonym(parsed: Parsed) -> list[Changes]:
    """Every word and phrase of our table for which all conditions hold."""
    table = synonyms()
    return [
        (parsed.change(at, at + len(one.old) - 1, one.new),)
        for at, text in enumerate(parsed.lower)
        if text in table
        for one in table[text]
        if _fits(parsed, at, one)
    ]


def is_whole(parsed: Parsed, first: int, last: int) -> bool:
    """Whether words stand for themselves: in no hyphenated word, no quotation, no fixed pair."""
    start, end = parsed.words[first].start, parsed.words[last].end
    text = parsed.text
    if (start and text[start - 1] in _JOINED) or (end < len(text) and text[end] in _JOINED):
        return False
    if text.count('"', 0, start) % 2:
        return False
    before = parsed.lower[first - 1] if first else ""
    after = parsed.lower[last + 1] if last + 1 < len(parsed.words) else ""
    return not is_fixed(before, parsed.lower[first]) and not is_fixed(parsed.lower[last], after)


def _fits(parsed: Parsed, at: int, one: Synonym) -> bool:
    last = at + len(one.old) - 1
    if len(one.old) > 1 and parsed.lower[at : last + 1] != one.old:
        return False
    if one.tag and parsed.words[at + one.inflected_at].tag != one.tag:
        return False
    if not _is_class(parsed, at, last, one) or not is_whole(parsed, at, last):
        return False
    place = Place(parsed, at, last)
    if not all(CHECKS[name](place, words) for name, words in one.conditions):
        return False
    return not any(word in parsed.lower for word in _new_words(one))


def _new_words(one: Synonym) -> Iterator[str]:
    """What it brings in, little words aside: said twice it would sound wrong."""
    return (word for word in one.new.split() if word not in _LITTLE and word not in one.old)


def _is_class(parsed: Parsed, first: int, last: int, one: Synonym) -> bool:
    word = parsed.words[last]
    if one.word_class == "noun":
        return _is_noun(parsed, first, last, {condition.name for condition in one.conditions})
    if one.word_class == "adjective":
        return word.dep == "amod" and word.head > last and parsed.words[word.head].tag in NOUN_TAGS
    if one.word_class == "verb":
        dep = parsed.words[first].dep
        return first not in parsed.bound and dep not in ("amod", "compound", "aux", "auxpass")
    return True


def _is_noun(parsed: Parsed, first: int, last: int, flags: set[str]) -> bool:
    """A common noun that no other noun makes something else of."""
    word = parsed.words[last]
    if word.tag not in _COMMON_NOUNS or last in parsed.bound:
        return False
    before = parsed.words[first - 1] if first else None
    if before is not None and before.tag in NOUN_TAGS and "c" not in flags:
        return False
    if last + 1 == len(parsed.words):
        return True
    after = parsed.words[last + 1]
    if after.tag == "POS" and word.tag == "NNS":
        return False
    return "m" in flags or (after.tag not in NOUN_TAGS and word.dep != "compound")


SYNONYM = Kind(
    name="synonym",
    keeps_meaning=True,
    about="a word by a synonym of our table: a cat under a sofa -> a cat beneath a sofa",
    source="REPLACE of the hard positives, with a table of our own",
    editor=by_rule(synonym),
)
