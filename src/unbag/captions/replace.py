"""A parsed caption comes in; it with another colour, material, size or state goes out (SVLC).

Whole words by our own lists. Names are left alone ("red wine", "black and white photo"), and no
word is put in that the caption has already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from unbag.captions.attribute_lists import (
    AGES,
    AGES_OF_THINGS,
    COLOURS,
    NATURAL_COLOURS,
    PAVED,
    REPLACED_COLOURS,
    REPLACED_FABRICS,
    REPLACED_MATERIALS,
    REPLACED_PAVINGS,
    REPLACED_SIZES,
    REPLACED_STATES,
    TALL,
    is_fixed,
)
from unbag.captions.attribute_nouns import is_said_of
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import ADJECTIVE_TAGS, NOUN_TAGS, Parsed
from unbag.captions.word_lists import ALIVE, ANIMALS, GROUPINGS, PEOPLE, PICTURES, word_set

_SHADES = word_set("light dark bright pale deep neon vivid faded")
_SHADELESS = frozenset(("black", "white", "gray", "orange", "yellow"))
_HAIR = word_set("hair beard mustache fur mane")
_WORN_IN = word_set("dress clothe clad wear")
_STATES = {**REPLACED_STATES, **AGES, **AGES_OF_THINGS}
_MATERIALS = {**REPLACED_MATERIALS, **REPLACED_FABRICS, **REPLACED_PAVINGS}
_SMALL = word_set("small little tiny miniature big large huge short")
_YOUNG = word_set("boy girl child kid baby toddler infant one brother sister")


def replace_colour(parsed: Parsed) -> list[Changes]:
    """A colour by another."""
    return _replaced(parsed, REPLACED_COLOURS, _colours_for)


def replace_material(parsed: Parsed) -> list[Changes]:
    """What a thing is made of."""
    return _replaced(parsed, _MATERIALS, _materials_for)


def replace_size(parsed: Parsed) -> list[Changes]:
    """A size by its contrary."""
    return _replaced(parsed, REPLACED_SIZES, _sizes_for)


def replace_state(parsed: Parsed) -> list[Changes]:
    """A state, an age, a pattern or a shape by one that excludes it."""
    return _replaced(parsed, _STATES, _states_for)


def _replaced(
    parsed: Parsed,
    words: Mapping[str, tuple[str, ...]],
    fitting: Callable[[Parsed, int], Iterable[str]],
) -> list[Changes]:
    found: list[Changes] = []
    for at, text in enumerate(parsed.lower):
        if text in words and at not in parsed.bound and not _is_in_name(parsed, at):
            found += [
                (parsed.change(at, at, new),)
                for new in fitting(parsed, at)
                if new not in parsed.lower
            ]
    return found


def _is_in_name(parsed: Parsed, at: int) -> bool:
    """Whether it is part of a name, of a compound word, or no word that describes."""
    after, before = _after(parsed, at), parsed.lower[at - 1] if at else ""
    if "-" in (before, after) or before in ("'s", "'") or is_fixed(parsed.lower[at], after):
        return True
    word = parsed.words[at]
    return word.tag in ("NNP", "NNPS") or (
        at > 0 and word.text[0].isupper() and not parsed.is_upper
    )


def _after(parsed: Parsed, at: int) -> str:
    return parsed.lower[at + 1] if at + 1 < len(parsed.words) else ""


def _noun_of(parsed: Parsed, at: int) -> int | None:
    """The noun it stands before, alone or in a list: "red" in "red and blue kites"."""
    word = parsed.words[at]
    while word.dep == "conj" and parsed.words[word.head].pos in ("ADJ", "NOUN"):
        if word.head == at:
            break
        at, word = word.head, parsed.words[word.head]
    is_before = word.dep in ("amod", "compound", "nmod") and word.head > at
    return word.head if is_before and parsed.words[word.head].tag in NOUN_TAGS else None


def _described(parsed: Parsed, at: int) -> int | None:
    """The noun an adjective tells about: before it, or as "the bus is red"."""
    noun = _noun_of(parsed, at)
    word = parsed.words[at]
    if noun is not None or word.dep != "acomp":
        return noun
    if any(parsed.words[child].dep == "prep" for child in parsed.children[at]):
        return None
    if parsed.lower[word.head] not in ("is", "are", "was", "were"):
        return None
    return next((c for c in parsed.children[word.head] if parsed.words[c].dep == "nsubj"), None)


def _lemma(parsed: Parsed, at: int) -> str:
    return parsed.words[at].lemma.lower()


def _colours_for(parsed: Parsed, at: int) -> Sequence[str]:
    text = parsed.lower[at]
    noun = _described(parsed, at)
    if noun is None:
        return REPLACED_COLOURS[text] if _is_worn(parsed, at) else ()
    lemma = _lemma(parsed, noun)
    if parsed.words[at].tag not in (*ADJECTIVE_TAGS, "NN") or _lists_picture(parsed, lemma):
        return ()
    if lemma in PEOPLE or lemma in COLOURS or (text in ("gold", "silver") and _is_noun(parsed, at)):
        return ()
    new = [c for c in REPLACED_COLOURS[text] if not is_fixed(c, _after(parsed, at))]
    if lemma in ANIMALS or lemma in _HAIR:
        new = [colour for colour in new if colour in NATURAL_COLOURS]
    if at and parsed.lower[at - 1] in _SHADES:
        new = [colour for colour in new if colour not in _SHADELESS]
    return new


def _lists_picture(parsed: Parsed, lemma: str) -> bool:
    """Whether "black and white" says how a picture was taken."""
    return lemma in PICTURES or lemma in ("cross", "tv", "television", "movie")


def _is_noun(parsed: Parsed, at: int) -> bool:
    return parsed.words[at].dep in ("compound", "nmod")


def _is_worn(parsed: Parsed, at: int) -> bool:
    """Whether it is the whole of "dressed in red" or "a man in red"."""
    word = parsed.words[at]
    if word.dep != "pobj" or parsed.lower[at - 1] != "in" or parsed.children[at]:
        return False
    holder = word.head
    of = parsed.words[parsed.words[holder].head]
    return of.lemma in _WORN_IN or of.lemma in PEOPLE


def _materials_for(parsed: Parsed, at: int) -> Sequence[str]:
    text, noun = parsed.lower[at], _noun_of(parsed, at)
    if noun is None or noun - at > 2 or parsed.lower[at + 1] in ("and", "or", ",", "/"):
        return ()
    if at and (parsed.words[at - 1].tag in NOUN_TAGS or parsed.lower[at - 1] == "stained"):
        return ()
    if _lemma(parsed, noun) in PAVED:
        return REPLACED_PAVINGS.get(text, ())
    if text in REPLACED_FABRICS:
        return REPLACED_FABRICS[text]
    new = REPLACED_MATERIALS.get(text, ())
    return [word for word in new if not is_fixed(word, _after(parsed, at))]


def _sizes_for(parsed: Parsed, at: int) -> Sequence[str]:
    text, noun = parsed.lower[at], _described(parsed, at)
    if noun is None or parsed.words[at].tag != "JJ":
        return ()
    lemma = _lemma(parsed, noun)
    if lemma in _YOUNG and text in _SMALL:
        return ()
    if text == "short":
        return ("tall",) if lemma in TALL or lemma in ALIVE else ("long",)
    if text in ("little", "short") and lemma in ("bit", "while", "time"):
        return ()
    return REPLACED_SIZES[text]


def _states_for(parsed: Parsed, at: int) -> Iterator[str]:
    text, noun = parsed.lower[at], _described(parsed, at)
    if noun is None or (parsed.words[at].tag in NOUN_TAGS and text not in AGES):
        return
    lemma = _lemma(parsed, noun)
    is_alive = lemma in ALIVE
    if (
        lemma in GROUPINGS
        or lemma in PICTURES
        or _follows_noun(parsed, at)
        or (is_alive and lemma in _YOUNG)
    ):
        return
    if text in AGES or text in AGES_OF_THINGS:
        yield from (AGES if is_alive else AGES_OF_THINGS).get(text, ())
    elif is_fixed(text, parsed.lower[noun]) or _is_graded(parsed, at):
        return
    elif parsed.words[at].tag != "VBG" or text in ("smiling", "sleeping", "crying", "moving"):
        new_ones = REPLACED_STATES[text]
        yield from (new for new in new_ones if is_said_of(new, lemma, instead_of=text))


def _is_graded(parsed: Parsed, at: int) -> bool:
    """Whether "partly" or "brightly" stands before it: nothing is partly cloudless."""
    before = parsed.lower[at - 1] if at else ""
    return before in ("wide", "half", "fast") or (before.endswith("ly") and before != "really")


def _follows_noun(parsed: Parsed, at: int) -> bool:
    """Whether it is "three years old" or "rain soaked"."""
    return at > 0 and parsed.words[at - 1].tag in (*NOUN_TAGS, "CD", "HYPH")


def _kind(name: str, about: str, rule: Callable[[Parsed], list[Changes]]) -> Kind:
    return Kind(name, keeps_meaning=False, about=about, source="SVLC", editor=by_rule(rule))


REPLACE_COLOUR = _kind("replace_colour", "a colour: a red bus -> a blue bus", replace_colour)
REPLACE_MATERIAL = _kind(
    "replace_material", "what it is made of: a wooden bench -> a metal bench", replace_material
)
REPLACE_SIZE = _kind("replace_size", "a size: a large box -> a small box", replace_size)
REPLACE_STATE = _kind(
    "replace_state", "a state, age, pattern or shape: an open door -> a closed door", replace_state
)
