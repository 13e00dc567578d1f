"""Items of every benchmark shape, errors of broken items, averaging rules, estimates, protocols."""

import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.types import (
    Aggregate,
    Ensemble,
    Estimate,
    EvalProtocol,
    ImageSource,
    Item,
    Question,
    Sparse,
)


def image(shade: int = 0) -> ImageSource:
    return PixelImage(np.full((4, 4, 3), shade, dtype=np.uint8))


ONE = (image(),)
TWO = (image(1), image(2))
PAIR = [[True, False], [False, True]]

ITEMS = {
    "sugarcrepe 1x2": Item("a", ONE, ("true", "false"), np.array([[True, False]])),
    "hard positives 1x3": Item(
        "b",
        ONE,
        ("c", "n", "p"),
        np.array([[True, False, True]]),
        kinds=("original", "swap", "syn"),
    ),
    "several negatives with kinds": Item(
        "c",
        ONE,
        ("c", "n1", "n2", "n3"),
        np.array([[True, False, False, False]]),
        kinds=("original", "replace_relation", "swap_objects", "negate"),
    ),
    "order 1x5": Item("d", ONE, tuple("abcde"), np.eye(1, 5, dtype=bool)),
    "winoground 2x2": Item("e", TWO, ("x", "y"), np.array(PAIR), tags={"tag": "Swap"}),
    "what's up 4x4": Item("f", TWO + TWO, tuple("abcd"), np.eye(4, dtype=bool)),
    "classes with prompts": Item(
        "g", ONE, (Ensemble("cat", ("a cat", "one cat")), "dog"), np.array([[True, False]])
    ),
    "retrieval, sparse truth": Item(
        "h", TWO, ("a", "b", "c"), Sparse((2, 3), np.array([0, 1, 1]), np.array([0, 1, 2]))
    ),
    "flickr8k ratings": Item("i", ONE, ("good", "bad"), np.array([[4.0, 1.5]])),
    "mmvp question with options": Item(
        "j",
        ONE,
        ("open", "closed"),
        np.array([[True, False]]),
        question=Question("Is the door open?", ("(a) open", "(b) closed")),
    ),
    "naturalbench, four items in a group": Item(
        "k", ONE, ("yes", "no"), np.array([[True, False]]), Question("Is it red?"), group="12"
    ),
}


@pytest.mark.parametrize("name", list(ITEMS))
def test_item_of_each_shape(name: str) -> None:
    item = ITEMS[name]
    assert tuple(item.truth.shape) == (len(item.images), len(item.captions))


def test_truth_is_bool_or_float() -> None:
    dense = ITEMS["winoground 2x2"].truth
    rated = Item("r", ONE, ("a", "b"), np.array([[4, 1]])).truth
    assert isinstance(dense, np.ndarray)
    assert isinstance(rated, np.ndarray)
    assert (dense.dtype.name, rated.dtype.name) == ("bool", "float64")


TRUTH = np.array([[True, False]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Item("x", ONE, ("a", "b"), np.array([[True, False, False]])),
            r"item 'x': truth has shape \(1, 3\)\n.*images x captions = \(1, 2\)",
        ),
        (lambda: Item("x", (), (), np.zeros((0, 0), bool)), r"truth has shape \(0, 0\)"),
        (lambda: Item("x", ONE, ("a", "b"), TRUTH, kinds=("a",)), "x': 1 kinds for 2 captions"),
        (lambda: Item("x", ONE, cast(Any, "ab"), TRUTH), "item 'x': captions is one text"),
        (lambda: Ensemble("cat", ()), "ensemble 'cat' has no prompts"),
        (lambda: EvalProtocol(ties=cast(Any, "coin")), "the tie rule 'coin' is not known"),
        (lambda: EvalProtocol(confidence=1), "confidence 1, resamples 50000, tie_eps 0.0"),
    ],
)
def test_broken_values(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UnbagError) as error:
        make()
    assert re.search(message, str(error.value))


def test_names_of_averaging_rules() -> None:
    assert Aggregate().name == "micro"
    assert Aggregate(by=("kind",)).name == "macro(kind)"
    assert Aggregate(by=("family", "kind")).name == "macro(family, kind)"
    assert Aggregate(by=("pair",), least=25).name == "macro(pair, n>=25)"
    assert Aggregate(only=(("order", "kept"),)).name == "micro[order=kept]"
    assert Aggregate(by=("column", "piece"), label="macro9").name == "macro9"


def test_estimate_as_text() -> None:
    estimate = Estimate(0.7412, 0.731, 0.751, n=7511, chance=0.5)
    assert str(estimate) == "74.1 [73.1, 75.1], n=7511, ties=0, chance=50"
    mean = Estimate(0.2344, 0.23, 0.24, n=5, invalid=1, is_rate=False)
    assert str(mean) == "0.234 [0.230, 0.240], n=5, ties=0, invalid=1"


@pytest.mark.parametrize(
    ("count", "n", "shown"),
    [
        (23, 80, "28.8"),
        (9, 80, "11.2"),
        (1, 8, "12.5"),
        (1, 80, "1.2"),
        (3, 80, "3.8"),
        (2, 3, "66.7"),
        (0, 5, "0.0"),
        (5, 5, "100.0"),
    ],
)
def test_percentages_are_rounded_half_to_even(count: int, n: int, shown: str) -> None:
    value = np.float64(count / n)
    assert Estimate(0.5, 0.4, 0.6, n=n).show(value) == shown
    assert Estimate(0.5, 0.4, 0.6, n=n).show(float("nan")) == "–"


def test_protocol_keys() -> None:
    plain, half = EvalProtocol(), EvalProtocol(ties="half", prompt="a photo of {}", errata="pillow")
    assert plain.key == "cosine, ties=wrong"
    assert half.key == "cosine, ties=half, prompt=a photo of {}, errata=pillow"
