"""From a seed to 2 x 2 tests without a leak: two scenes, each with two captions of its own.

Every caption is an original, a hard positive and a hard negative equally often, so that a scorer
that never looks at the picture ranks originals above negatives in exactly half of all cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from zlib import crc32

import numpy as np
from numpy.random import Generator

from unbag.errors import unknown_name
from unbag.world.edits import PARTNER
from unbag.world.families import FAMILIES, Draft, Start, placed
from unbag.world.grammar import Obj, Rel, holds
from unbag.world.place import Look, exchange_colours, sample_look
from unbag.world.realise import Statement
from unbag.world.scene import Scene, is_clear
from unbag.world.words import Relation, World

Accept: TypeAlias = Callable[[Look, Look], bool]
"""Whether two looks may be shown together; asked of every scene of two things."""
FLAT: tuple[Relation, ...] = ("left of", "right of", "above", "below")


@dataclass(frozen=True)
class Quad:
    """Two scenes and four captions: two true in the first only, two in the second only."""

    family: str
    scenes: tuple[Scene, Scene]
    captions: tuple[tuple[str, str], tuple[str, str]]
    """Those of the first scene, those of the second; equal places have the same form."""
    negative: str
    """Kind of edit that leads from a caption to the one of the same form in the other scene."""
    positive: str
    """Kind of edit that leads from a caption to the other one of its scene."""
    relation: Relation | None = None
    """What is asked about, in the relation families."""


@dataclass(frozen=True)
class Triple:
    """A caption, a false one and another true one, of one scene."""

    scene: Scene
    caption: str
    negative: str
    positive: str
    order: Literal["kept", "reversed"]
    """Whether the negative has the form of the caption or that of the positive."""


@dataclass(frozen=True)
class Orbit:
    """Four scenes and four captions of exactly the same words, caption i true in scene i only."""

    scenes: tuple[Scene, Scene, Scene, Scene]
    captions: tuple[str, str, str, str]
    relation: Relation


def triples(quad: Quad) -> tuple[Triple, ...]:
    """All eight: each true caption of each scene against each false one."""
    return tuple(
        Triple(
            quad.scenes[side],
            quad.captions[side][own],
            quad.captions[1 - side][other],
            quad.captions[side][1 - own],
            "kept" if own == other else "reversed",
        )
        for side in (0, 1)
        for own in (0, 1)
        for other in (0, 1)
    )


def quads(
    family: str,
    world: World,
    *,
    n: int,
    seed: int,
    relations: Sequence[Relation] = FLAT,
    accept: Accept | None = None,
) -> tuple[Quad, ...]:
    """`n` quads, number i the same whatever n is; relations take turns, so they are balanced."""
    found = []
    for i in range(n):
        rng = np.random.default_rng((seed, crc32(family.encode()), i))
        relation = relations[i % len(relations)]
        found.append(quad(family, world, rng, relation=relation, accept=accept))
    return tuple(found)


def quad(
    family: str,
    world: World,
    rng: Generator,
    *,
    relation: Relation = "left of",
    accept: Accept | None = None,
) -> Quad:
    """One quad of a family, every caption checked against both scenes."""
    if family not in FAMILIES:
        raise unknown_name(
            "quad family", family, FAMILIES, way_out="see unbag.world.quads.FAMILIES"
        )
    kind, build = FAMILIES[family]
    says_relation = kind in ("swap_arguments", "replace_relation")
    for looks in _pairs_of_looks(world, rng, accept):
        draft = build(Start(world, rng, *looks, relation))
        if _is_right(draft, accept):
            captions = tuple(s.text for s in draft.first), tuple(s.text for s in draft.second)
            return Quad(
                family,
                draft.scenes,
                ((captions[0][0], captions[0][1]), (captions[1][0], captions[1][1])),
                negative=kind,
                positive=PARTNER[kind],
                relation=relation if says_relation else None,
            )
    raise AssertionError("looks never run out")


def orbit(
    world: World, rng: Generator, *, relation: Relation = "left of", accept: Accept | None = None
) -> Orbit:
    """Colours exchanged or not x things exchanged or not, in the scene and in the caption alike."""
    for a, b in _pairs_of_looks(world, rng, accept):
        pair = placed(Start(world, rng, a, b, relation))
        scenes = (*pair, *map(exchange_colours, pair))
        x, y = Obj(a.shape, a.colour), Obj(b.shape, b.colour)
        u, v = Obj(a.shape, b.colour), Obj(b.shape, a.colour)
        asts = [Rel(p, relation, q) for p, q in ((x, y), (y, x), (u, v), (v, u))]
        exact = [[holds(ast, scene) for ast in asts] for scene in scenes]
        if exact == np.eye(4, dtype=bool).tolist() and all(map(is_clear, scenes)):
            texts = [Statement(ast).text for ast in asts]
            return Orbit(
                (scenes[0], scenes[1], scenes[2], scenes[3]),
                (texts[0], texts[1], texts[2], texts[3]),
                relation,
            )
    raise AssertionError("looks never run out")


def _pairs_of_looks(
    world: World, rng: Generator, accept: Accept | None
) -> Iterator[tuple[Look, Look]]:
    while True:
        a, b = sample_look(world, rng), sample_look(world, rng)
        if a.shape != b.shape and a.colour != b.colour and (accept is None or accept(a, b)):
            yield a, b


def _is_right(draft: Draft, accept: Accept | None) -> bool:
    first, second = draft.scenes
    for scene in draft.scenes:
        looks = [Look(t.shape, t.colour, t.size, t.texture) for t in scene.things]
        if not is_clear(scene) or (accept and len(looks) == 2 and not accept(looks[0], looks[1])):
            return False
    texts = {said.text for said in (*draft.first, *draft.second)}
    return (
        len(texts) == 4
        and all(holds(s.ast, first) and not holds(s.ast, second) for s in draft.first)
        and all(holds(s.ast, second) and not holds(s.ast, first) for s in draft.second)
    )
