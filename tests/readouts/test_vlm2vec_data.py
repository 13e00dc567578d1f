"""Data of VLM2Vec: questions, targets, and no false negatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from unbag.data import PixelImage
from unbag.data.pairs import Pair
from unbag.errors import UnbagError
from unbag.readouts.vlm2vec.data import (
    LessonSettings,
    PairLessons,
    WorldLessons,
    about_caption,
    about_relation,
    instruction,
    lesson,
    parse_relation,
    question_of,
)
from unbag.types import Edit, Item, Question

from .core_encoder import Broken

IMAGES = [PixelImage(np.full((4, 4, 3), n, np.uint8)) for n in range(6)]


@dataclass(frozen=True)
class Few:
    """Pairs whose captions state a relation, with a negative and a positive each."""

    broken: frozenset[int] = frozenset()
    has_edits: bool = True
    about: str = "six pairs"
    fingerprint: str = "few"

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, place: int) -> Pair:
        edits = (
            Edit(f"a cup right of box {place}", "left_right", False, (0, 1)),
            Edit(f"a mug left of a box {place}", "synonym", True, (0, 1)),
            Edit(f"A cup left of a box {place}.", "odd", False, (0, 1)),
        )
        image = Broken() if place in self.broken else IMAGES[place]
        return Pair(str(place), image, (f"a cup left of a box {place}",), (edits,))


def test_pairs_are_asked_about_and_bring_their_negatives() -> None:
    lessons = PairLessons(Few(), LessonSettings(batch_size=3, negatives=2, seed=4))
    first, second = lessons.step(0), lessons.step(1)
    seen = [image.key for one in (first, second) for image, _ in one.queries]
    assert sorted(seen) == sorted(image.key for image in IMAGES)
    assert lessons.step(0).targets == first.targets
    # The positive is no negative, nor is an edit that says the same as the caption.
    assert sum(target.startswith("a cup right of") for target in first.targets) == 3
    assert len(first.targets) == 6
    asked = {text.partition(": ")[2].replace("?", "")[:10] for _, text in first.queries}
    assert asked <= {"Is the cup", "Is the box"}
    measured = [image.key for one in lessons.evaluation_steps() for image, _ in one.queries]
    assert sorted(measured) == sorted(seen)
    assert lessons.about == "six pairs, with hard negatives"
    without = PairLessons(Few(has_edits=False), LessonSettings(batch_size=3))
    assert len(without.step(0).targets) == 3
    assert without.about == "six pairs, without hard negatives"
    # Another epoch has another order.
    orders = [[p.key for p, _ in lessons.step(2 * epoch).queries] for epoch in range(4)]
    assert len({tuple(order) for order in orders}) > 1


def test_an_image_that_cannot_be_opened_is_replaced() -> None:
    shown = PairLessons(Few(broken=frozenset({2})), LessonSettings(batch_size=6)).step(0)
    keys = [image.key for image, _ in shown.queries]
    assert "broken" not in keys
    assert keys.count(IMAGES[3].key) == 2
    every = frozenset(range(6))
    with pytest.raises(UnbagError, match=r"cannot be opened, the last is torn.jpg: the file ends"):
        PairLessons(Few(broken=every), LessonSettings(batch_size=6)).step(0)
    with pytest.raises(UnbagError, match="6 pairs do not fill a batch of 7"):
        PairLessons(Few(), LessonSettings(batch_size=7))


def test_steps_of_the_world_are_asked_and_no_true_caption_is_a_negative() -> None:
    lessons = WorldLessons(LessonSettings(batch_size=32, negatives=2, seed=1))
    one, again = lessons.step(3), lessons.step(3)
    assert one.queries == again.queries
    assert one.targets == again.targets
    assert len(set(one.targets)) == len(one.targets) > 32
    asked = [text for _, text in one.queries if "following question: Is the " in text]
    assert 4 < len(asked) < 30
    assert one.masked_BT.any()
    plain = WorldLessons(LessonSettings(batch_size=32, negatives=0, asks=False, seed=1)).step(3)
    assert {text for _, text in plain.queries} == {"Represent the given image"}
    assert len(plain.targets) <= 32


def test_a_text_that_two_images_share_is_one_target() -> None:
    queries = [(image, "?") for image in IMAGES[:3]]
    also_true_BB = torch.tensor([[0, 1, 0], [0, 0, 0], [1, 0, 0]]).bool()
    negative_true_BBK = torch.zeros((3, 3, 1), dtype=torch.bool)
    negative_true_BBK[2, 0, 0] = True
    made = lesson(
        queries,
        ["a cat", "a dog", "a cat"],
        [["a cow"], ["a cat"], [None]],
        also_true_BB=also_true_BB,
        negative_true_BBK=negative_true_BBK,
    )
    assert made.targets == ("a cat", "a dog", "a cow")
    assert made.own_B.tolist() == [0, 1, 0]
    assert made.masked_BT.int().tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 1]]


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
    own = Item("1", (IMAGES[0],), ("Open", "Closed"), truth, Question("Are the eyes open?"))
    assert question_of(own) == "Are the eyes open?"
    relation = Item("2", (IMAGES[0],), ("a cup on a box", "a cup under a box"), truth)
    assert question_of(relation) == "Is the cup on or under the box?"
    nothing = Item("3", (IMAGES[0],), ("a cup", "a box"), truth)
    assert question_of(nothing) is None
