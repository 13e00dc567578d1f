"""A parsed caption comes in; the same with another number of things goes out.

Numbers only rise: where there are five dogs there are also three, so a smaller number could still
be called true. "One" is replaced before a noun only, with noun and verb in the plural. Left alone
are times, ages, measures, names and numbers that the caption takes up again ("two dogs, one of
them black").
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from unbag.captions.agreement import agreeing, inflected
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed

_NUMBERS = """
one two three four five six seven eight nine ten eleven twelve
"""
_WORDS = tuple(_NUMBERS.split())
_VALUES: Mapping[str, int] = MappingProxyType(
    {word: at for at, word in enumerate(_WORDS, start=1)}
    | {str(at): at for at in range(1, len(_WORDS) + 1)}
)
_UNIT_WORDS = """
year month week day hour minute second mile foot inch dollar cent percent degree pound ton meter
metre kilometer yard o'clock pm am story storey lane piece stage part step time way side direction
end angle dimension bit point half third quarter row occasion corner type kind sort person
"""
_UNITS = frozenset(_UNIT_WORDS.split())
_TAKEN_UP_WORDS = """
one other another both either neither pair couple first second latter former respectively only
single alone others twin twins each
"""
_TAKEN_UP = frozenset(_TAKEN_UP_WORDS.split())
_NO_COUNT_AFTER = frozenset(("#", "number", "no.", "than", "about", "the", "at", "of", "all"))
_PAIRED_WORDS = """
arm ear elbow eye foot hand knee leg paw shoe ski sock wheel wing glove boot
"""
_PAIRED = frozenset(_PAIRED_WORDS.split())
"""Of these nobody has three."""
_ITS = frozenset(("it", "its", "itself", "he", "his", "him", "himself", "she", "her", "herself"))


def replace_number(parsed: Parsed) -> list[Changes]:
    """A larger number before the same noun."""
    found: list[Changes] = []
    for at in parsed.counts:
        value = _VALUES.get(parsed.lower[at])
        if value is None or not _is_count(parsed, at):
            continue
        if value == 1:
            found += _from_one(parsed, at)
        else:
            found += [(parsed.change(at, at, _written(parsed, at, new)),) for new in _above(value)]
    return found


def _above(value: int) -> tuple[int, ...]:
    """Larger numbers, far enough to be seen; at most twelve, the last that is written as a word."""
    if value < 5:
        return tuple(range(value + 1, value + 4))
    return tuple(new for new in (value + 2, value + 3, value + 4) if new <= len(_WORDS))


def _written(parsed: Parsed, at: int, value: int) -> str:
    return str(value) if parsed.lower[at].isdigit() else _WORDS[value - 1]


def _is_count(parsed: Parsed, at: int) -> bool:
    """Whether it says how many things there are, and nothing else in the caption hangs on that."""
    word = parsed.words[at]
    noun = parsed.words[word.head]
    if word.head < at or noun.lemma in _UNITS or "-" in parsed.text_of(at, word.head):
        return False
    if at and parsed.lower[at - 1] in _NO_COUNT_AFTER:
        return False
    if at and parsed.words[at - 1].pos in ("NUM", "PROPN", "SYM"):
        return False
    if any(parsed.words[child].dep == "appos" for child in parsed.children[word.head]):
        return False
    return not _is_taken_up(parsed, at) and (noun.tag == "NNS" or _VALUES[parsed.lower[at]] == 1)


def _is_taken_up(parsed: Parsed, at: int) -> bool:
    for other, text in enumerate(parsed.lower):
        if other == at or text not in _TAKEN_UP:
            continue
        # "each other" fits any number from two on.
        is_mutual = text == "each" and parsed.lower[other + 1 : other + 2] == ("other",)
        is_mutual |= text == "other" and other > 0 and parsed.lower[other - 1] == "each"
        if not is_mutual:
            return True
    return False


def _from_one(parsed: Parsed, at: int) -> list[Changes]:
    """With the noun in the plural, and its verbs."""
    noun = parsed.words[at].head
    word = parsed.words[noun]
    is_plain = word.tag == "NN" and _ITS.isdisjoint(parsed.lower[at:])
    is_plain = is_plain and sum(one.lemma == word.lemma for one in parsed.words) == 1
    if not is_plain or not _stands_alone(parsed, noun):
        return []
    plural = inflected(word.lemma, "NNS")
    if plural == word.text.lower():
        return []
    verbs = agreeing(parsed, noun, is_plural=True)
    return [
        (
            parsed.change(at, at, _written(parsed, at, value)),
            parsed.change(noun, noun, plural),
            *verbs,
        )
        for value in ((2,) if word.lemma in _PAIRED else (2, 3))
    ]


def _stands_alone(parsed: Parsed, noun: int) -> bool:
    """No "a" or "this" before the number, and nothing joined to the noun."""
    children = [parsed.words[at] for at in parsed.children[noun]]
    return not any(child.dep in ("det", "poss", "conj", "appos") for child in children)


REPLACE_NUMBER = Kind(
    name="replace_number",
    keeps_meaning=False,
    about="a larger number: two dogs on a sofa -> four dogs on a sofa",
    source="ours",
    editor=by_rule(replace_number),
)
