"""Quads: exact truth, no leak to blind scorers, results of the oracles (methods.md 12.7)."""

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
WORDS_SUFFICE = ("replace_colour", "replace_shape", "replace_size", "replace_texture")


def make(family: str, world: World = UNIT, n: int = 24, seed: int = 3) -> tuple[Quad, ...]:
    return quads(family, world, n=n, seed=seed, relations=EVERY)


def item(name: str, triple: Triple) -> Item:
    captions = (triple.caption, triple.negative, triple.positive)
    return Item(name, (SceneImage(triple.scene, "scene"),), captions, np.array([[1, 0, 1]]) == 1)


def scores(oracle: Oracle, items: list[Item]) -> FloatArray:
    """[items, 3]: caption, negative, positive."""
    queries = [Query(item.images[0], caption) for item in items for caption in item.captions]
    return oracle.score(queries).reshape(len(items), 3)


def original(score: FloatArray) -> float:
    return float((score[:, 0] > score[:, 1]).mean())


def augmented(score: FloatArray) -> float:
    return float((np.minimum(score[:, 0], score[:, 2]) > score[:, 1]).mean())


@pytest.mark.parametrize("world", [UNIT, DEFAULT], ids=["unit", "default"])
@pytest.mark.parametrize("family", FAMILIES)
def test_truth_and_oracles_of_every_family(family: str, world: World) -> None:
    items = []
    for number, quad in enumerate(make(family, world)):
        assert len({text for side in quad.captions for text in side}) == 4
        assert all(map(is_clear, quad.scenes))
        found = triples(quad)
        assert len(set(found)) == 8
        assert Counter(t.order for t in found) == {"kept": 4, "reversed": 4}
        for place, t in enumerate(found):
            assert len({t.caption, t.negative, t.positive}) == 3
            truth = [holds(parse(text), t.scene) for text in (t.caption, t.negative, t.positive)]
            assert truth == [True, False, True]
            items.append(item(f"{number}/{place}", t))
    perfect = scores(semantic(), items)
    assert original(perfect) == augmented(perfect) == 1.0
    bag = scores(bag_of_words(), items)
    assert original(bag) == augmented(bag) == float(family in WORDS_SUFFICE)
    if family not in WORDS_SUFFICE:
        np.testing.assert_array_equal(bag[:, 0], bag[:, 1])
    # Any function of the caption alone is at chance, such as its length.
    for blind in (position_blind(), best_blind(items)):
        assert original(scores(blind, items)) == 0.5
    by_length = [[len(str(c)) + crc32(str(c).encode()) / 2**33 for c in i.captions] for i in items]
    assert original(np.array(by_length)) == 0.5


def test_triples_by_hand() -> None:
    [quad] = make("count", n=1)
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


def test_a_detector_is_perfect_on_originals_and_at_chance_on_positives() -> None:
    """The first caption of each scene is the original, and the negative has its form."""
    items = [
        item(f"{number}/{side}", Triple(scene, original, other[0], positive, "kept"))
        for number, quad in enumerate(make("swap", n=400))
        for side, scene in enumerate(quad.scenes)
        for (original, positive), other in [(quad.captions[side], quad.captions[1 - side])]
    ]
    plain = scores(detector(items), items)
    assert (original(plain), augmented(plain)) == (1.0, 0.0)
    np.testing.assert_array_equal(plain[:, 1], plain[:, 2])
    noisy = scores(detector(items, epsilon=1e-3, seed=1), items)
    assert original(noisy) == 1.0
    # 800 fair coins: the standard deviation is 1.8 points.
    assert abs(augmented(noisy) - 0.5) < 0.06


def test_relations_alternate_and_hold() -> None:
    for family in ("relation", "replace_relation"):
        made = make(family, DEFAULT, 16)
        assert Counter(quad.relation for quad in made) == dict.fromkeys(EVERY, 2)
        for quad in made:
            assert quad.relation is not None
            names = (quad.relation, INVERSE[quad.relation])
            for scene, name in zip(quad.scenes, names, strict=True):
                assert name in {relation for _, relation, _ in relations(scene)}
    flat = Counter(quad.relation for quad in quads("relation", UNIT, n=8, seed=0))
    assert flat == {"left of": 2, "right of": 2, "above": 2, "below": 2}
    assert {quad.relation for quad in make("swap", n=4)} == {None}


def test_the_scenes_of_a_quad_differ_in_one_way() -> None:
    for quad in make("swap"):
        a, b = quad.scenes
        places = [[(t.shape, t.x, t.y, t.size) for t in scene.things] for scene in quad.scenes]
        assert places[0] == places[1]
        assert [t.colour for t in a.things] == [t.colour for t in b.things][::-1]
        assert a.noise_seed == b.noise_seed
    for quad in make("replace_size"):
        sizes = {tuple({t.size for t in scene.things}) for scene in quad.scenes}
        assert sizes == {("small",), ("large",)}
    for quad in make("count"):
        n, m = (len(scene.things) for scene in quad.scenes)
        assert abs(n - m) == 1
        assert counts(quad.scenes[0]).keys() == counts(quad.scenes[1]).keys()
    for quad in make("negate"):
        # Equally many things with and without the denied one: counting must not suffice.
        assert [len(scene.things) for scene in quad.scenes] == [2, 2]
        assert quad.scenes[0].things[0] == quad.scenes[1].things[0]


def test_captions_of_families() -> None:
    (first, second) = make("relation", n=1)[0].captions
    assert [" left of " in text for text in (*first, *second)] == [True, False, True, False]
    assert [" right of " in text for text in (*first, *second)] == [False, True, False, True]
    (first, second) = make("negate", n=1)[0].captions
    assert first[1].startswith("there is a")
    assert " but no " in second[0]
    assert " without a" in second[1]
    (first, second) = make("swap", n=1)[0].captions
    assert sorted(first[0].split()) == sorted(first[1].split()) == sorted(second[0].split())
    [quad] = make("count", n=1)
    assert (quad.negative, quad.positive) == ("replace_count", "digit")


def test_quads_depend_on_seed_and_number_only() -> None:
    assert make("swap", n=3) == make("swap", n=9)[:3]
    assert make("swap", seed=3) != make("swap", seed=4)
    assert len(set(make("swap", DEFAULT, 50))) == 50
    with pytest.raises(UnbagError, match="unknown quad family 'swop'") as caught:
        make("swop")
    assert "swap" in caught.value.expected


def test_only_accepted_looks_appear() -> None:
    accepted = withheld_combinations(UNIT, share=0.4)

    def accept(a: Look, b: Look) -> bool:
        return {(a.shape, a.colour), (b.shape, b.colour)} <= accepted

    for quad in quads("swap", UNIT, n=5, seed=0, accept=accept):
        for scene in quad.scenes:
            assert {(t.shape, t.colour) for t in scene.things} <= accepted


@pytest.mark.parametrize("relation", EVERY)
def test_an_orbit_is_an_identity_matrix_over_the_same_words(relation: Relation) -> None:
    for seed in range(4):
        made = orbit(UNIT, np.random.default_rng(seed), relation=relation)
        truth = [[holds(parse(text), scene) for text in made.captions] for scene in made.scenes]
        np.testing.assert_array_equal(truth, np.eye(4, dtype=bool))
        assert len({tuple(sorted(text.split())) for text in made.captions}) == 1
        queries = [Query(SceneImage(made.scenes[0], "scene"), text) for text in made.captions]
        assert set(bag_of_words().score(queries).tolist()) == {1.0}
