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
from unbag.edits.kinds import Changes, Kind, by_rule
from unbag.edits.lexicon import GROUPINGS, NO_THINGS, word_lists
from unbag.edits.nouns import content_of, is_joined
from unbag.edits.parsed import BE, NOUN_TAGS, SUBJECTS, Parsed, Phrase
from unbag.types import Change

_LISTS = word_lists("numbers")

# What negate looks up.
_DENYING = _LISTS.words("denying")
_VAGUE = _LISTS.words("vague")
"""Of some people a thing and its contrary are true."""
_PUT_ON = frozenset(("wear", "have", "hold", "carry", "contain"))
_DROPPED = frozenset(("a", "an", "some", "any", "several", "many", "two", "three", "four", "five"))
_ONES = frozenset(("a", "an", "one", "this", "that"))
_LOOSE_DEPS = frozenset(("xcomp", "ccomp", "pcomp", "csubj", "amod", "compound", "parataxis"))

# What replace_number looks up.
_NUMBER_WORDS = _LISTS.sequence("numbers")
_VALUES: Mapping[str, int] = MappingProxyType(
    {word: at for at, word in enumerate(_NUMBER_WORDS, start=1)}
    | {str(at): at for at in range(1, len(_NUMBER_WORDS) + 1)}
)
_UNITS = _LISTS.words("units")
_TAKEN_UP = _LISTS.words("taken_up")
_NO_COUNT_AFTER = frozenset(("#", "number", "no.", "than", "about", "the", "at", "of", "all"))
_IN_PAIRS = _LISTS.words("in_pairs")
_ITS = frozenset(("it", "its", "itself", "he", "his", "him", "himself", "she", "her", "herself"))

# What replace_quantifier looks up.
_MANY = frozenset(("many", "numerous", "several", "multiple", "some", "few"))
_LOTS = frozenset(("lots", "lot", "dozens", "plenty", "hundreds"))
_QUANTIFIERS = _MANY | _LOTS | frozenset(("no", "all", "both", "none", "every", "each"))
_NOT_SINGLE = _LISTS.words("not_single")
_LOOSE = _LISTS.words("loose")
_THEY = frozenset(
    ("they", "them", "their", "themselves", "other", "another", "together", "row", "including")
)
_GATHERING = _LISTS.words("gathering")
_UNSEEN = _LISTS.words("unseen")
_HOLDING = frozenset(("have", "hold", "contain", "show", "include", "feature", "wear", "carry"))
_NARROWING = frozenset(("only", "just", "quite", "not", "so", "too", "very"))
_AMONG = frozenset(("among", "between", "around", "through", "amongst", "amid", "of", "by"))


def negate(parsed: Parsed) -> list[Changes]:
    """Every single place where a negation can stand."""
    if not _DENYING.isdisjoint(parsed.lower):
        return []
    single = [*_at_be(parsed), *_at_verbs(parsed), *_at_objects(parsed)]
    return [(change,) for change in dict.fromkeys(single)]


