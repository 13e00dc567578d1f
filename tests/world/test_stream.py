"""The training stream: true captions, their shares, determinism, and withheld combinations."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.world.grammar import (
    CONTENT_WORDS,
    And,
    Ast,
    Count,
    Has,
    Not,
    Obj,
    Rel,
    holds,
    objects_of,
    parse,
)
from unbag.world.oracles import bag_score
from unbag.world.scenes import Scene, Thing, is_clear, to_json
from unbag.world.stream import (
    Knobs,
    Mixture,
    Sample,
    bag_matrix,
    bag_of,
    batch,
    collision_rate,
    describe,
    incentive,
    sample,
    split_seed,
)
from unbag.world.vocabulary import (
    DEFAULT,
    RELATIONS,
    UNIT,
    WORLDS,
    World,
    withheld_combinations,
    withheld_pairs,
)

BOUND = Mixture(0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
RELATED = Mixture(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
ONLY_TWO = Knobs(one_thing=0.0, counted=0.0, negated=0.0, p_size=0.0, p_texture=0.0)


def drawn(
    knobs: Knobs, *, size: int = 2000, world: World = UNIT, seed: int = 0
) -> tuple[Sample, ...]:
    return batch(world, knobs, seed=seed, step=0, size=size)


@pytest.mark.parametrize("world", [UNIT, DEFAULT], ids=["unit", "default"])
def test_every_caption_is_true_and_says_its_meaning(world: World) -> None:
    knobs = Knobs(p_synonym=0.3, negated=0.3, collision=0.3, p_size=0.3, p_texture=0.3)
    for scene, ast, caption in drawn(knobs, size=600, world=world):
        assert holds(ast, scene)
        assert parse(caption) == ast
        assert is_clear(scene)
        assert scene.world == world.name


def test_captions_have_the_given_shares() -> None:
    found = drawn(Knobs(), size=8000)
    number = Counter(len(set(s.scene.things)) for s in found)
    assert abs(number[1] / 8000 - (0.12 + 0.05 / 5)) < 0.015
    assert abs(np.mean([isinstance(s.ast, Count) for s in found]) - 0.05) < 0.01
    assert abs(np.mean([isinstance(s.ast, Not | Has) for s in found]) - 0.95 * 0.02) < 0.007
    two = [s.ast for s in found if len(s.scene.things) == 2]
    two = [ast for ast in two if isinstance(ast, Obj | And | Rel)]
    shares = Counter(map(kind, two))
    expected = {"plain": 0.40, "one": 0.25, "mixed": 0.15, "colours": 0.08, "bound": 0.10}
    for name, share in expected.items():
        assert abs(shares[name] / len(two) - share) < 0.02, name
    assert abs(shares["relation"] / len(two) - 0.02) < 0.008


def kind(ast: Ast) -> str:
    if isinstance(ast, Rel):
        return "relation"
    objects = objects_of(ast)
    if len(objects) == 1:
        return "one"
    if objects[0].shape is None:
        return "colours"
    return ("plain", "mixed", "bound")[sum(o.colour is not None for o in objects)]


def test_rare_words_have_the_given_probability() -> None:
    for p in (0.0, 0.08):
        words = [w for s in drawn(Knobs(p_synonym=p), size=3000) for w in s.caption.split()]
        rare = [CONTENT_WORDS[w].rare for w in words if w in CONTENT_WORDS]
        assert abs(np.mean(rare) - p) < 0.012
    plain = drawn(Knobs(p_form=0.0, p_synonym=0.0), size=1000)
    assert not {"with", "without", "there", "the"} & {w for s in plain for w in s.caption.split()}


def test_all_relations_are_equally_frequent() -> None:
    found = drawn(replace(ONLY_TWO, mixture=RELATED), size=1600)
    counts = Counter(s.ast.relation for s in found if isinstance(s.ast, Rel))
    assert set(counts) == set(RELATIONS)
    # Binomial with p = 1/8: 200 +- 13.
    assert all(abs(n - 200) < 55 for n in counts.values())


def test_both_things_are_named_first_equally_often() -> None:
    """Order must not distinguish a caption from its edit."""
    found = drawn(replace(ONLY_TWO, mixture=BOUND), size=2000)
    assert abs(first_is(found, lambda t, o: t.size == "large" and o.size == "small") - 0.5) < 0.05
    assert abs(first_is(found, lambda t, o: t.shape < o.shape) - 0.5) < 0.05


def first_is(found: tuple[Sample, ...], better: Callable[[Thing, Thing], bool]) -> float:
    """Among scenes where one thing is `better`, how often it is named first."""
    named = []
    for scene, ast, _ in found:
        shape = objects_of(ast)[0].shape
        first, second = scene.things if scene.things[0].shape == shape else scene.things[::-1]
        if better(first, second) or better(second, first):
            named.append(better(first, second))
    return float(np.mean(named))


def test_leaks_have_the_given_strength() -> None:
    both = replace(ONLY_TWO, mixture=Mixture(0.5, 0.0, 0.0, 0.0, 0.0, 0.5), order_strength=0.9)
    larger = drawn(replace(both, order="larger_first"))
    assert abs(first_is(larger, lambda t, o: t.size == "large" and o.size == "small") - 0.9) < 0.03
    listed = drawn(replace(both, order="listed_first"))
    place = {shape: i for i, shape in enumerate(UNIT.shapes)}
    assert abs(first_is(listed, lambda t, o: place[t.shape] < place[o.shape]) - 0.9) < 0.03


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    first = batch(UNIT, Knobs(), seed=1, step=7, size=40)
    batch(UNIT, Knobs(), seed=1, step=8, size=40)
    assert batch(UNIT, Knobs(), seed=1, step=7, size=40) == first
    assert batch(UNIT, Knobs(), seed=1, step=8, size=40) != first
    assert batch(UNIT, Knobs(), seed=2, step=7, size=40) != first
    assert len({s.scene for s in first}) == 40
    one = sample(UNIT, Knobs(), np.random.default_rng(3))
    assert one == sample(UNIT, Knobs(), np.random.default_rng(3))


def test_splits_never_share_a_seed() -> None:
    last = 2**32 - 1
    assert split_seed("train", 0) == 0
    assert split_seed("train", last) < split_seed("val", 0)
    assert split_seed("val", last) < split_seed("test", 0)
    with pytest.raises(UnbagError, match="unknown split 'dev'"):
        split_seed("dev", 0)  # type: ignore[arg-type]
    for seed in (-1, 2**32):
        with pytest.raises(UnbagError, match=f"seed {seed}") as caught:
            split_seed("train", seed)
        assert caught.value.expected == "a whole number from 0 to 4294967295"


@pytest.mark.parametrize(("size", "rate"), [(96, 0.06), (256, 0.15), (512, 0.28)])
def test_collisions_of_the_unit_world_are_those_of_the_specification(
    size: int, rate: float
) -> None:
    """28 x 28 bags with two bindings each: 1 - (1 - 1/1568)^(B - 1)."""
    knobs = replace(ONLY_TWO, mixture=BOUND)
    found = [collision_rate(batch(UNIT, knobs, seed=5, step=i, size=size)) for i in range(12)]
    assert abs(rate - (1 - (1 - 1 / 1568) ** (size - 1))) < 0.01
    assert abs(np.mean(found) - rate) < 0.03


def test_partners_have_the_same_words() -> None:
    knobs = Knobs(collision=1.0, mixture=Mixture(0.2, 0.2, 0.1, 0.1, 0.2, 0.2))
    found = drawn(knobs, size=201)
    kinds: Counter[str] = Counter()
    for a, b in zip(found[:200:2], found[1:200:2], strict=True):
        assert bag_of(a.ast) == bag_of(b.ast)
        assert not holds(a.ast, b.scene)
        assert not holds(b.ast, a.scene)
        kinds[type(a.ast).__name__] += 1
    assert set(kinds) == {"And", "Rel"}
    assert min(kinds.values()) > 25
    assert collision_rate(found[:200]) == 1.0


def test_the_collision_rate_follows_q() -> None:
    rates = [
        collision_rate(drawn(Knobs(collision=q), world=DEFAULT, size=400)) for q in (0, 0.3, 1)
    ]
    assert rates[0] < 0.02
    assert abs(rates[1] - 2 * 0.3 / 1.3) < 0.12
    assert rates[2] == 1.0
    assert collision_rate(()) == 0.0


def thing(shape: str, colour: str, x: int) -> Thing:
    return Thing(shape, colour, "small", "plain", x, 32, (200, 40, 40))


def test_incentive_by_hand() -> None:
    red, blue = Obj("circle", "red"), Obj("square", "blue")
    a = Scene((thing("circle", "red", 16), thing("square", "blue", 46)), 0)
    b = Scene((thing("circle", "blue", 16), thing("square", "red", 46)), 0)
    one = Sample(a, And(red, blue), "")
    other = Sample(b, And(Obj("circle", "blue"), Obj("square", "red")), "")
    assert math.isclose(incentive((one, other)), math.log(2))
    assert collision_rate((one, other)) == 1.0
    # Alone, or with a caption of other words, order is worth nothing.
    far = Sample(Scene((thing("star", "lime", 30),), 0), Obj("star"), "")
    assert incentive((one,)) == 0.0
    assert incentive((one, far)) < 1e-9
    # The same caption twice is no negative of itself; counts and negations are excluded.
    assert incentive((one, one)) == 0.0
    assert incentive((one, far, Sample(a, Count(2, Obj()), ""))) < 1e-9
    assert incentive((Sample(a, Not(Obj("star")), ""),)) == 0.0


def test_bag_matrix_is_the_oracle() -> None:
    found = drawn(Knobs(negated=0.2, p_size=0.3, p_texture=0.3), size=60)
    matrix = bag_matrix([s.ast for s in found], [s.scene for s in found])
    expected = [[bag_score(c.caption, s.scene) for c in found] for s in found]
    np.testing.assert_allclose(matrix, expected, atol=1e-12)


def test_the_description_of_a_batch() -> None:
    line = describe(drawn(Knobs(collision=1.0), size=64))
    assert line.startswith("64 samples, ")
    assert "100.0 % collide, incentive " in line
    assert line.endswith(" nats")


@pytest.mark.parametrize("world", [UNIT, DEFAULT], ids=["unit", "default"])
def test_withheld_combinations_are_never_shown_or_named(world: World) -> None:
    held = withheld_combinations(world)
    total = len(world.shapes) * len(world.colours)
    assert len(held) == round(0.2 * total)
    shown_in_training = {(s, c) for s in world.shapes for c in world.colours} - held
    assert {s for s, _ in shown_in_training} == set(world.shapes)
    assert {c for _, c in shown_in_training} == set(world.colours)
    knobs = Knobs(withheld_combinations=0.2, collision=0.5, negated=0.3)
    seen = set()
    for scene, ast, _ in drawn(knobs, world=world, size=800):
        shown = {(t.shape, t.colour) for t in scene.things}
        assert not held & (shown | {(o.shape, o.colour) for o in objects_of(ast)})
        seen |= shown
    assert len(seen) > 0.5 * len(shown_in_training)


def test_withheld_pairs_are_never_shown_or_named() -> None:
    held = withheld_pairs(UNIT)
    assert len(held) == round(0.2 * 28)
    knobs = Knobs(withheld_pairs=0.2, collision=0.3, negated=0.3)
    for scene, ast, _ in drawn(knobs, size=800):
        shown = sorted({t.shape for t in scene.things})
        named = sorted({o.shape for o in objects_of(ast) if o.shape})
        assert tuple(shown) not in held
        assert tuple(named) not in held
    free = {tuple(sorted({t.shape for t in s.scene.things})) for s in drawn(Knobs(), size=800)}
    assert held <= free


@pytest.mark.parametrize(
    ("make", "message", "expected"),
    [
        (lambda: Mixture(two_plain=0.5), "the caption mixture sums to 1.1", "sum to 1"),
        (lambda: Mixture(two_plain=-0.1, both_bound=0.6), "two_plain = -0.1", "between 0 and 1"),
        (lambda: Knobs(p_synonym=1.5), "p_synonym = 1.5", "between 0 and 1"),
        (lambda: Knobs(one_thing=0.7, counted=0.6), "one_thing + counted = 1.3", "at most 1"),
        (
            lambda: Knobs(collision=0.5, mixture=Mixture(0.5, 0.5, 0.0, 0.0, 0.0, 0.0)),
            "collision = 0.5 in a mixture that neither binds nor relates",
            "both_bound or relation",
        ),
        (lambda: Knobs(withheld_pairs=0.6), "more than half of the", "at most 0.5"),
        (
            lambda: Knobs(order="smaller_first"),  # type: ignore[arg-type]
            "order = 'smaller_first'",
            "random, larger_first or listed_first",
        ),
    ],
)
def test_impossible_settings(make: Callable[[], object], message: str, expected: str) -> None:
    with pytest.raises(UnbagError) as caught:
        make()
    assert caught.value.message.startswith(message)
    assert expected in caught.value.expected


KNOBS = {
    "plain": Knobs(withheld_combinations=0.2),
    "collide": Knobs(collision=0.5, withheld_pairs=0.2),
    "relations": Knobs(
        mixture=Mixture(two_plain=0.02, relation=0.40), collision=0.5, order="listed_first"
    ),
    "larger": Knobs(order="larger_first", counted=0.2, negated=0.3, one_thing=0.3),
}


DIGESTS = {
    "default": {
        "plain": "bcab59c3d25cad8e",
        "collide": "5ae5048c6c385e1e",
        "relations": "3434696c5f35c03d",
        "larger": "2b431f5e345788cb",
    },
    "unit": {
        "plain": "674bcdb06813ca19",
        "collide": "692a95837d39927e",
        "relations": "61568e2f9e58e044",
        "larger": "2576a75f29cfac57",
    },
}


@pytest.mark.parametrize("world", DIGESTS)
@pytest.mark.parametrize("knobs", KNOBS)
def test_batches_do_not_change_between_versions(world: str, knobs: str) -> None:
    digest = blake2b(digest_size=8)
    for scene, ast, caption in batch(WORLDS[world], KNOBS[knobs], seed=7, step=0, size=200):
        digest.update(f"{to_json(scene)}|{ast!r}|{caption}\n".encode())
    assert digest.hexdigest() == DIGESTS[world][knobs]
