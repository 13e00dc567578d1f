"""Edits of place on captions we wrote: what they make, and what they leave alone."""

from __future__ import annotations

import pytest

from unbag.edits.negatives.spatial import (
    above_below,
    front_behind,
    inside_outside,
    left_right,
    near_far,
)
from unbag.edits.parsing import Parser, find_parser

from .proposed import by_rule as edits


@pytest.fixture(scope="module")
def parser() -> Parser:
    return find_parser()


@pytest.mark.parametrize(
    ("caption", "edited"),
    [
        ("A cup on the left of a plate.", "A cup on the right of a plate."),
        ("A lamp stands to the right.", "A lamp stands to the left."),
        ("A nurse waves with her left hand.", "A nurse waves with her right hand."),
        ("The van is on the right-hand side.", "The van is on the left-hand side."),
        ("The leftmost chair is broken.", "The rightmost chair is broken."),
        ("A tram turning left.", "A tram turning right."),
        (
            "A sofa on the left and next to it a harp on the right",
            "A sofa on the right and next to it a harp on the left",
        ),
    ],
)
def test_left_and_right(parser: Parser, caption: str, edited: str) -> None:
    assert edits(parser, left_right, caption) == [edited]


@pytest.mark.parametrize(
    "caption",
    [
        "Two guests left the room.",
        "A crab stares right into the lens.",
        "A puppy sits right next to a kettle.",
        "Soup that was left over on the stove",
        "Flags in order from left to right",
        "The right tool for the job",
    ],
)
def test_words_that_are_no_sides(parser: Parser, caption: str) -> None:
    assert edits(parser, left_right, caption) == []


@pytest.mark.parametrize(
    ("caption", "edited"),
    [
        ("A goat stands in front of a barn.", "A goat stands behind a barn."),
        ("A tractor behind two haystacks", "A tractor in front of two haystacks"),
        ("A ferry with cranes in the background", "A ferry with cranes in the foreground"),
        ("A poodle stands on its hind legs.", "A poodle stands on its front legs."),
        ("A parcel on the back of a truck", "A parcel on the front of a truck"),
        (
            "A vase in the foreground and a piano in the background",
            "A vase in the background and a piano in the foreground",
        ),
    ],
)
def test_front_and_behind(parser: Parser, caption: str, edited: str) -> None:
    assert edits(parser, front_behind, caption) == [edited]


@pytest.mark.parametrize(
    "caption",
    [
        "A child rides on the back of an elephant.",
        "An otter sleeps on its back.",
        "A cat hides behind a curtain.",
        "A chapel with a cloudy sky in the background",
        "A glove was left behind a bench.",
        "Two monks stand in front of each other.",
        "One goat runs behind another.",
    ],
)
def test_what_has_no_front(parser: Parser, caption: str) -> None:
    assert edits(parser, front_behind, caption) == []


@pytest.mark.parametrize(
    ("caption", "edited"),
    [
        ("A clock above a sink.", "A clock below a sink."),
        ("A kitten under a table.", "A kitten on top of a table."),
        ("A kayak going under a bridge", "A kayak going over a bridge"),
        ("A colt jumps over a fence.", "A colt jumps under a fence."),
        ("A basket on top of a wardrobe", "A basket underneath a wardrobe"),
        ("A hut at the top of a hill", "A hut at the bottom of a hill"),
        ("A nun walks up the stairs.", "A nun walks down the stairs."),
        ("Jars on the top shelf", "Jars on the bottom shelf"),
        ("A sled goes downhill.", "A sled goes uphill."),
    ],
)
def test_above_and_below(parser: Parser, caption: str, edited: str) -> None:
    assert edits(parser, above_below, caption) == [edited]


@pytest.mark.parametrize(
    "caption",
    [
        "A postman walks down the street.",
        "A bridge under construction",
        "A bat hangs upside down.",
        "A woman in a tank top",
        "A close up of a clover",
        "A judge looks over some papers.",
        "A poncho over his shoulder",
        "A colony of ants under a blue sky",
    ],
)
def test_what_has_no_height(parser: Parser, caption: str) -> None:
    assert edits(parser, above_below, caption) == []


@pytest.mark.parametrize(
    ("caption", "edited"),
    [
        ("A choir stands outside a church.", "A choir stands inside a church."),
        ("A seal jumps into a pool.", "A seal jumps out of a pool."),
        ("Two girls dance outdoors.", "Two girls dance indoors."),
        ("A man runs out of a building.", "A man runs into a building."),
    ],
)
def test_inside_and_outside(parser: Parser, caption: str, edited: str) -> None:
    assert edits(parser, inside_outside, caption) == [edited]


@pytest.mark.parametrize(
    "caption", ["A statue made out of ice", "A bull looks into the camera.", "The inside of a pipe"]
)
def test_what_has_no_inside(parser: Parser, caption: str) -> None:
    assert edits(parser, inside_outside, caption) == []


@pytest.mark.parametrize(
    ("caption", "edited"),
    [
        ("A tent near a lake.", "A tent far from a lake."),
        ("A harp next to a piano", "A harp far away from a piano"),
        ("A barn far away from a road", "A barn close to a road"),
        ("A calf runs towards a gate.", "A calf runs away from a gate."),
        ("A nun walks away from a well.", "A nun walks towards a well."),
    ],
)
def test_near_and_far(parser: Parser, caption: str, edited: str) -> None:
    assert edits(parser, near_far, caption) == [edited]


@pytest.mark.parametrize(
    "caption", ["The near side of the moon", "A close up of a clover", "A far view of the town"]
)
def test_what_is_not_near(parser: Parser, caption: str) -> None:
    assert edits(parser, near_far, caption) == []
