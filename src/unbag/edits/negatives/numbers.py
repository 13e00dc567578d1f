"""Hard negatives by negation, by another number, and by a quantifier that contradicts.

A negation stands at a predicate ("is not riding", "does not ride", "not wearing") or at an object
("with no hat", "there is no dog"); a caption that already denies something is left alone. Numbers
only rise: where there are five dogs there are also three, so a smaller number could still be called
true. "One" is replaced before a noun only, with noun and verb in the plural. Left alone are times,
ages, measures, names and numbers that the caption takes up again ("two dogs, one of them black").
Many things become none, few or a single one, none become some, all become none, both neither. "No"
is put where English puts it: before subjects, objects and after "with", never after other
prepositions ("near no trees"). There a single thing stands instead of many.
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

# What negate looks up.
_DENYING = _LISTS.words("denying")
_VAGUE = _LISTS.words("vague")
"""Of some people a thing and its contrary are true."""
_PUT_ON = _LISTS.words("put_on")
_DROPPED = _LISTS.words("dropped")
_ONES = _LISTS.words("ones")
_LOOSE_DEPS = frozenset(("xcomp", "ccomp", "pcomp", "csubj", "amod", "compound", "parataxis"))

# What replace_number looks up.
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

# What replace_quantifier looks up.
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
    """Every single place where a negation can stand."""
    if not _DENYING.isdisjoint(parsed.lower):
        return []
    single = (*_at_be(parsed), *_at_verbs(parsed), *_at_objects(parsed))
    return [(change,) for change in dict.fromkeys(single)]


NEGATE = rule_kind(
    negate, "a negation: a man is riding a horse -> a man is not riding a horse", "CREPE"
)


def replace_number(parsed: Parsed) -> list[Changes]:
    """A larger number before the same noun."""
    found: list[Changes] = []
    for at in parsed.counts:
        value = _VALUES.get(parsed.lower[at])
        if value is None or not _is_count(parsed, at):
            continue
        if value == 1:
            found += _from_one(parsed, at)
        else:
            found += [(parsed.change(at, at, _written(parsed, at, new)),) for new in _above(value)]
    return found


REPLACE_NUMBER = rule_kind(
    replace_number, "a larger number: two dogs on a sofa -> four dogs on a sofa", "ours"
)


def replace_quantifier(parsed: Parsed) -> list[Changes]:
    """Quantifiers before nouns, each with what contradicts it."""
    if _QUANTIFIERS.isdisjoint(parsed.lower):
        return []
    found: list[Changes] = []
    for at, text in enumerate(parsed.lower):
        if text in _MANY or text in _LOTS:
            found += _of_many(parsed, at)
        elif text == "no":
            found += _of_no(parsed, at)
        elif text in ("all", "both"):
            found += _of_all(parsed, at)
    return found


REPLACE_QUANTIFIER = rule_kind(
    replace_quantifier,
    "a quantifier that contradicts: many boats in a harbour -> no boats in a harbour",
    "ours",
)


def _at_be(parsed: Parsed) -> Iterator[Change]:
    """Not after a form of "be", whether it helps a verb or stands alone."""
    for at, text in enumerate(parsed.lower[:-1]):
        word = parsed.words[at]
        if text not in BE or word.pos not in ("AUX", "VERB"):
            continue
        verb = word.head if word.dep in ("aux", "auxpass") else at
        subject = parsed.child(verb, "nsubj", "nsubjpass")
        if subject is None or subject > at or _is_vague(parsed, subject):
            continue
        if parsed.words[at + 1].tag in ("JJ", "VBG", "VBN", "IN", "DT", "RB", "NN", "NNS", "CD"):
            yield Change(word.end, word.end, " not")


def _at_verbs(parsed: Parsed) -> Iterator[Change]:
    """Not before participles, "does not" before tensed verbs."""
    for at in parsed.verbs:
        word = parsed.words[at]
        has_helper = parsed.child(at, "aux", "auxpass", "neg", "mark") is not None
        if has_helper or word.dep in _LOOSE_DEPS:
            continue
        if word.tag in ("VBG", "VBN"):
            if _says_of_noun(parsed, at):
                yield parsed.insert_before(at, "not")
        elif word.tag in ("VBZ", "VBP"):
            subject = parsed.child(at, "nsubj", "nsubjpass")
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
        if not _may_be_lacking(parsed, phrase):
            continue
        first = parsed.words[phrase.first]
        if parsed.lower[phrase.first] in _DROPPED and phrase.first < phrase.head:
            yield parsed.change(phrase.first, phrase.first, "no")
        elif first.tag in ("JJ", "NN", "NNS", "VBN", "VBG"):
            yield parsed.insert_before(phrase.first, "no")


def _may_be_lacking(parsed: Parsed, phrase: Phrase) -> bool:
    """After "with" (a noun with something, not "covered with" it), "there is" and "wearing"."""
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


def _says_of_noun(parsed: Parsed, verb: int) -> bool:
    """Whether it follows the noun it tells about: "a man riding"."""
    word = parsed.words[verb]
    if not verb or parsed.words[verb - 1].tag not in NOUN_TAGS:
        return False
    if word.dep == "acl":
        return not _is_vague(parsed, word.head)
    subject = parsed.child(verb, "nsubj", "nsubjpass")
    return word.dep == "ROOT" and subject == verb - 1 and not _is_vague(parsed, subject)


def _above(value: int) -> tuple[int, ...]:
    """Larger numbers, far enough to be seen; at most twelve, the last that is written as a word."""
    if value < 5:
        return tuple(range(value + 1, value + 4))
    return tuple(new for new in (value + 2, value + 3, value + 4) if new <= len(_NUMBER_WORDS))


def _written(parsed: Parsed, at: int, value: int) -> str:
    return str(value) if parsed.lower[at].isdigit() else _NUMBER_WORDS[value - 1]


def _is_count(parsed: Parsed, at: int) -> bool:
    """Whether it says how many things there are, and nothing else in the caption hangs on that."""
    word = parsed.words[at]
    noun = parsed.words[word.head]
    if word.head < at or noun.lemma in _UNITS or "-" in parsed.text_of(at, word.head):
        return False
    if at and parsed.lower[at - 1] in _NO_COUNT_AFTER:
        return False
    if at and parsed.words[at - 1].pos in ("NUM", "PROPN", "SYM"):
        return False
    if any(parsed.words[child].dep == "appos" for child in parsed.children[word.head]):
        return False
    return not _is_taken_up(parsed, at) and (noun.tag == "NNS" or _VALUES[parsed.lower[at]] == 1)


def _is_taken_up(parsed: Parsed, at: int) -> bool:
    for other, text in enumerate(parsed.lower):
        # "each other" fits any number from two on.
        is_mutual = text == "each" and parsed.lower_at(other + 1) == "other"
        is_mutual |= text == "other" and parsed.lower_at(other - 1) == "each"
        if other != at and text in _TAKEN_UP and not is_mutual:
            return True
    return False


def _from_one(parsed: Parsed, at: int) -> list[Changes]:
    """With the noun in the plural, and its verbs."""
    noun = parsed.words[at].head
    word = parsed.words[noun]
    is_plain = word.tag == "NN" and _ITS.isdisjoint(parsed.lower[at:])
    is_plain = is_plain and sum(one.lemma == word.lemma for one in parsed.words) == 1
    # No "a" or "this" before the number, and nothing joined to the noun.
    if not is_plain or parsed.child(noun, "det", "poss", "conj", "appos") is not None:
        return []
    plural = inflected(word.lemma, "NNS")
    if plural == word.text.lower():
        return []
    rest = parsed.change(noun, noun, plural), *agreeing(parsed, noun, is_plural=True)
    return [
        (parsed.change(at, at, _written(parsed, at, value)), *rest)
        for value in ((2,) if word.lemma in _IN_PAIRS else (2, 3))
    ]


def _of_many(parsed: Parsed, at: int) -> Iterator[Changes]:
    span = _quantity(parsed, at)
    if span is None:
        return
    first, last, noun = span
    word = parsed.words[noun]
    if first and parsed.lower[first - 1] in _NARROWING:
        return
    # In "lots of dogs are" it is the quantifier that is the subject.
    role = at if parsed.lower[at] in _LOTS else noun
    if any(parsed.words[one].lemma in _LOOSE for one in range(last + 1, noun + 1)):
        return
    if parsed.child(noun, "conj") is not None or not _THEY.isdisjoint(parsed.lower[noun + 1 :]):
        return
    if _may_be_none(parsed, role):
        yield (parsed.change(first, last, "no"),)
    if word.tag != "NNS" or not _may_be_one(parsed, noun, role):
        return
    singular = word.lemma if word.lemma != "people" else "person"
    if singular != word.text.lower():
        one = "only one" if parsed.words[role].dep in SUBJECTS else "a single"
        yield (
            parsed.change(first, last, one),
            parsed.change(noun, noun, singular),
            *agreeing(parsed, role, is_plural=False),
        )


def _quantity(parsed: Parsed, at: int) -> tuple[int, int, int] | None:
    """First and last word of the quantifier and its noun: "several", "a few", "lots of"."""
    text, word = parsed.lower[at], parsed.words[at]
    if text in _LOTS:
        if parsed.lower_at(at + 1) != "of":
            return None
        first = at - 1 if text == "lot" and at and parsed.lower[at - 1] == "a" else at
        noun = parsed.child(at + 1, "pobj")
        is_parking = at > 0 and parsed.words[at - 1].dep == "compound"
        if noun is None or is_parking or (text == "lot" and first == at):
            return None
        return first, at + 1, noun
    if word.dep not in ("amod", "det", "nummod") or word.head < at:
        return None
    before = parsed.lower_at(at - 1)
    is_few = text == "few"
    if (is_few and before != "a") or before in ("the", "so", "their", "in"):
        return None
    return at - is_few, at, word.head


def _may_be_none(parsed: Parsed, noun: int) -> bool:
    """Whether "no" can stand before the noun's phrase."""
    word = parsed.words[noun]
    if word.dep == "pobj":
        return parsed.lower[word.head] == "with"
    if word.dep == "dobj":
        return parsed.words[word.head].lemma in _HOLDING
    return word.dep in SUBJECTS or word.dep in ("attr", "ROOT")


