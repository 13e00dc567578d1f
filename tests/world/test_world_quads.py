"""Quads: exact truth, exact blindness to captions, results of the oracles (methods.md 12.7)."""

from collections import Counter
from zlib import crc32

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.types import FloatArray, Item, Query
from unbag.world.grammar import holds, parse
from unbag.world.oracles import Oracle, bag_of_words, best_blind, detector, position_blind, semantic
from unbag.world.placement import Look
from unbag.world.quads import FAMILIES, Quad, Triple, orbit, quads, triples
from unbag.world.rendering import SceneImage
from unbag.world.scenes import counts, is_clear, relations
from unbag.world.vocabulary import (
    DEFAULT,
    INVERSE,
    RELATIONS,
    UNIT,
    Relation,
    World,
    withheld_combinations,
)

EVERY: tuple[Relation, ...] = tuple(RELATIONS)
TIES = ("swap", "relation", "replace_relation", "count", "negate")
WORDS_TELL = ("replace_colour", "replace_shape", "replace_size", "replace_texture")


def made(family: str, world: World = UNIT, n: int = 24, seed: int = 3) -> tuple[Quad, ...]:
    return quads(family, world, n=n, seed=seed, relations=EVERY)


def items(found: tuple[Quad, ...]) -> list[Item]:
    truth = np.array([[True, False, True]])
    return [
        Item(
            f"{number}/{place}",
            (SceneImage(t.scene, "scene"),),
            (t.caption, t.negative, t.positive),
            truth,
        )
        for number, quad in enumerate(found)
        for place, t in enumerate(triples(quad))
    ]


def scores(oracle: Oracle, cases: list[Item]) -> FloatArray:
    """[items, 3]: caption, negative, positive."""
    queries = [Query(item.images[0], caption) for item in cases for caption in item.captions]
    return oracle.score(queries).reshape(len(cases), 3)


def original(score: FloatArray) -> float:
    return float((score[:, 0] > score[:, 1]).mean())


def augmented(score: FloatArray) -> float:
    return float((np.minimum(score[:, 0], score[:, 2]) > score[:, 1]).mean())


