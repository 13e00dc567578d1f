"""A hard positive: the caption in the passive, or in the active if it was passive.

Turned are whole captions of a doer, what is done, what it is done to and at most one phrase of
place: "a dog chases a cat in a yard", "a cat is chased in a yard by a dog". Tense and number stay.
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
"""Verbs that are turned with these objects only: one does not take a bath the other way round."""
_PLACES = _LISTS.words("places")
_WIDE = _LISTS.words("wide")
"""Places that hold who does it as well."""
_PARTICIPLES = {"pet": "petted", "light": "lit", "smell": "smelled", "mow": "mowed"}
_FORMS = ("VB", "VBP", "VBZ", "VBG", "VBD", "VBN")
_STATES = frozenset(("hold", "wear"))
_MOVING = frozenset(("ride", "climb", "walk", "fly", "drive", "race"))
_PARTICLES = frozenset(("up", "off", "out"))
_NOUN_TAGS = frozenset(("NN", "NNS"))
_UNSURE = frozenset(("by", "and", "with", "of"))
_KEPT = frozenset(("nsubj", "nsubjpass", "dobj", "aux", "auxpass", "prep", "prt", "punct", "agent"))
_OPEN_ENDED = frozenset(("cc", "conj", "appos", "relcl", "acl"))


def passive(parsed: Parsed) -> list[Changes]:
    """The caption the other way round, if it is one deed and nothing else."""
    forms = _base_forms()
    for verb in parsed.verbs[:2]:
        word = parsed.words[verb]
        # The verb of the whole caption, or what its only thing does: "a boy holding a ball".
        is_main = word.dep == "ROOT" or (
            word.dep == "acl" and parsed.words[word.head].dep == "ROOT"
        )
        if parsed.lower[verb] in forms and is_main:
            turned = _as_active if word.tag == "VBN" else _as_passive
            return turned(parsed, verb)
    return []


PASSIVE = rule_kind(
    passive,
    "active to passive or back: a dog chases a cat -> a cat is chased by a dog",
    "ours",
    is_positive=True,
)


@cache
def _base_forms() -> Mapping[str, str]:
    """Every form of the verbs whose passive sounds right in a caption, with its base form."""
    found = {inflected(verb, tag): verb for verb in _LISTS.sequence("verbs") for tag in _FORMS}
    # The second spelling of the verbs that have two.
    found |= {form: verb for verb, form in _PARTICIPLES.items()}
    return MappingProxyType(found)


def _as_passive(parsed: Parsed, verb: int) -> list[Changes]:
    doer, whom = _phrase_at_start(parsed), parsed.child(verb, "dobj")
    particle = _particle(parsed, verb)
    start = verb + 1 + bool(particle)
    done_to = next((c for c in parsed.chunks if c.head == whom and c.first == start), None)
    if doer is None or done_to is None or not _is_simple(parsed, verb, doer, done_to):
        return []
    between, tag = parsed.lower[doer.last + 1 : verb], parsed.words[verb].tag
    is_progressive = len(between) == 1 and between[0] in BE and tag == "VBG"
    if tag == "VB" or (between and not is_progressive):
        return []
    base = _base_forms()[parsed.lower[verb]]
    rest, is_state = _rest(parsed, done_to.last + 1), base in _STATES
    if rest is None or (rest and is_state and parsed.lower[parsed.end - 1] not in _WIDE):
        return []
    done = _PARTICIPLES.get(base) or inflected(base, "VBN")
    is_many = parsed.words[done_to.head].tag == "NNS"
    if is_progressive:
        be = f"{_be(between[0] in ('was', 'were'), is_many)} being"
    else:
        be = "being" if tag == "VBG" else _be(tag == "VBD", is_many)
    who = _lowered(parsed, parsed.text_of(doer.first, doer.last))
    end = f" by {who}{rest}" if is_state else f"{rest} by {who}"
    new = f"{parsed.text_of(done_to.first, done_to.last)} {be} {done}{particle}{end}"
    return [(parsed.change(0, parsed.end - 1, new),)]


def _as_active(parsed: Parsed, verb: int) -> list[Changes]:
    done_to, agent = _phrase_at_start(parsed), parsed.child(verb, "agent")
    if done_to is None or agent is None:
        return []
    doer = next((c for c in parsed.chunks if c.first == agent + 1), None)
    if doer is None or not _is_simple(parsed, verb, doer, done_to):
        return []
    particle, between = _particle(parsed, verb), parsed.lower[done_to.last + 1 : verb]
    helpers = between[1:] if between and between[0] in BE else between
    rest = _rest(parsed, doer.last + 1)
    if helpers not in ((), ("being",)) or agent != verb + 1 + bool(particle) or rest is None:
        return []
    base = _base_forms()[parsed.lower[verb]]
    is_many = parsed.words[doer.head].tag == "NNS"
    if between in ((), ("being",)):
        does = inflected(base, "VBG")
    elif between[-1] == "being":
        does = f"{_be(between[0] in ('was', 'were'), is_many)} {inflected(base, 'VBG')}"
    elif between[0] in ("was", "were"):
        does = inflected(base, "VBD")
    else:
        does = base if is_many else inflected(base, "VBZ")
    whom = _lowered(parsed, parsed.text_of(done_to.first, done_to.last))
    new = f"{parsed.text_of(doer.first, doer.last)} {does}{particle} {whom}{rest}"
    return [(parsed.change(0, parsed.end - 1, new),)]


def _phrase_at_start(parsed: Parsed) -> Phrase | None:
    first = parsed.chunks[0] if parsed.chunks else None
    return first if first is not None and first.first == 0 and first.head == first.last else None


def _is_simple(parsed: Parsed, verb: int, doer: Phrase, done_to: Phrase) -> bool:
    """Two plain noun phrases and a verb that nothing else hangs on."""
    if any(parsed.words[child].dep not in _KEPT for child in parsed.children[verb]):
        return False
    for phrase in (doer, done_to):
        words = parsed.lower[phrase.first : phrase.last + 1]
        if parsed.words[phrase.head].tag not in _NOUN_TAGS or LOOKING_BACK & {*words}:
            return False
        if not {"and", "or", ","}.isdisjoint(words) or phrase.head != phrase.last:
            return False
        noun, first_tag = parsed.words[phrase.head], parsed.words[phrase.first].tag
        # A singular without article, as in the style of headlines: "man walking dog".
        is_bare = noun.tag == "NN" and first_tag not in ("DT", "CD", "PRP$")
        if phrase == doer and is_bare and noun.lemma not in MASS:
            return False
        tags = {word.tag for word in parsed.words[phrase.first : phrase.last + 1]}
        if (words[0] in ("a", "an") and "NNS" in tags) or tags & {"IN", "RP", "POS"}:
            return False
        of = (parsed.words[child].dep for child in parsed.children[phrase.head] if child != verb)
        if not _OPEN_ENDED.isdisjoint(of):
            return False
    return _fits_verb(parsed, verb, done_to)


def _fits_verb(parsed: Parsed, verb: int, done_to: Phrase) -> bool:
    base = _base_forms()[parsed.lower[verb]]
    noun = parsed.words[done_to.head]
    wanted = _OBJECTS.get(base)
    if noun.lemma == "air":
        return False
    if wanted is not None:
        return parsed.lower[done_to.head] in wanted
    # Without article, number or plural it belongs to the verb: "hits home", "catches air".
    return noun.tag == "NNS" or parsed.words[done_to.first].tag in ("DT", "CD")


def _rest(parsed: Parsed, at: int) -> str | None:
    """A phrase of place up to the end, empty without one; None for anything else."""
    end = parsed.end
    if at == end:
        return ""
    if at > end or parsed.lower[at] not in _PLACES or parsed.words[at].dep != "prep":
        return None
    span = subtree(parsed, at)
    if span is None or span.first != at or span.last + 1 != end or end - at > 7:
        return None
    words = {*parsed.lower[at:end]}
    if words & LOOKING_BACK or words & WORD_GROUPS["@clothes"] or words & _UNSURE:
        return None
    if any(word.tag == "VBG" for word in parsed.words[at:end]):
        return None
    return f" {parsed.text_of(at, end - 1)}"


def _particle(parsed: Parsed, verb: int) -> str:
    found = parsed.child(verb, "prt")
    if found != verb + 1 or parsed.lower[found] not in _PARTICLES:
        return ""
    # With some verbs "up" says where to: "rides up a hill".
    is_way = _base_forms()[parsed.lower[verb]] in _MOVING
    return "" if is_way else f" {parsed.lower[found]}"


def _be(is_past: bool, is_many: bool) -> str:
    if is_past:
        return "were" if is_many else "was"
    return "are" if is_many else "is"


def _lowered(parsed: Parsed, text: str) -> str:
    """The caption's first phrase, where it stands in the middle now."""
    is_kept = parsed.words[0].pos == "PROPN" or parsed.is_upper
    return text if is_kept or not parsed.text.startswith(text) else text[:1].lower() + text[1:]
