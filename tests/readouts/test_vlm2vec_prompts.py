"""What stands behind the image, and that no question gives the true caption away."""

import numpy as np
import pytest

from unbag.data import PixelImage
from unbag.readouts.vlm2vec.data import (
    about_caption,
    about_relation,
    instruction,
    parse_relation,
    question_of,
)
from unbag.types import Item, Question

IMAGE = PixelImage(np.zeros((4, 4, 3), np.uint8))


def test_the_instructions_are_those_of_the_paper() -> None:
    assert instruction(None) == "Represent the given image"
    asked = "Represent the given image with the following question: Is it {red}?"
    assert instruction("Is it {red}?") == asked


@pytest.mark.parametrize(
    ("captions", "question"),
    [
        (
            ["A mug to the left of a plate", "A mug to the right of a plate"],
            "Is the mug to the left of or to the right of the plate?",
        ),
        (
            ["a cup right of a box", "a cup left of a box"],
            "Is the cup to the left of or to the right of the box?",
        ),
        (["A mug on a table"], "Is the mug on or under the table?"),
        (
            ["A cap in front of a can", "A cap behind a can"],
            "Is the cap in front of or behind the can?",
        ),
        (
            ["a cup left of a box", "a cup right of a box", "a cup on a box", "a cup under a box"],
            "Is the cup to the left of, to the right of, on or under the box?",
        ),
        (["a dog on the right"], "Is the dog on the left or on the right?"),
        (
            ["a red circle over the blue square", "a red circle beneath the blue square"],
            "Is the red circle above or below the blue square?",
        ),
    ],
)
def test_a_relation_is_asked_about(captions: list[str], question: str) -> None:
    assert about_relation(captions, is_turned=False) == question
    assert about_relation(captions[::-1], is_turned=False) == question


def test_where_captions_turn_the_things_a_coin_decides_and_not_the_truth() -> None:
    captions = ["a cup left of a box", "a box left of a cup", "a box right of a cup"]
    for turned, wanted in (
        (False, "Is the box to the left of or to the right of the cup?"),
        (True, "Is the cup to the left of or to the right of the box?"),
    ):
        assert about_relation(captions, is_turned=turned) == wanted
        assert about_relation(captions[::-1], is_turned=turned) == wanted


@pytest.mark.parametrize(
    "captions",
    [
        ["a red circle and a blue square", "a blue circle and a red square"],
        ["a cup left of a box", "a cup and a box"],
        ["a cup left of a box", "a cup left of a jar"],
        ["a dog on top of a car"],
    ],
)
def test_without_one_relation_of_the_same_things_nothing_is_asked(captions: list[str]) -> None:
    assert about_relation(captions, is_turned=False) is None


def test_a_caption_in_training_is_asked_about_from_either_end() -> None:
    caption = "a cup left of a box"
    assert about_caption(caption, is_turned=False) == (
        "Is the cup to the left of or to the right of the box?"
    )
    assert about_caption(caption, is_turned=True) == (
        "Is the box to the left of or to the right of the cup?"
    )
    assert about_caption("a cup on the left", is_turned=True) == (
        "Is the cup on the left or on the right?"
    )
    assert about_caption("two cups", is_turned=True) is None
    assert parse_relation("a box in back of a cup") == parse_relation("The box is behind the cup.")


def test_the_question_of_an_item_is_its_own_or_that_of_its_captions() -> None:
    truth = np.array([[True, False]])
    own = Item("1", (IMAGE,), ("Open", "Closed"), truth, Question("Are the eyes open?"))
    assert question_of(own) == "Are the eyes open?"
    relation = Item("2", (IMAGE,), ("a cup on a box", "a cup under a box"), truth)
    assert question_of(relation) == "Is the cup on or under the box?"
    nothing = Item("3", (IMAGE,), ("a cup", "a box"), truth)
    assert question_of(nothing) is None
