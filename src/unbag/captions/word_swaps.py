"""A parsed caption comes in; the same caption with two single nouns exchanged goes out (NegCLIP).

Wider than `swap_nouns`: parts of compounds move too ("a street hydrant on a fire"), and nouns that
only "with" links ("a toilet with a bathroom"). What is exchanged still differs, and articles fit.
"""

from __future__ import annotations

from itertools import combinations

from unbag.captions.attribute_lists import NOT_ATTRIBUTES
from unbag.captions.facts import Facts, facts_of
from unbag.captions.filters import LEAVES_MARKED_WORDS
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed
from unbag.captions.swaps import ends_name, exchanged, goes
from unbag.captions.things import Determined, Thing, determined, fits, is_plural
from unbag.captions.word_lists import (
    DOINGS,
    GROUPINGS,
    NO_THINGS,
    PICTURES,
    is_near,
    word_set,
)

_LEFT_OUT = NO_THINGS | PICTURES | GROUPINGS | DOINGS
_NOTHING = word_set(
    """
    - afternoon back bit brown couple day distance evening front kind lot morning night one other
    side something someone sort t time top type way
    """
)


def swap_words(parsed: Parsed) -> list[Changes]:
    """Two single nouns: things and parts of names; where there are none, any nouns that fit."""
    if not parsed.nouns:
        return []
    facts = facts_of(parsed)
    return _swapped(facts, _LEFT_OUT, is_first=True) or _swapped(facts, _NOTHING, is_first=False)


def _swapped(facts: Facts, left_out: frozenset[str], *, is_first: bool) -> list[Changes]:
    parsed = facts.parsed
    places = [at for at in range(len(parsed.words)) if _is_single(parsed, at, left_out)]
    return [
        exchanged(parsed, one[:2], other[:2])
        for one, other in combinations([_as_thing(parsed, at) for at in places], 2)
        if not is_near(one.lemma, other.lemma)
        and fits(one, other)
        and fits(other, one)
        and _differ(facts, one, other, is_first=is_first)
    ]


def _is_single(parsed: Parsed, at: int, left_out: frozenset[str]) -> bool:
    word = parsed.words[at]
    if word.tag not in ("NN", "NNS") or at in parsed.bound or not word.text.isalpha():
        return False
    if ends_name(parsed, at):
        return False
    is_parking_lot = word.lemma == "lot" and at > 0 and is_modifier(parsed, at - 1)
    if (word.lemma.lower() in left_out and not is_parking_lot) or (
        is_modifier(parsed, at) and word.text.endswith("ing")
    ):
        return False
    before = parsed.lower[at - 1] if at else ""
    after = parsed.lower[at + 1] if at + 1 < len(parsed.words) else ""
    return before != "-" and after not in ("-", "'s", "'")


def _as_thing(parsed: Parsed, at: int) -> Thing:
    word = parsed.words[at]
    lemma = word.lemma.lower()
    if is_modifier(parsed, at):
        return Thing(at, at, at, lemma, word.tag in ("NNS", "NNPS"), Determined.THE)
    return Thing(at, at, at, lemma, is_plural(parsed, at), determined(parsed, at))


def is_modifier(parsed: Parsed, at: int) -> bool:
    """Whether it specifies another noun: "fire" in "fire hydrant"."""
    return parsed.words[at].dep == "compound" and parsed.words[at].head > at


def _differ(facts: Facts, one: Thing, other: Thing, *, is_first: bool) -> bool:
    """Whether the caption becomes another; parts of one compound are exchanged last."""
    parsed = facts.parsed
    parts = [is_modifier(parsed, thing.head) for thing in (one, other)]
    if any(parts):
        if is_first and _are_in_one(parsed, one.head, other.head):
            return False
        # "A wii playing man games" is no English: the verb becomes part of a compound.
        is_verb = parsed.words[one.head + 1].tag in ("VBG", "VBN")
        return not (is_verb and other.head == one.head + 2)
    if facts.belong_together(one.head, other.head) or not goes(parsed, one, other):
        return False
    if facts.differ(one, other, keep_attributes=True):
        return True
    if _adjectives(parsed, one.head) != _adjectives(parsed, other.head):
        return True
    a, b = facts.group_of(one.head), facts.group_of(other.head)
    links = {f.link for f in facts.facts if {f.subject, f.object} == {a, b}}
    return a != b and links <= {"with"}


def _are_in_one(parsed: Parsed, one: int, other: int) -> bool:
    """Whether they are parts of one compound: a night city says much what a city night says."""
    return any(noun.first <= one and other <= noun.last for noun in parsed.nouns)


def _adjectives(parsed: Parsed, noun: int) -> frozenset[str]:
    return frozenset(
        parsed.lower[one.word]
        for one in parsed.attributes
        if one.noun == noun and parsed.lower[one.word] not in NOT_ATTRIBUTES
    )


SWAP_WORDS = Kind(
    name="swap_words",
    keeps_meaning=False,
    about="single nouns, of names too: a fire hydrant on a road -> a road hydrant on a fire",
    source="NegCLIP",
    editor=by_rule(swap_words),
    keeps_words=True,
    filters=(LEAVES_MARKED_WORDS,),
    is_default=False,
)
