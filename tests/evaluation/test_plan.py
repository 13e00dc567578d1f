"""The plan of a run: unique inputs, fingerprints, and items that cannot be used."""

from typing import Any

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.evaluation.plan import check_items, equal_captions, make_plan
from unbag.types import Item, Sparse

from .stub import item


def test_an_id_that_stands_twice_names_both_items() -> None:
    items = [item("1", "a", "b"), item("2", "a", "b"), item("1", "c", "d", image="b.jpg")]
    message = r"two items called '1': items 0 \(image a\.jpg\) and 2 \(image b\.jpg\)"
    with pytest.raises(UnbagError, match=message) as error:
        check_items("mine", items)
    assert "holds that id twice, fix the file" in error.value.hint
    assert "fix its loader" in error.value.hint


def test_half_a_character_from_a_loader_of_ones_own_is_refused() -> None:
    with pytest.raises(
        UnbagError, match=r"the caption 'a \\ud800' holds half a character"
    ) as error:
        make_plan({"mine": [item("1", "é", "a \ud800")]})
    assert "fix its loader" in error.value.hint


def test_equal_captions_of_different_truth_are_counted() -> None:
    both = np.array([[True, True, False]])
    items = [
        item("different", "a", "b"),
        item("equal", "a", "a"),
        item("two that are true", "a", "a", "b", truth=both),
        item("two that are true, one of them false as well", "a", "b", "b", truth=both),
        item("rated", "a", "a", truth=np.array([[0.5, 0.1]])),
        item("gallery", "a", "a", truth=Sparse((1, 2), np.array([0]), np.array([0]))),
    ]
    assert equal_captions(items) == (
        "2 of 6 items have a true caption that equals a false one; no score can distinguish these: "
        "they are ties, or are left out"
    )
    assert equal_captions(items[:1]) == ""
    crossed = Item("2x2", items[0].images * 2, ("a", "a"), np.eye(2, dtype=np.bool_))
    assert equal_captions([crossed]).startswith("1 of 1 items")


def test_across_benchmarks_too(encoder: Any, items: list[Item]) -> None:
    plan = make_plan({"one": items[:20], "two": items[10:]})
    assert len(plan.images) == 6
    assert len(plan.rows["one"]) == len(plan.rows["two"]) == 20


def test_fingerprints_follow_the_items(items: list[Item]) -> None:
    first = make_plan({"toy": items}).fingerprints["toy"]
    assert first == make_plan({"toy": list(items)}).fingerprints["toy"]
    assert first != make_plan({"toy": items[1:]}).fingerprints["toy"]
    other = Item("item0", items[0].images, ("x", "y"), np.array([[False, True]]))
    turned = Item("item0", items[0].images, ("x", "y"), np.array([[True, False]]))
    prints = [make_plan({"t": [single]}).fingerprints["t"] for single in (other, turned)]
    assert prints[0] != prints[1]


def test_empty_benchmarks_and_repeated_ids_are_refused(items: list[Item]) -> None:
    with pytest.raises(UnbagError, match="benchmark 'toy' has no items"):
        check_items("toy", [])
    with pytest.raises(UnbagError, match="benchmark 'toy' has two items called 'item0'"):
        check_items("toy", [items[0], items[0]])
