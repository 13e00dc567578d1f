"""Place things so that no relation is in doubt: from looks and a random generator to scenes.

Every function is pure given the generator's state; scenes differ only as their names say.
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
"""Where the first and the second thing lie."""
JITTER = 8.0
"""Standard deviation of a colour's drawn value around its fixed one (methods.md 12.1)."""
AIR = 2
"""Empty pixels kept between the boxes of two things side by side."""
_TRIES = 12
_PATTERNED: tuple[Texture, ...] = ("striped", "dotted", "checkered")
_FIRST_OF_TWO: tuple[Relation, ...] = ("left of", "above", "on", "in front of")


@dataclass(frozen=True)
class Look:
    """How a thing looks, wherever it lies."""

    shape: str
    colour: str
    size: Size = "large"
    texture: Texture = "plain"


def sample_look(world: World, rng: np.random.Generator) -> Look:
    """A look from the whole world: sizes half and half, seven in ten plain."""
    return look_of(world, *rng.random(4).tolist())


def look_of(world: World, shape: float, colour: float, size: float, texture: float) -> Look:
    """The look that four chances in [0, 1) stand for."""
    return _look(
        world.shapes[int(shape * len(world.shapes))],
        world.colours[int(colour * len(world.colours))],
        "small" if size < 0.5 else "large",
        "plain" if texture < 0.7 else _PATTERNED[min(int((texture - 0.7) * 10), 2)],
    )


# There are a few thousand looks, and a training run meets each of them hundreds of times.
_look = cache(Look)


def place_apart(world: World, looks: Sequence[Look], rng: np.random.Generator) -> Scene:
    """One to three things anywhere, none touching another and no relation in doubt."""
    if not 1 <= len(looks) <= 3:
        raise UnbagError(
            f"{len(looks)} things to place freely",
            expected="one to three; more would leave no room for clear relations",
            hint="use place_copies for up to five copies of one look",
        )
    rgbs = _jittered([look.colour for look in looks], rng)
    chances: list[float] = []
    while True:
        # The last chance is the noise seed's, or the first place's of the next attempt: a call of
        # the generator costs more than the numbers it gives.
        chances += rng.random(2 * _TRIES * len(looks) + 1 - len(chances)).tolist()
        things = _try_apart(world, looks, rgbs, chances)
        if things is not None:
            return Scene(things, int(chances[-1] * 2**32), world.name)
        chances = chances[-1:]


def _try_apart(
    world: World, looks: Sequence[Look], rgbs: Sequence[RGB], chances: Sequence[float]
) -> tuple[Thing, ...] | None:
    chance = iter(chances)
    things: list[Thing] = []
    for look, rgb in zip(looks, rgbs, strict=True):
        radius = world.radii[look.size]
        last = world.pixels - 1 - radius
        for _ in range(_TRIES):
            place = (pick(next(chance), radius, last), pick(next(chance), radius, last))
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
    """Two things such that the first is `relation` (left of, on ...) to the second.

    The first comes first in the scene, save in front, where it is drawn last.
    """
    rgbs = _jittered((first.colour, second.colour), rng)
    seed = _noise_seed(rng)
    kept, _ = slots_for(world, first, second, relation, rng)
    return _pair(world, (first, second), rgbs, kept, relation, seed)


