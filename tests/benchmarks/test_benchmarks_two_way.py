"""Sets of four, cut into pairs: the same pictures, captions and two-way numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.two_way import two_way
from unbag.benchmarks.whatsup import WHATSUP_A, WHATSUP_B
from unbag.engine.evaluate import benchmark
from unbag.errors import UserError
from unbag.metrics.choice import Choice
from unbag.pictures import PixelPicture
from unbag.scorers.questions import asked_of
from unbag.types import Benchmark, Case, Item, Scores

RELATIONS = ("to the left of", "to the right of", "on", "under")
PICTURES = tuple(PixelPicture(np.full((2, 2, 3), n, dtype=np.uint8)) for n in range(4))


def make_set(name: str) -> Item:
    captions = tuple(f"A {name} {relation} a table" for relation in RELATIONS)
    return Item(name, PICTURES, captions, np.eye(4, dtype=np.bool_), kinds=RELATIONS)


def sets(root: Path | None) -> list[Item]:
    return [make_set("mug"), make_set("cup")]


WHOLE = replace(WHATSUP_A, load=sets, files=(), errata=None)


def test_each_pair_is_an_item_with_the_published_question() -> None:
    items = two_way(WHOLE).load(None)
    assert [item.id for item in items] == [
        "mug/left/right", "mug/on/under", "cup/left/right", "cup/on/under",
    ]  # fmt: skip
    assert items[1].captions == ("A mug on a table", "A mug under a table")
    assert items[1].pictures == PICTURES[2:]
    assert items[1].kinds == ("on", "under")
    assert (items[1].group, items[1].tags["relation"]) == ("mug", "on/under")
    assert (
        asked_of(items[1]).text == "Is the mug on or under the table? Choose from the two options."
    )
    assert asked_of(items[0]).text == (
        "Is the mug to the left of or to the right of the table? Answer left or right."
    )


def test_two_way_numbers_are_those_of_the_set() -> None:
    rng = np.random.default_rng(0)
    cut = two_way(WHOLE)
    score = {item.id: rng.random((4, 4)) for item in sets(None)}
    whole = [Case(item, Scores(item.id, score[item.id])) for item in sets(None)]
    halves = []
    for item in cut.load(None):
        at = slice(0, 2) if item.tags["relation"] == "left/right" else slice(2, 4)
        halves.append(Case(item, Scores(item.id, score[item.group][at, at])))

    def means(made: Benchmark, cases: list[Case]) -> dict[str, float]:
        (metric,) = made.metrics
        found = metric(cases, ties="wrong", tie_eps=0.0)
        return {one.metric: float(one.value_U.mean()) for one in found}

    expected = means(WHOLE, whole)
    found = means(cut, halves)
    assert set(found) == {"individual", "pair", "same_answer", "relaxed"}
    assert found == {name: expected[name] for name in found}


def test_it_is_named_before_the_benchmark_and_keeps_what_fits() -> None:
    made = benchmark("two_way:whatsup_b")
    assert (made.name, made.place) == ("two_way:whatsup_b", WHATSUP_B.place)
    assert made.published
    assert {p.metric for p in made.published} <= {"individual", "pair"}
    errata = two_way(WHATSUP_A).errata
    assert errata is not None
    assert errata.load != two_way(WHATSUP_A).load


def test_a_benchmark_without_named_pairs_is_refused() -> None:
    plain = Benchmark("plain", "", sets, (Choice(),), "accuracy")
    with pytest.raises(UserError, match="'plain' has no sets with named pairs"):
        two_way(plain)
