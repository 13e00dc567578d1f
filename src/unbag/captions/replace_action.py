"""A parsed caption comes in; it with a verb that excludes its own goes out (SVLC)."""

from __future__ import annotations

from collections.abc import Iterator

from unbag.captions.action_lists import (
    ALONG_WAY,
    OBJECTS,
    OF_ANIMALS,
    WAYS,
    WITH_OBJECT,
    WITHOUT_OBJECT,
)
from unbag.captions.agreement import inflected
from unbag.captions.facts import doer
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed
from unbag.captions.verb_forms import verb_lemma
from unbag.captions.word_lists import ALIVE, ANIMALS, PEOPLE

_VERBS = frozenset(key.partition("/")[0] for key in WITH_OBJECT) | frozenset(WITHOUT_OBJECT)
_DEPENDENT = frozenset(("prt", "xcomp", "ccomp", "dative", "oprd", "acomp", "neg", "nsubjpass"))
_TENSED = frozenset(("VBG", "VBZ", "VBP", "VBD", "VB"))
# "Lying" is the one form that the dictionary gives for another verb first.
_FORMS = {("lie", "VBG"): "lying", ("lie", "VBD"): "lay"}
_BODY = frozenset(("back", "side", "belly", "stomach", "knee", "leg", "foot", "lap", "shoulder"))


def replace_action(parsed: Parsed) -> list[Changes]:
    """A verb by one that cannot be true at the same time."""
    found: list[Changes] = []
    said = frozenset(parsed.words[at].lemma for at in parsed.verbs)
    for verb in parsed.verbs:
        lemma = verb_lemma(parsed, verb)
        if lemma not in _VERBS or parsed.words[verb].tag not in _TENSED:
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
    return any(parsed.words[child].lemma in _BODY for child in parsed.children[at])


REPLACE_ACTION = Kind(
    name="replace_action",
    keeps_meaning=False,
    about="what is done: a man riding a bike -> a man pushing a bike",
    source="SVLC",
    editor=by_rule(replace_action),
)
