"""What'sUp: sets of four, their errata, and sets split into pairs with two-way numbers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.names import benchmark
from unbag.benchmarks.whatsup import WHATSUP_A, WHATSUP_B, A, load, load_corrected, two_way
from unbag.data import PixelImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.metrics.choice import Choice
from unbag.scorers.questions import question_for
from unbag.types import Benchmark, Case, Estimate, Item, Scores

from .small import whatsup, write

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
WORDS = {"left_of": "to the left of", "right_of": "to the right of", "in-front_of": "in front of"}


def test_errata_exchange_the_two_pillow_images(tmp_path: Path) -> None:
    content = json.loads(json.dumps(whatsup(A, "pillow")(1)).replace("plate", "chair"))
    (official,) = load(write(tmp_path, content), subset=A)
    (corrected,) = load_corrected(tmp_path)
    assert official.captions == corrected.captions
    assert [p.name for p in corrected.images] == [official.images[i].name for i in (1, 0, 2, 3)]


def test_the_real_captions_of_subset_a(official: Path, tmp_path: Path) -> None:
    fork = json.loads((official / "whatsup/whatsup_A_captions_extra_negatives.json").read_text())
    # The fork adds options after the four official ones.
    content = [row | {"caption_options": row["caption_options"][:4]} for row in fork]
    write(tmp_path, {A.file: content})
    with pytest.warns(UserWarning, match=r"^1 option is not a caption of its set.*a tabl`e"):
        items = WHATSUP_A.load(tmp_path)
    assert len(items) == 103
    assert sum(len(item.images) for item in items) == 412


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

    def means(benchmark_: Benchmark, cases: list[Case]) -> dict[str, float]:
        (metric,) = benchmark_.metrics
        results = metric(cases, ties="wrong", tie_eps=0.0)
        return {reference.metric: float(reference.value_U.mean()) for reference in results}

    expected = means(WHOLE, whole)
    results = means(cut, halves)
    assert set(results) == {"individual", "pair", "same_answer", "relaxed"}
    assert results == {name: expected[name] for name in results}


def test_it_is_named_before_the_benchmark_and_keeps_what_fits() -> None:
    benchmark_ = benchmark("two_way:whatsup_b")
    assert (benchmark_.name, benchmark_.place) == ("two_way:whatsup_b", WHATSUP_B.place)
    assert benchmark_.published
    assert {p.metric for p in benchmark_.published} <= {"individual", "pair"}
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
    results = run(Job([Answers()], [whole, two_way(whole)], tmp_path / "run")).contents
    beside: dict[str, set[tuple[str, str]]] = {"whatsup_a": set(), "two_way:whatsup_a": set()}
    for reference in results.references:
        if reference.is_same_model and reference.is_comparable:
            beside[reference.benchmark].add(
                (reference.published.metric, reference.published.aggregate)
            )
    assert beside == {
        "whatsup_a": {(metric, "micro") for metric in ("individual4", "pair4", "set")},
        "two_way:whatsup_a": {
            (metric, f"micro[relation={relation}]")
            for metric in ("individual", "pair")
            for relation in ("left/right", "on/under")
        },
    }
    scorings = {r.published.scoring for r in results.references if r.benchmark == "whatsup_a"
                and r.published.metric in ("individual", "pair")}  # fmt: skip
    assert scorings == {"yes-probability"}
    assert results.record.incomplete == {}


def test_a_benchmark_without_named_pairs_is_refused() -> None:
    plain = Benchmark("plain", "", sets, (Choice(),), "accuracy")
    with pytest.raises(UnbagError, match="'plain' has no sets with named pairs"):
        two_way(plain)
