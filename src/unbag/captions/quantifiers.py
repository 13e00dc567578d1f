"""A parsed caption comes in; the same with a quantifier that contradicts it goes out.

Many things become none, few or a single one, none become some, all become none, both neither.
"No" is put where English puts it: before subjects, objects and after "with", never after other
prepositions ("near no trees"). There a single thing stands instead of many.
"""

from __future__ import annotations

from collections.abc import Iterator

from unbag.captions.agreement import agreeing
from unbag.captions.kinds import Changes, Kind, by_rule
from unbag.captions.parsed import Parsed
from unbag.types import Change

_MANY = frozenset(("many", "numerous", "several", "multiple", "some", "few"))
_LOTS = frozenset(("lots", "lot", "dozens", "plenty", "hundreds"))
_WORDS = _MANY | _LOTS | frozenset(("no", "all", "both", "none", "every", "each"))
_SUBJECTS = frozenset(("nsubj", "nsubjpass"))
_MASS_WORDS = """
water grass snow sand food fruit luggage furniture equipment people clothing hair traffic rice
cheese paper vegetation dirt mud ice milk meat music text writing graffiti smoke trash money
scissors pants jeans glasses shorts trousers sunglasses goggles binoculars clothes pajamas stairs
cattle police stuff art wine beer bread electronics utensils groceries tracks track power light
sauce lighting makeup year years month day hour minute time ruins thing things foot inch
mile meter yard
"""
_NOT_SINGLE = frozenset(_MASS_WORDS.split()) - {"people"}
"""Not counted one by one, or only ever in the plural."""
_LOOSE_WORDS = """
different various other more kind type sort way time of such very assorted similar
"""
_LOOSE = frozenset(_LOOSE_WORDS.split())
"""With these beside it, a quantifier says something else: "several other", "some kind"."""
_THEY = frozenset(
    ("they", "them", "their", "themselves", "other", "another", "together", "row", "including")
)
_GATHERING_WORDS = """
gather crowd line surround huddle assemble stack pile congregate cluster scatter group include
fill mix follow
"""
_GATHERING = frozenset(_GATHERING_WORDS.split())
"""What only several can do."""
_UNSEEN_WORDS = """
one longer matter parking turn smoking attention hand hands shoe shirt sock sleeve clothe idea way
image
"""
_UNSEEN = frozenset(_UNSEEN_WORDS.split())
"""After "no" these are no things, or nobody has many of them."""
_HOLDING = frozenset(("have", "hold", "contain", "show", "include", "feature", "wear", "carry"))
_NARROWING = frozenset(("only", "just", "quite", "not", "so", "too", "very"))
_AMONG = frozenset(("among", "between", "around", "through", "amongst", "amid", "of", "by"))


def replace_quantifier(parsed: Parsed) -> list[Changes]:
    """Quantifiers before nouns, each with what contradicts it."""
    if _WORDS.isdisjoint(parsed.lower):
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
                first, last, "only one" if parsed.words[role].dep in _SUBJECTS else "a single"
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
    return word.dep in _SUBJECTS or word.dep in ("attr", "ROOT")


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
    if word.dep in _SUBJECTS:
        return at
    noun = parsed.words[word.head]
    is_subject = noun.dep in _SUBJECTS and noun.tag == "NNS" and word.head > at
    return word.head if is_subject else None


REPLACE_QUANTIFIER = Kind(
    name="replace_quantifier",
    keeps_meaning=False,
    about="a quantifier that contradicts: many boats in a harbour -> no boats in a harbour",
    source="ours",
    editor=by_rule(replace_quantifier),
)
