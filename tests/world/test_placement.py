"""Placed scenes: exactly the given relations hold, and none is ambiguous."""

from itertools import combinations
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbag.errors import UnbagError
from unbag.world.placement import (
    Look,
    depth_steps,
    exchange_colours,
    place_apart,
    place_copies,
    place_exchanged,
    place_pair,
    remove_thing,
    sample_look,
    what_sup_set,
    with_texture,
)
from unbag.world.rendering import draw
from unbag.world.scenes import Scene, Thing, counts, is_clear, relations
from unbag.world.vocabulary import DEFAULT, INVERSE, RELATIONS, UNIT, WORLDS, Relation, Size, World

SEEDS = st.integers(0, 2**32 - 1)
SOME_WORLD = st.sampled_from(("default", "unit")).map(lambda name: WORLDS[name])


def find(scene: Scene, look: Look) -> int:
    (index,) = (i for i, thing in enumerate(scene.things) if look_of(thing) == look)
    return index


def look_of(thing: Thing) -> Look:
    return Look(thing.shape, thing.colour, thing.size, thing.texture)


def two_looks(world: World, rng: np.random.Generator, *, one_size: bool) -> tuple[Look, Look]:
    while True:
        a, b = sample_look(world, rng), sample_look(world, rng)
        if a.colour != b.colour and (a.size == b.size or not one_size):
            return a, b


