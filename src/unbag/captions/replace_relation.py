"""A parsed caption comes in; it with an attribute or a relation that excludes the old one goes out.

CREPE's replace for attributes and relations; that for nouns is in wordnet_edits. Relations are
prepositions between things that can be on, under or beside each other, and verbs with an object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from unbag.captions.agreement import inflected
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed
from unbag.captions.relations import Relation, relations_in
from unbag.captions.replace import replace_colour, replace_material, replace_size, replace_state
from unbag.captions.verb_forms import verb_lemma
from unbag.captions.word_lists import (
    ALIVE,
    ANIMALS,
    DOINGS,
    NO_THINGS,
    PICTURES,
    by_line,
    word_set,
)

_THINGS = word_set("""
    table bed bench chair couch sofa desk car truck bus van boat train motorcycle bicycle bike
    shelf counter box tree bridge roof horse elephant camel umbrella blanket cabinet stove
    refrigerator suitcase laptop rock wall fence statue stool dresser cart wagon plane airplane
    skateboard surfboard book keyboard rug pillow
    """)
"""Something can be on, under, behind and beside them."""
_HOLLOW = word_set("box basket bowl suitcase bag cup car truck bus boat van train cage tub sink")
_ON_TOP = word_set("""
    table bed bench car truck bus van boat train shelf counter box roof horse elephant couch sofa
    desk rock stool cabinet refrigerator
    """)
_FLAT = word_set("blanket rug pillow book keyboard laptop skateboard surfboard")
"""Nothing is said to be behind or under these."""
_STILL = word_set("sit stand lie lay be rest sleep place park perch kneel pose wait set relax nap")
_BESIDE = frozenset(("next to", "beside", "near", "by"))

_VERBS: Mapping[str, tuple[str, ...]] = by_line(
    """
    hold: throw drop
    carry: throw drop
    ride: push wash repair
    wear: carry
    eat: throw cook
    throw: catch
    catch: throw drop
    kick: catch carry
    push: pull
    pull: push
    chase: lick
    read: burn tear
    drink: pour spill
    drive: push wash
    hit: catch
    swing: drop
    fly: carry fold
    feed: chase
    pet: chase
    hug: push
    cut: eat
    lick: chase
    bite: carry
    paint: wash
    toss: catch
    build: destroy
    open: close
    close: open
    climb: descend
    """
)
_OF_ANIMALS = frozenset(("catch", "chase", "pull", "push", "hold", "carry", "climb", "lick"))
"""Of what animals do, that which has a replacement that they do as well."""
_WAYS = word_set("down up through along across over past around into off toward towards onto")
"""One is not washed or repaired on the way."""
_NOT_DONE_TO = word_set("""
    wave trick jump ride sign hand hands arm way air skate slope hill water smile pose picture hair
    face tooth teeth light bath turn wind horn meal lunch dinner breakfast flip something it them
    him her one beard mustache tongue head leg eye mouth mask fun breath home conversation party
    race sale bit bite nap nose paw lip finger look seat place foot feet tail body surf road street
    tattoo ear makeup
    """)
"""With these as objects a verb says something else (ride a wave, take a nap), or they are parts."""
_FITTING: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "wash": word_set("""
            car truck bus van motorcycle bicycle bike horse elephant scooter
            """),
        "fold": frozenset(("kite",)),
        "repair": word_set("car truck bus motorcycle bicycle bike scooter boat"),
        "catch": word_set(
            "ball baseball football volleyball frisbee stick rock snowball disc leaf"
        ),
        "push": word_set("car truck bus motorcycle bicycle bike scooter boat cart van wagon man"),
        "cook": word_set("food pizza sandwich carrot vegetable meat fish hot_dog broccoli"),
        "descend": word_set("stair ladder mountain hill cliff wall rock tree staircase"),
        "burn": word_set("book newspaper magazine paper"),
        "tear": word_set("book newspaper magazine paper"),
        "pour": word_set("beer wine water milk coffee juice drink"),
        "spill": word_set("beer wine water milk coffee juice drink"),
        "carry": word_set("""
            ball stick toy frisbee football kite hat helmet cap shirt dress jacket coat suit
            uniform sweater sweatshirt vest robe swimsuit skirt costume t-shirt wetsuit
            """),
    }
)
"""What these may be done to; verbs that are not here are done to anything."""
_BODY = word_set("mouth arm arms hand hands trunk beak head lap face teeth sky air ear ears")
"""Where one of these follows, the verb is tied to it: a bottle in the mouth is not thrown."""


def replace_attribute(parsed: Parsed) -> list[Changes]:
    """A colour, a material, a size or a state by one that excludes it."""
    return [
        *replace_colour(parsed),
        *replace_material(parsed),
        *replace_size(parsed),
        *replace_state(parsed),
    ]


def replace_relation(parsed: Parsed) -> list[Changes]:
    """A preposition or a verb between two nouns."""
    return [change for relation in relations_in(parsed) for change in _replaced(parsed, relation)]


def _replaced(parsed: Parsed, relation: Relation) -> Iterator[Changes]:
    if relation.is_direct and relation.verb is not None:
        yield from _other_verbs(parsed, relation, relation.verb)
        return
    is_still = relation.verb is None or verb_lemma(parsed, relation.verb) in _STILL
    thing = parsed.words[relation.object.head]
    has_name = relation.object.head > 0 and parsed.words[relation.object.head - 1].dep == "compound"
    if not is_still or has_name or thing.lemma.lower() not in _THINGS:
        return
    if _is_part(parsed, relation) or relation.link.last + 1 != relation.object.first:
        return
    link = parsed.text_of(relation.link.first, relation.link.last).lower()
    for new in _other_links(link, thing.lemma.lower()):
        yield (parsed.change(relation.link.first, relation.link.last, new),)


def _is_part(parsed: Parsed, relation: Relation) -> bool:
    """Whether the subject is a word for a place or a picture, or belongs to the object."""
    subject = parsed.words[relation.subject.head].lemma.lower()
    is_part = subject in ("wheel", "leg", "hand", "head", "arm", "foot", "door", "light")
    return is_part or subject in NO_THINGS or subject in PICTURES or subject in DOINGS


def _other_links(link: str, thing: str) -> tuple[str, ...]:
    top = ("on top of",) if thing in _ON_TOP else ()
    if link in ("on", "on top of"):
        return ("next to",) if thing in _FLAT else ("under", "next to", "behind")
    if link == "in":
        return ("behind", "next to", *top) if thing in _HOLLOW else ()
    if link in ("under", "underneath", "beneath"):
        return ("next to", *top)
    if link in _BESIDE or link in ("behind", "in front of"):
        return top
    return ()


def _other_verbs(parsed: Parsed, relation: Relation, verb: int) -> Iterator[Changes]:
    thing = parsed.words[relation.object.head]
    lemma = thing.lemma.lower()
    word = parsed.words[verb]
    if lemma in _NOT_DONE_TO or thing.tag == "VBG" or relation.object.first != verb + 1:
        return
    if not _BODY.isdisjoint(parsed.lower[relation.object.last + 1 :]) or _is_wish(parsed, verb):
        return
    is_animal = parsed.words[relation.subject.head].lemma.lower() in ANIMALS
    if is_animal and verb_lemma(parsed, verb) not in _OF_ANIMALS:
        return
    for new in _VERBS.get(verb_lemma(parsed, verb), ()):
        if new in ("wash", "repair", "catch") and not _WAYS.isdisjoint(parsed.lower[verb:]):
            continue
        if lemma not in _FITTING.get(new, (lemma,)):
            continue
        if new == "throw" and (is_animal or lemma in ALIVE):
            continue
        if new == "drop" and lemma in ALIVE:
            continue
        if not any(other.lemma == new for other in parsed.words):
            yield (parsed.change(verb, verb, inflected(new, word.tag)),)


def _is_wish(parsed: Parsed, verb: int) -> bool:
    """Whether it is "to throw": what somebody is about to do is not seen."""
    return verb > 0 and parsed.lower[verb - 1] == "to"


REPLACE_ATTRIBUTE = Kind(
    name="replace_attribute",
    keeps_meaning=False,
    about="another colour, material, size or state: a wet dog -> a dry dog",
    source="CREPE",
    editor=by_rule(replace_attribute),
    # Its four parts are kinds of their own.
    is_default=False,
)
REPLACE_RELATION = Kind(
    name="replace_relation",
    keeps_meaning=False,
    about="a relation that excludes the old: a cat on a table -> a cat under a table",
    source="CREPE",
    editor=by_rule(replace_relation),
)
