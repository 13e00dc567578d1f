"""Edits: known answers by hand, and that every edit is what it says it is."""

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.world.edits import NEGATIVES, PARTNER, POSITIVES, edit
from unbag.world.grammar import (
    PLAIN,
    RELATION,
    And,
    Ast,
    Count,
    Has,
    Not,
    Obj,
    Rel,
    Statement,
    Style,
    holds,
    read,
    sample_style,
)
from unbag.world.scenes import Scene, Thing
from unbag.world.vocabulary import DEFAULT, UNIT, Size, Texture


def thing(
    shape: str, colour: str, x: int, y: int, size: Size = "small", texture: Texture = "plain"
) -> Thing:
    return Thing(shape, colour, size, texture, x, y, (200, 40, 40))


A, B = Obj("circle", "red"), Obj("square", "blue")
PAIR = Scene((thing("circle", "red", 16, 32), thing("square", "blue", 46, 32, "large")), 1)
TWINS = Scene(tuple(thing("circle", "red", 12 + 20 * i, 12) for i in range(3)), 2)
STACK = Scene((thing("circle", "red", 32, 14), thing("square", "blue", 32, 50)), 3)


def text_of(kind: str, ast: Ast, scene: Scene, style: Style = PLAIN) -> str | None:
    made = edit(kind, Statement(ast, style), scene, np.random.default_rng(0), world=DEFAULT)
    return made.text if made else None


@pytest.mark.parametrize(
    ("kind", "ast", "scene", "expected"),
    [
        ("swap_attributes", And(A, B), PAIR, "a blue circle and a red square"),
        ("swap_attributes", Rel(A, "left of", B), PAIR, "a blue circle left of a red square"),
        ("swap_arguments", Rel(A, "left of", B), PAIR, "a blue square left of a red circle"),
        ("replace_relation", Rel(A, "above", B), STACK, "a red circle below a blue square"),
        ("negate", And(A, B), PAIR, "a red circle but no blue square"),
        ("negate", Has(A, Not(Obj("star"))), PAIR, "a red circle and a star"),
        ("negate", A, PAIR, "no red circle"),
        ("negate", Not(Obj("star")), PAIR, "a star"),
        ("conjunct_swap", And(A, B), PAIR, "a blue square and a red circle"),
        ("inverse", Rel(A, "left of", B), PAIR, "a blue square right of a red circle"),
        ("synonym_colour", A, PAIR, "a crimson circle"),
        ("synonym_shape", A, PAIR, "a red disc"),
        ("synonym_size", Obj("square", size="large"), PAIR, "a big square"),
        ("synonym_texture", Obj("square", texture="plain"), PAIR, "a solid square"),
        ("relation_synonym", Rel(A, "above", B), STACK, "a red circle over a blue square"),
        ("digit", Count(3, A), TWINS, "3 red circles"),
        ("double_form", And(A, B), PAIR, "there is a red circle and there is a blue square"),
        ("double_form", Has(A, Not(Obj("star"))), PAIR, "a red circle without a star"),
    ],
)
def test_known_edits(kind: str, ast: Ast, scene: Scene, expected: str) -> None:
    assert text_of(kind, ast, scene) == expected


@pytest.mark.parametrize(
    ("kind", "ast", "scene"),
    [
        ("swap_attributes", A, PAIR),
        ("swap_attributes", And(Obj("circle"), B), PAIR),
        # Two open shapes: the swapped colours say the same thing again.
        ("swap_attributes", And(Obj(None, "red"), Obj(None, "blue")), PAIR),
        ("swap_arguments", And(A, B), PAIR),
        # One thing is small, the other large: no size is absent, so none can be put in.
        ("replace_size", Obj("circle", size="small"), PAIR),
        ("replace_colour", Obj("circle"), PAIR),
        ("replace_colour", Not(Obj("star", "red")), PAIR),
        ("replace_count", A, PAIR),
        ("negate", Rel(A, "left of", B), PAIR),
        ("conjunct_swap", Rel(A, "left of", B), PAIR),
        ("inverse", And(A, B), PAIR),
        ("digit", And(A, B), PAIR),
        ("double_form", Count(3, A), TWINS),
        ("synonym_shape", Obj(None, "red"), PAIR),
        ("conjunct_swap", And(Obj("circle"), Obj("circle")), TWINS),
    ],
)
def test_an_operator_that_does_not_apply_gives_nothing(kind: str, ast: Ast, scene: Scene) -> None:
    assert text_of(kind, ast, scene) is None


