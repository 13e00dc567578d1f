"""Places things with given looks so that every relation in the scene is unambiguous.

Every function is deterministic given the state of the random generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import ceil, floor
from typing import Literal, TypeAlias

import numpy as np

from unbag.errors import UnbagError
from unbag.world.scenes import (
    Scene,
    Thing,
    copies_lie_apart,
    margins,
    pair_is_clear,
    pair_relations,
    share_is_right,
)
from unbag.world.shapes import outline
from unbag.world.vocabulary import COLOURS, INVERSE, WORLDS, Relation, Size, Texture, World

RGB: TypeAlias = tuple[int, int, int]
Place: TypeAlias = tuple[int, int]
Slots: TypeAlias = tuple[Place, Place]
"""Positions of the first and of the second thing."""
JITTER = 8.0
"""Standard deviation of the drawn colour around the nominal one (methods.md 12.1)."""
AIR = 2
"""Empty pixels between the boxes of two things side by side."""
_TRIES = 12
_PATTERNED: tuple[Texture, ...] = ("striped", "dotted", "checkered")
_FIRST_OF_TWO: tuple[Relation, ...] = ("left of", "above", "on", "in front of")


@dataclass(frozen=True)
class Look:
    """The appearance of a thing, independent of its position."""

    shape: str
    colour: str
    size: Size = "large"
    texture: Texture = "plain"


def sample_look(world: World, rng: np.random.Generator) -> Look:
    """Draw a look: both sizes equally often, the texture plain with probability 0.7."""
    return look_of(world, *rng.random(4).tolist())


def look_of(world: World, shape: float, colour: float, size: float, texture: float) -> Look:
    """The look selected by four uniform numbers in [0, 1)."""
    return _look(
        world.shapes[int(shape * len(world.shapes))],
        world.colours[int(colour * len(world.colours))],
        "small" if size < 0.5 else "large",
        "plain" if texture < 0.7 else _PATTERNED[min(int((texture - 0.7) * 10), 2)],
    )


# There are a few thousand looks, and a training run uses each of them hundreds of times.
_look = cache(Look)


def place_apart(world: World, looks: Sequence[Look], rng: np.random.Generator) -> Scene:
    """Place one to three things at random: none touches another, all relations are unambiguous."""
    if not 1 <= len(looks) <= 3:
        raise UnbagError(
            f"{len(looks)} things to place freely",
            expected="one to three; more would leave no room for clear relations",
            hint="use place_copies for up to five copies of one look",
        )
    rgbs = _jittered([look.colour for look in looks], rng)
    draws: list[float] = []
    while True:
        # One call draws the numbers of an attempt, since the call costs more than the numbers. The
        # last number becomes the noise seed, or starts the next attempt.
        draws += rng.random(2 * _TRIES * len(looks) + 1 - len(draws)).tolist()
        things = _try_apart(world, looks, rgbs, draws)
        if things is not None:
            return Scene(things, int(draws[-1] * 2**32), world.name)
        draws = draws[-1:]


def _try_apart(
    world: World, looks: Sequence[Look], rgbs: Sequence[RGB], draws: Sequence[float]
) -> tuple[Thing, ...] | None:
    draw = iter(draws)
    things: list[Thing] = []
    for look, rgb in zip(looks, rgbs, strict=True):
        radius = world.radii[look.size]
        last = world.pixels - 1 - radius
        for _ in range(_TRIES):
            place = (pick(next(draw), radius, last), pick(next(draw), radius, last))
            if any(_boxes_meet(other, place, radius, world) for other in things):
                continue
            thing = _thing(look, place, rgb)
            if all(pair_is_clear(other, thing, world) for other in things):
                things.append(thing)
                break
        else:
            return None
    return tuple(things)


def _boxes_meet(other: Thing, place: Place, radius: int, world: World) -> bool:
    reach = world.radii[other.size] + radius + AIR
    return abs(other.x - place[0]) <= reach and abs(other.y - place[1]) <= reach


def place_pair(
    world: World, first: Look, second: Look, relation: Relation, rng: np.random.Generator
) -> Scene:
    """Place two things such that the first is `relation` (left of, on ...) to the second.

    The first thing is drawn first, except in front of the second, where it is drawn last.
    """
    rgbs = _jittered((first.colour, second.colour), rng)
    seed = _noise_seed(rng)
    places, _ = slots_for(world, first, second, relation, rng)
    return _pair(world, (first, second), rgbs, places, relation, seed)


def place_exchanged(
    world: World, first: Look, second: Look, relation: Relation, rng: np.random.Generator
) -> tuple[Scene, Scene]:
    """As `place_pair`, plus a second scene in which the things exchange places."""
    rgbs = _jittered((first.colour, second.colour), rng)
    return _exchanged(world, (first, second), rgbs, relation, _noise_seed(rng), rng)


def what_sup_set(
    world: World,
    first: Look,
    second: Look,
    subset: Literal["a", "b"],
    rng: np.random.Generator,
    *,
    noise_seed: int | None = None,
) -> tuple[Scene, Scene, Scene, Scene]:
    """Four scenes of one pair that differ only in positions (methods.md 12.4).

    The first thing is left of, right of, on, under the second ("a"), or left of, right of, in
    front of, behind it ("b"). Each half of the set exchanges the things between two places.
    """
    rgbs = _jittered((first.colour, second.colour), rng)
    seed = _noise_seed(rng) if noise_seed is None else noise_seed
    other: Relation = "on" if subset == "a" else "in front of"
    return (
        *_exchanged(world, (first, second), rgbs, "left of", seed, rng),
        *_exchanged(world, (first, second), rgbs, other, seed, rng),
    )


def _exchanged(
    world: World,
    looks: tuple[Look, Look],
    rgbs: Sequence[RGB],
    relation: Relation,
    seed: int,
    rng: np.random.Generator,
) -> tuple[Scene, Scene]:
    """The scene of the relation and the scene of its inverse."""
    places, inverse_places = slots_for(world, *looks, relation, rng)
    return (
        _pair(world, looks, rgbs, places, relation, seed),
        _pair(world, looks, rgbs, inverse_places, INVERSE[relation], seed),
    )


def _pair(
    world: World,
    looks: tuple[Look, Look],
    rgbs: Sequence[RGB],
    places: Slots,
    relation: Relation,
    seed: int,
) -> Scene:
    first, second = map(_thing, looks, places, rgbs)
    things = (second, first) if relation == "in front of" else (first, second)
    return Scene(things, seed, world.name)


def slots_for(
    world: World, first: Look, second: Look, relation: Relation, rng: np.random.Generator
) -> tuple[Slots, Slots]:
    """Places of (first, second) for the relation, and those for its inverse."""
    if relation not in _FIRST_OF_TWO:
        inverse_places, places = slots_for(world, first, second, INVERSE[relation], rng)
        return places, inverse_places
    if relation == "on":
        return _stacked(world, first, second, rng)
    if relation == "in front of":
        return _overlapping(world, first, second, rng)
    a, b = _in_line(world, first, second, relation, rng)
    return (a, b), (b, a)


def _in_line(
    world: World, first: Look, second: Look, relation: Relation, rng: np.random.Generator
) -> Slots:
    """Two positions side by side or one above the other, with room for either thing."""
    tight = margins(world.pixels, 1)
    radius = max(world.radii[first.size], world.radii[second.size])
    gap = AIR if relation == "left of" else tight.apart
    last = world.pixels - 1
    draws = rng.random(4).tolist()
    along = pick(draws[0], max(ceil(tight.far), 2 * radius + 1 + gap), last - 2 * radius)
    across = pick(draws[1], -floor(tight.side), floor(tight.side))
    start = pick(draws[2], radius, last - radius - along)
    side = pick(draws[3], radius + max(0, -across), last - radius - max(0, across))
    if relation == "left of":
        return (start, side), (start + along, side + across)
    return (side, start), (side + across, start + along)


def _stacked(
    world: World, first: Look, second: Look, rng: np.random.Generator
) -> tuple[Slots, Slots]:
    """Positions of the first on the second and of the second on the first, touching at one row."""
    radius = max(world.radii[first.size], world.radii[second.size])
    a = outline(first.shape, world.radii[first.size])
    b = outline(second.shape, world.radii[second.size])
    last = world.pixels - 1
    draws = rng.random(3).tolist()
    floor_row = pick(draws[0], 2 * radius + 1, last - 2 * radius)
    x = pick(draws[1], radius + 1, last - 1 - radius)
    shifted = x + pick(draws[2], -1, 1)
    return (
        ((x, floor_row - 1 - a.bottom), (shifted, floor_row - b.top)),
        ((shifted, floor_row - a.top), (x, floor_row - 1 - b.bottom)),
    )


def _overlapping(
    world: World, first: Look, second: Look, rng: np.random.Generator
) -> tuple[Slots, Slots]:
    """Positions of the first in front of the second, and of the second in front of the first."""
    if first.size != second.size or first.colour == second.colour:
        raise UnbagError(
            f"a {first.size} {first.colour} thing in front of a {second.size} {second.colour} one",
            expected="one size and two colours: else depth cannot be seen",
            hint="choose looks of the same size and of different colours",
        )
    steps = depth_steps(world.name, first.shape, second.shape, first.size)
    radius, last = world.radii[first.size], world.pixels - 1
    draws = rng.random(3).tolist()
    step, inverse_step = steps[int(draws[0] * len(steps))]
    left, right = min(step[0], inverse_step[0], 0), max(step[0], inverse_step[0], 0)
    x = pick(draws[1], radius - left, last - radius - right)
    y = pick(draws[2], radius, last - radius - max(step[1], inverse_step[1]))
    behind = (x, y)
    return (
        ((x + step[0], y + step[1]), behind),
        (behind, (x + inverse_step[0], y + inverse_step[1])),
    )


@cache
def depth_steps(world: str, first: str, second: str, size: Size) -> tuple[Slots, ...]:
    """Pairs of steps from the thing behind to the one in front: first in front, second in front.

    Both are the same step wherever one step shows depth either way. A few pairs of shapes have no
    such step; for these, the two steps that differ least.
    """
    first_steps = _clear_steps(world, second, first, size)
    second_steps = _clear_steps(world, first, second, size)
    if common := set(first_steps).intersection(second_steps):
        return tuple((step, step) for step in first_steps if step in common)
    lengths = {
        (a, b): abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in product(first_steps, second_steps)
    }
    shortest = min(lengths.values())
    return tuple(steps for steps, length in lengths.items() if length == shortest)


@cache
def _clear_steps(world: str, rear: str, front: str, size: Size) -> tuple[Place, ...]:
    canvas = WORLDS[world]
    reach = 2 * canvas.radii[size]
    limits = margins(canvas.pixels)
    drops = range(ceil(limits.least_drop), floor(limits.most_drop) + 1)
    steps = product(range(-reach, reach + 1), drops)
    middle = canvas.pixels // 2
    behind = _thing(Look(rear, "red", size), (middle, middle), (0, 0, 0))

    def shows_depth(step: Place) -> bool:
        place = (middle + step[0], middle + step[1])
        ahead = _thing(Look(front, "blue", size), place, (0, 0, 0))
        # The cheapest test first: a training run needs thousands of pairs of shapes.
        if not share_is_right(behind, ahead, canvas, limits):
            return False
        names = pair_relations(behind, ahead, canvas, limits)
        return names == ["behind"] and pair_is_clear(behind, ahead, canvas)

    return tuple(filter(shows_depth, steps))


def place_copies(world: World, look: Look, n: int, rng: np.random.Generator) -> Scene:
    """Place one to five copies of a look in exactly one colour, none touching another."""
    if not 1 <= n <= 5:
        raise UnbagError(f"{n} copies of one look", expected="one to five")
    rgb = jittered(look.colour, rng)
    is_crowded = n * (2 * world.radii[look.size] + 2) ** 2 > 0.4 * world.pixels**2
    things: list[Thing] = []
    attempt = 0
    while len(things) < n:
        if is_crowded:
            places = _near_die_spots(world, look, n, rng, attempt)
        else:
            places = _anywhere(world, look, 4 * n, rng)
        things = []
        for place in places:
            thing = _thing(look, place, rgb)
            if all(copies_lie_apart(other, thing, world) for other in things):
                things.append(thing)
            if len(things) == n:
                break
        attempt += 1
    return Scene(tuple(things), _noise_seed(rng), world.name)


def _anywhere(world: World, look: Look, count: int, rng: np.random.Generator) -> list[Place]:
    radius = world.radii[look.size]
    last = world.pixels - 1 - radius
    draws = rng.random((count, 2)).tolist()
    return [(pick(across, radius, last), pick(down, radius, last)) for across, down in draws]


def _near_die_spots(
    world: World, look: Look, n: int, rng: np.random.Generator, attempt: int
) -> list[Place]:
    """Positions near `n` of the five spots of a die; the jitter shrinks with every attempt.

    Five large copies fill the canvas so much that random positions almost never fit.
    """
    radius = world.radii[look.size]
    jitter = max(world.pixels // 8 - attempt, 0)
    low, high, middle = radius, world.pixels - 1 - radius, (world.pixels - 1) // 2
    spots = ((low, low), (high, low), (low, high), (high, high), (middle, middle))
    chosen = rng.permutation(5)[:n].tolist()
    moves = rng.integers(-jitter, jitter + 1, size=(n, 2)).tolist()
    return [
        (min(max(spots[k][0] + dx, low), high), min(max(spots[k][1] + dy, low), high))
        for k, (dx, dy) in zip(chosen, moves, strict=True)
    ]


def exchange_colours(scene: Scene) -> Scene:
    """The scene with the colours of its first two things exchanged."""
    a, b, *rest = scene.things
    first = replace(a, colour=b.colour, rgb=b.rgb)
    second = replace(b, colour=a.colour, rgb=a.rgb)
    return replace(scene, things=(first, second, *rest))


def with_texture(scene: Scene, index: int, texture: Texture) -> Scene:
    """The scene with one thing in another texture."""
    things = list(scene.things)
    things[index] = replace(things[index], texture=texture)
    return replace(scene, things=tuple(things))


def remove_thing(scene: Scene, index: int) -> Scene:
    """The scene without one of its things."""
    return replace(scene, things=scene.things[:index] + scene.things[index + 1 :])


def jittered(colour: str, rng: np.random.Generator) -> RGB:
    """A colour with jitter, as one thing is drawn."""
    return _jittered([colour], rng)[0]


def _jittered(colours: Sequence[str], rng: np.random.Generator) -> list[RGB]:
    # Half the time of `rng.normal`, which also multiplies by the standard deviation.
    normal = iter(rng.standard_normal(3 * len(colours)).tolist())
    rgbs: list[RGB] = []
    for colour in colours:
        red, green, blue = COLOURS[colour][1]
        rgbs.append(
            (
                min(max(red + round(JITTER * next(normal)), 0), 255),
                min(max(green + round(JITTER * next(normal)), 0), 255),
                min(max(blue + round(JITTER * next(normal)), 0), 255),
            )
        )
    return rgbs


def _thing(look: Look, place: Place, rgb: RGB) -> Thing:
    return Thing(look.shape, look.colour, look.size, look.texture, place[0], place[1], rgb)


def _noise_seed(rng: np.random.Generator) -> int:
    return int(rng.random() * 2**32)


def pick(u: float, low: int, high: int) -> int:
    """The whole number from `low` to `high` selected by a uniform number `u` in [0, 1)."""
    return low + int(u * (high - low + 1))
