"""A parsed caption comes in; what stands in which relation, and what is joined by "and", goes out.

Dependencies decide, not the order of words: in "a man in a shirt on a bench" the man is on the
bench.
"""

from __future__ import annotations

from typing import NamedTuple

from unbag.captions.parsed import VERB_TAGS, Parsed, Phrase, Span

_SUBJECTS = ("nsubj", "nsubjpass")
_CLAUSES = ("acl", "relcl")
_RELATIVES = ("that", "which", "who")


class Relation(NamedTuple):
    """Subject, what links it to the object, object: "a dog", "chases", "a cat"."""

    subject: Phrase
    link: Span
    """The verb without auxiliaries, or the preposition with all its words."""
    object: Phrase
    verb: int | None
    """The verb that the link is, or hangs on ("sits on"); None between bare nouns."""
    is_direct: bool
    """Whether the link is a verb with its direct object, not a preposition."""


class Conjunction(NamedTuple):
    """Two things of one kind joined by a word: "a dog", "and", "a cat"."""

    first: Span
    word: int
    second: Span
    pos: str
    """Of their heads: NOUN, ADJ, VERB ..."""


def relations_in(parsed: Parsed) -> list[Relation]:
    """Every relation between two noun phrases, by the place of its object."""
    found: list[Relation] = []
    for phrase in parsed.phrases:
        relation = _relation_to(parsed, phrase)
        if relation is not None and relation.subject.head != phrase.head:
            found.append(relation)
    return found


def conjunctions_in(parsed: Parsed) -> list[Conjunction]:
    """Pairs joined by "and" or "or", each with all that depends on it, next to the word.

    Of a longer list these are the last two.
    """
    found: list[Conjunction] = []
    for word, joining in enumerate(parsed.words):
        if joining.dep != "cc" or joining.text.lower() not in ("and", "or"):
            continue
        first = joining.head
        seconds = [at for at in parsed.children[first] if parsed.words[at].dep == "conj"]
        if len(seconds) != 1 or seconds[0] < word:
            continue
        pair = _sides(parsed, first, word, seconds[0])
        if pair is not None:
            found.append(Conjunction(pair[0], word, pair[1], parsed.words[first].pos))
    return found


def subtree(parsed: Parsed, at: int) -> Span | None:
    """All that depends on a word, with it; None if that is not one stretch of words."""
    reached, open_ = {at}, [at]
    while open_:
        for child in parsed.children[open_.pop()]:
            reached.add(child)
            open_.append(child)
    first, last = min(reached), max(reached)
    return Span(first, last) if last - first + 1 == len(reached) else None


def subject_of(parsed: Parsed, verb: int) -> Phrase | None:
    """The noun phrase that does it.

    The verb's own subject, that of the verb it is joined to, or the noun that it describes, as in
    "a man riding".
    """
    word = parsed.words[verb]
    for child in parsed.children[verb]:
        # In "a man that rides", "that" stands for the man.
        if parsed.words[child].dep in _SUBJECTS and parsed.lower[child] not in _RELATIVES:
            return parsed.phrase_of(child)
    if word.dep in _CLAUSES and word.head < verb:
        return parsed.phrase_of(word.head)
    is_linked = word.dep in ("conj", "xcomp", "advcl") and word.head != verb
    if is_linked and parsed.words[word.head].tag in VERB_TAGS:
        return subject_of(parsed, word.head)
    return None


def _relation_to(parsed: Parsed, phrase: Phrase) -> Relation | None:
    word = parsed.words[phrase.head]
    if word.dep == "dobj" and parsed.words[word.head].tag in VERB_TAGS:
        subject = subject_of(parsed, word.head)
        if subject is None:
            return None
        return Relation(subject, Span(word.head, word.head), phrase, word.head, True)
    if word.dep != "pobj":
        return None
    link = _whole_link(parsed, word.head)
    holder = _holder(parsed, link)
    if holder is None:
        return None
    if parsed.words[holder].tag in VERB_TAGS:
        subject = subject_of(parsed, holder)
        return None if subject is None else Relation(subject, link, phrase, holder, False)
    subject = parsed.phrase_of(holder)
    return None if subject is None else Relation(subject, link, phrase, None, False)


def _whole_link(parsed: Parsed, preposition: int) -> Span:
    """The expression that the preposition ends ("to the left of"), or itself."""
    for span in parsed.expressions:
        if span.first <= preposition <= span.last:
            return span
    return Span(preposition, preposition)


def _holder(parsed: Parsed, link: Span) -> int | None:
    """The noun or verb that the link hangs on."""
    at = link.last
    for _ in parsed.words:
        head = parsed.words[at].head
        if head == at:
            return None
        if not link.first <= head <= link.last and parsed.words[head].pos not in ("ADP", "ADV"):
            return head
        at = head
    return None


def _sides(parsed: Parsed, first: int, word: int, second: int) -> tuple[Span, Span] | None:
    """What stands on both sides of the joining word, each one stretch that touches it."""
    right = subtree(parsed, second)
    whole = subtree(parsed, first)
    if right is None or whole is None or right.first != word + 1:
        return None
    left = Span(whole.first, word - 1)
    # A verb's subject stands before both of its verbs and stays where it is.
    if parsed.words[first].pos in ("VERB", "AUX"):
        left = Span(first, word - 1)
    if parsed.words[left.last].text == ",":
        return None
    return (left, right) if left.first <= left.last else None
