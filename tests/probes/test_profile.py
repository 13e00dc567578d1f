"""The probe profile: its scenes, known scorers and worked numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from unbag.models.tiny import Tiny, TinyConfig, untrained
from unbag.probes.base import Bars, Grid, Options, ProbeData, ProbedModel, ProbeResult
from unbag.probes.profile import (
    BLOCK,
    FAR,
    FLAT,
    ORDER,
    PROFILE,
    VERDICTS,
    SceneCase,
    cases,
    chosen,
    confusion_grid,
    parts_of,
    profile_items,
    taken,
    two_way,
)
from unbag.probes.reference_spaces import (
    bag_of_words_space,
    collapsed_space,
    constructed_subject,
    perfect_space,
    signs,
)
from unbag.probes.space import EncoderSpace
from unbag.registry import find
from unbag.scorers.cosine import Cosine
from unbag.types import FloatArray, Item, Query, Scorer
from unbag.world.grammar import content_words, holds, parse
from unbag.world.oracles import Oracle, bag_of_words, position_blind, scene_of, semantic
from unbag.world.scenes import is_clear
from unbag.world.vocabulary import DEFAULT, Relation, withheld_combinations

from .asking import case_of, run_probe

WORLD = ProbeData("the world", is_world=True)


QUICK = Options(resamples=300)


ITEMS = profile_items(n=BLOCK, seed=0)


CASES = tuple(cases(n=BLOCK))


def measure(scorer: Scorer) -> ProbeResult:
    return run_probe(PROFILE, ProbedModel(scorer.name, scorer, None, scorer), WORLD, QUICK)


def _grid(result: ProbeResult) -> Grid:
    grid = result.plots[1]
    assert isinstance(grid, Grid)
    return grid


def test_every_caption_says_what_the_truth_says() -> None:
    for item in ITEMS:
        scene = scene_of(item.images[0])
        assert is_clear(scene)
        told = [holds(parse(str(caption)), scene) for caption in item.captions]
        assert [told] == np.asarray(item.truth).tolist()


def test_two_way_captions_have_the_same_words_and_are_true_as_often_as_false() -> None:
    true: Counter[object] = Counter()
    false: Counter[object] = Counter()
    for item in ITEMS:
        if item.tags["question"] == "choice":
            continue
        first, second = map(str, item.captions)
        assert sorted(first.split()) == sorted(second.split())
        # By breakdown: a scorer that never looks must gain in none of them.
        for tag, value in item.tags.items():
            true[item.group, tag, value, first] += 1
            false[item.group, tag, value, second] += 1
    assert true == false


def test_breakdowns_are_balanced_within_a_block() -> None:
    of = [item.tags for item in ITEMS if item.tags["question"] == "relation"]
    count = Counter((tag, tags[tag]) for tags in of for tag in ("relation", "size", "objects"))
    assert {count["relation", r] for r in ORDER} == {4 * BLOCK // 8}
    assert {count["size", s] for s in ("small", "large")} == {4 * BLOCK // 2}
    assert {count["objects", n] for n in "2345"} == {4 * BLOCK // 4}
    flat = Counter((tags["relation"], tags["distance"]) for tags in of)
    assert {flat[r, d] for r in FLAT for d in ("near", "far")} == {4 * BLOCK // 16}
    assert {flat[r, ""] for r in ORDER if r not in FLAT} == {4 * BLOCK // 8}


def test_scenes_of_a_case_differ_in_places_or_colours_only() -> None:
    withheld = withheld_combinations(DEFAULT)
    for case in CASES:
        kept, exchanged, recoloured = case.scenes
        looks = [sorted((t.shape, t.colour, t.rgb) for t in s.things) for s in case.scenes]
        assert looks[0] == looks[1] != looks[2]
        places = [[(t.x, t.y) for t in scene.things] for scene in case.scenes]
        assert places[0] == places[2]
        # What lies around is the same in all three, and no caption names its shape or colour.
        around = kept.things[2:]
        assert around == exchanged.things[2:] == recoloured.things[2:]
        named = {case.first.shape, case.second.shape, case.first.colour, case.second.colour}
        assert not named & {name for t in around for name in (t.shape, t.colour)}
        assert not withheld & {(t.shape, t.colour) for t in around}
        assert len({t.shape for t in kept.things}) == len(kept.things)


def test_near_and_far_are_what_they_say() -> None:
    for case in CASES:
        a, b = case.scenes[0].things[:2]
        far = (a.x - b.x) ** 2 + (a.y - b.y) ** 2 >= FAR**2
        if case.relation in FLAT:
            assert case.distance == ("far" if far else "near")
        else:
            assert case.distance == ""


def test_combinations_are_of_the_named_things() -> None:
    withheld = withheld_combinations(DEFAULT)
    for case, some in zip(CASES, _by_case(ITEMS), strict=True):
        own = {(case.first.shape, case.first.colour), (case.second.shape, case.second.colour)}
        turned = {(case.first.shape, case.second.colour), (case.second.shape, case.first.colour)}
        for item in some:
            shown = own | turned if item.tags["question"] == "binding" else own
            assert item.tags["combination"] == ("unseen" if shown & withheld else "seen")


def _by_case(items: tuple[Item, ...]) -> list[list[Item]]:
    result: dict[str, list[Item]] = {}
    for item in items:
        result.setdefault(item.group, []).append(item)
    return list(result.values())


def test_a_case_depends_on_seed_and_number_alone() -> None:
    assert tuple(cases(n=3)) == CASES[:3]
    assert next(cases(n=1, seed=1)) != CASES[0]
    assert isinstance(CASES[0], SceneCase)


def test_the_semantic_oracle_is_perfect_everywhere(snapshot: SnapshotAssertion) -> None:
    result = measure(semantic())
    for quantity in result.quantities:
        assert quantity.estimate.value == quantity.known.perfect, quantity.name
    assert np.array_equal(np.array(_grid(result).values), np.eye(8))
    verdict = PROFILE.say(result)
    assert case_of(verdict, VERDICTS) == "knows"
    assert verdict.sentence == snapshot


def test_the_bag_of_words_oracle_ties_everywhere(snapshot: SnapshotAssertion) -> None:
    result = measure(bag_of_words())
    assert {q.estimate.value for q in result.quantities} == {0.0}
    assert {q.known.bag for q in result.quantities if " taken " not in q.name} == {0.0}
    grid = _grid(result)
    assert grid.columns == (*ORDER, "tie")
    assert {row[-1] for row in grid.values} == {1.0}
    verdict = PROFILE.say(result)
    assert case_of(verdict, VERDICTS) == "as a bag"
    assert verdict.sentence == snapshot


def test_a_blind_scorer_is_at_chance_in_every_breakdown(snapshot: SnapshotAssertion) -> None:
    result = measure(position_blind())
    for name in ("relations", "binding", *parts_of(result.quantities)):
        assert result[name].estimate.value == 0.5, name
    verdict = PROFILE.say(result)
    assert case_of(verdict, VERDICTS) == "chance"
    assert verdict.sentence == snapshot
    bars, grid = result.plots
    assert isinstance(bars, Bars)
    assert isinstance(grid, Grid)
    assert bars.bars[0].chance == 0.5
    names = [quantity.name for quantity in result.quantities]
    assert len(set(names)) == len(names) == 19 + 15 + 9
    assert [bar.name for bar in bars.bars] == snapshot(name="bars")
    assert len(result.notes) == 1


def test_constructed_spaces_get_the_right_verdict() -> None:
    tones = [
        PROFILE.say(run_probe(PROFILE, constructed_subject(space), WORLD, QUICK)).tone
        for space in (bag_of_words_space(), perfect_space(), collapsed_space())
    ]
    assert tones == ["fails", "holds", "fails"]


@dataclass(frozen=True)
class Mirrored:
    """Sees everything, and takes left for right."""

    inner: Oracle
    name: str = "mirrored"
    fingerprint: str = "mirrored"
    scoring: str = "truth"
    is_blind: bool = False

    def score(self, queries: Sequence[Query]) -> FloatArray:
        return self.inner.score([query._replace(caption=_turned(query)) for query in queries])


def _turned(query: Query) -> str:
    words = {"left": "right", "right": "left"}
    return " ".join(words.get(word, word) for word in str(query.caption).split())


def test_left_confused_with_right_is_named(snapshot: SnapshotAssertion) -> None:
    result = measure(Mirrored(semantic()))
    for relation in ORDER:
        is_side = relation in ("left of", "right of")
        assert result[f"relation {relation}"].estimate.value == (0.0 if is_side else 1.0)
        assert result[taken(relation)].estimate.value == (1.0 if is_side else 0.0)
    for name, value in (("relations", 0.75), ("choice of eight", 0.75), ("binding", 1.0)):
        assert result[name].estimate.value == value
    assert _grid(result).values[ORDER.index("left of")][ORDER.index("right of")] == 1.0
    verdict = PROFILE.say(result)
    assert case_of(verdict, VERDICTS) == "knows some"
    assert verdict.sentence == snapshot


def test_two_way_by_hand() -> None:
    """Three cases of four questions: one right, one tied, one that could not be opened."""
    some = [item for item in ITEMS if item.tags["question"] == "relation"][:12]
    score = [np.array([1.0, 0.0])] * 4 + [np.array([1.0, 1.0])] * 4 + [np.array([np.nan, 0.0])] * 4
    whole, *parts = two_way(some, score, "relation", "relations", QUICK)
    assert (whole.estimate.value, whole.estimate.n, whole.estimate.invalid) == (0.5, 8, 4)
    by_name = {one.name: one for one in parts}
    # The first three cases are left of, right of and above; each asks its relation and its inverse.
    assert by_name["relation left of"].estimate.value == 0.5
    assert by_name["size small"].estimate.n == 8
    assert whole.outcomes is not None
    assert whole.outcomes.clusters == tuple(item.group for item in some)


def test_choice_of_the_highest() -> None:
    assert chosen(np.array([0.1, 0.3, 0.2])) == 1
    assert chosen(np.array([0.1, 0.3, 0.3])) == -1


def test_confusion_by_hand() -> None:
    some = [item for item in ITEMS if item.tags["question"] == "choice"][:2]
    assert [item.tags["relation"] for item in some] == ["left of", "right of"]
    up = np.eye(8)[ORDER.index("above")]
    grid = confusion_grid(some, [up, np.zeros(8)])
    assert grid.values[0] == (*up, 0.0)
    assert grid.values[1] == (*np.zeros(8), 1.0)
    assert all(np.isnan(grid.values[2]))


def test_a_model_is_asked_by_its_vectors() -> None:
    words = {word for item in ITEMS for c in item.captions for word in str(c).split()}
    config = TinyConfig(
        pixels=64, patch=32, picture_width=8, picture_depth=1, caption_width=8, caption_depth=1,
        joint=8, heads=2, context=16, words=tuple(sorted(words)),
    )  # fmt: skip
    model = Tiny(untrained(config, seed=0), name="tiny")
    subject = ProbedModel("tiny", model, EncoderSpace(model), Cosine(model))
    by_vectors = run_probe(PROFILE, subject, WORLD, QUICK)
    # Two blocks, where scorers without vectors are asked one.
    assert by_vectors["relations"].estimate.n == 2 * 4 * BLOCK
    by_scorer = run_probe(PROFILE, replace(subject, space=None), WORLD, QUICK)
    assert by_scorer["relations"].estimate.n == 4 * BLOCK
    few, many = by_scorer["relations"].outcomes, by_vectors["relations"].outcomes
    assert few is not None
    assert many is not None
    assert few.units == many.units[: 4 * BLOCK]
    assert few.value_U.tolist() == many.value_U[: 4 * BLOCK].tolist()


def test_other_data_is_skipped(snapshot: SnapshotAssertion) -> None:
    assert find("probe", "profile") is PROFILE
    model = semantic()
    subject = ProbedModel(model.name, model, None, model)
    assert run_probe(PROFILE, subject, ProbeData("photographs")).skipped == snapshot


@pytest.mark.parametrize("relation", ORDER)
def test_captions_name_two_things_and_no_colour(relation: Relation) -> None:
    some = [i for i in ITEMS if i.tags["question"] != "binding" and i.tags["relation"] == relation]
    for item in some:
        for caption in map(str, item.captions):
            assert [word.attribute for word in content_words(caption)] == ["shape", "shape"]


def test_rounding_breaks_no_tie() -> None:
    bag = bag_of_words_space()
    width = bag.captions(["a star"]).shape[1]
    rounded = replace(bag, of_caption=lambda t: bag.captions([t])[0] + 1e-8 * signs(t, width))
    result = run_probe(PROFILE, constructed_subject(rounded), WORLD, QUICK)
    assert (result["relations"].estimate.value, result["binding"].estimate.value) == (0, 0)
    grid = result.plots[1]
    assert isinstance(grid, Grid)
    assert grid.columns[-1] == "tie"
    assert {row[-1] for row in grid.values} == {1.0}


def test_without_vectors_nothing_is_measured() -> None:
    bag = bag_of_words_space()
    width = bag.captions(["a star"]).shape[1]
    nothing = replace(bag, of_image=lambda _: np.full(width, np.nan))
    verdict = PROFILE.say(run_probe(PROFILE, constructed_subject(nothing), WORLD, QUICK))
    assert case_of(verdict, VERDICTS) == "unknown"
