"""Hard negatives that exchange two nouns or two noun phrases of a caption (NegCLIP, CREPE).

The checked kinds exchange only what makes the caption false: not "a dog next to a cat", not two
nouns joined by "and", and never "a dogs". `neg_clip_swap` is NegCLIP's published rule, which
reproduces its training data: it checks neither that the caption becomes false nor its grammar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from unbag.edits.filters import LEAVES_MARKED_WORDS
from unbag.edits.inflection import agreeing
from unbag.edits.kinds import Changes, Kind, Rule, rule_kind
from unbag.edits.lexicon import (
    DOINGS,
    GROUPINGS,
    IMAGES,
    NO_THINGS,
    NOT_ATTRIBUTES,
    is_fixed,
    is_near,
    word_lists,
)
from unbag.edits.nouns import (
    Determined,
    Facts,
    ThingNoun,
    content_of,
    determined,
    facts_of,
    fits,
    goes_on,
    has_who_clause,
    is_bare_count,
    is_joined,
    is_plural,
    owner_pronoun,
    whole_phrase,
)
from unbag.edits.parsed import ADJECTIVE_TAGS, NOUN_TAGS, VERB_TAGS, Parsed, Phrase

_MAIN_ROLES = frozenset(("nsubj", "nsubjpass", "dobj", "attr", "ROOT"))
_TOGETHER = frozenset(("each", "together", "both", "side-by-side", "another"))
_CLASSES = (NOUN_TAGS, ADJECTIVE_TAGS, VERB_TAGS, frozenset(("RB", "RBR", "RBS")))
_EXCLUDED = NO_THINGS | IMAGES | GROUPINGS | DOINGS
_NEVER_SWAPPED = word_lists("nouns").words("never_swapped")


def swap_kind(rule: Rule, about: str, source: str = "NegCLIP", *, is_default: bool = True) -> Kind:
    """Make a kind that exchanges words, except words in quotation marks or capitals."""
    kind = rule_kind(rule, about, source, is_default=is_default)
    return replace(kind, keeps_words=True, filters=(LEAVES_MARKED_WORDS,))


def swap_nouns(parsed: Parsed) -> list[Changes]:
    """Exchange two nouns with their compound modifiers; articles and adjectives stay."""
    if len(parsed.nouns) < 2:
        return []
    facts = facts_of(parsed)
    things = [thing for thing in facts.things if not _ends_name(parsed, thing.first)]
    return [
        exchanged(parsed, one[:2], other[:2])
        for one, other in combinations(things, 2)
        if fits(one, other)
        and fits(other, one)
        and _is_unreferenced(parsed, one, other)
        and facts.differ(one, other, keep_attributes=True)
    ]


SWAP_NOUNS = swap_kind(swap_nouns, "two nouns change places: a dog on a sofa -> a sofa on a dog")


def swap_phrases(parsed: Parsed) -> list[Changes]:
    """Exchange two noun phrases with article, number and adjectives; verbs agree.

    One of them must be a subject or direct object. Exchanging two circumstances often does not
    change the meaning: "he walks along tracks in a forest".
    """
    if len(parsed.phrases) < 2:
        return []
    facts = facts_of(parsed)
    return [
        _exchanged_phrases(parsed, one, other)
        for (one, a), (other, b) in combinations(_whole_phrases(facts), 2)
        if _keeps_grammar(parsed, one, other)
        and any(parsed.words[phrase.head].dep in _MAIN_ROLES for phrase in (one, other))
        and _stands_alone(parsed, a, b)
        and _is_unreferenced(parsed, a, b)
        and facts.differ(a, b, keep_attributes=False)
    ]


SWAP_PHRASES = swap_kind(
    swap_phrases, "two noun phrases: a man rides two horses -> two horses ride a man"
)


def swap_arguments(parsed: Parsed) -> list[Changes]:
    """Exchange subject and object of one relation."""
    if len(parsed.phrases) < 2:
        return []
    facts = facts_of(parsed)
    linked = {
        frozenset((fact.subject, fact.object))
        for fact in facts.facts
        if not fact.is_symmetric and fact.link != "of"
    }
    return [
        _exchanged_phrases(parsed, one, other)
        for (one, a), (other, b) in combinations(_whole_phrases(facts), 2)
        if frozenset((a.head, b.head)) in linked
        and _keeps_grammar(parsed, one, other)
        and _stands_alone(parsed, a, b)
        and _is_unreferenced(parsed, a, b)
        and facts.differ(a, b, keep_attributes=False)
    ]


SWAP_ARGUMENTS = swap_kind(
    swap_arguments,
    "subject and object of a relation: the horse eats grass -> grass eats the horse",
    "CREPE, SugarCrepe",
)


def swap_words(parsed: Parsed) -> list[Changes]:
    """Exchange two single nouns: things and parts of names, otherwise any nouns that fit.

    Wider than `swap_nouns`: it includes parts of compounds ("a street hydrant on a fire") and nouns
    linked only by "with" ("a toilet with a bathroom"). Articles still fit.
    """
    if not parsed.nouns:
        return []
    facts = facts_of(parsed)
    return _single_swaps(facts, _EXCLUDED, is_first=True) or _single_swaps(
        facts, _NEVER_SWAPPED, is_first=False
    )


SWAP_WORDS = swap_kind(
    swap_words,
    "single nouns, of names too: a fire hydrant on a road -> a road hydrant on a fire",
    is_default=False,
)


def neg_clip_swap(parsed: Parsed) -> list[Changes]:
    """Exchange any two nouns, adjectives, verbs, adverbs or noun phrases."""
    edits: list[Changes] = []
    for tags in _CLASSES:
        words = [i for i, word in enumerate(parsed.words) if word.tag in tags]
        edits += [
            exchanged(parsed, (one, one), (other, other))
            for one, other in combinations(words, 2)
            if parsed.lower[one] != parsed.lower[other]
        ]
    edits += [
        exchanged(parsed, one[:2], other[:2])
        for one, other in combinations(parsed.chunks, 2)
        if parsed.text_of(*one[:2]).lower() != parsed.text_of(*other[:2]).lower()
    ]
    return edits


NEG_CLIP_SWAP = replace(
    rule_kind(
        neg_clip_swap,
        "any two of a class, unchecked, as published: a zebra by a rock -> a rock by a zebra",
        "NegCLIP",
        is_default=False,
    ),
    keeps_words=True,
    is_published=True,
)


def exchanged(parsed: Parsed, one: Sequence[int], other: Sequence[int]) -> Changes:
    """The changes that exchange the words one[0] to one[1] with the words other[0] to other[1]."""
    return (
        parsed.change(one[0], one[1], parsed.text_of(other[0], other[1])),
        parsed.change(other[0], other[1], parsed.text_of(one[0], one[1])),
    )


def _exchanged_phrases(parsed: Parsed, one: Phrase, other: Phrase) -> Changes:
    """The changes that exchange two phrases and make verbs agree with their new subjects."""
    pieces = list(exchanged(parsed, one[:2], other[:2]))
    numbers = _counts_many(parsed, one), _counts_many(parsed, other)
    if numbers[0] != numbers[1]:
        pieces += agreeing(parsed, one.head, is_plural=numbers[1])
        pieces += agreeing(parsed, other.head, is_plural=numbers[0])
    return tuple(dict.fromkeys(pieces))


def _ends_name(parsed: Parsed, noun: int) -> bool:
    """Whether a noun forms a name with the word before it, as in "hot dog"."""
    return noun > 0 and is_fixed(parsed.lower[noun - 1], parsed.lower[noun])


def _counts_many(parsed: Parsed, phrase: Phrase) -> bool:
    """Whether a verb after the phrase is plural: "a couple of dogs are"."""
    return is_plural(parsed, content_of(parsed, phrase.head))


def _whole_phrases(facts: Facts) -> Iterator[tuple[Phrase, ThingNoun]]:
    """Phrases including "of" phrases, each with its thing."""
    parsed = facts.parsed
    things = {thing.head: thing for thing in facts.things}
    for phrase in parsed.phrases:
        thing = things.get(content_of(parsed, phrase.head))
        if thing is None or owner_pronoun(parsed, phrase.head) is not None:
            continue
        before = phrase.first - 1
        if before >= 0 and parsed.lower[before] == "of" and before not in parsed.bound:
            continue
        whole = whole_phrase(parsed, phrase)
        # The phrase may end inside a hyphenated word, or before "'s" or "of".
        if (
            whole is not None
            and parsed.lower_at(whole.last + 1) not in ("-", "'s", "'", "of")
            and parsed.lower_at(whole.first - 1) != "-"
            and not goes_on(parsed, whole.last)
        ):
            yield whole, thing


def _keeps_grammar(parsed: Parsed, one: Phrase, other: Phrase) -> bool:
    """Whether only verbs have to agree, and no new compound results.

    "Bike riding person" means the same as "person riding bike".
    """
    if one.last >= other.first:
        return False
    is_pair = not _TOGETHER.isdisjoint(parsed.lower)
    if is_pair and _counts_many(parsed, one) != _counts_many(parsed, other):
        return False
    is_bare = one.first == one.last and parsed.words[other.first].tag in NOUN_TAGS
    between = parsed.words[one.last + 1]
    return not (is_bare and between.tag in ("VBG", "VBN") and other.first == one.last + 2)


def _stands_alone(parsed: Parsed, one: ThingNoun, other: ThingNoun) -> bool:
    """Whether each noun fits the position of the other: no "sits in man", no pronouns."""
    if any(word.tag in ("PRP", "PRP$") for word in parsed.words):
        return False
    heads = (one.head, other.head)
    if any(is_joined(parsed, i) or parsed.words[i].dep == "conj" for i in heads):
        return False
    return is_bare_count(one) == is_bare_count(other)


def _is_unreferenced(parsed: Parsed, one: ThingNoun, other: ThingNoun) -> bool:
    """Whether nothing else refers to one of the nouns: no "a sofa who", no "his man"."""
    if one.lemma == other.lemma:
        return False
    has_who = has_who_clause(parsed, one) or has_who_clause(parsed, other)
    if has_who and not (one.is_person and other.is_person):
        return False
    owned = [thing for thing in (one, other) if owner_pronoun(parsed, thing.head) is not None]
    return not owned or not (one.is_alive or other.is_alive)


def _single_swaps(facts: Facts, excluded: frozenset[str], *, is_first: bool) -> list[Changes]:
    singles = (_single_noun(facts.parsed, i, excluded) for i in range(len(facts.parsed.words)))
    return [
        exchanged(facts.parsed, one[:2], other[:2])
        for one, other in combinations([noun for noun in singles if noun], 2)
        if not is_near(one.lemma, other.lemma)
        and fits(one, other)
        and fits(other, one)
        and _differ(facts, one, other, is_first=is_first)
    ]


def _single_noun(parsed: Parsed, i: int, excluded: frozenset[str]) -> ThingNoun | None:
    """The noun at an index, if it can move alone."""
    word, lemma = parsed.words[i], parsed.words[i].lemma.lower()
    if word.tag not in ("NN", "NNS") or i in parsed.bound or not word.text.isalpha():
        return None
    is_modifier = _is_modifier(parsed, i)
    is_parking_lot = word.lemma == "lot" and i > 0 and _is_modifier(parsed, i - 1)
    if (
        _ends_name(parsed, i)
        or (lemma in excluded and not is_parking_lot)
        or (is_modifier and word.text.endswith("ing"))
        or parsed.lower_at(i - 1) == "-"
        or parsed.lower_at(i + 1) in ("-", "'s", "'")
    ):
        return None
    if is_modifier:
        return ThingNoun(i, i, i, lemma, word.tag == "NNS", Determined.THE)
    return ThingNoun(i, i, i, lemma, is_plural(parsed, i), determined(parsed, i))


def _is_modifier(parsed: Parsed, i: int) -> bool:
    """Whether a noun modifies another noun: "fire" in "fire hydrant"."""
    return parsed.words[i].dep == "compound" and parsed.words[i].head > i


def _differ(facts: Facts, one: ThingNoun, other: ThingNoun, *, is_first: bool) -> bool:
    """Whether the exchange changes the meaning; parts of one compound only if not `is_first`."""
    parsed = facts.parsed
    if _is_modifier(parsed, one.head) or _is_modifier(parsed, other.head):
        # A night city means nearly the same as a city night.
        if is_first and any(
            noun.first <= one.head and other.head <= noun.last for noun in parsed.nouns
        ):
            return False
        # "A wii playing man games" is ungrammatical: the verb becomes part of a compound.
        is_verb = parsed.words[one.head + 1].tag in ("VBG", "VBN")
        return not (is_verb and other.head == one.head + 2)
    if facts.belong_together(one.head, other.head) or not _is_unreferenced(parsed, one, other):
        return False
    if facts.differ(one, other, keep_attributes=True):
        return True
    if _adjectives(parsed, one.head) != _adjectives(parsed, other.head):
        return True
    a, b = facts.group_of(one.head), facts.group_of(other.head)
    links = {f.link for f in facts.facts if {f.subject, f.object} == {a, b}}
    return a != b and links <= {"with"}


def _adjectives(parsed: Parsed, noun: int) -> frozenset[str]:
    return frozenset(
        parsed.lower[attribute.word]
        for attribute in parsed.attributes
        if attribute.noun == noun and parsed.lower[attribute.word] not in NOT_ATTRIBUTES
    )