def place_exchanged(
    world: World, first: Look, second: Look, relation: Relation, rng: np.random.Generator
) -> tuple[Scene, Scene]:
    """As `place_pair`, and the same with the two things exchanged, so that the inverse holds."""
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
    """Four scenes of one pair that differ in nothing but places (methods.md 12.4).

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
    """The first in the relation to the second, and in its inverse."""
    kept, exchanged = slots_for(world, *looks, relation, rng)
    return (
        _pair(world, looks, rgbs, kept, relation, seed),
        _pair(world, looks, rgbs, exchanged, INVERSE[relation], seed),
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
        raise UnbagError(
            f"a {first.size} {first.colour} thing in front of a {second.size} {second.colour} one",
            expected="one size and two colours: else depth cannot be seen",
            hint="choose looks of the same size and of different colours",
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
    middle = canvas.pixels // 2
    behind = _thing(Look(back, "red", size), (middle, middle), (0, 0, 0))

    def shows_depth(step: Place) -> bool:
        place = (middle + step[0], middle + step[1])
        before = _thing(Look(front, "blue", size), place, (0, 0, 0))
        # First, since most steps fail here; a training run asks for thousands of pairs of shapes.
        if not share_is_right(behind, before, canvas, limits):
            return False
        shown = pair_relations(behind, before, canvas, limits)
        return shown == ["behind"] and pair_is_clear(behind, before, canvas)

    return tuple(filter(shows_depth, steps))


def place_copies(world: World, look: Look, n: int, rng: np.random.Generator) -> Scene:
    """One to five copies of a look, none touching another, all drawn in one colour."""
    if not 1 <= n <= 5:
        raise UnbagError(f"{n} copies of one look", expected="one to five")
    rgb = jittered(look.colour, rng)
    is_crowded = n * (2 * world.radii[look.size] + 2) ** 2 > 0.4 * world.pixels**2
    things: list[Thing] = []
    attempt = 0
    while len(things) < n:
        if is_crowded:
            places = _on_five(world, look, n, rng, attempt)
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


def _anywhere(world: World, look: Look, tries: int, rng: np.random.Generator) -> list[Place]:
    radius = world.radii[look.size]
    last = world.pixels - 1 - radius
    chances = rng.random((tries, 2)).tolist()
    return [(pick(across, radius, last), pick(down, radius, last)) for across, down in chances]


def _on_five(
    world: World, look: Look, n: int, rng: np.random.Generator, attempt: int
) -> list[Place]:
    """Near `n` of the spots of a five on a die; later attempts stray less, in the end not at all.

    Five large copies fill the canvas so far that free places are hardly ever found.
    """
    radius = world.radii[look.size]
    stray = max(world.pixels // 8 - attempt, 0)
    low, high, middle = radius, world.pixels - 1 - radius, (world.pixels - 1) // 2
    spots = ((low, low), (high, low), (low, high), (high, high), (middle, middle))
    chosen = rng.permutation(5)[:n].tolist()
    moves = rng.integers(-stray, stray + 1, size=(n, 2)).tolist()
    return [
        (min(max(spots[k][0] + dx, low), high), min(max(spots[k][1] + dy, low), high))
        for k, (dx, dy) in zip(chosen, moves, strict=True)
    ]


def exchange_colours(scene: Scene) -> Scene:
    """The scene with the colours of its first two things exchanged, as drawn: the partner."""
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
    """The scene without one thing: one copy fewer, or a thing absent."""
    return replace(scene, things=scene.things[:index] + scene.things[index + 1 :])


def jittered(colour: str, rng: np.random.Generator) -> RGB:
    """The colour as one thing is drawn in it."""
    return _jittered([colour], rng)[0]


def _jittered(colours: Sequence[str], rng: np.random.Generator) -> list[RGB]:
    # Half the time of `rng.normal`, which multiplies by the deviation as well.
    normal = iter(rng.standard_normal(3 * len(colours)).tolist())
    found: list[RGB] = []
    for colour in colours:
        red, green, blue = COLOURS[colour][1]
        found.append(
            (
                min(max(red + round(JITTER * next(normal)), 0), 255),
                min(max(green + round(JITTER * next(normal)), 0), 255),
                min(max(blue + round(JITTER * next(normal)), 0), 255),
            )
        )
    return found


def _thing(look: Look, place: Place, rgb: RGB) -> Thing:
    return Thing(look.shape, look.colour, look.size, look.texture, place[0], place[1], rgb)


def _noise_seed(rng: np.random.Generator) -> int:
    return int(rng.random() * 2**32)


def pick(u: float, least: int, most: int) -> int:
    """The whole number from `least` to `most` that a chance `u` in [0, 1) stands for."""
    return least + int(u * (most - least + 1))
