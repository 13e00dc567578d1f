"""A parsed caption comes in; the same with another article that says no less goes out.

A caption describes what is seen, so that "a dog", "the dog" and "one dog" are the same dog where
it is first spoken of. Only nouns are touched for which that is sure.
"""

from __future__ import annotations

from collections.abc import Iterator

from unbag.captions.changes import starts_with_vowel
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed, Phrase
from unbag.captions.synonym_verbs import GROUPS
from unbag.captions.word_lists import ALIVE, word_set

_GROUPS_OF_PEOPLE = word_set(
    "people police crew audience team couple cattle band crowd fish sheep deer"
)
_THINGS = (ALIVE | GROUPS["@things"] | GROUPS["@vehicles"]) - _GROUPS_OF_PEOPLE - {"food", "fruit"}
_PLACES = word_set("""
    table bench bed couch sofa floor desk counter field beach street road park kitchen bathroom
    room yard garden forest sidewalk hill mountain river lake pool court stage playground track
    building house fence wall tree car truck bus boat train fountain bridge ramp slide chair
    """)
_AT = word_set(
    "on near behind under beside by over through across down along to against outside in"
)
_SPECIAL = word_set("""
    other same only first last next second third few lot little very many such whole best largest
    biggest tallest smallest single half own entire mid
    """)
_COMPARED = frozenset(("one", "another", "other", "others", "first", "second", "both", "each"))


def article(parsed: Parsed) -> list[Changes]:
    """Every article that may be another, and those that may be added before the first noun."""
    if not parsed.chunks:
        return []
    return [*_first(parsed), *_of_places(parsed)]


def _first(parsed: Parsed) -> Iterator[Changes]:
    """At the first noun phrase of the caption, if it starts the caption."""
    phrase = parsed.chunks[0]
    if phrase.first != 0 or not _is_plain(parsed, phrase):
        return
    word, noun = parsed.lower[0], parsed.words[phrase.head]
    is_known = noun.lemma in _THINGS
    if noun.tag == "NNS":
        if parsed.words[0].tag == "CD" and word != "one" and not _COMPARED & {*parsed.lower}:
            yield (parsed.change(0, 0, f"the {word}"),)
        return
    if word in ("a", "an"):
        yield (parsed.change(0, 0, "the"),)
        if noun.lemma in ALIVE and is_known and not _COMPARED & {*parsed.lower}:
            yield (parsed.change(0, 0, "one"),)
    elif word in ("the", "one") and is_known and not _COMPARED & {*parsed.lower[1:]}:
        yield (parsed.change(0, 0, _a_before(parsed, 1)),)
    elif parsed.words[0].tag in ("NN", "JJ") and is_known and not _is_owned(parsed, phrase):
        yield (parsed.change(0, 0, f"{_a_before(parsed, 0)} {word}"),)


def _of_places(parsed: Parsed) -> Iterator[Changes]:
    """Before a place later in the caption: "on a table" and "on the table"."""
    for phrase in parsed.chunks[1:]:
        noun = parsed.words[phrase.head]
        if parsed.lower[phrase.first] not in ("a", "an") or noun.lemma not in _PLACES:
            continue
        is_at = noun.dep == "pobj" and parsed.lower[noun.head] in _AT
        if (
            is_at
            and noun.tag == "NN"
            and _is_plain(parsed, phrase)
            and _is_said_once(parsed, noun.lemma)
        ):
            yield (parsed.change(phrase.first, phrase.first, "the"),)


def _is_plain(parsed: Parsed, phrase: Phrase) -> bool:
    """A common noun without what makes its article needed, such as "same" or "of" after it."""
    words = parsed.words
    if words[phrase.head].tag not in ("NN", "NNS") or phrase.head != phrase.last:
        return False
    if parsed.lower[phrase.first] in ("a", "an") and words[phrase.head].tag == "NNS":
        return False
    inside = range(phrase.first, phrase.last + 1)
    if any(
        parsed.lower[at] in _SPECIAL or words[at].tag in ("JJS", "NNP", "NNPS") for at in inside
    ):
        return False
    after = phrase.last + 1
    return after == len(words) or parsed.lower[after] not in (
        "of",
        "'s",
        "'",
        "-",
        "and",
        ",",
        "or",
    )


def _is_owned(parsed: Parsed, phrase: Phrase) -> bool:
    """Whether somebody is named before it: "someone's dog" takes no article."""
    return any(parsed.words[at].tag == "POS" for at in range(phrase.first, phrase.last))


def _is_said_once(parsed: Parsed, lemma: str) -> bool:
    return sum(word.lemma == lemma for word in parsed.words) == 1


def _a_before(parsed: Parsed, at: int) -> str:
    return "an" if starts_with_vowel(parsed.lower[at]) else "a"


ARTICLE = Kind(
    name="article",
    keeps_meaning=True,
    about="another article: a dog on a bench -> the dog on a bench",
    source="ours",
    editor=by_rule(article),
)
