"""A hard positive: the caption in the passive, or in the active if it was passive.

It applies to whole captions of agent, verb, patient and at most one phrase of place: "a dog chases
a cat in a yard" becomes "a cat is chased in a yard by a dog". Tense is preserved.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from unbag.edits.inflection import inflected
from unbag.edits.kinds import Changes, rule_kind
from unbag.edits.lexicon import LOOKING_BACK, MASS, WORD_GROUPS, word_lists
from unbag.edits.parsed import BE, Parsed, Phrase, subtree

_LISTS = word_lists("passives")
_OBJECTS = _LISTS.sets("objects")
"""Verbs that form a passive with these objects only: not "a bath is taken by a man"."""
_PLACES = _LISTS.words("places")
_WIDE = _LISTS.words("wide")
"""Places that contain the agent as well as the patient."""
_PARTICIPLES = {"pet": "petted", "light": "lit", "smell": "smelled", "mow": "mowed"}
_FORMS = ("VB", "VBP", "VBZ", "VBG", "VBD", "VBN")
_STATES = frozenset(("hold", "wear"))
_MOVING = frozenset(("ride", "climb", "walk", "fly", "drive", "race"))
_PARTICLES = frozenset(("up", "off", "out"))
_NOUN_TAGS = frozenset(("NN", "NNS"))
_AMBIGUOUS = frozenset(("by", "and", "with", "of"))
_ALLOWED_DEPS = frozenset(
    ("nsubj", "nsubjpass", "dobj", "aux", "auxpass", "prep", "prt", "punct", "agent")
)
_EXTENDING_DEPS = frozenset(("cc", "conj", "appos", "relcl", "acl"))


def passive(parsed: Parsed) -> list[Changes]:
    """Turn the caption into the passive or active, if it consists of a single action."""
    forms = _base_forms()
    for verb in parsed.verbs[:2]:
        word = parsed.words[verb]
        # The main verb, or the participle after the main noun: "a boy holding a ball".
        is_main = word.dep == "ROOT" or (
            word.dep == "acl" and parsed.words[word.head].dep == "ROOT"
        )
        if parsed.lower[verb] in forms and is_main:
            convert = _as_active if word.tag == "VBN" else _as_passive
            return convert(parsed, verb)
    return []


PASSIVE = rule_kind(
    passive,
    "active to passive or back: a dog chases a cat -> a cat is chased by a dog",
    "ours",
    is_positive=True,
)


@cache
def _base_forms() -> Mapping[str, str]:
    """All forms of the verbs that have a natural passive, with their base form."""
    forms = {inflected(verb, tag): verb for verb in _LISTS.sequence("verbs") for tag in _FORMS}
    # Alternative participles.
    forms |= {form: verb for verb, form in _PARTICIPLES.items()}
    return MappingProxyType(forms)


def _as_passive(parsed: Parsed, verb: int) -> list[Changes]:
    agent, object_noun = _phrase_at_start(parsed), parsed.child(verb, "dobj")
    particle = _particle(parsed, verb)
    start = verb + 1 + bool(particle)
    patient = next((c for c in parsed.chunks if c.head == object_noun and c.first == start), None)
    if agent is None or patient is None or not _is_simple(parsed, verb, agent, patient):
        return []
    between, tag = parsed.lower[agent.last + 1 : verb], parsed.words[verb].tag
    is_progressive = len(between) == 1 and between[0] in BE and tag == "VBG"
    if tag == "VB" or (between and not is_progressive):
        return []
    base = _base_forms()[parsed.lower[verb]]
    rest, is_state = _place_phrase(parsed, patient.last + 1), base in _STATES
    if rest is None or (rest and is_state and parsed.lower[parsed.end - 1] not in _WIDE):
        return []
    participle = _PARTICIPLES.get(base) or inflected(base, "VBN")
    is_many = parsed.words[patient.head].tag == "NNS"
    if is_progressive:
        be = f"{_be(between[0] in ('was', 'were'), is_many)} being"
    else:
        be = "being" if tag == "VBG" else _be(tag == "VBD", is_many)
    agent_text = _lowered(parsed, parsed.text_of(agent.first, agent.last))
    ending = f" by {agent_text}{rest}" if is_state else f"{rest} by {agent_text}"
    new = f"{parsed.text_of(patient.first, patient.last)} {be} {participle}{particle}{ending}"
    return [(parsed.change(0, parsed.end - 1, new),)]


def _as_active(parsed: Parsed, verb: int) -> list[Changes]:
    patient, by = _phrase_at_start(parsed), parsed.child(verb, "agent")
    if patient is None or by is None:
        return []
    agent = next((c for c in parsed.chunks if c.first == by + 1), None)
    if agent is None or not _is_simple(parsed, verb, agent, patient):
        return []
    particle, between = _particle(parsed, verb), parsed.lower[patient.last + 1 : verb]
    helpers = between[1:] if between and between[0] in BE else between
    rest = _place_phrase(parsed, agent.last + 1)
    if helpers not in ((), ("being",)) or by != verb + 1 + bool(particle) or rest is None:
        return []
    base = _base_forms()[parsed.lower[verb]]
    is_many = parsed.words[agent.head].tag == "NNS"
    if between in ((), ("being",)):
        verb_text = inflected(base, "VBG")
    elif between[-1] == "being":
        verb_text = f"{_be(between[0] in ('was', 'were'), is_many)} {inflected(base, 'VBG')}"
    elif between[0] in ("was", "were"):
        verb_text = inflected(base, "VBD")
    else:
        verb_text = base if is_many else inflected(base, "VBZ")
    patient_text = _lowered(parsed, parsed.text_of(patient.first, patient.last))
    new = f"{parsed.text_of(agent.first, agent.last)} {verb_text}{particle} {patient_text}{rest}"
    return [(parsed.change(0, parsed.end - 1, new),)]


def _phrase_at_start(parsed: Parsed) -> Phrase | None:
    first = parsed.chunks[0] if parsed.chunks else None
    return first if first is not None and first.first == 0 and first.head == first.last else None


def _is_simple(parsed: Parsed, verb: int, agent: Phrase, patient: Phrase) -> bool:
    """Whether agent and patient are plain noun phrases and the verb has no other dependents."""
    if any(parsed.words[child].dep not in _ALLOWED_DEPS for child in parsed.children[verb]):
        return False
    for phrase in (agent, patient):
        words = parsed.lower[phrase.first : phrase.last + 1]
        if parsed.words[phrase.head].tag not in _NOUN_TAGS or LOOKING_BACK & {*words}:
            return False
        if not {"and", "or", ","}.isdisjoint(words) or phrase.head != phrase.last:
            return False
        noun, first_tag = parsed.words[phrase.head], parsed.words[phrase.first].tag
        # A singular without article, as in headlines: "man walking dog".
        is_bare = noun.tag == "NN" and first_tag not in ("DT", "CD", "PRP$")
        if phrase == agent and is_bare and noun.lemma not in MASS:
            return False
        tags = {word.tag for word in parsed.words[phrase.first : phrase.last + 1]}
        if (words[0] in ("a", "an") and "NNS" in tags) or tags & {"IN", "RP", "POS"}:
            return False
        deps = (parsed.words[child].dep for child in parsed.children[phrase.head] if child != verb)
        if not _EXTENDING_DEPS.isdisjoint(deps):
            return False
    return _fits_verb(parsed, verb, patient)


def _fits_verb(parsed: Parsed, verb: int, patient: Phrase) -> bool:
    base = _base_forms()[parsed.lower[verb]]
    noun = parsed.words[patient.head]
    objects = _OBJECTS.get(base)
    if noun.lemma == "air":
        return False
    if objects is not None:
        return parsed.lower[patient.head] in objects
    # Without article, number or plural it is part of the verb: "hits home", "catches air".
    return noun.tag == "NNS" or parsed.words[patient.first].tag in ("DT", "CD")


def _place_phrase(parsed: Parsed, i: int) -> str | None:
    """The phrase of place at the end; empty if there is none, None for anything else."""
    end = parsed.end
    if i == end:
        return ""
    if i > end or parsed.lower[i] not in _PLACES or parsed.words[i].dep != "prep":
        return None
    span = subtree(parsed, i)
    if span is None or span.first != i or span.last + 1 != end or end - i > 7:
        return None
    words = {*parsed.lower[i:end]}
    if words & LOOKING_BACK or words & WORD_GROUPS["@clothes"] or words & _AMBIGUOUS:
        return None
    if any(word.tag == "VBG" for word in parsed.words[i:end]):
        return None
    return f" {parsed.text_of(i, end - 1)}"


def _particle(parsed: Parsed, verb: int) -> str:
    particle = parsed.child(verb, "prt")
    if particle != verb + 1 or parsed.lower[particle] not in _PARTICLES:
        return ""
    # With verbs of motion "up" is a direction: "rides up a hill".
    is_way = _base_forms()[parsed.lower[verb]] in _MOVING
    return "" if is_way else f" {parsed.lower[particle]}"


def _be(is_past: bool, is_many: bool) -> str:
    if is_past:
        return "were" if is_many else "was"
    return "are" if is_many else "is"


def _lowered(parsed: Parsed, text: str) -> str:
    """The first phrase of the caption with a lower-case start, for use inside the caption."""
    is_fixed = parsed.words[0].pos == "PROPN" or parsed.is_upper
    return text if is_fixed or not parsed.text.startswith(text) else text[:1].lower() + text[1:]