NEGATE = Kind(
    name="negate",
    keeps_meaning=False,
    about="a negation: a man is riding a horse -> a man is not riding a horse",
    source="CREPE",
    editor=by_rule(negate),
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


REPLACE_NUMBER = Kind(
    name="replace_number",
    keeps_meaning=False,
    about="a larger number: two dogs on a sofa -> four dogs on a sofa",
    source="ours",
    editor=by_rule(replace_number),
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


REPLACE_QUANTIFIER = Kind(
    name="replace_quantifier",
    keeps_meaning=False,
    about="a quantifier that contradicts: many boats in a harbour -> no boats in a harbour",
    source="ours",
    editor=by_rule(replace_quantifier),
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
        if _has_helper(parsed, at) or word.dep in _LOOSE_DEPS:
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
    return len(before) == 2 and before[0] == "there" and before[1] in BE


def _is_put_on(parsed: Parsed, phrase: Phrase) -> bool:
    word = parsed.words[phrase.head]
    if word.dep != "dobj" or word.head != phrase.first - 1:
        return False
    return verb_lemma(parsed, word.head) in _PUT_ON and parsed.words[word.head].pos == "VERB"


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
        if other == at or text not in _TAKEN_UP:
            continue
        # "each other" fits any number from two on.
        is_mutual = text == "each" and parsed.lower[other + 1 : other + 2] == ("other",)
        is_mutual |= text == "other" and other > 0 and parsed.lower[other - 1] == "each"
        if not is_mutual:
            return True
    return False


def _from_one(parsed: Parsed, at: int) -> list[Changes]:
    """With the noun in the plural, and its verbs."""
    noun = parsed.words[at].head
    word = parsed.words[noun]
    is_plain = word.tag == "NN" and _ITS.isdisjoint(parsed.lower[at:])
    is_plain = is_plain and sum(one.lemma == word.lemma for one in parsed.words) == 1
    if not is_plain or not _stands_alone(parsed, noun):
        return []
    plural = inflected(word.lemma, "NNS")
    if plural == word.text.lower():
        return []
    verbs = agreeing(parsed, noun, is_plural=True)
    return [
        (
            parsed.change(at, at, _written(parsed, at, value)),
            parsed.change(noun, noun, plural),
            *verbs,
        )
        for value in ((2,) if word.lemma in _IN_PAIRS else (2, 3))
    ]


def _stands_alone(parsed: Parsed, noun: int) -> bool:
    """No "a" or "this" before the number, and nothing joined to the noun."""
    children = [parsed.words[at] for at in parsed.children[noun]]
    return not any(child.dep in ("det", "poss", "conj", "appos") for child in children)


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
    is_joined = any(parsed.words[one].dep == "conj" for one in parsed.children[noun])
    if any(parsed.words[one].lemma in _LOOSE for one in range(last + 1, noun + 1)) or is_joined:
        return
    if not _THEY.isdisjoint(parsed.lower[noun + 1 :]):
        return
    if _may_be_none(parsed, role):
        yield (parsed.change(first, last, "no"),)
    if word.tag != "NNS" or not _may_be_one(parsed, noun, role):
        return
    singular = word.lemma if word.lemma != "people" else "person"
    if singular != word.text.lower():
        yield (
            parsed.change(
                first, last, "only one" if parsed.words[role].dep in SUBJECTS else "a single"
            ),
            parsed.change(noun, noun, singular),
            *agreeing(parsed, role, is_plural=False),
        )


def _quantity(parsed: Parsed, at: int) -> tuple[int, int, int] | None:
    """First and last word of the quantifier and its noun: "several", "a few", "lots of"."""
    text, word = parsed.lower[at], parsed.words[at]
    if text in _LOTS:
        if parsed.lower[at + 1 : at + 2] != ("of",):
            return None
        first = at - 1 if text == "lot" and at and parsed.lower[at - 1] == "a" else at
        nouns = [one for one in parsed.children[at + 1] if parsed.words[one].dep == "pobj"]
        is_parking = at > 0 and parsed.words[at - 1].dep == "compound"
        if not nouns or is_parking or (text == "lot" and first == at):
            return None
        return first, at + 1, nouns[0]
    if word.dep not in ("amod", "det", "nummod") or word.head < at:
        return None
    is_few = text == "few" and at > 0 and parsed.lower[at - 1] == "a"
    if (text == "few") != is_few or (at and parsed.lower[at - 1] in ("the", "so", "their", "in")):
        return None
    return at - is_few, at, word.head


def _may_be_none(parsed: Parsed, noun: int) -> bool:
    """Whether "no" can stand before the noun's phrase."""
    word = parsed.words[noun]
    if word.dep == "pobj":
        return parsed.lower[word.head] == "with"
    if word.dep == "conj":
        return False
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
    if parsed.words[at].dep != "det" or noun < at or not _is_seen(parsed, at, noun):
        return
    if word.tag == "NNS":
        yield (parsed.change(at, at, "many"),)
    elif word.tag == "NN":
        yield (parsed.change(at, at, "some" if word.lemma in _NOT_SINGLE else "a"),)


def _is_seen(parsed: Parsed, at: int, noun: int) -> bool:
    """Whether a thing is meant: not on a sign ("no parking"), not "no one"."""
    if parsed.words[noun].lemma in _UNSEEN:
        return False
    around = {word.lemma for word in parsed.words}
    is_sign = not around.isdisjoint(("sign", "say", "read"))
    return not is_sign and parsed.words[at + 1].pos in ("NOUN", "ADJ")


def _of_all(parsed: Parsed, at: int) -> Iterator[Changes]:
    """All of the, all the, both: none of the, neither of the."""
    new = "none of the" if parsed.lower[at] == "all" else "neither of the"
    after = parsed.lower[at + 1 : at + 3]
    subject = _subject_after(parsed, at)
    if subject is None or parsed.words[at].dep not in ("det", "predet", "nsubj", "nsubjpass"):
        return
    if after == ("of", "the"):
        yield (parsed.change(at, at + 2, new), *_alone(parsed, at, subject))
    elif after[:1] == ("the",):
        yield (parsed.change(at, at + 1, new), *_alone(parsed, at, subject))
    elif parsed.words[at].dep == "det" and parsed.lower[at] == "both":
        yield (parsed.change(at, at, new), *_alone(parsed, at, subject))


def _alone(parsed: Parsed, at: int, subject: int) -> list[Change]:
    """As in "neither of the dogs is"; after "none" the plural may stay."""
    return agreeing(parsed, subject, is_plural=False) if parsed.lower[at] == "both" else []


def _subject_after(parsed: Parsed, at: int) -> int | None:
    """The plural subject that the quantifier belongs to: itself in "all of the dogs"."""
    word = parsed.words[at]
    if word.dep in SUBJECTS:
        return at
    noun = parsed.words[word.head]
    is_subject = noun.dep in SUBJECTS and noun.tag == "NNS" and word.head > at
    return word.head if is_subject else None
