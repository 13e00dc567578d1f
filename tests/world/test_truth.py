"""The vectorised truth equals the plain one in every cell, on numpy and on torch."""

from collections import Counter

import numpy as np
import torch
from numpy.random import Generator

from unbag.world.grammar import And, Ast, Count, Has, Not, Obj, Rel, holds
from unbag.world.scenes import Scene, Thing
from unbag.world.truth import (
    CaptionCodes,
    SceneCodes,
    encode_scenes,
    encode_texts,
    holds_codes,
    holds_matrix,
)
from unbag.world.vocabulary import RELATIONS, Relation, Size, Texture

SHAPES = ["circle", "square", "robot"]
COLOURS = ["red", "blue", "lime"]
SIZES: list[Size] = ["small", "large"]
TEXTURES: list[Texture] = ["plain", "checkered"]
NAMES: list[Relation] = list(RELATIONS)


def random_scene(rng: Generator) -> Scene:
    """Any scene, with overlaps too: truth must agree on scenes that no sampler makes."""
    number = int(rng.integers(0, 6))
    x_T, y_T = rng.integers(12, 52, size=(2, 5))
    things = [
        Thing(
            SHAPES[rng.integers(3)],
            COLOURS[rng.integers(3)],
            SIZES[rng.integers(2)],
            TEXTURES[rng.integers(2)],
            int(x_T[t]),
            int(y_T[t]),
            (200, 40, 40),
        )
        for t in range(number)
    ]
    return Scene(tuple(things), 0)


def random_obj(rng: Generator) -> Obj:
    return Obj(
        SHAPES[rng.integers(3)] if rng.random() < 0.6 else None,
        COLOURS[rng.integers(3)] if rng.random() < 0.4 else None,
        SIZES[rng.integers(2)] if rng.random() < 0.15 else None,
        TEXTURES[rng.integers(2)] if rng.random() < 0.15 else None,
    )


def random_ast(rng: Generator) -> Ast:
    a, b = random_obj(rng), random_obj(rng)
    kinds: list[Ast] = [
        a,
        And(a, b),
        And(a, a),
        Rel(a, NAMES[rng.integers(8)], b),
        Count(int(rng.integers(1, 6)), a),
        Not(a),
        Has(a, Not(b)),
    ]
    return kinds[rng.integers(len(kinds))]


def test_every_cell_equals_holds_on_numpy_and_torch() -> None:
    rng = np.random.default_rng(5)
    scenes = [random_scene(rng) for _ in range(150)]
    captions = [random_ast(rng) for _ in range(200)]
    expected = np.array([[holds(ast, scene) for ast in captions] for scene in scenes])
    found = holds_matrix(captions, scenes)
    assert found.dtype == np.bool_
    assert found.shape == (150, 200)
    np.testing.assert_array_equal(found, expected)
    caption_codes, scene_codes = encode_texts(captions), encode_scenes(scenes)
    on_torch = holds_codes(
        CaptionCodes(*map(torch.from_numpy, vars(caption_codes).values())),
        SceneCodes(*map(torch.from_numpy, vars(scene_codes).values())),
    )
    np.testing.assert_array_equal(on_torch.numpy(), expected)
    # Each kind must occur both true and false, or the comparison shows nothing.
    seen = Counter(
        (type(ast).__name__, bool(cell))
        for row in expected
        for ast, cell in zip(captions, row, strict=True)
    )
    assert len(seen) == 12
    assert min(seen.values()) > 50


def test_every_relation_can_be_true() -> None:
    scenes = [random_scene(np.random.default_rng(seed)) for seed in range(400)]
    asts = [Rel(Obj(), name, Obj()) for name in NAMES]
    assert holds_matrix(asts, scenes).any(axis=0).all()


def test_two_different_things_are_needed() -> None:
    circle = Scene((Thing("circle", "red", "small", "plain", 30, 30, (200, 40, 40)),), 0)
    asts: list[Ast] = [And(Obj("circle"), Obj(None, "red")), And(Obj(), Obj()), Obj("circle")]
    assert holds_matrix(asts, [circle]).tolist() == [[False, False, True]]


def test_empty_matrices() -> None:
    assert holds_matrix([], [Scene((), 0)]).shape == (1, 0)
    assert holds_matrix([Obj()], []).shape == (0, 1)
