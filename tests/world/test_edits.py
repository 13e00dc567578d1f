"""Edits of captions of the world: known answers by hand, and the truth of every edit."""

from typing import Any

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
    edited = edit(kind, Statement(ast, style), scene, np.random.default_rng(0), world=DEFAULT)
    return edited.text if edited else None


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
        # None: the operator does not apply.
        ("swap_attributes", A, PAIR, None),
        ("swap_attributes", And(Obj("circle"), B), PAIR, None),
        # Two open shapes: the caption with swapped colours means the same.
        ("swap_attributes", And(Obj(None, "red"), Obj(None, "blue")), PAIR, None),
        ("swap_arguments", And(A, B), PAIR, None),
        # One thing is small, the other large: every size is present.
        ("replace_size", Obj("circle", size="small"), PAIR, None),
        ("replace_colour", Obj("circle"), PAIR, None),
        ("replace_colour", Not(Obj("star", "red")), PAIR, None),
        ("replace_count", A, PAIR, None),
        ("negate", Rel(A, "left of", B), PAIR, None),
        ("conjunct_swap", Rel(A, "left of", B), PAIR, None),
        ("inverse", And(A, B), PAIR, None),
        ("digit", And(A, B), PAIR, None),
        ("double_form", Count(3, A), TWINS, None),
        ("synonym_shape", Obj(None, "red"), PAIR, None),
        ("conjunct_swap", And(Obj("circle"), Obj("circle")), TWINS, None),
    ],
)
def test_known_edits(kind: str, ast: Ast, scene: Scene, expected: str | None) -> None:
    assert text_of(kind, ast, scene) == expected


def texts(kind: str, ast: Ast, scene: Scene, n: int, **more: Any) -> set[str]:
    rng = np.random.default_rng(0)
    edited = [edit(kind, Statement(ast), scene, rng, world=UNIT, **more) for _ in range(n)]
    return {statement.text for statement in edited if statement}


def test_replacements_are_drawn_from_the_absent_values() -> None:
    words = {
        word for text in texts("replace_colour", And(A, B), PAIR, 200) for word in text.split()
    }
    # Red and blue stay in the half that is not replaced.
    assert words & set(UNIT.colours) == set(UNIT.colours)
    words = {word for text in texts("replace_colour", A, PAIR, 50) for word in text.split()}
    assert words
    assert not {"red", "blue"} & words
    counts = texts("replace_count", Count(3, A), TWINS, 40)
    assert counts == {"two red circles", "four red circles"}
    assert texts("replace_count", Count(1, A), PAIR, 20) == {"two red circles"}


def test_withheld_combinations_are_never_named() -> None:
    withheld = frozenset({("circle", "blue")})
    assert not texts("swap_attributes", And(A, B), PAIR, 1, withheld=withheld)
    every = frozenset((s, c) for s in UNIT.shapes for c in UNIT.colours if c != "green")
    withheld = every - {("circle", "red"), ("square", "blue")}
    assert texts("replace_colour", And(A, B), PAIR, 60, withheld=withheld) == {
        "a green circle and a blue square",
        "a red circle and a green square",
    }


def test_swaps_keep_rare_words() -> None:
    style = Style(rare=frozenset({(0, "colour"), (1, "shape"), RELATION}))
    statement = Statement(Rel(A, "left of", B), style)
    assert statement.text == "a crimson circle on the left side of a blue box"
    for kind, expected in [
        ("swap_attributes", "a blue circle on the left side of a crimson box"),
        ("swap_arguments", "a blue box on the left side of a crimson circle"),
    ]:
        assert text_of(kind, statement.ast, PAIR, style) == expected


CASES: tuple[tuple[Ast, Scene], ...] = (
    (And(A, B), PAIR),
    (Rel(A, "left of", B), PAIR),
    (Rel(A, "above", Obj("square", "blue", "small", "plain")), STACK),
    (Count(3, A), TWINS),
    (Has(A, Not(Obj("star"))), PAIR),
    (Obj("circle", "red", "small", "plain"), STACK),
)


def test_every_edit_is_checked_against_the_scene() -> None:
    rng = np.random.default_rng(1)
    kinds = (*NEGATIVES, *POSITIVES)
    seen = set()
    for ast, scene in CASES * 20:
        statement = Statement(ast, sample_style(ast, rng, p_synonym=0.3, p_form=0.3))
        for kind in kinds:
            edited = edit(kind, statement, scene, rng, world=DEFAULT)
            if edited is None:
                continue
            seen.add(kind)
            # Training batches use its meaning without parsing the text.
            assert edited.ast == read(edited.text).ast, kind
            assert holds(edited.ast, scene) is (kind in POSITIVES)
            assert edited.text != statement.text
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
