"""A parsed caption comes in; the same with what "and" joins the other way round goes out.

Declined is all whose two sides are not plainly whole: adjectives that may belong to both ("old men
and women"), phrases whose holder is unsure ("a man in a hat and a dog"), pronouns that look back
("a man and his dog"), set pairs ("salt and pepper"), and what happens in an order.
"""

from __future__ import annotations

from collections.abc import Iterator

from unbag.captions.conjunct_words import (
    JOINT,
    LASTING,
    LOOKING_BACK,
    NO_SWAP_AFTER,
    is_set_pair,
)
from unbag.captions.form_words import activities
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import ADJECTIVE_TAGS, NOUN_TAGS, Parsed, Phrase, Span
from unbag.captions.relations import conjunctions_in, subject_of, subtree
from unbag.captions.swaps import exchanged
from unbag.captions.synonym_verbs import GROUPS
from unbag.captions.truth_words import COLOURS
from unbag.captions.word_lists import ALIVE, MASS, PEOPLE, PICTURES, word_set

_SUBJECTS = ("nsubj", "nsubjpass", "ROOT")
_SHADES = word_set("light dark bright pale deep very really dull neon hot next")
_AGES = word_set("adult baby child mother father male female young")
"""In "an adult and a child elephant" both are elephants."""
_FINITE = frozenset(("VBZ", "VBP", "VBD", "MD"))
_OPEN_LINKS = frozenset(("with", "of", "for"))
_CLOTHES = GROUPS["@clothes"]


def conjunct_swap(parsed: Parsed) -> list[Changes]:
    """Every pair joined by "and" that may change places."""
    if "and" not in parsed.lower:
        return []
    return [*_nouns(parsed), *_adjectives(parsed), *_verbs(parsed)]


def _nouns(parsed: Parsed) -> Iterator[Changes]:
    chunks = {chunk.head: chunk for chunk in parsed.chunks}
    for word, _ in _ands(parsed):
        first = parsed.words[word].head
        seconds = [at for at in parsed.children[first] if parsed.words[at].dep == "conj"]
        if len(seconds) != 1 or first not in chunks or seconds[0] not in chunks:
            continue
        one, other = chunks[first], chunks[seconds[0]]
        if one.last != word - 1 or other.first != word + 1 or one.head != one.last:
            continue
        if other.head != other.last or not _are_whole(parsed, one, other):
            continue
        if _is_free(parsed, one, other):
            yield _swapped(parsed, one, other)


def _ands(parsed: Parsed) -> Iterator[tuple[int, int]]:
    for at, word in enumerate(parsed.words):
        if word.dep == "cc" and parsed.lower[at] == "and" and 0 < at < len(parsed.words) - 1:
            yield at, word.head