@pytest.mark.parametrize("world", [UNIT, DEFAULT], ids=["unit", "default"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_caption_is_true_in_its_own_scene_only(family: str, world: World) -> None:
    for quad in made(family, world, 16):
        assert len({text for side in quad.captions for text in side}) == 4
        for side in (0, 1):
            assert is_clear(quad.scenes[side])
            for text in quad.captions[side]:
                assert holds(parse(text), quad.scenes[side])
                assert not holds(parse(text), quad.scenes[1 - side])


@pytest.mark.parametrize("family", FAMILIES)
def test_triples_are_all_eight_and_exact(family: str) -> None:
    for quad in made(family, n=8):
        found = triples(quad)
        assert len(set(found)) == 8
        assert Counter(t.order for t in found) == {"kept": 4, "reversed": 4}
        for t in found:
            assert holds(parse(t.caption), t.scene)
            assert holds(parse(t.positive), t.scene)
            assert not holds(parse(t.negative), t.scene)
            assert len({t.caption, t.negative, t.positive}) == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_a_blind_scorer_is_at_chance_by_construction(family: str) -> None:
    cases = items(made(family))
    for oracle in (position_blind(), best_blind(cases)):
        assert original(scores(oracle, cases)) == 0.5
    # Length and wording say nothing either: any function of the caption would do here.
    by_length = np.array(
        [[len(str(c)) + crc32(str(c).encode()) / 2**33 for c in item.captions] for item in cases]
    )
    assert original(by_length) == 0.5


@pytest.mark.parametrize("family", FAMILIES)
def test_semantic_oracle_is_perfect(family: str) -> None:
    score = scores(semantic(), items(made(family)))
    assert original(score) == augmented(score) == 1.0


@pytest.mark.parametrize("family", TIES)
def test_bag_of_words_ties_where_words_do_not_tell(family: str) -> None:
    score = scores(bag_of_words(), items(made(family)))
    np.testing.assert_array_equal(score[:, 0], score[:, 1])
    assert original(score) == augmented(score) == 0.0


@pytest.mark.parametrize("family", WORDS_TELL)
def test_bag_of_words_is_perfect_where_words_tell(family: str) -> None:
    score = scores(bag_of_words(), items(made(family)))
    assert original(score) == augmented(score) == 1.0


def test_a_detector_solves_the_original_and_fails_the_positive() -> None:
    """With each scene's first caption as the original and its form kept in the negative."""
    truth = np.array([[True, False, True]])
    cases = [
        Item(f"{number}/{side}", (SceneImage(quad.scenes[side], "scene"),), captions, truth)
        for number, quad in enumerate(made("swap", n=400))
        for side in (0, 1)
        for captions in [
            (quad.captions[side][0], quad.captions[1 - side][0], quad.captions[side][1])
        ]
    ]
    plain = scores(detector(cases), cases)
    assert original(plain) == 1.0
    assert augmented(plain) == 0.0
    np.testing.assert_array_equal(plain[:, 1], plain[:, 2])
    noisy = scores(detector(cases, epsilon=1e-3, seed=1), cases)
    assert original(noisy) == 1.0
    # 800 fair coins: the standard deviation is 1.8 points.
    assert abs(augmented(noisy) - 0.5) < 0.06


def test_a_blind_preference_gets_no_pair_and_half_the_individuals() -> None:
    blind = position_blind()
    rights = []
    for quad in made("relation"):
        queries = [
            Query(SceneImage(scene, "scene"), side[0])
            for scene in quad.scenes
            for side in quad.captions
        ]
        score = blind.score(queries).reshape(2, 2)
        rights.append([score[0, 0] > score[0, 1], score[1, 1] > score[1, 0]])
    right = np.array(rights)
    assert right.mean() == 0.5
    assert right.all(axis=1).mean() == 0.0


def test_relations_take_turns_and_hold() -> None:
    for family in ("relation", "replace_relation"):
        found = made(family, DEFAULT, 16)
        assert Counter(q.relation for q in found) == dict.fromkeys(EVERY, 2)
        for quad in found:
            assert quad.relation is not None
            for scene, name in zip(
                quad.scenes, (quad.relation, INVERSE[quad.relation]), strict=True
            ):
                assert name in {r for _, r, _ in relations(scene)}
    flat = quads("relation", UNIT, n=8, seed=0)
    assert Counter(q.relation for q in flat) == dict.fromkeys(
        ("left of", "right of", "above", "below"), 2
    )
    assert {q.relation for q in made("swap", n=4)} == {None}


def test_scenes_of_a_quad_differ_in_one_way_only() -> None:
    for quad in made("swap"):
        a, b = quad.scenes
        assert [(t.shape, t.x, t.y, t.size) for t in a.things] == [
            (t.shape, t.x, t.y, t.size) for t in b.things
        ]
        assert [t.colour for t in a.things] == [t.colour for t in b.things][::-1]
        assert a.noise_seed == b.noise_seed
    for quad in made("replace_size"):
        assert {tuple({t.size for t in scene.things}) for scene in quad.scenes} == {
            ("small",),
            ("large",),
        }
    for quad in made("count"):
        n, m = (len(scene.things) for scene in quad.scenes)
        assert abs(n - m) == 1
        assert counts(quad.scenes[0]).keys() == counts(quad.scenes[1]).keys()
    for quad in made("negate"):
        # As many things with and without the denied one: counting must not answer.
        assert [len(scene.things) for scene in quad.scenes] == [2, 2]
        assert quad.scenes[0].things[0] == quad.scenes[1].things[0]


def test_known_forms_of_each_family() -> None:
    (first, second) = made("relation", n=1)[0].captions
    assert [" left of " in text for text in (*first, *second)] == [True, False, True, False]
    assert [" right of " in text for text in (*first, *second)] == [False, True, False, True]
    (first, second) = made("negate", n=1)[0].captions
    assert first[1].startswith("there is a")
    assert " but no " in second[0]
    assert " without a" in second[1]
    (first, second) = made("swap", n=1)[0].captions
    assert sorted(first[0].split()) == sorted(first[1].split()) == sorted(second[0].split())
    assert (made("count", n=1)[0].negative, made("count", n=1)[0].positive) == (
        "replace_count",
        "digit",
    )


def test_quads_depend_on_seed_and_number_alone() -> None:
    assert made("swap", n=3) == made("swap", n=9)[:3]
    assert made("swap", seed=3) != made("swap", seed=4)
    assert len(set(made("swap", DEFAULT, 50))) == 50


def test_only_accepted_looks_are_shown() -> None:
    held = withheld_combinations(UNIT, share=0.4)

    def accept(a: Look, b: Look) -> bool:
        return (a.shape, a.colour) in held and (b.shape, b.colour) in held

    for quad in quads("swap", UNIT, n=5, seed=0, accept=accept):
        for scene in quad.scenes:
            assert {(t.shape, t.colour) for t in scene.things} <= held


@pytest.mark.parametrize("relation", EVERY)
def test_orbit_is_an_identity_matrix_over_the_same_words(relation: Relation) -> None:
    for seed in range(4):
        found = orbit(UNIT, np.random.default_rng(seed), relation=relation)
        truth = [[holds(parse(text), scene) for text in found.captions] for scene in found.scenes]
        np.testing.assert_array_equal(truth, np.eye(4, dtype=bool))
        assert len({tuple(sorted(text.split())) for text in found.captions}) == 1
        bag = bag_of_words().score(
            [Query(SceneImage(found.scenes[0], "scene"), t) for t in found.captions]
        )
        assert set(bag.tolist()) == {1.0}


def test_an_unknown_family_offers_the_nearest() -> None:
    with pytest.raises(UnbagError, match="unknown quad family 'swop'") as caught:
        quads("swop", UNIT, n=1, seed=0)
    assert "swap" in caught.value.expected


def test_triples_by_hand() -> None:
    quad = made("count", n=1)[0]
    (a0, a1), (b0, b1) = quad.captions
    a, b = quad.scenes
    assert triples(quad) == (
        Triple(a, a0, b0, a1, "kept"),
        Triple(a, a0, b1, a1, "reversed"),
        Triple(a, a1, b0, a0, "reversed"),
        Triple(a, a1, b1, a0, "kept"),
        Triple(b, b0, a0, b1, "kept"),
        Triple(b, b0, a1, b1, "reversed"),
        Triple(b, b1, a0, b0, "reversed"),
        Triple(b, b1, a1, b0, "kept"),
    )
