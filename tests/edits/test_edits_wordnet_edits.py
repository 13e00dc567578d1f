"""Nouns, contraries and relations replaced on captions we wrote; properties of all such kinds."""

from __future__ import annotations

import pytest

from unbag.edits import wordnet
from unbag.edits.editor import make_editor
from unbag.edits.kinds import Rule, apply, find_kinds, finished, normalised
from unbag.edits.negatives.replace import replace_attribute, replace_relation
from unbag.edits.negatives.wordnet import (
    GENDERED,
    GROUPS_OF,
    NOUN_GROUPS,
    PLACES,
    AntonymRule,
    NounRule,
)
from unbag.edits.parsing import Parser, find_parser
from unbag.edits.wordnet import find_wordnet
from unbag.errors import UnbagError
from unbag.types import Given

KINDS = (
    "left_right above_below front_behind inside_outside near_far replace_number replace_quantifier "
    "antonym replace_noun replace_attribute replace_relation"
)
CAPTIONS = (
    "A cup on the left of two plates.",
    "Many goats stand in front of a barn near a road.",
    "A YOUNG MAN RIDES A BICYCLE OVER A BRIDGE",
    "an old woman sits on a bench with her dog , a hat and three bags .",
    "One horse is pulling a cart up a hill while a boy watches.",
    "Some people are inside a large red bus.",
    "A girl holding an umbrella walks towards the beach.",
    "A kitchen with no window and a wooden table",
    "Two men throw a ball on the grass behind a house.",
    "An elephant is next to a zebra under a tree.",
    "A cat on top of an open suitcase in the background",
    "The bird flies.",
)


@pytest.fixture(scope="module")
def parser() -> Parser:
    return find_parser()


@pytest.fixture(scope="module")
def noun_rule() -> NounRule:
    return NounRule(find_wordnet())


@pytest.fixture(scope="module")
def antonym_rule() -> AntonymRule:
    return AntonymRule(find_wordnet())


def edits(parser: Parser, rule: Rule, caption: str) -> list[str]:
    [parsed] = parser([caption])
    return [apply(caption, finished(parsed, changes)) for changes in rule(parsed)]


def test_another_thing_of_the_same_sort(parser: Parser, noun_rule: NounRule) -> None:
    found = edits(parser, noun_rule, "A dog sleeps on a sofa.")
    assert "A cat sleeps on a sofa." in found
    assert "A dog sleeps on a bed." in found
    assert not any("puppy" in text or "couch" in text for text in found)


@pytest.mark.parametrize(
    ("caption", "edited"),
    [
        ("Two zebras run.", "Two giraffes run."),
        ("A tennis player is tired.", "A soccer player is tired."),
        ("An elephant is asleep.", "A giraffe is asleep."),
        ("A man feeds his parrot.", "A woman feeds her parrot."),
        ("The lady hides herself.", "The man hides himself."),
        ("People dance.", "Monkeys dance."),
        ("A herd of cows", "A herd of sheep"),
        ("A nurse in a kitchen", "A nurse in a bathroom"),
        ("A monk wearing a hat", "A monk wearing a helmet"),
    ],
)
def test_nouns(parser: Parser, noun_rule: NounRule, caption: str, edited: str) -> None:
    assert edited in edits(parser, noun_rule, caption)


@pytest.mark.parametrize(
    "caption",
    [
        "A hot dog with mustard",
        "A fence next to a table",
        "One dog chases another dog.",
        "A slice of pizza",
        "A polar bear swims.",
        "A dog-eared letter",
        "The roof of the kitchen",
    ],
)
def test_nouns_that_stay(parser: Parser, noun_rule: NounRule, caption: str) -> None:
    assert edits(parser, noun_rule, caption) == []


def test_pronouns_that_may_be_of_somebody_else_stay(parser: Parser, noun_rule: NounRule) -> None:
    found = edits(parser, noun_rule, "A man and a woman watch his kite.")
    assert not any("girl" in text or "boy" in text for text in found)


@pytest.mark.parametrize(
    "caption", ["A man feeds her parrot.", "A girl pets a parrot on his head."]
)
def test_pronouns_of_others_keep_their_owner(
    parser: Parser, noun_rule: NounRule, caption: str
) -> None:
    person = caption.split()[1]
    found = edits(parser, noun_rule, caption)
    assert found
    assert all(person in text for text in found)


def test_no_bike_becomes_a_motorcycle(parser: Parser, noun_rule: NounRule) -> None:
    found = edits(parser, noun_rule, "A red bike")
    assert "A red bus" in found
    assert not any("cycle" in text for text in found)


