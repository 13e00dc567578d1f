"""Hard negatives that replace a colour, material, size, state, action or relation (SVLC, CREPE).

Replacements come from our own word lists: the new word is clearly false of the same thing. Names
("red wine", "black and white photo") are skipped, and the new word is never one that the caption
already has. Relations are prepositions between things that can be on, under or next to each other,
and verbs with an object. `unbag.edits.negatives.wordnet` replaces nouns.
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

# Word lists of replace_attribute and its four parts.
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
_STATES_ONLY_OF = {
    "calm": _WATERS - {"puddle", "spot"},
    **_ATTRIBUTES.sets("said_only_of"),
}
"""States that only these nouns can have."""
_STATES_NEVER_OF = {
    "dry": (_WATERS - {"creek", "river", "stream", "pond", "spot"}) | {"snow", "ice"},
    "full": _GROUNDS | {"stretch", "space", "sky", "landscape", "plain", "desert", "highway"},
    "clean": _GROUNDS | _WATERS,
    **_ATTRIBUTES.sets("never_said_of"),
}
"""States that these nouns cannot have."""

# Word lists of replace_action.
_ACTIONS = word_lists("actions")
_OBJECTS = {"person": PEOPLE, "animal": ANIMALS, **_ACTIONS.sets("objects")}
"""Classes of objects of verbs."""
_WITH_OBJECT = _ACTIONS.table("with_object")
_WITHOUT_OBJECT = _ACTIONS.table("without_object")
_OF_ANIMALS = _ACTIONS.table("of_animals")
_ALONG_WAY = _ACTIONS.table("along_way")
_WAYS = _ACTIONS.words("ways")
_ACTION_VERBS = frozenset((*(key.partition("/")[0] for key in _WITH_OBJECT), *_WITHOUT_OBJECT))
_DEPENDENT = ("prt", "xcomp", "ccomp", "dative", "oprd", "acomp", "neg", "nsubjpass")
_TENSED = frozenset(("VBG", "VBZ", "VBP", "VBD", "VB"))
# The dictionary gives the form of another verb first.
_FORMS = {("lie", "VBG"): "lying", ("lie", "VBD"): "lay"}
_BODY = _ACTIONS.words("body")

# Word lists of replace_relation.
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
    """Replace a colour by another."""
    return _replace_words(parsed, REPLACED_COLOURS, _colours_for)


def replace_material(parsed: Parsed) -> list[Changes]:
    """Replace a material by another."""
    return _replace_words(parsed, _MATERIALS, _materials_for)


def replace_size(parsed: Parsed) -> list[Changes]:
    """Replace a size by its opposite."""
    return _replace_words(parsed, REPLACED_SIZES, _sizes_for)


def replace_state(parsed: Parsed) -> list[Changes]:
    """Replace a state, age, pattern or shape by one that excludes it."""
    return _replace_words(parsed, _STATES, _states_for)


def replace_attribute(parsed: Parsed) -> list[Changes]:
    """Replace a colour, material, size or state by one that excludes it."""
    rules = (replace_colour, replace_material, replace_size, replace_state)
    return [changes for rule in rules for changes in rule(parsed)]


def replace_action(parsed: Parsed) -> list[Changes]:
    """Replace a verb by one that cannot be true at the same time."""
    edits: list[Changes] = []
    lemmas = frozenset(parsed.words[i].lemma for i in parsed.verbs)
    for verb in parsed.verbs:
        lemma, tag = verb_lemma(parsed, verb), parsed.words[verb].tag
        if lemma not in _ACTION_VERBS or tag not in _TENSED:
            continue
        if parsed.child(verb, *_DEPENDENT) is not None:
            continue
        edits += [
            (parsed.change(verb, verb, _FORMS.get((new, tag)) or inflected(new, tag)),)
            for new in _excluding_verbs(parsed, verb, lemma)
            if new not in lemmas
        ]
    return edits


def replace_relation(parsed: Parsed) -> list[Changes]:
    """Replace a preposition or verb between two nouns."""
    return [
        changes
        for relation in relations_in(parsed)
        for changes in (
            _other_verbs(parsed, relation, relation.verb)
            if relation.is_direct and relation.verb is not None
            else _other_prepositions(parsed, relation)
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


def _replace_words(
    parsed: Parsed,
    words: Mapping[str, tuple[str, ...]],
    candidates: Callable[[Parsed, int], Iterable[str]],
) -> list[Changes]:
    edits: list[Changes] = []
    for i, text in enumerate(parsed.lower):
        if text in words and i not in parsed.bound and not _is_in_name(parsed, i):
            edits += [
                (parsed.change(i, i, new),)
                for new in candidates(parsed, i)
                if new not in parsed.lower
            ]
    return edits


def _is_in_name(parsed: Parsed, i: int) -> bool:
    """Whether a word is part of a name or of a compound, so that it does not describe."""
    after, before = parsed.lower_at(i + 1), parsed.lower_at(i - 1)
    if "-" in (before, after) or before in ("'s", "'") or is_fixed(parsed.lower[i], after):
        return True
    word = parsed.words[i]
    return word.tag in ("NNP", "NNPS") or (i > 0 and word.text[0].isupper() and not parsed.is_upper)


def _noun_of(parsed: Parsed, i: int) -> int | None:
    """The noun after an adjective, alone or in a list: "red" in "red and blue kites"."""
    word = parsed.words[i]
    while word.dep == "conj" and parsed.words[word.head].pos in ("ADJ", "NOUN"):
        if word.head == i:
            break
        i, word = word.head, parsed.words[word.head]
    is_before = word.dep in ("amod", "compound", "nmod") and word.head > i
    return word.head if is_before and parsed.words[word.head].tag in NOUN_TAGS else None


def _described_noun(parsed: Parsed, i: int) -> int | None:
    """The noun that an adjective describes: after it, or as in "the bus is red"."""
    noun = _noun_of(parsed, i)
    word = parsed.words[i]
    if noun is not None or word.dep != "acomp":
        return noun
    if parsed.child(i, "prep") is not None or parsed.lower[word.head] not in BE:
        return None
    return parsed.child(word.head, "nsubj")


def _colours_for(parsed: Parsed, i: int) -> Sequence[str]:
    text = parsed.lower[i]
    noun = _described_noun(parsed, i)
    if noun is None:
        return REPLACED_COLOURS[text] if _is_worn(parsed, i) else ()
    lemma = parsed.lemma_at(noun)
    # "Black and white" describes the image itself.
    if lemma in IMAGES or lemma in ("cross", "tv", "television", "movie"):
        return ()
    if parsed.words[i].tag not in (*ADJECTIVE_TAGS, "NN") or lemma in PEOPLE or lemma in COLOURS:
        return ()
    if text in ("gold", "silver") and parsed.words[i].dep in ("compound", "nmod"):
        return ()
    new = [c for c in REPLACED_COLOURS[text] if not is_fixed(c, parsed.lower_at(i + 1))]
    if lemma in ANIMALS or lemma in _HAIR:
        new = [colour for colour in new if colour in _NATURAL_COLOURS]
    if parsed.lower_at(i - 1) in _SHADES:
        new = [colour for colour in new if colour not in _SHADELESS]
    return new


def _is_worn(parsed: Parsed, i: int) -> bool:
    """Whether a colour stands for clothes, as in "dressed in red" or "a man in red"."""
    word = parsed.words[i]
    if word.dep != "pobj" or parsed.lower[i - 1] != "in" or parsed.children[i]:
        return False
    holder = parsed.words[parsed.words[word.head].head]
    return holder.lemma in _WORN_IN or holder.lemma in PEOPLE


def _materials_for(parsed: Parsed, i: int) -> Sequence[str]:
    text, noun = parsed.lower[i], _noun_of(parsed, i)
    if noun is None or noun - i > 2 or parsed.lower[i + 1] in ("and", "or", ",", "/"):
        return ()
    if i and (parsed.words[i - 1].tag in NOUN_TAGS or parsed.lower[i - 1] == "stained"):
        return ()
    if parsed.lemma_at(noun) in _PAVED:
        return REPLACED_PAVINGS.get(text, ())
    if text in REPLACED_FABRICS:
        return REPLACED_FABRICS[text]
    new = REPLACED_MATERIALS.get(text, ())
    return [word for word in new if not is_fixed(word, parsed.lower_at(i + 1))]


def _sizes_for(parsed: Parsed, i: int) -> Sequence[str]:
    text, noun = parsed.lower[i], _described_noun(parsed, i)
    lemma = parsed.lemma_at(noun)
    if noun is None or parsed.words[i].tag != "JJ":
        return ()
    if lemma in _CHILDREN and text in _SIZES_OF_CHILDREN:
        return ()
    if text == "short":
        return ("tall",) if lemma in _TALL or lemma in ALIVE else ("long",)
    is_no_size = text == "little" and lemma in ("bit", "while", "time")
    return () if is_no_size else REPLACED_SIZES[text]


def _states_for(parsed: Parsed, i: int) -> Iterator[str]:
    text, noun = parsed.lower[i], _described_noun(parsed, i)
    if noun is None or (parsed.words[i].tag in NOUN_TAGS and text not in AGES):
        return
    lemma = parsed.lemma_at(noun)
    is_alive = lemma in ALIVE
    # "three years old", "rain soaked"
    follows_noun = i > 0 and parsed.words[i - 1].tag in (*NOUN_TAGS, "CD", "HYPH")
    if follows_noun or lemma in GROUPINGS or lemma in IMAGES:
        return
    if is_alive and lemma in _CHILDREN:
        return
    if text in AGES or text in _AGES_OF_THINGS:
        yield from (AGES if is_alive else _AGES_OF_THINGS).get(text, ())
    elif is_fixed(text, parsed.lower[noun]) or _is_graded(parsed, i):
        return
    elif parsed.words[i].tag != "VBG" or text in ("smiling", "sleeping", "crying", "moving"):
        for new in REPLACED_STATES[text]:
            if _can_have_state(new, lemma, instead_of=text):
                yield new


def _can_have_state(state: str, noun: str, *, instead_of: str) -> bool:
    """Whether a noun can be in a state: no rock is calm, no water dry."""
    if (instead_of, state) == ("muddy", "dry"):
        # Mud dries on dogs and cars; only of ground is dry the opposite of muddy.
        return noun in _GROUNDS
    if is_fixed(state, noun) or noun in _STATES_NEVER_OF.get(state, ()):
        return False
    return state not in _STATES_ONLY_OF or noun in _STATES_ONLY_OF[state]


def _is_graded(parsed: Parsed, i: int) -> bool:
    """Whether an adverb such as "partly" or "brightly" precedes: nothing is partly cloudless."""
    before = parsed.lower_at(i - 1)
    return before in ("wide", "half", "fast") or (before.endswith("ly") and before != "really")


def _excluding_verbs(parsed: Parsed, verb: int, lemma: str) -> Iterator[str]:
    thing = parsed.child(verb, "dobj")
    if thing is not None:
        for object_class, words in _OBJECTS.items():
            if parsed.lemma_at(thing) in words:
                yield from _WITH_OBJECT.get(f"{lemma}/{object_class}", ())
        return
    subject, children = doer(parsed, verb), parsed.children[verb]
    is_joined = parsed.child(verb, "conj") is not None or parsed.words[verb].dep == "conj"
    if is_joined or subject is None:
        return
    # Where some people stand, others may sit.
    if any(parsed.lower[i] in ("some", "several", "many") for i in parsed.children[subject]):
        return
    # Nobody runs on their back.
    if any(parsed.words[below].lemma in _BODY for i in children for below in parsed.children[i]):
        return
    name = parsed.lemma_at(subject)
    if any(parsed.lower[i] in _WAYS for i in children):
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
    # The subject may denote a place or an image, or belong to the object.
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
    # A future action ("to throw") is not visible.
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
