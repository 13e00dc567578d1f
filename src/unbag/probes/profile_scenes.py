"""A seed comes in; questions about scenes go out, so that accuracy can be told apart by cause.

A case is two things in one arrangement, in the opposite one, and with their colours exchanged,
with up to three other things around that no caption names. Each caption is true of one scene of
its case and false of another, and so is its opposite: a scorer that never looks is right in
exactly half of all two-way questions, in every breakdown.

Dimensions: P pictures, C captions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal
from zlib import crc32

import numpy as np

from unbag.types import BoolArray, Item
from unbag.world.draw import ScenePicture
from unbag.world.grammar import And, Ast, Obj, Rel, holds
from unbag.world.items import combination
from unbag.world.knobs import withheld_combinations
from unbag.world.place import Look, exchange_colours, jittered, place_exchanged, sample_look
from unbag.world.realise import realise
from unbag.world.scene import Scene, Thing, is_clear, lie_apart, pair_is_clear
from unbag.world.stream import split_seed
from unbag.world.words import DEFAULT, INVERSE, RELATIONS, Relation, Size

ORDER: tuple[Relation, ...] = tuple(RELATIONS)
FLAT: frozenset[Relation] = frozenset({"left of", "right of", "above", "below"})
FAR = 32
"""Pixels between the centres of two things from which on they are far: half of the canvas."""
BLOCK = 64
"""Cases after which every relation has met each size, distance and number of things equally."""
_TRIES = 60
_SIZES: tuple[Size, Size] = ("small", "large")

Kind = Literal["relation", "binding", "choice"]


@dataclass(frozen=True)
class Case:
    """Two things, and the scenes they are shown in."""

    first: Look
    second: Look
    relation: Relation
    """Of the first to the second in the first scene; the inverse holds in the second."""
    scenes: tuple[Scene, Scene, Scene]
    """As the relation says; with the two things exchanged; as the first with exchanged colours."""
    distance: Literal["near", "far", ""]
    """Empty where things touch or overlap."""


def cases(*, n: int, seed: int = 0) -> Iterator[Case]:
    """`n` cases of the test split, number i the same whatever n is; take multiples of `BLOCK`."""
    for i in range(n):
        rng = np.random.default_rng((split_seed("test", seed), crc32(b"profile"), i))
        turn = i // len(ORDER)
        size, others = turn % 2, (turn // 2) % 4
        is_far = bool((size + others + turn // 8) % 2)
        yield _case(ORDER[i % len(ORDER)], _SIZES[size], others, is_far, rng)


def _case(
    relation: Relation, size: Size, others: int, is_far: bool, rng: np.random.Generator
) -> Case:
    while True:
        a, b = (replace(sample_look(DEFAULT, rng), size=size) for _ in range(2))
        if a.shape == b.shape or a.colour == b.colour:
            continue
        kept, exchanged = place_exchanged(DEFAULT, a, b, relation, rng)
        if relation in FLAT and _is_far(kept) != is_far:
            continue
        around = _around(others, (a, b), (kept, exchanged), rng)
        scenes = [
            replace(scene, things=(*scene.things, *around))
            for scene in (kept, exchanged, exchange_colours(kept))
        ]
        case = Case(a, b, relation, (scenes[0], scenes[1], scenes[2]), _distance(relation, is_far))
        if len(around) == others and _is_right(case):
            return case


def _is_far(scene: Scene) -> bool:
    a, b = scene.things
    return (a.x - b.x) ** 2 + (a.y - b.y) ** 2 >= FAR**2


def _distance(relation: Relation, is_far: bool) -> Literal["near", "far", ""]:
    if relation not in FLAT:
        return ""
    return "far" if is_far else "near"


def _around(
    count: int, named: tuple[Look, Look], scenes: Sequence[Scene], rng: np.random.Generator
) -> tuple[Thing, ...]:
    """Small things of other shapes and colours, apart from all; fewer where there is no room."""
    withheld = withheld_combinations(DEFAULT)
    shapes = [look.shape for look in named]
    colours = [look.colour for look in named]
    radius = DEFAULT.radii["small"]
    found: list[Thing] = []
    for _ in range(_TRIES * count):
        if len(found) == count:
            break
        look = replace(sample_look(DEFAULT, rng), size="small")
        x, y = rng.integers(radius, DEFAULT.pixels - radius, size=2).tolist()
        if look.shape in shapes or look.colour in colours:
            continue
        if (look.shape, look.colour) in withheld:
            continue
        rgb = jittered(look.colour, rng)
        thing = Thing(look.shape, look.colour, "small", look.texture, x, y, rgb)
        lying = [*(other for scene in scenes for other in scene.things), *found]
        if all(_is_apart(other, thing) for other in lying):
            found.append(thing)
            shapes.append(look.shape)
    return tuple(found)


def _is_apart(other: Thing, thing: Thing) -> bool:
    return lie_apart(other, thing, DEFAULT) and pair_is_clear(other, thing, DEFAULT)


def _is_right(case: Case) -> bool:
    """Nothing in doubt, and every caption true of its own scene only."""
    kept, exchanged, recoloured = case.scenes
    of_kept = [holds(ast, kept) for ast in _eight(case)]
    of_exchanged = [holds(ast, exchanged) for ast in _eight(case)]
    own, other = bindings(case)
    return (
        all(map(is_clear, case.scenes))
        and of_kept == [r == case.relation for r in ORDER]
        and of_exchanged == [r == INVERSE[case.relation] for r in ORDER]
        and [holds(ast, scene) for ast in (own, other) for scene in (kept, recoloured)]
        == [True, False, False, True]
    )


def _eight(case: Case) -> list[Rel]:
    """The first thing in every relation to the second."""
    return [Rel(Obj(case.first.shape), r, Obj(case.second.shape)) for r in ORDER]


def bindings(case: Case) -> tuple[And, And]:
    """Both things with their colours, and with each other's."""
    a, b = case.first, case.second
    return (
        And(Obj(a.shape, a.colour), Obj(b.shape, b.colour)),
        And(Obj(a.shape, b.colour), Obj(b.shape, a.colour)),
    )


