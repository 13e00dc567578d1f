"""Bases stand in the order of their numbers, whatever stands beside the number."""

from __future__ import annotations

from unbag.lab.base_names import in_order, numbers


def test_bases_stand_once_in_the_order_of_their_numbers() -> None:
    names = ["tiny-10", "tiny-9", "tiny-10", "seed 2 (photos)", "other"]
    assert in_order(names) == ["other", "seed 2 (photos)", "tiny-9", "tiny-10"]


def test_bases_are_named_by_their_numbers() -> None:
    assert numbers(["tiny-0", "tiny-10", "a"]) == "0, 10, a"
