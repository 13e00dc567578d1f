"""What heads that ship know of relations: opposites, along one steep direction."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from unbag.api import make_scorer
from unbag.models.loading import load_model
from unbag.models.shipped import find_shipped
from unbag.types import BoolArray, IntArray, Item, ItemScorer, Query, Scorer
from unbag.world.benchmarks import PAIRS_A, RELATION
from unbag.world.rendering import SceneImage

STEEP = 6
"""Pixels."""


def card_of(head: str) -> str:
    """In one line."""
    text = (cast(Path, find_shipped(f"tiny-base.{head}")) / "README.md").read_text(encoding="utf-8")
    return " ".join(text.split())


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return [item for item in RELATION.load(None) if item.tags["relation"] == "left/right"]


@pytest.fixture(scope="module")
def higher(items: list[Item]) -> IntArray:
    """By how much the left thing is the higher one."""
    return np.array([_higher(item) for item in items])


def _higher(item: Item) -> int:
    (image,) = item.images
    assert isinstance(image, SceneImage)
    left, right = sorted(image.scene.things, key=lambda thing: thing.x)
    return right.y - left.y


@pytest.fixture(scope="module")
def decoder() -> Scorer:
    return make_scorer(load_model("tiny:base"), "decoder")


def share(is_right_N: BoolArray, chosen_N: BoolArray) -> float:
    return 100 * float(is_right_N[chosen_N].mean())


def test_left_and_right_of_the_decoder_hang_on_above_and_below(
    decoder: Scorer, items: list[Item], higher: IntArray
) -> None:
    asked = [Query(item.images[0], text) for item in items for text in item.captions[:2]]
    true_N, false_N = np.asarray(decoder.score(asked)).reshape(-1, 2).T
    said = re.search(
        r"right in ([\d.]+) % \[[\d., ]+\] where the left thing is the higher one too, and in "
        r"([\d.]+) % \[[\d., ]+\] where it is the lower one \(([\d.]+) \[[\d., ]+\] of (\d+) items",
        card_of("decoder"),
    )
    assert said
    is_right_N, is_steep_N = true_N > false_N, higher <= -STEEP
    assert share(is_right_N, higher > 0) == pytest.approx(float(said[1]), abs=0.5)
    assert share(is_right_N, higher < 0) == pytest.approx(float(said[2]), abs=0.5)
    assert share(is_right_N, is_steep_N) == pytest.approx(float(said[3]), abs=0.5)
    assert is_steep_N.sum() == int(said[4])


def test_left_and_right_of_vlm2vec_hang_on_above_and_below(
    items: list[Item], higher: IntArray
) -> None:
    scorer = make_scorer(load_model("tiny:base"), "vlm2vec")
    assert isinstance(scorer, ItemScorer)
    found = [np.asarray(one.values)[0] for one in scorer.score_items(items)]
    is_right_N = np.array([one[0] > one[1] for one in found])
    said = re.search(
        r"right in ([\d.]+) % \[[\d., ]+\] where the left thing is the higher one too, and in "
        r"([\d.]+) \[",
        card_of("vlm2vec"),
    )
    assert said
    assert share(is_right_N, higher > 0) == pytest.approx(float(said[1]), abs=0.5)
    assert share(is_right_N, higher < 0) == pytest.approx(float(said[2]), abs=0.5)


def test_it_says_yes_to_left_of_where_on_holds(decoder: Scorer) -> None:
    items = PAIRS_A.load(None)[::5]
    asked = [Query(item.images[2], text) for item in items for text in item.captions]
    yes_4 = np.asarray(decoder.score(asked)).reshape(-1, 4).mean(axis=0)
    # Left of, right of, on, under; the image shows the third.
    np.testing.assert_allclose(yes_4, [0.99, 0.0, 0.99, 0.0], atol=0.03)
    assert "Yes with 0.99 to *on* and with 0.99 to *left of*, with 0.00" in card_of("decoder")
