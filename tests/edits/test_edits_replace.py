"""Negation and replacement by word lists: known answers on captions we wrote."""

from __future__ import annotations

import pytest

from unbag.edits.kinds import Kind, find_kinds, normalised
from unbag.edits.parsing import Parser, find_parser

from .proposed import by_kind as edits

NAMES = ("negate", "svlc_fixed")
CAPTIONS = (
    "A large brown dog is lying on an old wooden bench.",
    "A WOMAN WEARING A RED HAT IS SITTING ON A CHAIR",
    "There are two open umbrellas with white stripes on a wet street.",
    "An empty metal cup stands on a small table next to a man with a beard.",
    "a boy in green rides a bike through a busy city",
    "Three young men play tennis while a girl holds an orange ball.",
    "The bus is yellow.",
    "a red and blue kite",
    "A plastic bag",
    "An elderly woman feeds a gray horse on a dirt road.",
    "A tall building that has a round clock",
    "A cat sleeps on a leather sofa",
)


@pytest.fixture(scope="module")
def parser() -> Parser:
    return find_parser()


@pytest.mark.parametrize(
    ("caption", "wanted"),
    [
        ("a man is riding a horse", {"a man is not riding a horse"}),
        ("The cup is on the table.", {"The cup is not on the table."}),
        ("A man rides a horse.", {"A man does not ride a horse."}),
        ("Two men ride a horse.", {"Two men do not ride a horse."}),
        (
            "a dog wearing a collar",
            {"a dog not wearing a collar", "a dog wearing no collar"},
        ),
        ("a man with a hat", {"a man with no hat"}),
        ("a house with big windows", {"a house with no big windows"}),
        ("A group of people walk home.", {"A group of people do not walk home."}),
        ("A teddy bear", set()),
        ("A brown teddy bear on a bed", set()),
        ("There is a dog on the sofa.", {"There is no dog on the sofa."}),
        ("There are two dogs on the sofa.", {"There are no dogs on the sofa."}),
        ("a plate filled with rice", {"a plate not filled with rice"}),
        ("A DOG IS RUNNING", {"A DOG IS NOT RUNNING"}),
        ("some people are standing on a hill", set()),
        ("a man is not riding a horse", set()),
        ("a man without a hat is riding a horse", set()),
        ("a woman with the man", set()),
        ("a red bus", set()),
    ],
)
def test_negations(parser: Parser, caption: str, wanted: set[str]) -> None:
    assert set(edits(parser, "negate", caption)) == wanted


@pytest.mark.parametrize(
    ("kind", "caption", "wanted"),
    [
        ("replace_colour", "a red bus", "a blue bus"),
        ("replace_colour", "The bus is red.", "The bus is blue."),
        ("replace_colour", "a woman dressed in red", "a woman dressed in blue"),
        ("replace_colour", "a red and blue kite", "a green and blue kite"),
        ("replace_colour", "a blue bus", "an orange bus"),
        ("replace_material", "a wooden bench", "a metal bench"),
        ("replace_material", "a man in a leather jacket", "a man in a denim jacket"),
        ("replace_material", "a car on a dirt road", "a car on an asphalt road"),
        ("replace_size", "a large box", "a small box"),
        ("replace_size", "a short building", "a tall building"),
        ("replace_size", "a girl with short hair", "a girl with long hair"),
        ("replace_state", "an open door", "a closed door"),
        ("replace_state", "an old truck", "a new truck"),
        ("replace_state", "an old horse", "a young horse"),
        ("replace_state", "a boat on rough water", "a boat on calm water"),
        ("replace_state", "a skier on a steep slope", "a skier on a gentle slope"),
        ("replace_state", "a dog on a muddy road", "a dog on a dry road"),
        ("replace_state", "a muddy dog", "a clean dog"),
        ("replace_action", "a man riding a bike", "a man pushing a bike"),
        ("replace_action", "a man rides a bike", "a man carries a bike"),
        ("replace_action", "two women sit on a bench", "two women stand on a bench"),
        ("replace_action", "a dog lying on the grass", "a dog standing on the grass"),
        ("replace_action", "a cow stands in a field", "a cow lies in a field"),
        ("replace_action", "a man walks through the snow", "a man crawls through the snow"),
    ],
)
def test_known_answers(parser: Parser, kind: str, caption: str, wanted: str) -> None:
    assert wanted in edits(parser, kind, caption)


@pytest.mark.parametrize(
    ("kind", "caption"),
    [
        ("replace_colour", "a glass of red wine"),
        ("replace_colour", "a rafter in white water"),
        ("replace_colour", "a black and white photo of a house"),
        ("replace_colour", "a bowl of brown rice"),
        ("replace_colour", "an orange and a rose in a vase"),
        ("replace_colour", "a glass of orange juice"),
        ("replace_colour", "a covered wagon"),
        ("replace_colour", "a black man in the rain"),
        ("replace_colour", "the White House"),
        ("replace_material", "a glass of milk"),
        ("replace_material", "a roll of paper towels"),
        ("replace_material", "a window of stained glass"),
        ("replace_size", "a little girl with a doll"),
        ("replace_size", "a long jump"),
        ("replace_state", "a young girl"),
        ("replace_state", "a jeep on rough rocks"),
        ("replace_state", "a steep cliff"),
        ("replace_state", "a dog in muddy water"),
        ("replace_state", "a partly cloudy sky"),
        ("replace_state", "a frozen ice wall"),
        ("replace_state", "dogs in an open , snow covered field"),
        ("replace_state", "an empty field"),
        ("replace_state", "a boy who is three years old"),
        ("replace_state", "the kitchen is cluttered with dishes"),
        ("replace_action", "a vase sitting on a table"),
        ("replace_action", "some people standing in a field"),
        ("replace_action", "a man picking up a ball"),
        ("replace_action", "a dog lying on its back"),
    ],
)
def test_names_and_doubtful_places_are_left_alone(parser: Parser, kind: str, caption: str) -> None:
    assert edits(parser, kind, caption) == []


def test_no_word_comes_in_that_the_caption_has(parser: Parser) -> None:
    made = edits(parser, "replace_colour", "a red cup on a blue, green or white plate")
    assert made
    assert not any(text.count(word) > 1 for text in made for word in ("blue", "green", "white"))


@pytest.mark.parametrize("kind", find_kinds(NAMES), ids=lambda kind: kind.name)
def test_every_edit_differs_and_keeps_capitals(parser: Parser, kind: Kind) -> None:
    texts = {caption: edits(parser, kind.name, caption) for caption in CAPTIONS}
    assert sum(map(len, texts.values())) > 3
    for caption, made in texts.items():
        assert len(set(made)) == len(made)
        for text in made:
            assert normalised(text) != normalised(caption)
            assert text[0].isupper() == caption[0].isupper()
            assert text.isupper() == caption.isupper()
