"""A parsed caption comes in; it with another colour, material, size or state goes out (SVLC).

Whole words by our own lists. Names are left alone ("red wine", "black and white photo"), and no
word is put in that the caption has already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from unbag.edits.inflection import inflected, verb_lemma
from unbag.edits.kinds import Changes, Kind, by_rule
from unbag.edits.lexicon import ACTION_LISTS_OBJECTS as OBJECTS
from unbag.edits.lexicon import (
    AGES,
    AGES_OF_THINGS,
    ALIVE,
    ALONG_WAY,
    ANIMALS,
    DOINGS,
    GROUPINGS,
    NATURAL_COLOURS,
    NO_THINGS,
    OF_ANIMALS,
    PAVED,
    PEOPLE,
    PICTURES,
    REPLACED_COLOURS,
    REPLACED_FABRICS,
    REPLACED_MATERIALS,
    REPLACED_PAVINGS,
    REPLACED_SIZES,
    REPLACED_STATES,
    TALL,
    WAYS,
    WITH_OBJECT,
    WITHOUT_OBJECT,
    by_line,
    is_fixed,
    is_said_of,
    word_set,
)
from unbag.edits.lexicon import ATTRIBUTE_LISTS_COLOURS as COLOURS
from unbag.edits.nouns import doer
from unbag.edits.parsed import ADJECTIVE_TAGS, NOUN_TAGS, Parsed, Relation, relations_in

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

_REPLACE_ACTION_VERBS = frozenset(key.partition("/")[0] for key in WITH_OBJECT) | frozenset(
    WITHOUT_OBJECT
)
_DEPENDENT = frozenset(("prt", "xcomp", "ccomp", "dative", "oprd", "acomp", "neg", "nsubjpass"))
_TENSED = frozenset(("VBG", "VBZ", "VBP", "VBD", "VB"))
# "Lying" is the one form that the dictionary gives for another verb first.
_FORMS = {("lie", "VBG"): "lying", ("lie", "VBD"): "lay"}
_REPLACE_ACTION_BODY = frozenset(
    ("back", "side", "belly", "stomach", "knee", "leg", "foot", "lap", "shoulder")
)


def replace_action(parsed: Parsed) -> list[Changes]:
    """A verb by one that cannot be true at the same time."""
    found: list[Changes] = []
    said = frozenset(parsed.words[at].lemma for at in parsed.verbs)
    for verb in parsed.verbs:
        lemma = verb_lemma(parsed, verb)
        if lemma not in _REPLACE_ACTION_VERBS or parsed.words[verb].tag not in _TENSED:
            continue
        if any(parsed.words[c].dep in _DEPENDENT for c in parsed.children[verb]):
            continue
        tag = parsed.words[verb].tag
        found += [
            (parsed.change(verb, verb, _form(new, tag)),)
            for new in _excluding(parsed, verb, lemma)
            if new not in said
        ]
    return found


def _form(lemma: str, tag: str) -> str:
    return _FORMS.get((lemma, tag)) or inflected(lemma, tag)


def _excluding(parsed: Parsed, verb: int, lemma: str) -> Iterator[str]:
    children = [(at, parsed.words[at]) for at in parsed.children[verb]]
    objects = [word for _, word in children if word.dep == "dobj"]
    if objects:
        name = objects[0].lemma.lower()
        for of, words in OBJECTS.items():
            if name in words:
                yield from WITH_OBJECT.get(f"{lemma}/{of}", ())
        return
    if any(word.dep == "conj" for _, word in children) or parsed.words[verb].dep == "conj":
        return
    subject = doer(parsed, verb)
    if subject is None:
        return
    name = parsed.words[subject].lemma.lower()
    if _is_vague(parsed, subject) or any(_is_posture(parsed, at) for at, _ in children):
        return
    if any(parsed.lower[at] in WAYS for at, _ in children):
        yield from ALONG_WAY.get(lemma, ()) if name in ALIVE else ()
    elif name in PEOPLE:
        yield from WITHOUT_OBJECT.get(lemma, ())
    elif name in ANIMALS:
        yield from OF_ANIMALS.get(lemma, ())


def _is_vague(parsed: Parsed, subject: int) -> bool:
    """Where some people stand, others may well sit."""
    return any(parsed.lower[at] in ("some", "several", "many") for at in parsed.children[subject])


def _is_posture(parsed: Parsed, at: int) -> bool:
    """On one's back nobody runs."""
    return any(parsed.words[child].lemma in _REPLACE_ACTION_BODY for child in parsed.children[at])


REPLACE_ACTION = Kind(
    name="replace_action",
    keeps_meaning=False,
    about="what is done: a man riding a bike -> a man pushing a bike",
    source="SVLC",
    editor=by_rule(replace_action),
)

# CREPE's replace for attributes and relations; that for nouns is in wordnet_edits. Relations are
# prepositions between things that can be on, under or beside each other, and verbs with an object.

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

_REPLACE_RELATION_VERBS: Mapping[str, tuple[str, ...]] = by_line(
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
_REPLACE_RELATION_BODY = word_set(
    "mouth arm arms hand hands trunk beak head lap face teeth sky air ear ears"
)
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
    return [
        change
        for relation in relations_in(parsed)
        for change in _replace_relation_replaced(parsed, relation)
    ]


def _replace_relation_replaced(parsed: Parsed, relation: Relation) -> Iterator[Changes]:
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
    if not _REPLACE_RELATION_BODY.isdisjoint(parsed.lower[relation.object.last + 1 :]) or _is_wish(
        parsed, verb
    ):
        return
    is_animal = parsed.words[relation.subject.head].lemma.lower() in ANIMALS
    if is_animal and verb_lemma(parsed, verb) not in _OF_ANIMALS:
        return
    for new in _REPLACE_RELATION_VERBS.get(verb_lemma(parsed, verb), ()):
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
