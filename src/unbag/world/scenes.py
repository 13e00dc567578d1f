"""Scenes: things with positions, and the relations that are computed from them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import NamedTuple

from unbag.world.shapes import outline, overlap
from unbag.world.vocabulary import INVERSE, WORLDS, Relation, Size, Texture, World

RENDERER = 1
"""Version of the drawing rules. Part of every scene, so that saved scenes always render alike."""


@dataclass(frozen=True)
class Scene:
    """The content of an image. Later things are drawn over earlier ones."""

    things: tuple[Thing, ...]
    noise_seed: int
    world: str = "default"
    renderer: int = RENDERER


@dataclass(frozen=True)
class Thing:
    """One object of a scene."""

    shape: str
    colour: str
    size: Size
    texture: Texture
    x: int
    y: int
    """Centre, in pixels from the top left corner."""
    rgb: tuple[int, int, int]
    """The colour as drawn, jitter included."""


def relations(scene: Scene) -> frozenset[tuple[int, Relation, int]]:
    """All relations between things, in both directions, as (index, relation, index)."""
    world = WORLDS[scene.world]
    exact = margins(world.pixels)
    triples: list[tuple[int, Relation, int]] = []
    for (i, a), (j, b) in combinations(enumerate(scene.things), 2):
        for relation in pair_relations(a, b, world, exact):
            triples += [(i, relation, j), (j, INVERSE[relation], i)]
    return frozenset(triples)


def pair_relations(a: Thing, b: Thing, world: World, limits: Margins) -> list[Relation]:
    """The relations of `a` to `b`, where `b` is drawn later."""
    dx, dy = b.x - a.x, b.y - a.y
    names: list[Relation] = []
    if abs(dx) >= limits.far and abs(dy) <= limits.side:
        names.append("left of" if dx > 0 else "right of")
    if dy > 0 and (vertical := _vertical(a, b, world, limits)):
        names.append(vertical)
    elif dy < 0 and (vertical := _vertical(b, a, world, limits)):
        names.append(INVERSE[vertical])
    if limits.least_drop <= dy <= limits.most_drop and share_is_right(a, b, world, limits):
        names.append("behind")
    return names


def _vertical(upper: Thing, lower: Thing, world: World, limits: Margins) -> Relation | None:
    above = outline(upper.shape, world.radii[upper.size])
    below = outline(lower.shape, world.radii[lower.size])
    dx = lower.x - upper.x
    gap = lower.y + below.top - upper.y - above.bottom - 1
    if 0 <= gap <= limits.touch:
        shared = min(above.right, dx + below.right) - max(above.left, dx + below.left) + 1
        narrower = min(above.right - above.left, below.right - below.left) + 1
        if shared >= limits.support * narrower:
            return "on"
    if gap >= limits.apart and lower.y - upper.y >= limits.far and abs(dx) <= limits.side:
        return "above"
    return None


def share_is_right(rear: Thing, front: Thing, world: World, limits: Margins) -> bool:
    """True if `front` covers enough of `rear` to look nearer, and not too much of it."""
    radius = world.radii[rear.size]
    dx = front.x - rear.x
    if rear.size != front.size or abs(dx) > 2 * radius:
        return False
    first, second = outline(rear.shape, radius), outline(front.shape, radius)
    covered = overlap(first.bits, second.bits, dx=dx, dy=front.y - rear.y)
    share = covered / min(first.area, second.area)
    return limits.least_share <= share <= limits.most_share


@cache
def margins(pixels: int, slack: int = 0) -> Margins:
    """The margins for a canvas size: as specified (0), tightened (1) or loosened (-1)."""
    band = slack * pixels / 32
    return Margins(
        far=0.25 * pixels + band,
        side=0.15 * pixels - band,
        apart=(2, 2, 4)[slack + 1],
        touch=(3, 1, 0)[slack + 1],
        support=0.5 + 0.1 * slack,
        # Depth has no band: overlaps that are not clearly in front are rejected anyway.
        least_share=0.15,
        most_share=0.5,
        least_drop=0.05 * pixels,
        most_drop=0.1 * pixels,
    )


class Margins(NamedTuple):
    """The thresholds of the relations, in pixels unless stated otherwise."""

    far: float
    """Minimum distance along the axis of left / right / above / below."""
    side: float
    """Maximum distance across that axis."""
    apart: int
    """Minimum number of empty rows between a thing above and one below."""
    touch: int
    """Maximum number of empty rows between a thing and what it stands on."""
    support: float
    """Minimum horizontal overlap of a thing and what it stands on, as a share of the narrower."""
    least_share: float
    most_share: float
    """Bounds of the pixels covered by the thing in front, as a share of the smaller mask."""
    least_drop: float
    most_drop: float
    """Bounds of how much lower the thing in front lies."""


def is_clear(scene: Scene) -> bool:
    """True if every relation of this scene is unambiguous.

    Every thing lies inside the canvas, no relation changes if the margins are slightly tighter or
    looser, and things touch only where one stands on the other or is in front of it in another
    colour. Copies of one look need only lie apart: no caption distinguishes them.
    """
    world = WORLDS[scene.world]
    return all(is_inside(thing, world) for thing in scene.things) and all(
        pair_is_clear(a, b, world) for a, b in combinations(scene.things, 2)
    )


def is_inside(thing: Thing, world: World) -> bool:
    """True if every drawn pixel lies on the canvas."""
    reach = outline(thing.shape, world.radii[thing.size])
    last = world.pixels - 1
    return (
        thing.x + reach.left >= 0
        and thing.x + reach.right <= last
        and thing.y + reach.top >= 0
        and thing.y + reach.bottom <= last
    )


def pair_is_clear(a: Thing, b: Thing, world: World) -> bool:
    """True if the relation of `a` and `b` (drawn later) is unambiguous."""
    if (a.shape, a.colour, a.size, a.texture) == (b.shape, b.colour, b.size, b.texture):
        return copies_lie_apart(a, b, world)
    strict = pair_relations(a, b, world, margins(world.pixels, 1))
    if strict != pair_relations(a, b, world, margins(world.pixels, -1)) or len(strict) > 1:
        return False
    # Two things of one colour leave no visible edge where one covers the other.
    covers = strict == ["behind"] and a.colour != b.colour
    return covers or strict in (["on"], ["under"]) or lie_apart(a, b, world)


def lie_apart(a: Thing, b: Thing, world: World) -> bool:
    """True if an empty row or column of pixels separates the two."""
    first, second = outline(a.shape, world.radii[a.size]), outline(b.shape, world.radii[b.size])
    dx, dy = b.x - a.x, b.y - a.y
    return (
        dx + second.left > first.right + 1
        or dx + second.right < first.left - 1
        or dy + second.top > first.bottom + 1
        or dy + second.bottom < first.top - 1
    )


def copies_lie_apart(a: Thing, b: Thing, world: World) -> bool:
    """True if no pixel of one copy touches one of the other; their boxes may share a corner."""
    radius = world.radii[a.size]
    dx, dy = b.x - a.x, b.y - a.y
    if abs(dx) > 2 * radius + 1 or abs(dy) > 2 * radius + 1:
        return True
    drawn = outline(a.shape, radius)
    return overlap(drawn.wide_bits, drawn.bits, dx=dx, dy=dy) == 0


def counts(scene: Scene) -> Mapping[tuple[str, str], int]:
    """The number of things of each (shape, colour) in the scene."""
    return Counter((thing.shape, thing.colour) for thing in scene.things)


def scene_key(scene: Scene) -> str:
    """A hash of the scene: equal for equal scenes only."""
    return hashlib.blake2b(to_json(scene).encode(), digest_size=16).hexdigest()


def to_json(scene: Scene) -> str:
    """The scene as one line of canonical JSON: always the same for the same scene."""
    record = {
        "counts": sorted([*kind, n] for kind, n in counts(scene).items()),
        "noise_seed": scene.noise_seed,
        "relations": sorted(relations(scene)),
        "renderer": scene.renderer,
        "things": [vars(thing) for thing in scene.things],
        "world": scene.world,
    }
    return json.dumps(record, sort_keys=True, separators=(",", ":"))