def _may_be_one(parsed: Parsed, noun: int, role: int) -> bool:
    """Whether "only one" is said of such a thing, and fits what it does."""
    if {parsed.words[noun].lemma, parsed.lower[noun]} & _NOT_SINGLE:
        return False
    word = parsed.words[role]
    if word.dep == "pobj" and parsed.lower[word.head] in _AMONG:
        return False
    if "different" in parsed.lower or "various" in parsed.lower:
        return False
    doing = [word.head, parsed.words[word.head].head, *parsed.children[noun]]
    return all(parsed.words[at].lemma not in _GATHERING for at in doing)


def _of_no(parsed: Parsed, at: int) -> Iterator[Changes]:
    noun = parsed.words[at].head
    word = parsed.words[noun]
    if parsed.words[at].dep != "det" or noun < at or word.lemma in _UNSEEN:
        return
    # No thing is meant on a sign ("no parking") and by "no one".
    is_sign = not {word.lemma for word in parsed.words}.isdisjoint(("sign", "say", "read"))
    if is_sign or parsed.words[at + 1].pos not in ("NOUN", "ADJ"):
        return
    if word.tag == "NNS":
        yield (parsed.change(at, at, "many"),)
    elif word.tag == "NN":
        yield (parsed.change(at, at, "some" if word.lemma in _NOT_SINGLE else "a"),)


def _of_all(parsed: Parsed, at: int) -> Iterator[Changes]:
    """All of the, all the, both: none of the, neither of the."""
    word, is_both = parsed.words[at], parsed.lower[at] == "both"
    # The plural subject that the quantifier belongs to: itself in "all of the dogs".
    subject, noun = at, parsed.words[word.head]
    if word.dep not in SUBJECTS:
        if noun.dep not in SUBJECTS or noun.tag != "NNS" or word.head <= at:
            return
        subject = word.head
    if word.dep not in ("det", "predet", *SUBJECTS):
        return
    if parsed.lower[at + 1 : at + 3] == ("of", "the"):
        last = at + 2
    elif parsed.lower_at(at + 1) == "the":
        last = at + 1
    elif word.dep == "det" and is_both:
        last = at
    else:
        return
    # As in "neither of the dogs is"; after "none" the plural may stay.
    verbs = agreeing(parsed, subject, is_plural=False) if is_both else []
    new = "neither of the" if is_both else "none of the"
    yield (parsed.change(at, last, new), *verbs)
