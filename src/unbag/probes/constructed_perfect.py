"""Scenes and captions of the world come in; vectors in which truth is a cosine go out.

A picture is the sum of directions of all that is true of it; what is left of its length points
where its things lie, so that different scenes differ. A caption is the sum of directions of what it
says, so measured that every true caption has exactly the same cosine with every picture, and a
false one a lower cosine, by the share of it that is false (up to chance for relations and numbers:
they are too many for a coordinate each, so that their directions are drawn). A denial points away
from what it denies. A text that says nothing in the world's grammar is at right angles to all
pictures.

Limits: a sum of facts knows no "another": "a star and a star" is true of one star. A thing with
three or more attributes is looked up by every two of them, so that denying one loses where half of
it is there; it still beats a false denial. A number or a relation is tied to shape and colour only.
In crowded scenes (three different things, or four copies) all cosines shrink together.

Dimensions: D joint space, S things that are so, F facts whose directions are drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations, product

import numpy as np

from unbag.errors import UserError
from unbag.probes.constructed_base import ConstructedSpace, scene_behind, signs
from unbag.types import FloatArray, Picture
from unbag.world.grammar import (
    ATTRIBUTES,
    And,
    Ast,
    Attribute,
    Count,
    Has,
    Not,
    Obj,
    Rel,
    meaning,
)
from unbag.world.parse import parse
from unbag.world.scene import Scene, Thing, relations
from unbag.world.words import COLOURS, INVERSE, NOUNS, SIZES, TEXTURES, WORLDS, Relation

DRAWN, OWN = 1_024, 256
"""Directions of relations, numbers and places; directions that one picture or caption has alone."""
ROOM = 64.0
"""Squared length that facts of a scene may have together before they are shrunk."""
SHARE = 0.9
"""Of the squared length of a picture that facts may take."""
STEP = (SHARE / ROOM) ** 0.5
"""Length of a fact of weight 1 in a picture."""
TRUE = 0.6 * STEP
"""Cosine of a picture with any caption that is true of it."""
SOMETHING = "something is there"
_FORWARD: tuple[Relation, ...] = ("left of", "above", "on", "in front of")
_MENTIONS: tuple[tuple[Attribute, ...], ...] = (
    (),
    ("shape",),
    ("colour",),
    ("shape", "colour"),
)
"""What a number or a relation is tied to."""
_NONE = np.zeros(OWN)


@cache
def _place_of() -> dict[str, int]:
    """What a thing can be, one attribute or two: few enough for a coordinate each."""
    shapes = [noun.name for noun in NOUNS]
    names: Sequence[Iterable[str]] = (shapes, COLOURS, SIZES, TEXTURES)
    every = zip(ATTRIBUTES, names, strict=True)
    values = [[f"{attribute} {name}" for name in some] for attribute, some in every]
    facts = [SOMETHING, *(_is((one,)) for some in values for one in some)]
    facts += [_is(two) for some in combinations(values, 2) for two in product(*some)]
    return {fact: place for place, fact in enumerate(facts)}


def perfect_space() -> ConstructedSpace:
    """As perfect on the world as a cosine can be."""
    return ConstructedSpace("perfect space", "constructed:perfect/1", _picture, _caption)


def _picture(picture: Picture) -> FloatArray:
    scene = scene_behind(picture)
    if scene is None:
        return _joined(_sum({}), picture=signs(f"picture {picture.key}", OWN))
    facts = facts_of(scene)
    room = max(ROOM, sum(_weight(fact) ** 2 for fact in facts))
    step = (SHARE / room) ** 0.5
    fact_D = _sum({fact: step * _weight(fact) for fact in facts}, is_exact=True)
    rest = max(1 - float(fact_D @ fact_D), 0.0) ** 0.5
    where = sorted((t.shape, t.colour, t.size, t.texture, t.x, t.y) for t in scene.things)
    return _joined(fact_D, picture=rest * signs(f"scene {where}", OWN))


def _caption(text: str) -> FloatArray:
    try:
        ast = meaning(parse(text))
    except UserError:
        return _joined(_sum({}), caption=signs(f"text {text}", OWN))
    wanted = {fact: TRUE * share / (STEP * _weight(fact)) for fact, share in claims(ast).items()}
    fact_D = _sum(wanted)
    rest = max(1 - float(fact_D @ fact_D), 0.0) ** 0.5
    own_D = rest * signs(f"meaning {ast}", OWN)
    # Apart from what says yes, so that a denial is nearer to nothing than to what it denies.
    is_denial = isinstance(ast, Not | Has)
    return _joined(fact_D, denial=own_D) if is_denial else _joined(fact_D, caption=own_D)


def facts_of(scene: Scene) -> list[str]:
    """Everything that captions ask about, and where each shape lies, in an order of its own."""
    things = scene.things
    found = {SOMETHING} if things else set()
    for thing in things:
        said = _values(thing, ATTRIBUTES)
        found |= {_is(some) for n in (1, 2) for some in combinations(said, n)}
        found.add(_place(thing, scene))
    counts = Counter(_values(thing, mention) for thing in things for mention in _MENTIONS)
    found |= {_count(n, said) for said, n in counts.items()}
    for i, relation, j in relations(scene):
        if relation in _FORWARD:
            both = product(*([_values(things[k], m) for m in _MENTIONS] for k in (i, j)))
            found |= {_related(a, relation, b) for a, b in both}
    return sorted(found)


def claims(ast: Ast) -> dict[str, float]:
    """Facts that a caption names with the share of each: they sum to 1 where all are true.

    A denied fact counts against it by more than the rest counts for it.
    """
    match ast:
        case Obj():
            said = _values(ast, ATTRIBUTES)
            facts = [_is(two) for two in combinations(said, 2)] or [_is((one,)) for one in said]
            return {fact: 1 / len(facts) for fact in facts} or {SOMETHING: 1.0}
        case And(first, second):
            return _mixed((0.5, claims(first)), (0.5, claims(second)))
        case Rel(first, relation, second):
            a, b = (_values(obj, ("shape", "colour")) for obj in (first, second))
            is_forward = relation in _FORWARD
            fact = _related(a, relation, b) if is_forward else _related(b, INVERSE[relation], a)
            things = (0.25, claims(first)), (0.25, claims(second))
            return _mixed((0.5, {fact: 1.0}), *things)
        case Count(n, obj):
            fact = _count(n, _values(obj, ("shape", "colour")))
            return _mixed((0.5, {fact: 1.0}), (0.5, claims(obj)))
        case Not(obj):
            return _mixed((1.0, {SOMETHING: 1.0}), (-1.5, claims(obj)))
        case Has(present, Not(absent)):
            there = (0.5, claims(present)), (0.5, {SOMETHING: 1.0})
            return _mixed(*there, (-1.0, claims(absent)))


def _values(of: Thing | Obj, attributes: tuple[Attribute, ...]) -> tuple[str, ...]:
    """What is known of it, in one order."""
    known = ((name, getattr(of, name)) for name in attributes)
    return tuple(f"{name} {value}" for name, value in known if value is not None)


def _is(said: tuple[str, ...]) -> str:
    return f"is {' and '.join(said)}"


def _count(n: int, said: tuple[str, ...]) -> str:
    return f"exactly {n}: {' and '.join(said)}"


def _related(first: tuple[str, ...], relation: Relation, second: tuple[str, ...]) -> str:
    return f"{' and '.join(first)} | {relation} | {' and '.join(second)}"


def _place(thing: Thing, scene: Scene) -> str:
    """Which ninth of the canvas its shape lies in."""
    pixels = WORLDS[scene.world].pixels
    return f"lies {thing.shape} {3 * thing.x // pixels} {3 * thing.y // pixels}"


def _weight(fact: str) -> float:
    """What a thing is and where it lies count for more than what else is true of it."""
    is_shape = fact.startswith("is shape") and " and " not in fact
    return 2.0 if is_shape or fact.startswith("lies ") or fact == SOMETHING else 1.0


def _mixed(*parts: tuple[float, dict[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for factor, part in parts:
        for fact, share in part.items():
            found[fact] = found.get(fact, 0.0) + factor * share
    return found


def _sum(weights: dict[str, float], *, is_exact: bool = False) -> FloatArray:
    """Coordinates of what is so, and beside them the sum of drawn directions.

    These are not quite at right angles. If it shall be exact, the sum has precisely these products
    with the directions that are in it.
    """
    so_S = np.zeros(len(_place_of()))
    drawn = {fact: weight for fact, weight in weights.items() if fact not in _place_of()}
    for fact in weights.keys() - drawn.keys():
        so_S[_place_of()[fact]] = weights[fact]
    direction_FD = np.array([signs(fact, DRAWN) for fact in drawn]).reshape(-1, DRAWN)
    weight_F = np.array(list(drawn.values()))
    if is_exact:
        weight_F = np.linalg.solve(direction_FD @ direction_FD.T, weight_F)
    return np.concatenate([so_S, weight_F @ direction_FD])


def _joined(
    fact_D: FloatArray,
    *,
    picture: FloatArray = _NONE,
    caption: FloatArray = _NONE,
    denial: FloatArray = _NONE,
) -> FloatArray:
    """Side by side: what only one picture or caption has meets nothing of another kind."""
    return np.concatenate([fact_D, picture, caption, denial])
