"""Hard positives by reordering: conjuncts exchanged, and relations inverted.

Conjuncts are exchanged only if both sides are clearly separate. Skipped are adjectives that may
belong to both ("old men and women"), ambiguous attachment ("a man in a hat and a dog"), pronouns
that refer back ("a man and his dog"), fixed pairs ("salt and pepper") and sequences of events.
Relations are inverted only in captions of two noun phrases: "the cup is left of the plate" becomes
"the plate is right of the cup". If the first thing does something, the second one moves to the
front: "a cat sleeping under a table" becomes "a table with a cat sleeping under it".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from unbag.edits.inflection import activities, in_number, inflected
from unbag.edits.kinds import Changes, rule_kind
from unbag.edits.lexicon import (
    ALIVE,
    COLOUR_NAMES,
    IMAGES,
    LOOKING_BACK,
    MASS,
    PEOPLE,
    WORD_GROUPS,
    word_lists,
)
from unbag.edits.negatives.swaps import exchanged
from unbag.edits.parsed import (
    ADJECTIVE_TAGS,
    BE,
    NOUN_TAGS,
    Parsed,
    Phrase,
    WordSpan,
    conjunctions_in,
    subject_of,
    subtree,
)

_SUBJECTS = ("nsubj", "nsubjpass", "ROOT")
_LISTS = word_lists("reorder")
_SET_PAIRS = frozenset(frozenset(line.split()) for line in _LISTS.lines("set_pairs"))
"""Pairs with a fixed order, such as "salt and pepper"."""
_NO_SWAP_AFTER = _LISTS.words("no_swap_after")
_JOINT = _LISTS.words("joint")
_LASTING = _LISTS.words("lasting")
_SHADES = _LISTS.words("shades")
_AGES = _LISTS.words("ages")
_FINITE = frozenset(("VBZ", "VBP", "VBD", "MD"))
_OPEN_LINKS = frozenset(("with", "of", "for"))
_CLOTHES = WORD_GROUPS["@clothes"]
_GROUNDS = _LISTS.words("grounds")
_BEHIND_SOMEBODY = _LISTS.words("behind_somebody")
_OVER = _LISTS.words("over")
_IDIOMS = _LISTS.words("idioms")
_POSTURES = _LISTS.words("postures")
_PLACED = _LISTS.words("placed")
_NO_WITH = PEOPLE | _LISTS.words("no_with")


INVERSES = _LISTS.replacements("inverses")
"""Relations with their inverses."""


def conjunct_swap(parsed: Parsed) -> list[Changes]:
    """Exchange each pair joined by "and" that has no fixed order."""
    if "and" not in parsed.lower:
        return []
    return [*_nouns(parsed), *_adjectives(parsed), *_verbs(parsed)]


CONJUNCT_SWAP = replace(
    rule_kind(
        conjunct_swap,
        "what and joins, the other way round: a dog and a cat -> a cat and a dog",
        "SWAP of the hard positives",
        is_positive=True,
    ),
    keeps_words=True,
)


def relation_inverse(parsed: Parsed) -> list[Changes]:
    """Invert the relation, if the caption consists of a single one."""
    clause = _clause(parsed)
    if clause is None:
        return []
    if clause.verb is not None and parsed.lower[clause.verb] not in BE:
        return _with_second_first(parsed, clause)
    if clause.relation not in INVERSES or not _has_true_inverse(parsed, clause):
        return []
    one, two = clause.one, clause.two
    changes = [
        parsed.change(one.first, one.last, parsed.text_of(two.first, two.last)),
        parsed.change(*clause.link, INVERSES[clause.relation]),
        parsed.change(two.first, two.last, parsed.text_of(one.first, one.last)),
    ]
    if clause.verb is not None:
        is_plural = parsed.words[two.head].tag == "NNS"
        new = in_number(parsed, clause.verb, is_plural=is_plural)
        changes.insert(1, parsed.change(clause.verb, clause.verb, new))
    return [tuple(changes)]


RELATION_INVERSE = rule_kind(
    relation_inverse,
    "a relation from its other end: a lamp above a desk -> a desk below a lamp",
    "ours",
    is_positive=True,
)


def _nouns(parsed: Parsed) -> Iterator[Changes]:
    chunks = {chunk.head: chunk for chunk in parsed.chunks}
    for word, first in _ands(parsed):
        seconds = [i for i in parsed.children[first] if parsed.words[i].dep == "conj"]
        if len(seconds) != 1 or first not in chunks or seconds[0] not in chunks:
            continue
        one, other = chunks[first], chunks[seconds[0]]
        if one.last != word - 1 or other.first != word + 1 or one.head != one.last:
            continue
        if other.head != other.last or not _are_complete(parsed, one, other):
            continue
        if not _is_unambiguous(parsed, one, other):
            continue
        noun = parsed.words[other.head]
        # "A" does not fit the second noun: "a couch and chairs".
        takes_none = noun.tag == "NNS" or noun.lemma in MASS
        article_goes = parsed.lower[one.first] in ("a", "an") and takes_none
        if not (_is_determined(parsed, other) or article_goes):
            one = _without_determiner(parsed, one)
        yield exchanged(parsed, one[:2], other[:2])


def _ands(parsed: Parsed) -> Iterator[tuple[int, int]]:
    for i, word in enumerate(parsed.words):
        if word.dep == "cc" and parsed.lower[i] == "and" and 0 < i < len(parsed.words) - 1:
            yield i, word.head


def _are_complete(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    """Whether both are complete phrases of common nouns without words that refer back."""
    words = parsed.words
    if words[one.head].tag not in ("NN", "NNS") or words[other.head].tag not in ("NN", "NNS"):
        return False
    if parsed.lower[one.head] in parsed.lower[other.first : other.last + 1]:
        return False
    texts = {*parsed.lower[one.first : one.last + 1], *parsed.lower[other.first : other.last + 1]}
    if parsed.lower[one.head] in _AGES and other.first + 1 < other.last:
        return False
    # "A kitchen and the sink": the second refers to the first.
    if parsed.lower[other.first] == "the" and parsed.lower[one.first] != "the":
        return False
    if parsed.lower[one.first] in ("a", "an") and words[one.head].tag == "NNS":
        return False
    # In "rides a swing and smiles" the verb may be parsed as a noun.
    if other.first == other.last and parsed.lower[other.head] in activities():
        return False
    if parsed.lower[one.head] in COLOUR_NAMES or parsed.lower[other.head] in COLOUR_NAMES:
        return False
    if texts & LOOKING_BACK or {parsed.lower[one.head], parsed.lower[other.head]} in _SET_PAIRS:
        return False
    if {*parsed.lower[max(0, one.first - 4) : one.first]} & _NO_SWAP_AFTER:
        return False
    has_two = _is_determined(parsed, one) and _is_determined(parsed, other)
    return has_two or _share_article(parsed, one, other)


def _is_determined(parsed: Parsed, phrase: Phrase) -> bool:
    word = parsed.words[phrase.first]
    return phrase.first < phrase.head and word.tag in ("DT", "CD", "PDT")


def _share_article(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    """Whether one article serves both, and no adjective could belong to both."""
    if _is_determined(parsed, other):
        return False
    left = _without_determiner(parsed, one)
    # "Two cups and plates" may count both or only the first.
    if parsed.words[one.first].tag == "CD":
        return False
    if left.first == one.head:
        return other.first == other.head
    return all(
        part.first < part.head and parsed.words[part.first].tag in ADJECTIVE_TAGS
        for part in (left, other)
    )


def _without_determiner(parsed: Parsed, phrase: Phrase) -> Phrase:
    """The phrase without its determiner."""
    skipped = phrase.first + _is_determined(parsed, phrase)
    return Phrase(skipped, phrase.last, phrase.head)


def _is_unambiguous(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    """Whether the position of the pair leaves no ambiguity of attachment."""
    dep = parsed.words[one.head].dep
    after = other.last + 1
    is_end = after == len(parsed.words) or parsed.lower[after] in (".", "!")
    are_alive = [parsed.words[p.head].lemma in ALIVE for p in (one, other)]
    if dep in _SUBJECTS and one.first == 0:
        return is_end or _applies_to_both(parsed, after, all(are_alive))
    if not is_end:
        # A verb may follow if its subject precedes the pair.
        word = parsed.words[after]
        if any(are_alive) or (word.tag not in _FINITE and word.tag != "VBG"):
            return False
        subject = subject_of(parsed, word.head if word.dep in ("aux", "auxpass") else after)
        if subject is None or subject.last >= one.first:
            return False
        if parsed.words[subject.head].lemma not in ALIVE:
            return False
    return _is_object_pair(parsed, one, other)


def _applies_to_both(parsed: Parsed, after: int, are_alive: bool) -> bool:
    word = parsed.words[after]
    if word.tag in _FINITE:
        return True
    if not are_alive:
        return False
    if word.tag == "VBG":
        return word.text.lower() in _JOINT
    return parsed.lower[after] in ("on", "at", "near", "under", "behind", "beside", "next")


def _is_object_pair(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    words = parsed.words
    lemmas = {words[one.head].lemma, words[other.head].lemma}
    are_people = [words[phrase.head].lemma in PEOPLE for phrase in (one, other)]
    if are_people[0] != are_people[1]:
        return False
    dep, holder = words[one.head].dep, words[one.head].head
    if dep == "dobj":
        return not any(are_people)
    if dep != "pobj":
        return False
    if parsed.lower[holder] in _OPEN_LINKS:
        # The preposition must attach to the word right before it, so that "and" stays inside.
        return words[holder].head == holder - 1
    return parsed.lower[holder] == "in" and lemmas <= _CLOTHES


def _adjectives(parsed: Parsed) -> Iterator[Changes]:
    """Exchange two single adjectives: "red and blue"."""
    for i, head in _ands(parsed):
        one, other = parsed.words[i - 1], parsed.words[i + 1]
        if head != i - 1 or {one.tag, other.tag} != {"JJ"} or other.head != i - 1:
            continue
        before = parsed.lower_at(i - 2)
        pair = parsed.lower[i - 1], parsed.lower[i + 1]
        if before in _SHADES or before == "," or pair[0] in _SHADES or {*pair} in _SET_PAIRS:
            continue
        if (pair[0] in COLOUR_NAMES) != (pair[1] in COLOUR_NAMES):
            continue
        if _is_black_and_white(parsed, pair, i + 2) or len(parsed.children[i + 1]):
            continue
        if parsed.text[one.start - 1 : one.start] == "-" or parsed.text[other.end :][:1] == "-":
            continue
        yield exchanged(parsed, (i - 1, i - 1), (i + 1, i + 1))


def _is_black_and_white(parsed: Parsed, pair: tuple[str, str], after: int) -> bool:
    """Whether "black and white" describes, or may describe, the image itself."""
    if set(pair) != {"black", "white"}:
        return False
    rest = parsed.words[after : after + 2]
    return not rest or any(w.lemma in IMAGES for w in rest) or rest[0].tag not in NOUN_TAGS


def _verbs(parsed: Parsed) -> Iterator[Changes]:
    """Exchange two simultaneous actions: "reading a book and drinking tea"."""
    for pair in conjunctions_in(parsed):
        left, right = pair.first, pair.second
        one, other = parsed.words[left.first], parsed.words[right.first]
        if one.tag != "VBG" or other.tag != "VBG" or parsed.lower[pair.word] != "and":
            continue
        if one.dep in ("amod", "compound", "pcomp") or other.head != left.first:
            continue
        if {one.lemma, other.lemma} <= _LASTING and _is_closed(parsed, left, right):
            yield exchanged(parsed, left, right)


def _is_closed(parsed: Parsed, left: WordSpan, right: WordSpan) -> bool:
    texts = {*parsed.lower[left.first : left.last + 1], *parsed.lower[right.first :]}
    is_end = right.last + 1 == len(parsed.words) or parsed.lower[right.last + 1] == "."
    spans_left = all(subtree(parsed, c) is not None for c in parsed.children[left.first])
    # Children are in the order of the caption.
    adverb = parsed.child(left.first, "advmod")
    has_before = adverb is not None and adverb < left.first
    # A phrase after a bare first verb may belong to both: "standing and eating in a field".
    is_even = left.last > left.first or right.last == right.first
    is_plain = not texts & LOOKING_BACK and "," not in texts and "while" not in texts
    return is_end and spans_left and not has_before and is_plain and is_even


class _Clause(NamedTuple):
    """A caption of first phrase, verb, relation and second phrase."""

    one: Phrase
    verb: int | None
    """A form of "be" or the full verb; without a "be" before a full verb."""
    link: tuple[int, int]
    relation: str
    two: Phrase


def _clause(parsed: Parsed) -> _Clause | None:
    phrases = [chunk for chunk in parsed.chunks if chunk.head not in parsed.bound]
    if len(phrases) not in (2, 3):
        return None
    has_there = len(phrases) == 3
    if has_there and parsed.lower[0] != "there":
        return None
    one, two = phrases[-2:]
    start = 2 if has_there and parsed.lower[1] in BE else 0
    if one.first != start or two.last + 1 != parsed.end or not _are_plain(parsed, one, two):
        return None
    first = one.last + 1
    verb = first if parsed.words[first].tag in ("VBZ", "VBP", "VBG") else None
    if verb is not None and parsed.lower[verb] in BE and parsed.words[verb + 1].tag == "VBG":
        verb += 1
    if has_there and verb is not None:
        return None
    link = (first if verb is None else verb + 1, two.first - 1)
    if link[0] > link[1]:
        return None
    relation = " ".join(parsed.lower[link[0] : link[1] + 1])
    return _Clause(one, 1 if has_there else verb, link, relation, two)


def _are_plain(parsed: Parsed, one: Phrase, two: Phrase) -> bool:
    """Whether both are plain phrases of different nouns without words that refer back."""
    texts = parsed.lower[one.first : one.last + 1], parsed.lower[two.first : two.last + 1]
    if LOOKING_BACK & {*texts[0], *texts[1]} or parsed.lower[one.head] == parsed.lower[two.head]:
        return False
    if any(joining in part for part in texts for joining in ("and", "or", ",")):
        return False
    for phrase in (one, two):
        tag = parsed.words[phrase.head].tag
        # A plural after "a" is a verb or an error.
        is_slip = parsed.lower[phrase.first] in ("a", "an") and tag == "NNS"
        if phrase.head != phrase.last or tag not in ("NN", "NNS") or is_slip:
            return False
        # "A room holding remotes" and "a dog sprints" may be parsed as noun phrases.
        for i in range(phrase.first + 1, phrase.last + 1):
            follows_noun = parsed.words[i - 1].tag in ("NN", "NNS")
            if parsed.lower[i].endswith("ing") and follows_noun:
                return False
            if parsed.words[i].tag in ("POS", "IN", "RP"):
                return False
    return True


def _has_true_inverse(parsed: Parsed, clause: _Clause) -> bool:
    first, second = (parsed.words[p.head].lemma for p in (clause.one, clause.two))
    if clause.relation == "in front of":
        return second in _BEHIND_SOMEBODY
    if clause.relation == "on top of":
        return second not in _GROUNDS
    if clause.relation == "over":
        return first in _OVER
    # "Behind the wheel", "behind bars", "behind the plate", "under construction".
    return clause.relation not in ("behind", "under") or second not in _IDIOMS


def _with_second_first(parsed: Parsed, clause: _Clause) -> list[Changes]:
    """Put the second thing first, if the verb is a posture and the second thing is new."""
    verb, one, two = clause.verb, clause.one, clause.two
    noun = parsed.words[two.head]
    if verb is None or parsed.words[verb].lemma not in _POSTURES:
        return []
    if clause.relation.replace(" ", "_") not in _PLACED or noun.lemma in _NO_WITH:
        return []
    is_new = [
        parsed.words[phrase.first].tag in ("DT", "CD") and parsed.lower[phrase.first] != "the"
        for phrase in (one, two)
    ]
    # In the middle a bare plural is possible too, but no bare "dog" and no "the dog".
    is_bare_plural = parsed.words[one.head].tag != "NN" and parsed.lower[one.first] != "the"
    if not is_new[1] or not (is_new[0] or is_bare_plural):
        return []
    first = parsed.text_of(one.first, one.last)
    if parsed.words[0].pos != "PROPN" and not parsed.is_upper:
        first = first[:1].lower() + first[1:]
    doing = inflected(parsed.words[verb].lemma, "VBG")
    pronoun = "them" if noun.tag == "NNS" else "it"
    second = parsed.text_of(two.first, two.last)
    new = f"{second} with {first} {doing} {parsed.text_of(*clause.link)} {pronoun}"
    if verb > one.last + 1 or parsed.words[verb].tag != "VBG":
        new = f"there {'are' if noun.tag == 'NNS' else 'is'} {new}"
    return [(parsed.change(one.first, two.last, new),)]