def test_replaced_values_are_true_of_nothing_in_the_scene() -> None:
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        made = edit("replace_colour", Statement(And(A, B)), PAIR, rng, world=UNIT)
        assert made is not None
        seen |= set(made.text.split()) & set(UNIT.colours)
    assert seen == set(UNIT.colours)  # red and blue stay in the half that is not replaced
    for _ in range(50):
        made = edit("replace_colour", Statement(A), PAIR, rng, world=UNIT)
        assert made is not None
        assert not {"red", "blue"} & set(made.text.split())


def test_replaced_counts_are_neighbours_within_range() -> None:
    rng = np.random.default_rng(0)
    made = {
        edit("replace_count", Statement(Count(3, A)), TWINS, rng, world=UNIT) for _ in range(40)
    }
    assert {m.text for m in made if m} == {"two red circles", "four red circles"}
    one = {edit("replace_count", Statement(Count(1, A)), PAIR, rng, world=UNIT) for _ in range(20)}
    assert {m.text for m in one if m} == {"two red circles"}


def test_swaps_keep_the_words_rare_ones_too() -> None:
    style = Style(rare=frozenset({(0, "colour"), (1, "shape"), RELATION}))
    said = Statement(Rel(A, "left of", B), style)
    assert said.text == "a crimson circle on the left side of a blue box"
    for kind, expected in [
        ("swap_attributes", "a blue circle on the left side of a crimson box"),
        ("swap_arguments", "a blue box on the left side of a crimson circle"),
    ]:
        assert text_of(kind, said.ast, PAIR, style) == expected


def test_withheld_combinations_are_never_named() -> None:
    said = Statement(And(A, B))
    rng = np.random.default_rng(0)
    withheld = frozenset({("circle", "blue")})
    assert edit("swap_attributes", said, PAIR, rng, world=UNIT, withheld=withheld) is None
    many = frozenset((s, c) for s in UNIT.shapes for c in UNIT.colours if c != "green")
    kept = many - {("circle", "red"), ("square", "blue")}
    made = [edit("replace_colour", said, PAIR, rng, world=UNIT, withheld=kept) for _ in range(60)]
    assert {m.text for m in made if m} == {
        "a green circle and a blue square",
        "a red circle and a green square",
    }


CASES: tuple[tuple[Ast, Scene], ...] = (
    (And(A, B), PAIR),
    (Rel(A, "left of", B), PAIR),
    (Rel(A, "above", Obj("square", "blue", "small", "plain")), STACK),
    (Count(3, A), TWINS),
    (Has(A, Not(Obj("star"))), PAIR),
    (Obj("circle", "red", "small", "plain"), STACK),
)


def test_every_edit_is_what_it_says() -> None:
    rng = np.random.default_rng(1)
    kinds = (*NEGATIVES, *POSITIVES)
    seen = set()
    for ast, scene in CASES * 20:
        said = Statement(ast, sample_style(ast, rng, p_synonym=0.3, p_form=0.3))
        for kind in kinds:
            made = edit(kind, said, scene, rng, world=DEFAULT)
            if made is None:
                continue
            seen.add(kind)
            # Batches of training take its meaning as it is made, and read no text again.
            assert made.ast == read(made.text).ast, kind
            assert holds(made.ast, scene) is (kind in POSITIVES)
            assert made.text != said.text
    assert seen == set(kinds)


def test_every_negative_has_a_positive_of_its_family() -> None:
    assert set(PARTNER) == set(NEGATIVES)
    assert set(PARTNER.values()) == set(POSITIVES)
    assert PARTNER["swap_attributes"] == "conjunct_swap"
    assert PARTNER["replace_relation"] == "relation_synonym"
    assert PARTNER["negate"] == "double_form"


def test_an_unknown_kind_offers_the_nearest() -> None:
    with pytest.raises(UnbagError, match="unknown edit 'swap_atributes'") as caught:
        text_of("swap_atributes", A, PAIR)
    assert "swap_attributes" in caught.value.expected
