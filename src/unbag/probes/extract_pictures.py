"""A seed comes in; sheets of pictures to read from go out, drawn in balanced sets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unbag.metrics.resample import generator
from unbag.probes.extract_sheets import Deal, Label, Sheet, classes, deals, hands
from unbag.types import Picture
from unbag.world.draw import ScenePicture
from unbag.world.grammar import And, Ast, Count, Has, Not, Obj, Rel
from unbag.world.place import Look, exchange_colours, place_apart, place_copies, place_exchanged
from unbag.world.realise import realise
from unbag.world.scene import Scene, is_clear
from unbag.world.words import DEFAULT, Relation, Size

MOST = 4
"""Copies of one thing where they are counted."""
SIZES: tuple[Size, Size] = ("small", "large")


def picture_sheets(*, seed: int, pictures: int, is_full: bool) -> tuple[Sheet[Picture], ...]:
    """Left/right and binding on the same pictures; in full also above/below, count, presence.

    Each sheet has about as many pictures.
    """
    sets = pictures // 4
    beside = orbit_sheet("left of", sets, seed=seed)
    if not is_full:
        return (beside,)
    above = orbit_sheet("above", sets, seed=seed)
    return (
        beside,
        Sheet(above.given, above.groups, above.labels[:1]),
        count_sheet(sets, seed=seed),
        presence_sheet(pictures // 2, seed=seed),
    )


def orbit_sheet(relation: Relation, sets: int, *, seed: int) -> Sheet[Picture]:
    """Four pictures a set: things exchanged or not, colours exchanged or not.

    Labels: is the thing of the first hand on the left (above); has it the colour of the first.
    """
    dealt = deals(sets, seed=seed, use=relation)
    scenes = [
        scene
        for i, deal in enumerate(dealt)
        for scene in _orbit(deal, relation, generator(seed, "orbit", relation, str(i)))
    ]
    sides = "left/right" if relation == "left of" else "above/below"
    placed = [_places(deal, relation) for deal in dealt for _ in range(4)]
    bound = [_bindings(deal) for deal in dealt for _ in range(4)]
    return Sheet(
        _pictures(scenes, sides),
        tuple(deal.group for deal in dealt for _ in range(4)),
        (
            Label(sides, classes((0, 1, 0, 1), sets), 0.5, tuple(placed)),
            Label(
                "binding",
                classes((0, 0, 1, 1), sets),
                0.5,
                tuple(bound),
            ),
        ),
    )


def count_sheet(sets: int, *, seed: int) -> Sheet[Picture]:
    """One to four copies of one thing, the group.

    Sizes are drawn anew each time, so that the share of coloured pixels alone does not tell.
    """
    every = (*hands(seed).shapes[0], *hands(seed).shapes[1])
    scenes, captions, groups = [], [], []
    for i, deal in enumerate(deals(sets, seed=seed, use="count")):
        shape = every[i % len(every)]
        rng = generator(seed, "count", "scene", str(i))
        for n in range(1, MOST + 1):
            look = Look(shape, deal.colours[0], SIZES[int(rng.integers(2))])
            scenes.append(place_copies(DEFAULT, look, n, rng))
        said = tuple(realise(Count(n, Obj(shape))) for n in range(1, MOST + 1))
        captions += [said] * MOST
        groups += [shape] * MOST
    label = Label("count", classes(range(MOST), sets), 1 / MOST, tuple(captions))
    return Sheet(_pictures(scenes, "count"), tuple(groups), (label,))


def presence_sheet(sets: int, *, seed: int) -> Sheet[Picture]:
    """Two pictures a set: one thing beside what is asked for, and beside something else.

    What is asked for is one shape throughout; the group is the thing beside it.
    """
    target, *rest = (*hands(seed).shapes[0], *hands(seed).shapes[1])
    scenes, captions, groups = [], [], []
    for i, deal in enumerate(deals(sets, seed=seed, use="presence")):
        beside = rest[i % len(rest)]
        rng = generator(seed, "presence", "scene", str(i))
        others = [shape for shape in rest if shape != beside]
        other = others[int(rng.integers(len(others)))]
        for shape in (target, other):
            looks = (Look(beside, deal.colours[0]), Look(shape, deal.colours[1]))
            scenes.append(place_apart(DEFAULT, looks, rng))
        asts: tuple[Ast, Ast] = (
            And(Obj(beside), Obj(target)),
            Has(Obj(beside), Not(Obj(target))),
        )
        captions += [tuple(map(realise, asts))] * 2
        groups += [beside] * 2
    label = Label("presence", classes((0, 1), sets), 1.0, tuple(captions))
    return Sheet(_pictures(scenes, "presence"), tuple(groups), (label,))


def _orbit(deal: Deal, relation: Relation, rng: np.random.Generator) -> Iterator[Scene]:
    while True:
        sizes = [SIZES[at] for at in rng.integers(2, size=2).tolist()]
        a, b = map(Look, deal.shapes, deal.colours, sizes)
        pair = place_exchanged(DEFAULT, a, b, relation, rng)
        scenes = (*pair, *map(exchange_colours, pair))
        if all(map(is_clear, scenes)):
            yield from scenes
            return


def _places(deal: Deal, relation: Relation) -> tuple[str, str]:
    a, b = map(Obj, deal.shapes)
    return realise(Rel(a, relation, b)), realise(Rel(b, relation, a))


def _bindings(deal: Deal) -> tuple[str, str]:
    (a, b), (c, d) = deal.shapes, deal.colours
    return realise(And(Obj(a, c), Obj(b, d))), realise(And(Obj(a, d), Obj(b, c)))


def _pictures(scenes: list[Scene], name: str) -> tuple[ScenePicture, ...]:
    return tuple(ScenePicture(scene, f"extract/{name}/{i}") for i, scene in enumerate(scenes))
