"""Sets of four, cut into pairs: the same images, captions and two-way numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.names import benchmark
from unbag.benchmarks.whatsup import WHATSUP_A, WHATSUP_B, two_way
from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.metrics.choice import Choice
from unbag.scorers.questions import question_for
from unbag.types import Benchmark, Case, Item, Scores

RELATIONS = ("to the left of", "to the right of", "on", "under")
IMAGES = tuple(PixelImage(np.full((2, 2, 3), n, dtype=np.uint8)) for n in range(4))


def make_set(name: str) -> Item:
    captions = tuple(f"A {name} {relation} a table" for relation in RELATIONS)
    return Item(name, IMAGES, captions, np.eye(4, dtype=np.bool_), kinds=RELATIONS)


def sets(root: Path | None) -> list[Item]:
    return [make_set("mug"), make_set("cup")]


WHOLE = replace(WHATSUP_A, load=sets, files=(), errata=None)


def test_each_pair_is_an_item_with_the_published_question() -> None:
    items = two_way(WHOLE).load(None)
    assert [item.id for item in items] == [
        "mug/left/right", "mug/on/under", "cup/left/right", "cup/on/under",
    ]  # fmt: skip
    assert items[1].captions == ("A mug on a table", "A mug under a table")
    assert items[1].images == IMAGES[2:]
    assert items[1].kinds == ("on", "under")
    assert (items[1].group, items[1].tags["relation"]) == ("mug", "on/under")
    assert (
        question_for(items[1]).text
        == "Is the mug on or under the table? Choose from the two options."
    )
    assert question_for(items[0]).text == (
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


@dataclass(frozen=True)
class Answers:
    """A LLaVA that answers every question rightly."""

    name: str = "mine"
    published_as: str = "LLaVA-1.5-7B"
    fingerprint: str = "1"
    scoring: str = "free answers"
    is_blind: bool = False

    def score(self, queries: object) -> list[float]:
        raise NotImplementedError

    def score_items(self, items: Sequence[Item]) -> list[Scores]:
        return [Scores(item.id, np.asarray(item.truth, dtype=float)) for item in items]


def test_free_answers_stand_beside_those_asked_about_as_many_relations(tmp_path: Path) -> None:
    """LLaVA: 98.1 of the left/right pairs if asked about two, 14.6 of the sets asked about four."""
    whole = replace(WHOLE, size=2)
    found = run(Job([Answers()], [whole, two_way(whole)], tmp_path / "run")).contents
    beside: dict[str, set[tuple[str, str]]] = {"whatsup_a": set(), "two_way:whatsup_a": set()}
    for one in found.references:
        if one.is_same_model and one.is_comparable:
            beside[one.benchmark].add((one.published.metric, one.published.aggregate))
    assert beside == {
        "whatsup_a": {(metric, "micro") for metric in ("individual4", "pair4", "set")},
        "two_way:whatsup_a": {
            (metric, f"micro[relation={relation}]")
            for metric in ("individual", "pair")
            for relation in ("left/right", "on/under")
        },
    }
    scorings = {r.published.scoring for r in found.references if r.benchmark == "whatsup_a"
                and r.published.metric in ("individual", "pair")}  # fmt: skip
    assert scorings == {"yes-probability"}
    assert found.record.incomplete == {}


def test_a_benchmark_without_named_pairs_is_refused() -> None:
    plain = Benchmark("plain", "", sets, (Choice(),), "accuracy")
    with pytest.raises(UnbagError, match="'plain' has no sets with named pairs"):
        two_way(plain)