def test_the_groups_hold_together() -> None:
    assert {group.place for group in NOUN_GROUPS} <= set(PLACES)
    assert len({group.name for group in NOUN_GROUPS}) == len(NOUN_GROUPS)
    for group in NOUN_GROUPS:
        for word in (word for kind in group.kinds for word in kind):
            assert word not in group.others(word)
            assert group in GROUPS_OF[word]
    assert all(word not in others for word, others in GENDERED.items())


def test_wordnet_relates_nothing_to_what_replaces_it(noun_rule: NounRule) -> None:
    for word, groups in GROUPS_OF.items():
        for group in groups:
            for new in noun_rule._unrelated(word, group):
                assert not noun_rule.wordnet.are_related(word, new, "n")


@pytest.mark.parametrize(
    ("caption", "edited"),
    [
        ("A man pulls a cart.", "A man pushes a cart."),
        ("An old man is waving.", "A young man is waving."),
        ("An old car is parked.", "A new car is parked."),
        ("Two boys are sitting on a log.", "Two boys are standing on a log."),
        ("A larger dog barks.", "A smaller dog barks."),
        ("The gate is open.", "The gate is closed."),
        ("A room that has a piano", "A room that lacks a piano"),
        ("A turtle moves slowly.", "A turtle moves quickly."),
        ("A bird that is dead", "A bird that is alive"),
    ],
)
def test_contraries(parser: Parser, antonym_rule: AntonymRule, caption: str, edited: str) -> None:
    assert edited in edits(parser, antonym_rule, caption)


@pytest.mark.parametrize(
    "caption",
    [
        "A clock sits on a shelf.",
        "A little girl laughs at",
        "A hot dog with mustard",
        "They are having a picnic.",
        "A man sits up in bed.",
        "A very large moth",
        "A path covered in dead leaves",
        "A monk has a necklace on.",
        "A crowd of hot air balloons",
        "A monk with a light saber",
        "A bigger box",
        "A dark man",
    ],
)
def test_words_without_contrary(parser: Parser, antonym_rule: AntonymRule, caption: str) -> None:
    found = edits(parser, antonym_rule, caption)
    assert [text for text in found if "cries" not in text] == []


@pytest.mark.parametrize(
    ("caption", "edited"),
    [
        ("A cat lies on a table.", "A cat lies under a table."),
        ("A monk sits next to a bench.", "A monk sits on top of a bench."),
        ("A boy throws a ball.", "A boy catches a ball."),
        ("A nun wearing a hat", "A nun carrying a hat"),
        ("A girl pushing a cart", "A girl pulling a cart"),
        ("Two nuns reading a newspaper", "Two nuns burning a newspaper"),
    ],
)
def test_relations(parser: Parser, caption: str, edited: str) -> None:
    assert edited in edits(parser, replace_relation, caption)


@pytest.mark.parametrize(
    "caption",
    [
        "A surfer rides a wave.",
        "A lake on a sunny day",
        "A nurse getting ready to throw a ball",
        "A dog holds a bottle in its mouth.",
        "A view on a table",
    ],
)
def test_relations_that_stay(parser: Parser, caption: str) -> None:
    assert edits(parser, replace_relation, caption) == []


def test_attributes_of_four_classes(parser: Parser) -> None:
    for old, new in (
        ("a small cup", "a large cup"),
        ("a red car", "a blue car"),
        ("a wooden desk", "a metal desk"),
        ("a wet towel", "a dry towel"),
    ):
        assert f"{new} near a lamp" in edits(parser, replace_attribute, f"{old} near a lamp")


@pytest.mark.parametrize("name", KINDS.split())
def test_edits_say_exactly_what_they_did(name: str, parser: Parser) -> None:
    [kind] = find_kinds([name])
    assert not kind.is_positive
    editor = make_editor([name], per_kind=3, seed=5)
    given = [Given(str(at), text) for at, text in enumerate(CAPTIONS)]
    found, tally = editor(given)
    assert tally.kinds[name].edits > 0
    for one in found:
        for made in one.edits:
            assert apply(one.text, made.changes) == made.text
            assert made.span == (made.changes[0].start, made.changes[-1].end)
            assert normalised(made.text) != normalised(one.text)
            assert "  " not in made.text
    assert found == editor(given)[0]


def test_kinds_that_need_wordnet_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    wordnet.find_wordnet.cache_clear()
    monkeypatch.setattr(wordnet, "_places", lambda: iter(()))
    for name in ("replace_noun", "antonym"):
        with pytest.raises(UnbagError, match="WordNet was not found") as error:
            make_editor([name])
        assert "nltk.downloader wordnet" in error.value.hint
    wordnet.find_wordnet.cache_clear()
