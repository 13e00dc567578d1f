"""Hard negatives that replace a colour, material, size, state, action or relation (SVLC, CREPE).

Whole words by our own lists: what replaces a word is false of the same thing, never near. Names are
left alone ("red wine", "black and white photo"), and no word is put in that the caption has
already. Relations are prepositions between things that can be on, under or beside each other, and
verbs with an object. Nouns are replaced in `unbag.edits.negatives.wordnet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from unbag.edits.inflection import inflected, verb_lemma
from unbag.edits.kinds import Changes, rule_kind
from unbag.edits.lexicon import (
    AGES,
    ALIVE,
    ANIMALS,
    COLOURS,
    DOINGS,
    GROUPINGS,
    IMAGES,
    NO_THINGS,
    PEOPLE,
    REPLACED_COLOURS,
    REPLACED_FABRICS,
    REPLACED_MATERIALS,
    REPLACED_PAVINGS,
    REPLACED_SIZES,
    REPLACED_STATES,
    is_fixed,
    word_lists,
)
from unbag.edits.nouns import doer
from unbag.edits.parsed import ADJECTIVE_TAGS, BE, NOUN_TAGS, NounRelation, Parsed, relations_in

# What replace_attribute and its four parts look up.
_ATTRIBUTES = word_lists("attributes")
_NATURAL_COLOURS = _ATTRIBUTES.words("natural_colours")
_SHADES = _ATTRIBUTES.words("shades")
_SHADELESS = _ATTRIBUTES.words("shadeless")
_HAIR = _ATTRIBUTES.words("hair")
_WORN_IN = _ATTRIBUTES.words("worn_in")
_PAVED = _ATTRIBUTES.words("paved")
_TALL = _ATTRIBUTES.words("tall")
_SIZES_OF_CHILDREN = _ATTRIBUTES.words("sizes_of_children")
_CHILDREN = word_lists("nouns").words("young")
_AGES_OF_THINGS = _ATTRIBUTES.table("ages_of_things")
_STATES = {**REPLACED_STATES, **AGES, **_AGES_OF_THINGS}
_MATERIALS = {**REPLACED_MATERIALS, **REPLACED_FABRICS, **REPLACED_PAVINGS}
_WATERS = _ATTRIBUTES.words("waters")
_GROUNDS = _ATTRIBUTES.words("grounds")
_SAID_ONLY_OF = {
    "calm": _WATERS - {"puddle", "spot"},
    **_ATTRIBUTES.sets("said_only_of"),
}
"""Some states are said of few things."""
_NEVER_SAID_OF = {
    "dry": (_WATERS - {"creek", "river", "stream", "pond", "spot"}) | {"snow", "ice"},
    "full": _GROUNDS | {"stretch", "space", "sky", "landscape", "plain", "desert", "highway"},
    "clean": _GROUNDS | _WATERS,
    **_ATTRIBUTES.sets("never_said_of"),
}
"""Others of all but these."""

# What replace_action looks up.
_ACTIONS = word_lists("actions")
_OBJECTS = {"person": PEOPLE, "animal": ANIMALS, **_ACTIONS.sets("objects")}
"""Classes of objects that a verb may act on."""
_WITH_OBJECT = _ACTIONS.table("with_object")
_WITHOUT_OBJECT = _ACTIONS.table("without_object")
_OF_ANIMALS = _ACTIONS.table("of_animals")
_ALONG_WAY = _ACTIONS.table("along_way")
_WAYS = _ACTIONS.words("ways")
_ACTION_VERBS = frozenset((*(key.partition("/")[0] for key in _WITH_OBJECT), *_WITHOUT_OBJECT))
_DEPENDENT = ("prt", "xcomp", "ccomp", "dative", "oprd", "acomp", "neg", "nsubjpass")
_TENSED = frozenset(("VBG", "VBZ", "VBP", "VBD", "VB"))
# "Lying" is the one form that the dictionary gives for another verb first.
_FORMS = {("lie", "VBG"): "lying", ("lie", "VBD"): "lay"}
_BODY = _ACTIONS.words("body")

# What replace_relation looks up.
_RELATIONS = word_lists("relations")
_THINGS = _RELATIONS.words("things")
_HOLLOW = _RELATIONS.words("hollow")
_TOPS = _RELATIONS.words("tops")
_FLAT = _RELATIONS.words("flat")
_STILL = _RELATIONS.words("still")
_RELATION_VERBS = _RELATIONS.table("verbs")
_DONE_BY_ANIMALS = _RELATIONS.words("done_by_animals")
_NO_SUBJECTS = _RELATIONS.words("parts") | NO_THINGS | IMAGES | DOINGS
_ON_WAY = _RELATIONS.words("ways")
_NOT_DONE_TO = _RELATIONS.words("not_done_to")
_FITTING = _RELATIONS.sets("fitting")
_TIED_TO = _RELATIONS.words("tied_to")


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


def replace_attribute(parsed: Parsed) -> list[Changes]:
    """A colour, a material, a size or a state by one that excludes it."""
    rules = (replace_colour, replace_material, replace_size, replace_state)
    return [changes for rule in rules for changes in rule(parsed)]


def replace_action(parsed: Parsed) -> list[Changes]:
    """A verb by one that cannot be true at the same time."""
    found: list[Changes] = []
    said = frozenset(parsed.words[at].lemma for at in parsed.verbs)
    for verb in parsed.verbs:
        lemma, tag = verb_lemma(parsed, verb), parsed.words[verb].tag
        if lemma not in _ACTION_VERBS or tag not in _TENSED:
            continue
        if parsed.child(verb, *_DEPENDENT) is not None:
            continue
        found += [
            (parsed.change(verb, verb, _FORMS.get((new, tag)) or inflected(new, tag)),)
            for new in _excluding(parsed, verb, lemma)
            if new not in said
        ]
    return found


def replace_relation(parsed: Parsed) -> list[Changes]:
    """A preposition or a verb between two nouns."""
    return [
        changes
        for one in relations_in(parsed)
        for changes in (
            _other_verbs(parsed, one, one.verb)
            if one.is_direct and one.verb is not None
            else _other_prepositions(parsed, one)
        )
    ]


REPLACE_COLOUR = rule_kind(replace_colour, "a colour: a red bus -> a blue bus", "SVLC")
REPLACE_MATERIAL = rule_kind(
    replace_material, "what it is made of: a wooden bench -> a metal bench", "SVLC"
)
REPLACE_SIZE = rule_kind(replace_size, "a size: a large box -> a small box", "SVLC")
REPLACE_STATE = rule_kind(
    replace_state, "a state, age, pattern or shape: an open door -> a closed door", "SVLC"
)
REPLACE_ACTION = rule_kind(
    replace_action,
    "what is done: a man riding a bike -> a man pushing a bike",
    "SVLC",
)
REPLACE_ATTRIBUTE = rule_kind(
    replace_attribute,
    "another colour, material, size or state: a wet dog -> a dry dog",
    "CREPE",
    # Its four parts are kinds of their own.
    is_default=False,
)
REPLACE_RELATION = rule_kind(
    replace_relation,
    "a relation that excludes the old: a cat on a table -> a cat under a table",
    "CREPE",
)


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
    after, before = parsed.lower_at(at + 1), parsed.lower_at(at - 1)
    if "-" in (before, after) or before in ("'s", "'") or is_fixed(parsed.lower[at], after):
        return True
    word = parsed.words[at]
    return word.tag in ("NNP", "NNPS") or (
        at > 0 and word.text[0].isupper() and not parsed.is_upper
    )


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
    if parsed.child(at, "prep") is not None or parsed.lower[word.head] not in BE:
        return None
    return parsed.child(word.head, "nsubj")


def _colours_for(parsed: Parsed, at: int) -> Sequence[str]:
    text = parsed.lower[at]
    noun = _described(parsed, at)
    if noun is None:
        return REPLACED_COLOURS[text] if _is_worn(parsed, at) else ()
    lemma = parsed.lemma_at(noun)
    # "Black and white" says how an image was taken.
    if lemma in IMAGES or lemma in ("cross", "tv", "television", "movie"):
        return ()
    if parsed.words[at].tag not in (*ADJECTIVE_TAGS, "NN") or lemma in PEOPLE or lemma in COLOURS:
        return ()
    if text in ("gold", "silver") and parsed.words[at].dep in ("compound", "nmod"):
        return ()
    new = [c for c in REPLACED_COLOURS[text] if not is_fixed(c, parsed.lower_at(at + 1))]
    if lemma in ANIMALS or lemma in _HAIR:
        new = [colour for colour in new if colour in _NATURAL_COLOURS]
    if parsed.lower_at(at - 1) in _SHADES:
        new = [colour for colour in new if colour not in _SHADELESS]
    return new


def _is_worn(parsed: Parsed, at: int) -> bool:
    """Whether it is the whole of "dressed in red" or "a man in red"."""
    word = parsed.words[at]
    if word.dep != "pobj" or parsed.lower[at - 1] != "in" or parsed.children[at]:
        return False
    of = parsed.words[parsed.words[word.head].head]
    return of.lemma in _WORN_IN or of.lemma in PEOPLE


def _materials_for(parsed: Parsed, at: int) -> Sequence[str]:
    text, noun = parsed.lower[at], _noun_of(parsed, at)
    if noun is None or noun - at > 2 or parsed.lower[at + 1] in ("and", "or", ",", "/"):
        return ()
    if at and (parsed.words[at - 1].tag in NOUN_TAGS or parsed.lower[at - 1] == "stained"):
        return ()
    if parsed.lemma_at(noun) in _PAVED:
        return REPLACED_PAVINGS.get(text, ())
    if text in REPLACED_FABRICS:
        return REPLACED_FABRICS[text]
    new = REPLACED_MATERIALS.get(text, ())
    return [word for word in new if not is_fixed(word, parsed.lower_at(at + 1))]


def _sizes_for(parsed: Parsed, at: int) -> Sequence[str]:
    text, noun = parsed.lower[at], _described(parsed, at)
    lemma = parsed.lemma_at(noun)
    if noun is None or parsed.words[at].tag != "JJ":
        return ()
    if lemma in _CHILDREN and text in _SIZES_OF_CHILDREN:
        return ()
    if text == "short":
        return ("tall",) if lemma in _TALL or lemma in ALIVE else ("long",)
    is_no_size = text == "little" and lemma in ("bit", "while", "time")
    return () if is_no_size else REPLACED_SIZES[text]


def _states_for(parsed: Parsed, at: int) -> Iterator[str]:
    text, noun = parsed.lower[at], _described(parsed, at)
    if noun is None or (parsed.words[at].tag in NOUN_TAGS and text not in AGES):
        return
    lemma = parsed.lemma_at(noun)
    is_alive = lemma in ALIVE
    # "three years old", "rain soaked"
    follows_noun = at > 0 and parsed.words[at - 1].tag in (*NOUN_TAGS, "CD", "HYPH")
    if follows_noun or lemma in GROUPINGS or lemma in IMAGES:
        return
    if is_alive and lemma in _CHILDREN:
        return
    if text in AGES or text in _AGES_OF_THINGS:
        yield from (AGES if is_alive else _AGES_OF_THINGS).get(text, ())
    elif is_fixed(text, parsed.lower[noun]) or _is_graded(parsed, at):
        return
    elif parsed.words[at].tag != "VBG" or text in ("smiling", "sleeping", "crying", "moving"):
        for new in REPLACED_STATES[text]:
            if _is_said_of(new, lemma, instead_of=text):
                yield new


def _is_said_of(state: str, noun: str, *, instead_of: str) -> bool:
    """Whether a thing with this lemma can be in the state: no rock is calm, no water dry."""
    if (instead_of, state) == ("muddy", "dry"):
        # Mud dries on dogs and cars; only ground is muddy because it is wet.
        return noun in _GROUNDS
    if is_fixed(state, noun) or noun in _NEVER_SAID_OF.get(state, ()):
        return False
    return state not in _SAID_ONLY_OF or noun in _SAID_ONLY_OF[state]


def _is_graded(parsed: Parsed, at: int) -> bool:
    """Whether "partly" or "brightly" stands before it: nothing is partly cloudless."""
    before = parsed.lower_at(at - 1)
    return before in ("wide", "half", "fast") or (before.endswith("ly") and before != "really")


def _excluding(parsed: Parsed, verb: int, lemma: str) -> Iterator[str]:
    thing = parsed.child(verb, "dobj")
    if thing is not None:
        for of, words in _OBJECTS.items():
            if parsed.lemma_at(thing) in words:
                yield from _WITH_OBJECT.get(f"{lemma}/{of}", ())
        return
    subject, children = doer(parsed, verb), parsed.children[verb]
    is_joined = parsed.child(verb, "conj") is not None or parsed.words[verb].dep == "conj"
    if is_joined or subject is None:
        return
    # Where some people stand, others may well sit.
    if any(parsed.lower[at] in ("some", "several", "many") for at in parsed.children[subject]):
        return
    # On one's back nobody runs.
    if any(parsed.words[below].lemma in _BODY for at in children for below in parsed.children[at]):
        return
    name = parsed.lemma_at(subject)
    if any(parsed.lower[at] in _WAYS for at in children):
        yield from _ALONG_WAY.get(lemma, ()) if name in ALIVE else ()
    elif name in PEOPLE:
        yield from _WITHOUT_OBJECT.get(lemma, ())
    elif name in ANIMALS:
        yield from _OF_ANIMALS.get(lemma, ())


def _other_prepositions(parsed: Parsed, relation: NounRelation) -> Iterator[Changes]:
    is_still = relation.verb is None or verb_lemma(parsed, relation.verb) in _STILL
    noun, (first, last) = relation.object.head, relation.link
    thing = parsed.lemma_at(noun)
    has_name = noun > 0 and parsed.words[noun - 1].dep == "compound"
    if not is_still or has_name or thing not in _THINGS or last + 1 != relation.object.first:
        return
    # The subject may be a word for a place or an image, or belong to the object.
    if parsed.lemma_at(relation.subject.head) not in _NO_SUBJECTS:
        for new in _other_links(parsed.text_of(first, last).lower(), thing):
            yield (parsed.change(first, last, new),)


def _other_links(link: str, thing: str) -> tuple[str, ...]:
    top = ("on top of",) if thing in _TOPS else ()
    if link in ("on", "on top of"):
        return ("next to",) if thing in _FLAT else ("under", "next to", "behind")
    if link == "in":
        return ("behind", "next to", *top) if thing in _HOLLOW else ()
    if link in ("under", "underneath", "beneath"):
        return ("next to", *top)
    return top if link in ("next to", "beside", "near", "by", "behind", "in front of") else ()


def _other_verbs(parsed: Parsed, relation: NounRelation, verb: int) -> Iterator[Changes]:
    thing, word = parsed.words[relation.object.head], parsed.words[verb]
    lemma, old = thing.lemma.lower(), verb_lemma(parsed, verb)
    if lemma in _NOT_DONE_TO or thing.tag == "VBG" or relation.object.first != verb + 1:
        return
    if not _TIED_TO.isdisjoint(parsed.lower[relation.object.last + 1 :]):
        return
    is_animal = parsed.lemma_at(relation.subject.head) in ANIMALS
    # What somebody is about to do ("to throw") is not seen.
    if parsed.lower_at(verb - 1) == "to" or (is_animal and old not in _DONE_BY_ANIMALS):
        return
    for new in _RELATION_VERBS.get(old, ()):
        if new in ("wash", "repair", "catch") and not _ON_WAY.isdisjoint(parsed.lower[verb:]):
            continue
        if lemma not in _FITTING.get(new, (lemma,)) or (new == "throw" and is_animal):
            continue
        if new in ("throw", "drop") and lemma in ALIVE:
            continue
        if not any(other.lemma == new for other in parsed.words):
            yield (parsed.change(verb, verb, inflected(new, word.tag)),)
