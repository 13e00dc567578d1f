"""Truth of statements, worked out by hand on small scenes."""

import pytest

from unbag.world.grammar import (
    And,
    Ast,
    Count,
    Has,
    Not,
    Obj,
    Rel,
    fits,
    holds,
    meaning,
    objects_of,
    with_objects,
    with_value,
)
from unbag.world.scenes import Scene, Thing
from unbag.world.vocabulary import Size, Texture


def thing(
    shape: str, colour: str, x: int, y: int, size: Size = "small", texture: Texture = "plain"
) -> Thing:
    return Thing(shape, colour, size, texture, x, y, (200, 40, 40))


RED_CIRCLE = Obj("circle", "red")
BLUE_SQUARE = Obj("square", "blue")
PAIR = Scene((thing("circle", "red", 16, 32), thing("square", "blue", 46, 32, "large")), 1)
TWINS = Scene(
    (
        thing("circle", "red", 12, 12, texture="striped"),
        thing("circle", "red", 50, 12, texture="striped"),
        thing("circle", "red", 30, 50, texture="striped"),
    ),
    2,
)


@pytest.mark.parametrize(
    ("ast", "expected"),
    [
        (RED_CIRCLE, True),
        (Obj("circle", "blue"), False),
        (Obj(None, "blue"), True),
        (Obj("square", size="large"), True),
        (Obj("square", size="small"), False),
        (Obj("circle", texture="striped"), False),
        (Obj(), True),
        (And(RED_CIRCLE, BLUE_SQUARE), True),
        (And(BLUE_SQUARE, RED_CIRCLE), True),
        (And(Obj("circle", "blue"), Obj("square", "red")), False),
        (And(RED_CIRCLE, Obj("circle")), False),
        (And(Obj(), Obj()), True),
        (Rel(RED_CIRCLE, "left of", BLUE_SQUARE), True),
        (Rel(BLUE_SQUARE, "right of", RED_CIRCLE), True),
        (Rel(RED_CIRCLE, "right of", BLUE_SQUARE), False),
        (Rel(BLUE_SQUARE, "left of", RED_CIRCLE), False),
        (Rel(RED_CIRCLE, "above", BLUE_SQUARE), False),
        (Rel(Obj(), "left of", Obj()), True),
        (Count(1, RED_CIRCLE), True),
        (Count(2, RED_CIRCLE), False),
        (Count(2, Obj()), True),
        (Not(Obj("star")), True),
        (Not(Obj("circle")), False),
        (Has(RED_CIRCLE, Not(Obj("circle", "blue"))), True),
        (Has(RED_CIRCLE, Not(BLUE_SQUARE)), False),
        (Has(Obj("star"), Not(Obj("moon"))), False),
    ],
)
def test_truth_in_a_scene_of_two(ast: Ast, expected: bool) -> None:
    assert holds(ast, PAIR) is expected


def test_truth_among_copies() -> None:
    assert holds(Count(3, RED_CIRCLE), TWINS)
    assert not holds(Count(2, RED_CIRCLE), TWINS)
    assert not holds(Count(4, RED_CIRCLE), TWINS)
    assert holds(And(RED_CIRCLE, RED_CIRCLE), TWINS)
    assert holds(Count(3, Obj(texture="striped")), TWINS)


def test_nothing_is_there_in_an_empty_scene() -> None:
    empty = Scene((), 0)
    assert not holds(Obj(), empty)
    assert holds(Not(Obj()), empty)
    assert not holds(And(Obj(), Obj()), empty)


def test_a_description_fits_only_if_every_stated_attribute_does() -> None:
    one = thing("cup", "lime", 20, 20, "large", "dotted")
    full = Obj("cup", "lime", "large", "dotted")
    assert fits(full, one)
    others = {"shape": "key", "colour": "red", "size": "small", "texture": "plain"}
    assert not fits(with_value(full, "shape", others["shape"]), one)
    assert not fits(with_value(full, "colour", others["colour"]), one)
    assert not fits(with_value(full, "size", others["size"]), one)
    assert not fits(with_value(full, "texture", others["texture"]), one)
    assert fits(with_value(with_value(full, "size", None), "colour", None), one)


@pytest.mark.parametrize(
    "ast",
    [
        RED_CIRCLE,
        And(RED_CIRCLE, BLUE_SQUARE),
        Rel(RED_CIRCLE, "on", BLUE_SQUARE),
        Count(3, RED_CIRCLE),
        Not(BLUE_SQUARE),
        Has(RED_CIRCLE, Not(BLUE_SQUARE)),
    ],
)
def test_objects_can_be_taken_out_and_put_back(ast: Ast) -> None:
    objects = objects_of(ast)
    assert with_objects(ast, objects) == ast
    changed = with_objects(ast, tuple(with_value(o, "colour", "lime") for o in objects))
    assert type(changed) is type(ast)
    assert {o.colour for o in objects_of(changed)} == {"lime"}


def test_meaning_ignores_the_order_of_naming_and_nothing_else() -> None:
    assert meaning(And(RED_CIRCLE, BLUE_SQUARE)) == meaning(And(BLUE_SQUARE, RED_CIRCLE))
    left = Rel(RED_CIRCLE, "left of", BLUE_SQUARE)
    assert meaning(left) == meaning(Rel(BLUE_SQUARE, "right of", RED_CIRCLE))
    assert meaning(left) != meaning(Rel(BLUE_SQUARE, "left of", RED_CIRCLE))
    assert meaning(Has(RED_CIRCLE, Not(BLUE_SQUARE))) != meaning(Has(BLUE_SQUARE, Not(RED_CIRCLE)))
