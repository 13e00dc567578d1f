"""Text-only accuracy: worked numbers, ties, and who has it at all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.data import PixelImage
from unbag.metrics.triples import TextOnly
from unbag.types import Case, FloatArray, Item, Scores, TieRule

IMAGE = PixelImage(np.zeros((2, 2, 3), np.uint8))


def case(cp: float, cn: float, pn: float, *, name: str = "a") -> Case:
    """Captions stand as c, c_n, c_p."""
    item = Item(name, (IMAGE,), ("c", "n", "p"), np.array([[True, False, True]]))
    caption_CC: FloatArray = np.array([[1, cn, cp], [cn, 1, pn], [cp, pn, 1]])
    return Case(item, Scores(name, np.zeros((1, 3)), caption_CC=caption_CC))


def test_the_example_of_the_documentation() -> None:
    cases = [case(0.9, 0.8, 0.7, name="a"), case(0.7, 0.9, 0.6, name="b")]
    cases += [case(0.7, 0.6, 0.9, name="c")]
    (found,) = TextOnly()(cases, ties="wrong", tie_eps=0.0)
    assert found.metric == "text_only"
    assert found.value_U.tolist() == [1.0, 0.0, 0.0]
    assert found.chance_U.tolist() == [1 / 3] * 3


@pytest.mark.parametrize(("ties", "worth"), [("wrong", 0.0), ("right", 1.0), ("half", 0.5)])
def test_a_tie_follows_the_rule(ties: TieRule, worth: float) -> None:
    (found,) = TextOnly()([case(0.8, 0.8, 0.1)], ties=ties, tie_eps=0.0)
    assert found.value_U.tolist() == [worth]
    assert found.tie_U.tolist() == [True]


def test_scorers_without_vectors_have_no_such_number() -> None:
    one = case(0.9, 0.1, 0.1)
    bare = Case(one.item, Scores(one.item.id, np.zeros((1, 3))))
    assert list(TextOnly()([bare], ties="wrong", tie_eps=0.0)) == []


def test_a_repeated_caption_asks_nothing() -> None:
    item = Item("x", (IMAGE,), ("c", "n", "c"), np.array([[True, False, True]]))
    twice = Case(item, Scores("x", np.zeros((1, 3)), caption_CC=np.ones((3, 3))))
    assert list(TextOnly()([twice], ties="wrong", tie_eps=0.0)) == []


@given(st.permutations([0.1, 0.2, 0.3]))
def test_right_exactly_when_the_pair_is_closest(values: list[float]) -> None:
    (found,) = TextOnly()([case(*values)], ties="wrong", tie_eps=0.0)
    assert found.value_U[0] == float(values[0] == 0.3)
