"""What VLM2Vec is shown in a step: questions, targets, and no false negatives."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from PIL import Image

from unbag.data import PixelImage
from unbag.data.pairs import Pair
from unbag.errors import UnbagError
from unbag.readouts.vlm2vec.data import LessonSettings, PairLessons, WorldLessons, lesson
from unbag.types import Edit

IMAGES = [PixelImage(np.full((4, 4, 3), n, np.uint8)) for n in range(6)]


@dataclass(frozen=True)
class Broken:
    """An image that cannot be opened."""

    name: str = "broken.png"
    key: str = "broken"

    def open(self) -> Image.Image:
        raise OSError("truncated")


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
    with pytest.raises(UnbagError, match=r"cannot be opened, the last is broken.png: truncated"):
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