def _are_whole(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    """Two common nouns, each with what belongs to it and nothing that looks back."""
    words = parsed.words
    if words[one.head].tag not in ("NN", "NNS") or words[other.head].tag not in ("NN", "NNS"):
        return False
    if parsed.lower[one.head] in parsed.lower[other.first : other.last + 1]:
        return False
    said = {*parsed.lower[one.first : one.last + 1], *parsed.lower[other.first : other.last + 1]}
    if parsed.lower[one.head] in _AGES and other.first + 1 < other.last:
        return False
    # "A kitchen and the sink": the second is known from the first.
    if parsed.lower[other.first] == "the" and parsed.lower[one.first] != "the":
        return False
    if parsed.lower[one.first] in ("a", "an") and words[one.head].tag == "NNS":
        return False
    # "Rides a swing and smiles" is taken for two things now and then.
    if other.first == other.last and parsed.lower[other.head] in activities():
        return False
    if parsed.lower[one.head] in COLOURS or parsed.lower[other.head] in COLOURS:
        return False
    if said & LOOKING_BACK or is_set_pair(parsed.lower[one.head], parsed.lower[other.head]):
        return False
    if {*parsed.lower[max(0, one.first - 4) : one.first]} & NO_SWAP_AFTER:
        return False
    has_two = _is_determined(parsed, one) and _is_determined(parsed, other)
    return has_two or _share_fairly(parsed, one, other)


def _is_determined(parsed: Parsed, phrase: Phrase) -> bool:
    word = parsed.words[phrase.first]
    return phrase.first < phrase.head and word.tag in ("DT", "CD", "PDT")


def _share_fairly(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    """Whether one article does for both, and no adjective could belong to both."""
    if _is_determined(parsed, other):
        return False
    left = _body(parsed, one)
    first_tag = parsed.words[one.first].tag
    if left.first == one.head:
        # "A man and two dogs" never comes here; "two cups and plates" counts both or one.
        return first_tag != "CD" and other.first == other.head
    has_own = _adjective_first(parsed, left) and _adjective_first(parsed, other)
    return has_own and first_tag != "CD"


def _adjective_first(parsed: Parsed, part: Phrase) -> bool:
    return part.first < part.head and parsed.words[part.first].tag in ADJECTIVE_TAGS


def _body(parsed: Parsed, phrase: Phrase) -> Phrase:
    """Without its article."""
    skipped = phrase.first + _is_determined(parsed, phrase)
    return Phrase(skipped, phrase.last, phrase.head)


def _is_free(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    """Whether the place of the pair leaves no doubt about what belongs to it."""
    dep = parsed.words[one.head].dep
    after = other.last + 1
    is_end = after == len(parsed.words) or parsed.lower[after] in (".", "!")
    lives = [parsed.words[p.head].lemma in ALIVE for p in (one, other)]
    if dep in _SUBJECTS and one.first == 0:
        return is_end or _goes_for_both(parsed, after, all(lives))
    is_inside = not is_end and not any(lives) and _goes_on(parsed, one, other)
    return (is_end or is_inside) and _object_pair(parsed, one, other)


def _goes_on(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    """Whether a verb follows whose subject stands before the pair."""
    after = other.last + 1
    word = parsed.words[after]
    verb = word.head if word.dep in ("aux", "auxpass") else after
    if word.tag not in _FINITE and word.tag != "VBG":
        return False
    subject = subject_of(parsed, verb)
    return (
        subject is not None
        and subject.last < one.first
        and parsed.words[subject.head].lemma in ALIVE
    )


def _goes_for_both(parsed: Parsed, after: int, are_alive: bool) -> bool:
    word = parsed.words[after]
    if word.tag in _FINITE:
        return True
    if not are_alive:
        return False
    if word.tag == "VBG":
        return word.text.lower() in JOINT
    return parsed.lower[after] in ("on", "at", "near", "under", "behind", "beside", "next")


def _object_pair(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    words = parsed.words
    lemmas = (words[one.head].lemma, words[other.head].lemma)
    people = [lemma in PEOPLE for lemma in lemmas]
    if people[0] != people[1]:
        return False
    dep, holder = words[one.head].dep, parsed.lower[words[one.head].head]
    if dep == "dobj":
        return not any(people)
    if dep != "pobj":
        return False
    if holder in _OPEN_LINKS:
        return _hangs_well(parsed, words[one.head].head)
    return holder == "in" and all(lemma in _CLOTHES for lemma in lemmas)


def _hangs_well(parsed: Parsed, preposition: int) -> bool:
    """Whether the preposition belongs to the word right before it, so that "and" stays inside."""
    return parsed.words[preposition].head == preposition - 1


def _swapped(parsed: Parsed, one: Phrase, other: Phrase) -> Changes:
    article_goes = parsed.lower[one.first] in ("a", "an") and _takes_none(parsed, other)
    if _is_determined(parsed, other) or not _is_determined(parsed, one) or article_goes:
        return exchanged(parsed, one[:2], other[:2])
    return exchanged(parsed, _body(parsed, one)[:2], other[:2])


def _takes_none(parsed: Parsed, phrase: Phrase) -> bool:
    """Whether "a" cannot stand before it: "a couch and chairs"."""
    word = parsed.words[phrase.head]
    return word.tag == "NNS" or word.lemma in MASS


def _adjectives(parsed: Parsed) -> Iterator[Changes]:
    """Two single adjectives: "red and blue"."""
    for at, head in _ands(parsed):
        one, other = parsed.words[at - 1], parsed.words[at + 1]
        if head != at - 1 or {one.tag, other.tag} != {"JJ"} or other.head != at - 1:
            continue
        before = parsed.lower[at - 2] if at > 1 else ""
        pair = parsed.lower[at - 1], parsed.lower[at + 1]
        if before in _SHADES or before == "," or pair[0] in _SHADES or is_set_pair(*pair):
            continue
        if (pair[0] in COLOURS) != (pair[1] in COLOURS):
            continue
        if _is_black_and_white(parsed, pair, at + 2) or len(parsed.children[at + 1]):
            continue
        if parsed.text[one.start - 1 : one.start] == "-" or parsed.text[other.end :][:1] == "-":
            continue
        yield exchanged(parsed, (at - 1, at - 1), (at + 1, at + 1))


def _is_black_and_white(parsed: Parsed, pair: tuple[str, str], after: int) -> bool:
    """Said of a picture it is a way of taking pictures; alone it may be."""
    if set(pair) != {"black", "white"}:
        return False
    rest = parsed.words[after : after + 2]
    return not rest or any(w.lemma in PICTURES for w in rest) or rest[0].tag not in NOUN_TAGS


def _verbs(parsed: Parsed) -> Iterator[Changes]:
    """Two things done at the same time: "reading a book and drinking tea"."""
    for pair in conjunctions_in(parsed):
        left, right = pair.first, pair.second
        one, other = parsed.words[left.first], parsed.words[right.first]
        if one.tag != "VBG" or other.tag != "VBG" or parsed.lower[pair.word] != "and":
            continue
        if one.dep in ("amod", "compound", "pcomp") or other.head != left.first:
            continue
        if {one.lemma, other.lemma} <= LASTING and _is_closed(parsed, left, right):
            yield exchanged(parsed, left, right)


def _is_closed(parsed: Parsed, left: Span, right: Span) -> bool:
    said = {*parsed.lower[left.first : left.last + 1], *parsed.lower[right.first :]}
    is_end = right.last + 1 == len(parsed.words) or parsed.lower[right.last + 1] == "."
    spans_left = all(subtree(parsed, c) is not None for c in parsed.children[left.first])
    has_before = any(
        parsed.words[c].dep == "advmod" and c < left.first for c in parsed.children[left.first]
    )
    # What follows a bare first verb may belong to both: "standing and eating in a field".
    is_even = left.last > left.first or right.last == right.first
    is_plain = not said & LOOKING_BACK and "," not in said and "while" not in said
    return is_end and spans_left and not has_before and is_plain and is_even


CONJUNCT_SWAP = Kind(
    name="conjunct_swap",
    keeps_meaning=True,
    about="what and joins, the other way round: a dog and a cat -> a cat and a dog",
    source="SWAP of the hard positives",
    editor=by_rule(conjunct_swap),
    keeps_words=True,
)
