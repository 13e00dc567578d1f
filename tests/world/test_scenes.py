"""Relations by hand at their margins, unambiguous scenes, and records."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.world.scenes import (
    Scene,
    Thing,
    counts,
    is_clear,
    margins,
    relations,
    scene_key,
    to_json,
)
from unbag.world.vocabulary import COLOURS, DEFAULT, INVERSE, UNIT, Relation, Size, Texture


def thing(
    shape: str,
    x: int,
    y: int,
    *,
    colour: str = "red",
    size: Size = "large",
    texture: Texture = "plain",
) -> Thing:
    return Thing(shape, colour, size, texture, x, y, COLOURS[colour][1])


def of_first(scene: Scene) -> set[Relation]:
    return {relation for i, relation, _ in relations(scene) if i == 0}


def two(a: Thing, b: Thing) -> Scene:
    return Scene((a, b), 0)


@pytest.mark.parametrize(
    ("dx", "dy", "expected", "clear"),
    [
        # 0.25 W = 16 and 0.15 W = 9.6 on a canvas of 64; the band is 2 pixels.
        (24, 0, {"left of"}, True),
        (-24, 0, {"right of"}, True),
        (24, 7, {"left of"}, True),
        (24, -9, {"left of"}, False),
        (24, 10, set(), False),
        (24, 12, set(), True),
        (0, 24, {"above"}, False),
        (0, 25, {"above"}, True),
        (0, -25, {"below"}, True),
        (9, 25, {"above"}, False),
        (10, 25, set(), False),
        (12, 25, set(), True),
        (25, 25, set(), True),
    ],
)
def test_margins_between_two_large_circles(
    dx: int, dy: int, expected: set[Relation], clear: bool
) -> None:
    scene = two(thing("circle", 31, 31), thing("circle", 31 + dx, 31 + dy, colour="blue"))
    things = (replace(t, x=t.x - dx // 2, y=t.y - dy // 2) for t in scene.things)
    moved = two(*things)
    assert of_first(moved) == expected
    assert is_clear(moved) is clear


@pytest.mark.parametrize(
    ("gap", "expected", "clear"),
    [
        (0, {"on"}, True),
        (1, {"on"}, False),
        (2, {"above"}, False),
        (3, {"above"}, False),
        (4, {"above"}, True),
    ],
)
def test_on_is_not_above_and_needs_touch(gap: int, expected: set[Relation], clear: bool) -> None:
    # A large circle reaches 10 rows up and down, so circles with no row between are 21 apart.
    scene = two(thing("circle", 31, 15), thing("circle", 31, 36 + gap, colour="blue"))
    assert of_first(scene) == expected
    assert is_clear(scene) is clear


@pytest.mark.parametrize(
    ("dx", "expected"), [(0, {"on"}), (10, {"on"}), (11, set()), (-10, {"on"}), (-11, set())]
)
def test_on_needs_half_of_the_smaller_below_it(dx: int, expected: set[Relation]) -> None:
    # Circles are 21 pixels wide: moved by 10 they share 11 columns, by 11 only 10.
    scene = two(thing("circle", 31, 15), thing("circle", 31 + dx, 36, colour="blue"))
    assert of_first(scene) == expected


def squares(dx: int, dy: int, *, size: Size = "large", colour: str = "blue") -> Scene:
    return two(thing("square", 31, 31), thing("square", 31 + dx, 31 + dy, size=size, colour=colour))


def test_depth_needs_overlap_drop_order_and_equal_size() -> None:
    # A large square is 19 x 19: at (10, 5) the two share 9 x 14 = 126 of 361 pixels, 35 %.
    assert of_first(squares(10, 5)) == {"behind"}
    assert is_clear(squares(10, 5))
    assert of_first(squares(10, 3)) == set()
    assert of_first(squares(10, 7)) == set()
    # 12 x 14 = 168 (47 %) and 13 x 14 = 182 (50.4 %); 4 x 14 = 56 (15.5 %) and 3 x 14 (11.6 %).
    assert of_first(squares(7, 5)) == {"behind"}
    assert of_first(squares(6, 5)) == set()
    assert of_first(squares(15, 5)) == {"behind"}
    assert of_first(squares(16, 5)) == {"left of"}
    # The lower one must be drawn last, and both be of one size.
    assert of_first(Scene(squares(10, 5).things[::-1], 0)) == set()
    assert of_first(squares(8, 5, size="small")) == set()


def test_unclear_overlaps_and_edges() -> None:
    assert not is_clear(squares(10, 3))
    assert not is_clear(squares(6, 5))
    assert not is_clear(squares(10, 5, colour="red"))
    assert is_clear(Scene((thing("circle", 10, 10),), 0))
    assert not is_clear(Scene((thing("circle", 9, 10),), 0))
    assert not is_clear(Scene((thing("circle", 10, 54),), 0))


def test_copies_need_only_lie_apart() -> None:
    near_margin = two(thing("circle", 20, 20), thing("circle", 43, 29))
    assert is_clear(near_margin)
    assert not is_clear(two(near_margin.things[0], thing("circle", 43, 29, colour="blue")))
    assert not is_clear(two(thing("circle", 20, 20), thing("circle", 41, 20)))
    assert is_clear(two(thing("circle", 20, 20), thing("circle", 42, 20)))


def test_relations_hold_in_both_directions() -> None:
    things = (thing("star", 10, 12), thing("key", 50, 12, colour="lime"), thing("moon", 10, 50))
    found = relations(Scene(things, 3))
    assert found == {(0, "left of", 1), (1, "right of", 0), (0, "above", 2), (2, "below", 0)}
    assert all((j, INVERSE[relation], i) in found for i, relation, j in found)
    three = (thing("star", 9, 9), thing("star", 40, 9), thing("star", 9, 50, colour="blue"))
    assert counts(Scene(three, 0)) == {("star", "red"): 2, ("star", "blue"): 1}


def test_margins_tighten_and_loosen() -> None:
    exact, tight, loose = (margins(64, slack) for slack in (0, 1, -1))
    assert (exact.far, tight.far, loose.far) == (16, 18, 14)
    assert exact.side == pytest.approx(9.6)
    assert tight.side < exact.side < loose.side
    assert (margins(32).far, margins(32, 1).far) == (8, 9)


def things_of(world_name: str) -> st.SearchStrategy[Thing]:
    world = DEFAULT if world_name == "default" else UNIT
    inside = st.integers(10, world.pixels - 11)
    level = st.integers(0, 255)
    return st.builds(
        Thing,
        shape=st.sampled_from(world.shapes),
        colour=st.sampled_from(world.colours),
        size=st.sampled_from(("small", "large")),
        texture=st.sampled_from(("plain", "striped", "dotted", "checkered")),
        x=inside,
        y=inside,
        rgb=st.tuples(level, level, level),
    )


SCENES = st.sampled_from(("default", "unit")).flatmap(
    lambda name: st.builds(
        Scene,
        st.lists(things_of(name), max_size=5).map(tuple),
        st.integers(0, 2**63 - 1),
        st.just(name),
    )
)


@given(SCENES, SCENES)
def test_keys_differ_where_scenes_do(a: Scene, b: Scene) -> None:
    assert (scene_key(a) == scene_key(b)) is (a == b)
    assert "\n" not in to_json(a)


def test_the_record_of_a_scene() -> None:
    record = json.loads(to_json(squares(10, 5)))
    assert record["relations"] == [[0, "behind", 1], [1, "in front of", 0]]
    assert record["counts"] == [["square", "blue", 1], ["square", "red", 1]]
    assert (record["renderer"], record["noise_seed"], record["world"]) == (1, 0, "default")
