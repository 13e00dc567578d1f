"""Numbers and quantifiers on captions we wrote: what contradicts them, with nouns and verbs."""

from __future__ import annotations

import pytest

from unbag.edits.negatives.numbers import replace_number, replace_quantifier
from unbag.edits.parsing import Parser, find_parser

from .proposed import by_rule as edits


@pytest.fixture(scope="module")
def parser() -> Parser:
    return find_parser()


@pytest.mark.parametrize(
    ("caption", "edited"),
    [
        (
            "Two owls sit on a wall.",
            [f"{n} owls sit on a wall." for n in ("Three", "Four", "Five")],
        ),
        ("A box with 3 keys", ["A box with 4 keys", "A box with 5 keys", "A box with 6 keys"]),
        ("Nine jars on a shelf", ["Eleven jars on a shelf", "Twelve jars on a shelf"]),
        ("One goat is eating.", ["Two goats are eating.", "Three goats are eating."]),
        ("A stork stands on one leg.", ["A stork stands on two legs."]),
    ],
)
def test_numbers_rise(parser: Parser, caption: str, edited: list[str]) -> None:
    assert edits(parser, replace_number, caption) == edited


@pytest.mark.parametrize(
    "caption",
    [
        "A girl of six years feeds ducks.",
        "Two puppies, one black and one white",
        "The player with number 7 runs.",
        "A clock that shows 10:30",
        "One of the windows is open.",
        "A two story house",
        "Twelve eggs in a carton",
        "Both boats and the two oars",
        "The train to platform 4",
    ],
)
def test_numbers_that_stay(parser: Parser, caption: str) -> None:
    assert edits(parser, replace_number, caption) == []


@pytest.mark.parametrize(
    ("caption", "edited"),
    [
        ("Many boats are in a harbour.", "No boats are in a harbour."),
        ("Many boats are in a harbour.", "Only one boat is in a harbour."),
        ("A shelf with several jars", "A shelf with no jars"),
        ("A shelf with several jars", "A shelf with a single jar"),
        ("A tent near some large trees", "A tent near a single large tree"),
        ("There are a lot of kites.", "There are no kites."),
        ("A jug with no lid", "A jug with a lid"),
        ("A street with no cars", "A street with many cars"),
        ("All of the doors are open.", "None of the doors are open."),
        ("Both dogs are asleep.", "Neither of the dogs is asleep."),
    ],
)
def test_quantifiers(parser: Parser, caption: str, edited: str) -> None:
    assert edited in edits(parser, replace_quantifier, caption)


@pytest.mark.parametrize(
    "caption",
    [
        "A parking lot of a mall",
        "A sign that says no parking",
        "Some sort of lizard",
        "Several different fish",
        "Two men facing each other",
        "No one is in the room.",
        "A nurse paying no attention",
        "A harbour with only a few boats",
    ],
)
def test_quantifiers_that_stay(parser: Parser, caption: str) -> None:
    assert edits(parser, replace_quantifier, caption) == []


def test_no_thing_is_near_no_tree(parser: Parser) -> None:
    assert all(" no " not in text for text in edits(parser, replace_quantifier, "near some trees"))
