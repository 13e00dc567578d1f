"""Bases stand in the order of their numbers, whatever stands beside the number."""

from __future__ import annotations

from unbag_lab.results import in_order, numbers, seeds_for


def test_bases_stand_once_in_the_order_of_their_numbers() -> None:
    names = ["tiny-10", "tiny-9", "tiny-10", "seed 2 (photos)", "other"]
    assert in_order(names) == ["other", "seed 2 (photos)", "tiny-9", "tiny-10"]


def test_bases_are_named_by_their_numbers() -> None:
    assert numbers(["tiny-0", "tiny-10", "a"]) == "0, 10, a"


def test_seeds_are_as_many_as_give_bases_that_were_not_seen() -> None:
    assert seeds_for(5) == 5
    assert seeds_for(5, seen={"tiny-0": "", "tiny-5": "", "tiny-6": ""}) == 8
    assert seeds_for(1, after=5, seen=("tiny-5", "tiny-9")) == 7
    assert seeds_for(0, after=5, seen=("tiny-5",)) == 5
