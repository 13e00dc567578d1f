"""From two looks and a relation to pairs of places between which the two can be exchanged."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import ceil, floor
from typing import TYPE_CHECKING, TypeAlias

from unbag.errors import UserError
from unbag.world.scene import Thing, margins, pair_is_clear, pair_relations, share_is_right
from unbag.world.shapes import outline
from unbag.world.words import INVERSE, WORLDS, Relation, Size, World

if TYPE_CHECKING:
    import numpy as np

    from unbag.world.place import Look

Place: TypeAlias = tuple[int, int]
Slots: TypeAlias = tuple[Place, Place]
"""Where the first and the second thing lie."""

AIR = 2
"""Empty pixels kept between the boxes of two things side by side."""
_FIRST_OF_TWO: tuple[Relation, ...] = ("left of", "above", "on", "in front of")


def slots_for(
    world: World, first: Look, second: Look, relation: Relation, rng: np.random.Generator
) -> tuple[Slots, Slots]:
    """Places of (first, second) for the relation, and those for its inverse."""
    if relation not in _FIRST_OF_TWO:
        exchanged, kept = slots_for(world, first, second, INVERSE[relation], rng)
        return kept, exchanged
    if relation == "on":
        return _stacked(world, first, second, rng)
    if relation == "in front of":
        return _overlapping(world, first, second, rng)
    a, b = _in_line(world, first, second, relation, rng)
    return (a, b), (b, a)


def _in_line(
    world: World, first: Look, second: Look, relation: Relation, rng: np.random.Generator
) -> Slots:
    """Two places side by side or one above the other, roomy enough for either thing."""
    tight = margins(world.pixels, 1)
    radius = max(world.radii[first.size], world.radii[second.size])
    air = AIR if relation == "left of" else tight.apart
    last = world.pixels - 1
    u = rng.random(4).tolist()
    along = pick(u[0], max(ceil(tight.far), 2 * radius + 1 + air), last - 2 * radius)
    across = pick(u[1], -floor(tight.side), floor(tight.side))
    start = pick(u[2], radius, last - radius - along)
    side = pick(u[3], radius + max(0, -across), last - radius - max(0, across))
    if relation == "left of":
        return (start, side), (start + along, side + across)
    return (side, start), (side + across, start + along)


def _stacked(
    world: World, first: Look, second: Look, rng: np.random.Generator
) -> tuple[Slots, Slots]:
    """The first on the second, and the second on the first, meeting at the same row."""
    radius = max(world.radii[first.size], world.radii[second.size])
    a = outline(first.shape, world.radii[first.size])
    b = outline(second.shape, world.radii[second.size])
    last = world.pixels - 1
    u = rng.random(3).tolist()
    floor_row = pick(u[0], 2 * radius + 1, last - 2 * radius)
    x = pick(u[1], radius + 1, last - 1 - radius)
    shifted = x + pick(u[2], -1, 1)
    return (
        ((x, floor_row - 1 - a.bottom), (shifted, floor_row - b.top)),
        ((shifted, floor_row - a.top), (x, floor_row - 1 - b.bottom)),
    )


def _overlapping(
    world: World, first: Look, second: Look, rng: np.random.Generator
) -> tuple[Slots, Slots]:
    """The first in front of the second, and the second in front of the first, in its place."""
    if first.size != second.size or first.colour == second.colour:
        raise UserError(
            f"a {first.size} {first.colour} thing in front of a {second.size} {second.colour} one",
            expected="one size and two colours: else depth cannot be seen",
            way_out="choose looks of the same size and of different colours",
        )
    steps = depth_steps(world.name, first.shape, second.shape, first.size)
    radius, last = world.radii[first.size], world.pixels - 1
    u = rng.random(3).tolist()
    kept, exchanged = steps[int(u[0] * len(steps))]
    left, right = min(kept[0], exchanged[0], 0), max(kept[0], exchanged[0], 0)
    x = pick(u[1], radius - left, last - radius - right)
    y = pick(u[2], radius, last - radius - max(kept[1], exchanged[1]))
    behind = (x, y)
    return (
        ((x + kept[0], y + kept[1]), behind),
        (behind, (x + exchanged[0], y + exchanged[1])),
    )


@cache
def depth_steps(world: str, first: str, second: str, size: Size) -> tuple[Slots, ...]:
    """Steps from the place behind to the one in front: with the first in front, and the second.

    The two are the same step wherever one step shows depth both ways round. A few pairs of odd
    outlines have no such step; for these, the two that differ least.
    """
    ours = _clear_steps(world, second, first, size)
    theirs = _clear_steps(world, first, second, size)
    if common := set(ours).intersection(theirs):
        return tuple((step, step) for step in ours if step in common)
    distance = {(a, b): abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in product(ours, theirs)}
    least = min(distance.values())
    return tuple(steps for steps, far in distance.items() if far == least)


@cache
def _clear_steps(world: str, back: str, front: str, size: Size) -> tuple[Place, ...]:
    canvas = WORLDS[world]
    reach = 2 * canvas.radii[size]
    limits = margins(canvas.pixels)
    drops = range(ceil(limits.least_drop), floor(limits.most_drop) + 1)
    steps = product(range(-reach, reach + 1), drops)
    behind = _in_middle(canvas, back, "red", size)
    return tuple(
        (dx, dy)
        for dx, dy in steps
        if _shows_depth(behind, _in_middle(canvas, front, "blue", size, dx=dx, dy=dy), canvas)
    )


def _shows_depth(behind: Thing, before: Thing, world: World) -> bool:
    exact = margins(world.pixels)
    # First, since most steps fail here; a training run asks for thousands of pairs of shapes.
    if not share_is_right(behind, before, world, exact):
        return False
    shown = pair_relations(behind, before, world, exact)
    return shown == ["behind"] and pair_is_clear(behind, before, world)


def _in_middle(
    world: World, shape: str, colour: str, size: Size, *, dx: int = 0, dy: int = 0
) -> Thing:
    middle = world.pixels // 2
    return Thing(shape, colour, size, "plain", middle + dx, middle + dy, (0, 0, 0))


def pick(u: float, least: int, most: int) -> int:
    """The whole number from `least` to `most` that a chance `u` in [0, 1) stands for."""
    return least + int(u * (most - least + 1))
