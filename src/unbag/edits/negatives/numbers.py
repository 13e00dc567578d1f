"""Hard negatives by negation, by another number, and by a contradicting quantifier.

A negation is added to a predicate ("is not riding", "does not ride", "not wearing") or an object
("with no hat", "there is no dog"). Captions that already have a negation are skipped.

Numbers only increase: where there are five dogs there are also three, so a smaller number could be
true. "One" is replaced only before a noun, with noun and verb in the plural. Times, ages, measures,
names and numbers that the caption refers back to ("two dogs, one of them black") are skipped.

Quantifiers for many become none, few or one; none becomes some; all becomes none, and both becomes
neither. "No" is used only before subjects and objects and after "with", not after other
prepositions ("near no trees"), where a singular is used instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from unbag.edits.inflection import agreeing, inflected, verb_lemma
from unbag.edits.kinds import Changes, rule_kind
from unbag.edits.lexicon import GROUPINGS, NO_THINGS, word_lists
from unbag.edits.nouns import content_of, is_joined
from unbag.edits.parsed import BE, NOUN_TAGS, SUBJECTS, Parsed, Phrase
from unbag.types import Change

_LISTS = word_lists("numbers")

# Word lists of negate.
_DENYING = _LISTS.words("denying")
_VAGUE = _LISTS.words("vague")
"""Quantifiers such as "some", of which a statement and its negation can both be true."""
_PUT_ON = _LISTS.words("put_on")
_DROPPED = _LISTS.words("dropped")
_ONES = _LISTS.words("ones")
_LOOSE_DEPS = frozenset(("xcomp", "ccomp", "pcomp", "csubj", "amod", "compound", "parataxis"))

# Word lists of replace_number.
_NUMBER_WORDS = _LISTS.sequence("numbers")
_VALUES: Mapping[str, int] = MappingProxyType(
    {word: at for at, word in enumerate(_NUMBER_WORDS, start=1)}
    | {str(at): at for at in range(1, len(_NUMBER_WORDS) + 1)}
)
_UNITS = _LISTS.words("units")
_TAKEN_UP = _LISTS.words("taken_up")
_NO_COUNT_AFTER = _LISTS.words("no_count_after")
_IN_PAIRS = _LISTS.words("in_pairs")
_ITS = _LISTS.words("its")

# Word lists of replace_quantifier.
_MANY = _LISTS.words("many")
_LOTS = _LISTS.words("lots")
_QUANTIFIERS = _MANY | _LOTS | {"no", "all", "both", "none", "every", "each"}
_NOT_SINGLE = _LISTS.words("not_single")
_LOOSE = _LISTS.words("loose")
_THEY = _LISTS.words("they")
_GATHERING = _LISTS.words("gathering")
_UNSEEN = _LISTS.words("unseen")
_HOLDING = _LISTS.words("holding")
_NARROWING = _LISTS.words("narrowing")
_AMONG = _LISTS.words("among")


def negate(parsed: Parsed) -> list[Changes]:
    """Add a negation at each possible place."""
    if not _DENYING.isdisjoint(parsed.lower):
        return []
    single = (*_negate_be(parsed), *_negate_verbs(parsed), *_negate_objects(parsed))
    return [(change,) for change in dict.fromkeys(single)]


NEGATE = rule_kind(
    negate, "a negation: a man is riding a horse -> a man is not riding a horse", "CREPE"
)


def replace_number(parsed: Parsed) -> list[Changes]:
    """Replace a number by a larger one."""
    edits: list[Changes] = []
    for i in parsed.counts:
        value = _VALUES.get(parsed.lower[i])
        if value is None or not _is_count(parsed, i):
            continue
        if value == 1:
            edits += _replace_one(parsed, i)
        else:
            edits += [
                (parsed.change(i, i, _in_style(parsed, i, new)),) for new in _larger_numbers(value)
            ]
    return edits


REPLACE_NUMBER = rule_kind(
    replace_number, "a larger number: two dogs on a sofa -> four dogs on a sofa", "ours"
)


def replace_quantifier(parsed: Parsed) -> list[Changes]:
    """Replace a quantifier by one that contradicts it."""
    if _QUANTIFIERS.isdisjoint(parsed.lower):
        return []
    edits: list[Changes] = []
    for i, text in enumerate(parsed.lower):
        if text in _MANY or text in _LOTS:
            edits += _replace_many(parsed, i)
        elif text == "no":
            edits += _replace_no(parsed, i)
        elif text in ("all", "both"):
            edits += _replace_all(parsed, i)
    return edits


REPLACE_QUANTIFIER = rule_kind(
    replace_quantifier,
    "a quantifier that contradicts: many boats in a harbour -> no boats in a harbour",
    "ours",
)


def _negate_be(parsed: Parsed) -> Iterator[Change]:
    """Add "not" after a form of "be", as auxiliary or main verb."""
    for i, text in enumerate(parsed.lower[:-1]):
        word = parsed.words[i]
        if text not in BE or word.pos not in ("AUX", "VERB"):
            continue
        verb = word.head if word.dep in ("aux", "auxpass") else i
        subject = parsed.child(verb, "nsubj", "nsubjpass")
        if subject is None or subject > i or _is_vague(parsed, subject):
            continue
        if parsed.words[i + 1].tag in ("JJ", "VBG", "VBN", "IN", "DT", "RB", "NN", "NNS", "CD"):
            yield Change(word.end, word.end, " not")


def _negate_verbs(parsed: Parsed) -> Iterator[Change]:
    """Add "not" before participles and "does not" before tensed verbs."""
    for i in parsed.verbs:
        word = parsed.words[i]
        has_helper = parsed.child(i, "aux", "auxpass", "neg", "mark") is not None
        if has_helper or word.dep in _LOOSE_DEPS:
            continue
        if word.tag in ("VBG", "VBN"):
            if _describes_noun(parsed, i):
                yield parsed.insert_before(i, "not")
        elif word.tag in ("VBZ", "VBP"):
            subject = parsed.child(i, "nsubj", "nsubjpass")
            if subject is None or not _agrees(parsed, subject, i):
                continue
            if subject < i and not _is_vague(parsed, subject):
                helper = "does not" if word.tag == "VBZ" else "do not"
                yield parsed.change(i, i, f"{helper} {verb_lemma(parsed, i)}")


def _negate_objects(parsed: Parsed) -> Iterator[Change]:
    """Replace an article by "no" after "with", "there is" or "wearing"."""
    for phrase in parsed.phrases:
        word = parsed.words[phrase.head]
        if word.lemma in NO_THINGS or word.lemma in GROUPINGS or is_joined(parsed, phrase.head):
            continue
        if not _can_be_absent(parsed, phrase):
            continue
        first = parsed.words[phrase.first]
        if parsed.lower[phrase.first] in _DROPPED and phrase.first < phrase.head:
            yield parsed.change(phrase.first, phrase.first, "no")
        elif first.tag in ("JJ", "NN", "NNS", "VBN", "VBG"):
            yield parsed.insert_before(phrase.first, "no")


def _can_be_absent(parsed: Parsed, phrase: Phrase) -> bool:
    """Whether it follows "with" (after a noun, not "covered with"), "there is" or "wearing"."""
    word = parsed.words[phrase.head]
    head, before = parsed.words[word.head], parsed.lower_at(phrase.first - 1)
    if parsed.lower_at(phrase.first - 2) == "there" and before in BE:
        return True
    if word.dep == "pobj":
        is_with = parsed.lower[word.head] == "with" == before
        return is_with and parsed.words[head.head].tag in NOUN_TAGS
    if word.dep != "dobj" or word.head != phrase.first - 1:
        return False
    return verb_lemma(parsed, word.head) in _PUT_ON and head.pos == "VERB"


def _agrees(parsed: Parsed, subject: int, verb: int) -> bool:
    """Whether subject and verb agree; in "a teddy bear" the parser may see a verb."""
    noun = parsed.words[subject]
    if parsed.words[verb].tag != "VBP" or noun.tag not in ("NN", "NNP") or noun.lemma in GROUPINGS:
        return True
    counts = [parsed.lower[i] for i in parsed.children[subject]]
    return is_joined(parsed, subject) or _ONES.isdisjoint(counts)


def _is_vague(parsed: Parsed, subject: int) -> bool:
    if parsed.lower[subject] in _VAGUE or parsed.lower[subject] in ("there", "what", "this"):
        return True
    if not _VAGUE.isdisjoint(parsed.lower[i] for i in parsed.children[subject]):
        return True
    measures = parsed.words[subject].lemma in GROUPINGS
    return measures and content_of(parsed, subject) == subject


def _describes_noun(parsed: Parsed, verb: int) -> bool:
    """Whether a verb follows the noun that it describes: "a man riding"."""
    word = parsed.words[verb]
    if not verb or parsed.words[verb - 1].tag not in NOUN_TAGS:
        return False
    if word.dep == "acl":
        return not _is_vague(parsed, word.head)
    subject = parsed.child(verb, "nsubj", "nsubjpass")
    return word.dep == "ROOT" and subject == verb - 1 and not _is_vague(parsed, subject)


def _larger_numbers(value: int) -> tuple[int, ...]:
    """Larger numbers that differ visibly; at most twelve, the largest in the word list."""
    if value < 5:
        return tuple(range(value + 1, value + 4))
    return tuple(new for new in (value + 2, value + 3, value + 4) if new <= len(_NUMBER_WORDS))


def _in_style(parsed: Parsed, i: int, value: int) -> str:
    return str(value) if parsed.lower[i].isdigit() else _NUMBER_WORDS[value - 1]


def _is_count(parsed: Parsed, i: int) -> bool:
    """Whether it counts things, and nothing else in the caption depends on the number."""
    word = parsed.words[i]
    noun = parsed.words[word.head]
    if word.head < i or noun.lemma in _UNITS or "-" in parsed.text_of(i, word.head):
        return False
    if parsed.lower_at(i - 1) in _NO_COUNT_AFTER:
        return False
    if i and parsed.words[i - 1].pos in ("NUM", "PROPN", "SYM"):
        return False
    if parsed.child(word.head, "appos") is not None:
        return False
    return not _is_referred_to(parsed, i) and (noun.tag == "NNS" or _VALUES[parsed.lower[i]] == 1)


def _is_referred_to(parsed: Parsed, i: int) -> bool:
    for other, text in enumerate(parsed.lower):
        # "each other" fits any number from two on.
        is_mutual = text == "each" and parsed.lower_at(other + 1) == "other"
        is_mutual |= text == "other" and parsed.lower_at(other - 1) == "each"
        if other != i and text in _TAKEN_UP and not is_mutual:
            return True
    return False


def _replace_one(parsed: Parsed, i: int) -> list[Changes]:
    """Replace "one" by a larger number, with noun and verbs in the plural."""
    noun = parsed.words[i].head
    word = parsed.words[noun]
    is_plain = word.tag == "NN" and _ITS.isdisjoint(parsed.lower[i:])
    is_plain = is_plain and sum(other.lemma == word.lemma for other in parsed.words) == 1
    # No "a" or "this" before the number, and nothing joined to the noun.
    if not is_plain or parsed.child(noun, "det", "poss", "conj", "appos") is not None:
        return []
    plural = inflected(word.lemma, "NNS")
    if plural == word.text.lower():
        return []
    rest = parsed.change(noun, noun, plural), *agreeing(parsed, noun, is_plural=True)
    return [
        (parsed.change(i, i, _in_style(parsed, i, value)), *rest)
        for value in ((2,) if word.lemma in _IN_PAIRS else (2, 3))
    ]


def _replace_many(parsed: Parsed, i: int) -> Iterator[Changes]:
    span = _quantity(parsed, i)
    if span is None:
        return
    first, last, noun = span
    word = parsed.words[noun]
    if first and parsed.lower[first - 1] in _NARROWING:
        return
    # In "lots of dogs are" the quantifier is the subject.
    role = i if parsed.lower[i] in _LOTS else noun
    if any(parsed.words[between].lemma in _LOOSE for between in range(last + 1, noun + 1)):
        return
    if parsed.child(noun, "conj") is not None or not _THEY.isdisjoint(parsed.lower[noun + 1 :]):
        return
    if _can_be_none(parsed, role):
        yield (parsed.change(first, last, "no"),)
    if word.tag != "NNS" or not _can_be_one(parsed, noun, role):
        return
    singular = word.lemma if word.lemma != "people" else "person"
    if singular != word.text.lower():
        quantifier = "only one" if parsed.words[role].dep in SUBJECTS else "a single"
        yield (
            parsed.change(first, last, quantifier),
            parsed.change(noun, noun, singular),
            *agreeing(parsed, role, is_plural=False),
        )


def _quantity(parsed: Parsed, i: int) -> tuple[int, int, int] | None:
    """First and last word and noun of a quantifier: "several", "a few", "lots of"."""
    text, word = parsed.lower[i], parsed.words[i]
    if text in _LOTS:
        if parsed.lower_at(i + 1) != "of":
            return None
        first = i - 1 if text == "lot" and i and parsed.lower[i - 1] == "a" else i
        noun = parsed.child(i + 1, "pobj")
        is_parking = i > 0 and parsed.words[i - 1].dep == "compound"
        if noun is None or is_parking or (text == "lot" and first == i):
            return None
        return first, i + 1, noun
    if word.dep not in ("amod", "det", "nummod") or word.head < i:
        return None
    before = parsed.lower_at(i - 1)
    is_few = text == "few"
    if (is_few and before != "a") or before in ("the", "so", "their", "in"):
        return None
    return i - is_few, i, word.head


def _can_be_none(parsed: Parsed, noun: int) -> bool:
    """Whether "no" is possible before the phrase of the noun."""
    word = parsed.words[noun]
    if word.dep == "pobj":
        return parsed.lower[word.head] == "with"
    if word.dep == "dobj":
        return parsed.words[word.head].lemma in _HOLDING
    return word.dep in SUBJECTS or word.dep in ("attr", "ROOT")


def _can_be_one(parsed: Parsed, noun: int, role: int) -> bool:
    """Whether "only one" fits the noun and its verb."""
    if {parsed.words[noun].lemma, parsed.lower[noun]} & _NOT_SINGLE:
        return False
    word = parsed.words[role]
    if word.dep == "pobj" and parsed.lower[word.head] in _AMONG:
        return False
    if "different" in parsed.lower or "various" in parsed.lower:
        return False
    doing = [word.head, parsed.words[word.head].head, *parsed.children[noun]]
    return all(parsed.words[i].lemma not in _GATHERING for i in doing)


def _replace_no(parsed: Parsed, i: int) -> Iterator[Changes]:
    noun = parsed.words[i].head
    word = parsed.words[noun]
    if parsed.words[i].dep != "det" or noun < i or word.lemma in _UNSEEN:
        return
    # Not on a sign ("no parking") and not in "no one".
    is_sign = not {word.lemma for word in parsed.words}.isdisjoint(("sign", "say", "read"))
    if is_sign or parsed.words[i + 1].pos not in ("NOUN", "ADJ"):
        return
    if word.tag == "NNS":
        yield (parsed.change(i, i, "many"),)
    elif word.tag == "NN":
        yield (parsed.change(i, i, "some" if word.lemma in _NOT_SINGLE else "a"),)


def _replace_all(parsed: Parsed, i: int) -> Iterator[Changes]:
    """Replace "all (of) the" by "none of the" and "both (the)" by "neither of the"."""
    word, is_both = parsed.words[i], parsed.lower[i] == "both"
    # The plural subject that the quantifier belongs to: itself in "all of the dogs".
    subject, noun = i, parsed.words[word.head]
    if word.dep not in SUBJECTS:
        if noun.dep not in SUBJECTS or noun.tag != "NNS" or word.head <= i:
            return
        subject = word.head
    if word.dep not in ("det", "predet", *SUBJECTS):
        return
    if parsed.lower[i + 1 : i + 3] == ("of", "the"):
        last = i + 2
    elif parsed.lower_at(i + 1) == "the":
        last = i + 1
    elif word.dep == "det" and is_both:
        last = i
    else:
        return
    # As in "neither of the dogs is"; after "none" the plural may stay.
    verbs = agreeing(parsed, subject, is_plural=False) if is_both else []
    new = "neither of the" if is_both else "none of the"
    yield (parsed.change(i, last, new), *verbs)