def questions(case: Case, name: str) -> Iterator[Item]:
    """Four about relations, two about binding, two with all eight relations to choose from.

    The opposite of "a star left of a cup" is "a cup left of a star": the same words, and for each
    the other scene in which it is true.
    """
    pictures = [ScenePicture(s, f"{name}/{at}") for at, s in enumerate(case.scenes)]
    x, y = Obj(case.first.shape), Obj(case.second.shape)
    inverse = INVERSE[case.relation]
    for relation in (case.relation, inverse):
        both = (Rel(x, relation, y), Rel(y, relation, x))
        # The first scene makes the caption with x true of the case's own relation only.
        own, other = both if relation == case.relation else both[::-1]
        yield _two_way(case, name, "relation", pictures[0], (own, other), relation)
        yield _two_way(case, name, "relation", pictures[1], (other, own), relation)
    bound, exchanged = bindings(case)
    axis = "/".join(sorted((case.relation, inverse), key=ORDER.index))
    yield _two_way(case, name, "binding", pictures[0], (bound, exchanged), axis)
    yield _two_way(case, name, "binding", pictures[2], (exchanged, bound), axis)
    for picture, relation in ((pictures[0], case.relation), (pictures[1], inverse)):
        truth_PC = np.array([[r == relation for r in ORDER]])
        yield _item(case, name, "choice", picture, _eight(case), truth_PC, relation)


def _two_way(
    case: Case, name: str, kind: Kind, picture: ScenePicture, said: Sequence[Ast], relation: str
) -> Item:
    return _item(case, name, kind, picture, said, np.array([[True, False]]), relation)


def _item(
    case: Case,
    name: str,
    kind: Kind,
    picture: ScenePicture,
    said: Sequence[Ast],
    truth_PC: BoolArray,
    relation: str,
) -> Item:
    scenes = [replace(s, things=s.things[:2]) for s in case.scenes]
    shown = (scenes[0], scenes[2]) if kind == "binding" else scenes[:1]
    tags = {
        "question": kind,
        "relation": relation,
        "distance": case.distance,
        "size": case.first.size,
        "objects": str(len(case.scenes[0].things)),
        "combination": combination(shown),
    }
    return Item(
        id=f"{picture.name}/{kind}/{relation}",
        pictures=(picture,),
        captions=tuple(map(realise, said)),
        truth=truth_PC,
        group=name,
        tags=tags,
    )


@cache
def profile_items(*, n: int, seed: int = 0) -> tuple[Item, ...]:
    """All questions of `n` cases; made once, since every model is asked the same."""
    return tuple(
        item
        for i, case in enumerate(cases(n=n, seed=seed))
        for item in questions(case, f"profile/{seed}/{i}")
    )