@given(SOME_WORLD, SEEDS, st.integers(1, 3))
def test_things_placed_freely_are_clear(world: World, seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    looks = [sample_look(world, rng) for _ in range(n)]
    scene = place_apart(world, looks, rng)
    assert is_clear(scene)
    assert [look_of(thing) for thing in scene.things] == looks
    assert all(r in ("left of", "right of", "above", "below") for _, r, _ in relations(scene))


@given(SOME_WORLD, SEEDS, st.sampled_from(sorted(RELATIONS)))
@settings(max_examples=400)
def test_exactly_the_given_relation_holds(world: World, seed: int, relation: Relation) -> None:
    rng = np.random.default_rng(seed)
    first, second = two_looks(world, rng, one_size=relation in ("in front of", "behind"))
    scene, exchanged = place_exchanged(world, first, second, relation, rng)
    for placed, expected in ((scene, relation), (exchanged, INVERSE[relation])):
        i, j = find(placed, first), find(placed, second)
        assert relations(placed) == {(i, expected, j), (j, INVERSE[expected], i)}
        assert is_clear(placed)


def test_the_same_generator_gives_the_same_scene() -> None:
    looks = Look("key", "red"), Look("hat", "blue", "small", "dotted")
    first, second = (place_apart(DEFAULT, looks, np.random.default_rng(9)) for _ in range(2))
    assert first == second
    pair = place_pair(DEFAULT, *looks, "above", np.random.default_rng(3))
    assert pair == place_exchanged(DEFAULT, *looks, "above", np.random.default_rng(3))[0]
    one_size = looks[0], Look("hat", "blue")
    sets = [what_sup_set(DEFAULT, *one_size, "a", np.random.default_rng(seed)) for seed in (0, 1)]
    assert [len({scene.noise_seed for scene in scenes}) for scenes in sets] == [1, 1]
    assert sets[0][0].noise_seed != sets[1][0].noise_seed


@pytest.mark.parametrize("world", [DEFAULT, UNIT], ids=lambda world: world.name)
def test_any_two_shapes_can_stand_on_each_other(world: World) -> None:
    rng = np.random.default_rng(0)
    sizes: tuple[tuple[Size, Size], ...] = (("small", "small"), ("large", "small"))
    for (a, b), (one, other) in zip(
        combinations(world.shapes, 2), sizes * len(world.shapes) ** 2, strict=False
    ):
        scene = place_pair(world, Look(a, "red", one), Look(b, "blue", other), "on", rng)
        assert is_clear(scene)
        assert (0, "on", 1) in relations(scene)


def test_any_two_shapes_can_overlap() -> None:
    pairs = list(combinations(UNIT.shapes, 2))
    pairs += [(a, b) for a, b in combinations(DEFAULT.shapes, 2) if is_chosen(a, b)]
    for world in (DEFAULT, UNIT):
        every = [depth_steps(world.name, a, b, "large") for a, b in pairs if b in world.shapes]
        assert all(every)
        same = [all(first == second for first, second in steps) for steps in every]
        assert np.mean(same) > 0.95


def is_chosen(a: str, b: str) -> bool:
    """A fixed ninth of all pairs, for speed."""
    return (DEFAULT.shapes.index(a) * 48 + DEFAULT.shapes.index(b)) % 9 == 0


@given(SEEDS, st.sampled_from(("a", "b")))
def test_what_sup_sets_differ_only_in_positions(seed: int, subset: Literal["a", "b"]) -> None:
    rng = np.random.default_rng(seed)
    first, second = two_looks(DEFAULT, rng, one_size=True)
    scenes = what_sup_set(DEFAULT, first, second, subset, rng, noise_seed=77)
    last: list[Relation] = ["on", "under"] if subset == "a" else ["in front of", "behind"]
    for scene, relation in zip(scenes, ["left of", "right of", *last], strict=True):
        i, j = find(scene, first), find(scene, second)
        assert {r for a, r, b in relations(scene) if (a, b) == (i, j)} == {relation}
        assert is_clear(scene)
        assert scene.noise_seed == 77
        assert scene.things[i].rgb == scenes[0].things[0].rgb
        assert scene.things[j].rgb == scenes[0].things[1].rgb
    left, right = (
        [(scene.things[find(scene, look)].x, scene.things[find(scene, look)].y) for look in looks]
        for scene, looks in ((scenes[0], (first, second)), (scenes[1], (second, first)))
    )
    assert left == right


@pytest.mark.parametrize("world", [DEFAULT, UNIT], ids=lambda world: world.name)
@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_copies_of_every_shape(world: World, size: Size, n: int) -> None:
    rng = np.random.default_rng(n)
    for shape in world.shapes:
        scene = place_copies(world, Look(shape, "green", size), n, rng)
        assert counts(scene) == {(shape, "green"): n}
        assert is_clear(scene)
        assert len({thing.rgb for thing in scene.things}) == 1


def test_looks_have_the_specified_shares() -> None:
    rng = np.random.default_rng(0)
    looks = [sample_look(DEFAULT, rng) for _ in range(20_000)]
    for texture, share in (("plain", 0.7), ("striped", 0.1), ("dotted", 0.1), ("checkered", 0.1)):
        assert np.mean([look.texture == texture for look in looks]) == pytest.approx(
            share, abs=0.015
        )
    assert np.mean([look.size == "small" for look in looks]) == pytest.approx(0.5, abs=0.015)
    assert {look.shape for look in looks} == set(DEFAULT.shapes)
    assert {look.colour for look in looks} == set(DEFAULT.colours)


SCENE = place_apart(
    DEFAULT,
    [Look("key", "red"), Look("hat", "blue", "small"), Look("star", "lime", "small")],
    np.random.default_rng(4),
)


def test_changed_scenes() -> None:
    partner = exchange_colours(SCENE)
    assert [(t.shape, t.colour) for t in partner.things[:2]] == [("key", "blue"), ("hat", "red")]
    assert [t.rgb for t in partner.things] == [SCENE.things[k].rgb for k in (1, 0, 2)]
    assert relations(partner) == relations(SCENE)
    assert exchange_colours(partner) == SCENE
    assert partner.things[2:] == SCENE.things[2:] != ()
    striped = with_texture(SCENE, 1, "striped")
    assert [thing.texture for thing in striped.things] == ["plain", "striped", "plain"]
    assert with_texture(striped, 1, "plain") == SCENE
    fewer = remove_thing(SCENE, 1)
    assert fewer.things == (SCENE.things[0], SCENE.things[2])
    assert fewer.noise_seed == SCENE.noise_seed
    assert (draw(fewer) != draw(SCENE)).any()


def test_impossible_requests() -> None:
    rng = np.random.default_rng(0)
    red, blue = Look("key", "red"), Look("key", "blue", "small")
    with pytest.raises(UnbagError) as error:
        place_apart(DEFAULT, [red] * 4, rng)
    assert "4 things to place freely" in str(error.value)
    assert "use place_copies" in str(error.value)
    for n in (0, 6):
        with pytest.raises(UnbagError, match=f"{n} copies of one look"):
            place_copies(DEFAULT, red, n, rng)
    for other in (blue, Look("hat", "red")):
        with pytest.raises(UnbagError) as error:
            place_pair(DEFAULT, red, other, "in front of", rng)
        assert "a large red thing in front of a" in str(error.value)
        assert "one size and two colours" in str(error.value)
