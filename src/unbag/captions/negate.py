"""A parsed caption comes in; the caption with one negation goes out (CREPE).

At a predicate ("is not riding", "does not ride", "not wearing") or at an object ("with no hat",
"there is no dog"). A caption that already denies something is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import NOUN_TAGS, Parsed, Phrase
from unbag.captions.things import content_of, is_joined
from unbag.captions.verb_forms import verb_lemma
from unbag.captions.word_lists import GROUPINGS, NO_THINGS, word_set
from unbag.types import Change

_DENYING = word_set(
    """
    barely few hardly lacking little-known neither never no nobody none nor not nothing nowhere n't
    nt only scarcely unable without cannot empty except instead rather barren free
    """
)
_BE = frozenset(("is", "are", "was", "were"))
_VAGUE = word_set("some several many most few one various any all every each both half others")
"""Of some people a thing and its contrary are true."""
_PUT_ON = frozenset(("wear", "have", "hold", "carry", "contain"))
_DROPPED = frozenset(("a", "an", "some", "any", "several", "many", "two", "three", "four", "five"))
_ONES = frozenset(("a", "an", "one", "this", "that"))
_LOOSE = frozenset(("xcomp", "ccomp", "pcomp", "csubj", "amod", "compound", "parataxis"))


def negate(parsed: Parsed) -> list[Changes]:
    """Every single place where a negation can stand."""
    if not _DENYING.isdisjoint(parsed.lower):
        return []
    single = [*_at_be(parsed), *_at_verbs(parsed), *_at_objects(parsed)]
    return [(change,) for change in dict.fromkeys(single)]


def _at_be(parsed: Parsed) -> Iterator[Change]:
    """Not after a form of "be", whether it helps a verb or stands alone."""
    for at, text in enumerate(parsed.lower[:-1]):
        word = parsed.words[at]
        if text not in _BE or word.pos not in ("AUX", "VERB"):
            continue
        verb = word.head if word.dep in ("aux", "auxpass") else at
        subject = _subject(parsed, verb)
        if subject is None or subject > at or _is_vague(parsed, subject):
            continue
        if parsed.words[at + 1].tag in ("JJ", "VBG", "VBN", "IN", "DT", "RB", "NN", "NNS", "CD"):
            yield Change(word.end, word.end, " not")


def _at_verbs(parsed: Parsed) -> Iterator[Change]:
    """Not before participles, "does not" before tensed verbs."""
    for at in parsed.verbs:
        word = parsed.words[at]
        if _has_helper(parsed, at) or word.dep in _LOOSE:
            continue
        if word.tag in ("VBG", "VBN"):
            if _says_of_noun(parsed, at):
                yield parsed.insert_before(at, "not")
        elif word.tag in ("VBZ", "VBP"):
            subject = _subject(parsed, at)
            if subject is None or not _agrees(parsed, subject, at):
                continue
            if subject < at and not _is_vague(parsed, subject):
                helper = "does not" if word.tag == "VBZ" else "do not"
                yield parsed.change(at, at, f"{helper} {verb_lemma(parsed, at)}")


def _at_objects(parsed: Parsed) -> Iterator[Change]:
    """No instead of an article: after "with", "there is", "wearing"."""
    for phrase in parsed.phrases:
        word = parsed.words[phrase.head]
        if word.lemma in NO_THINGS or word.lemma in GROUPINGS or is_joined(parsed, phrase.head):
            continue
        if not (
            _after_with(parsed, phrase)
            or _after_there(parsed, phrase)
            or _is_put_on(parsed, phrase)
        ):
            continue
        first = parsed.words[phrase.first]
        if parsed.lower[phrase.first] in _DROPPED and phrase.first < phrase.head:
            yield parsed.change(phrase.first, phrase.first, "no")
        elif first.tag in ("JJ", "NN", "NNS", "VBN", "VBG"):
            yield parsed.insert_before(phrase.first, "no")


def _after_with(parsed: Parsed, phrase: Phrase) -> bool:
    """A noun with something, not "covered with" it."""
    word = parsed.words[phrase.head]
    if word.dep != "pobj" or parsed.lower[word.head] != "with":
        return False
    holder = parsed.words[parsed.words[word.head].head]
    return holder.tag in NOUN_TAGS and parsed.lower[phrase.first - 1] == "with"


def _after_there(parsed: Parsed, phrase: Phrase) -> bool:
    before = parsed.lower[max(phrase.first - 2, 0) : phrase.first]
    return len(before) == 2 and before[0] == "there" and before[1] in _BE


def _is_put_on(parsed: Parsed, phrase: Phrase) -> bool:
    word = parsed.words[phrase.head]
    if word.dep != "dobj" or word.head != phrase.first - 1:
        return False
    return verb_lemma(parsed, word.head) in _PUT_ON and parsed.words[word.head].pos == "VERB"


def _subject(parsed: Parsed, verb: int) -> int | None:
    for at in parsed.children[verb]:
        if parsed.words[at].dep in ("nsubj", "nsubjpass"):
            return at
    return None


def _agrees(parsed: Parsed, subject: int, verb: int) -> bool:
    """Whether the two go together; in "a teddy bear" the parser may see a verb."""
    noun = parsed.words[subject]
    if parsed.words[verb].tag != "VBP" or noun.tag not in ("NN", "NNP") or noun.lemma in GROUPINGS:
        return True
    counts = [parsed.lower[at] for at in parsed.children[subject]]
    return is_joined(parsed, subject) or _ONES.isdisjoint(counts)


def _is_vague(parsed: Parsed, subject: int) -> bool:
    if parsed.lower[subject] in _VAGUE or parsed.lower[subject] in ("there", "what", "this"):
        return True
    if not _VAGUE.isdisjoint(parsed.lower[at] for at in parsed.children[subject]):
        return True
    measures = parsed.words[subject].lemma in GROUPINGS
    return measures and content_of(parsed, subject) == subject


def _has_helper(parsed: Parsed, verb: int) -> bool:
    return any(
        parsed.words[at].dep in ("aux", "auxpass", "neg", "mark") for at in parsed.children[verb]
    )


def _says_of_noun(parsed: Parsed, verb: int) -> bool:
    """Whether it follows the noun it tells about: "a man riding"."""
    word = parsed.words[verb]
    if not verb or parsed.words[verb - 1].tag not in NOUN_TAGS:
        return False
    if word.dep == "acl":
        return not _is_vague(parsed, word.head)
    subject = _subject(parsed, verb)
    return word.dep == "ROOT" and subject == verb - 1 and not _is_vague(parsed, subject)


NEGATE = Kind(
    name="negate",
    keeps_meaning=False,
    about="a negation: a man is riding a horse -> a man is not riding a horse",
    source="CREPE",
    editor=by_rule(negate),
)
