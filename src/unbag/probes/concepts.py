"""Concepts of `conditions` and `superposition`: scenes that differ in one way, and their vectors.

A ring has four things, two colours and two places. Each thing is shown alone in both colours at
both places; each thing and the next are shown with both assignments of colours and of places.
Irrelevant properties (size, texture, exact place, noise) are drawn once for each rendering of the
whole ring, so both sides of every comparison average over the same properties.

i(x), i(x_a), i(x,g) ... are normalised means of the unit vectors of all images that show the
concept: a condition is about the concept, not about one rendering.

Dimensions: B rings, S things of a ring, or pairs (pair s is thing s and the next), K colour
assignments, G places, R renderings of a cell, D space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil

from numpy.random import Generator

from unbag.errors import UnbagError
from unbag.metrics.intervals import generator
from unbag.probes.base import Options, ProbeData, ProbedModel, ProbeResult
from unbag.probes.space import Space, unit
from unbag.types import FloatArray
from unbag.world.grammar import Ast, Not, Obj, realise
from unbag.world.placement import RGB, Look, Place, Slots, jittered, pick, sample_look, slots_for
from unbag.world.rendering import SceneImage
from unbag.world.scenes import Scene, Thing, is_clear
from unbag.world.stream import split_seed
from unbag.world.vocabulary import DEFAULT, Relation, World

THINGS = 4
"""Things of a ring. With four, a pair of neighbours has an opposite pair without common things."""
RENDERINGS = 4
"""Renderings of each cell. A concept that fixes either colour or place is a mean over 8 images."""
SIDES = (0, 1)
"""Indices of the two colours, and of the two places."""
RINGS, ALL_RINGS = 8, 12
"""Number of rings by default, and with every thing of the world."""
NO_SCENES = "it needs drawn scenes that differ in one thing; diagnose on the built-in world as well"
_AXES: tuple[Relation, ...] = ("left of", "above")


def draw_concepts(
    name: str, subject: ProbedModel, data: ProbeData, options: Options, *, no_vectors: str
) -> Concepts | ProbeResult:
    """Draw the scenes and encode them; return a skipped result where this is not possible."""
    if not data.is_world:
        return ProbeResult(name, skipped=f"{data.about}: {NO_SCENES}")
    if subject.space is None:
        return ProbeResult(name, skipped=f"{subject.name} {no_vectors}")
    chosen_rings = rings(ALL_RINGS if options.is_full else RINGS, seed=options.seed)
    return concept_vectors(subject.space, chosen_rings)


def concept_vectors(space: Space, rings: Sequence[Ring]) -> Concepts:
    """Encode every image and caption of the rings."""
    # One call for all images: a space encodes in batches.
    space.images([p for ring in rings for p in (*ring.alone(), *ring.pairs())])
    thing_BSKGRD = _images(space, rings, Ring.alone)
    pair_BSKGRD = _images(space, rings, Ring.pairs)
    return Concepts(
        tuple(rings),
        thing_BSD=unit(thing_BSKGRD.mean(axis=(2, 3, 4))),
        coloured_BSKD=unit(thing_BSKGRD.mean(axis=(3, 4))),
        placed_BSGD=unit(thing_BSKGRD.mean(axis=(2, 4))),
        pair_BSD=unit(pair_BSKGRD.mean(axis=(2, 3, 4))),
        bound_BSKD=unit(pair_BSKGRD.mean(axis=(3, 4))),
        related_BSGD=unit(pair_BSKGRD.mean(axis=(2, 4))),
        name_BSD=_captions(space, rings, lambda ring: map(Obj, ring.shapes)),
        denial_BSD=_captions(space, rings, lambda ring: (Not(Obj(s)) for s in ring.shapes)),
        colour_BKD=_captions(space, rings, lambda ring: (Obj(None, c) for c in ring.colours)),
    )


@dataclass(frozen=True, eq=False)
class Concepts:
    """Unit vectors; NaN where an image could not be opened or a mean has no direction."""

    rings: tuple[Ring, ...]
    thing_BSD: FloatArray
    """i(x)"""
    coloured_BSKD: FloatArray
    """i(x_a), i(x_b)"""
    placed_BSGD: FloatArray
    """i(x,g1), i(x,g2)"""
    pair_BSD: FloatArray
    """i(x,y)"""
    bound_BSKD: FloatArray
    """i(x_a,y_b), i(x_b,y_a)"""
    related_BSGD: FloatArray
    """i(x,g3,y), i(x,g4,y)"""
    name_BSD: FloatArray
    """t(x): "a star"."""
    denial_BSD: FloatArray
    """t(not x): "no star"."""
    colour_BKD: FloatArray
    """t(a): "a red thing"."""


def _images(
    space: Space, rings: Sequence[Ring], images_of: Callable[[Ring], Iterable[SceneImage]]
) -> FloatArray:
    vector_ND = unit(space.images([image for ring in rings for image in images_of(ring)]))
    sides = len(SIDES)
    return vector_ND.reshape(len(rings), THINGS, sides, sides, -1, vector_ND.shape[-1])


def _captions(
    space: Space, rings: Sequence[Ring], captions_of: Callable[[Ring], Iterable[Ast]]
) -> FloatArray:
    vector_ND = unit(space.captions([realise(ast) for ring in rings for ast in captions_of(ring)]))
    return vector_ND.reshape(len(rings), -1, vector_ND.shape[-1])


def rings(n: int, *, world: World = DEFAULT, seed: int = 0) -> tuple[Ring, ...]:
    """Make `n` rings of scenes of the test split; ring i is the same for any n.

    No thing is in two rings, so rings are the clusters of all intervals.
    """
    max_rings = len(world.shapes) // THINGS
    if not 1 <= n <= max_rings:
        raise UnbagError(
            f"{n} rings of {THINGS} things",
            expected=f"1 to {max_rings}, since each thing is in one ring only",
        )
    seed = split_seed("test", seed)
    rng = generator(seed, "concepts", world.name)
    shapes: list[str] = rng.permutation(world.shapes).tolist()
    repeats = ceil(2 * max_rings / len(world.colours))
    colours = [c for _ in range(repeats) for c in rng.permutation(world.colours).tolist()]
    drawn = []
    for i in range(n):
        ring = Ring(
            f"ring {i}",
            tuple(shapes[THINGS * i : THINGS * (i + 1)]),
            (colours[2 * i], colours[2 * i + 1]),
            _AXES[i % 2],
            (),
            world,
        )
        drawn.append(_with_renderings(ring, generator(seed, "concepts", world.name, str(i))))
    return tuple(drawn)


@dataclass(frozen=True)
class Ring:
    """Four things and all images of them."""

    name: str
    shapes: tuple[str, ...]
    colours: tuple[str, str]
    relation: Relation
    """Relation of the first thing of a pair to the second at place 0; its inverse at place 1."""
    renderings: tuple[Rendering, ...]
    world: World

    def neighbours(self, pair: int) -> tuple[str, str]:
        """Return the two things of a pair."""
        return self.shapes[pair], self.shapes[(pair + 1) % THINGS]

    def alone(self) -> Iterator[SceneImage]:
        """Yield images of one thing, in the order of the dimensions S, K, G, R."""
        for shape, k, g, r in self._cells():
            scene = self._scene(self.renderings[r], ((self.shapes[shape], k, g),))
            yield SceneImage(scene, f"{self.name}: {self.shapes[shape]}, {self._cell(k, g, r)}")

    def pairs(self) -> Iterator[SceneImage]:
        """Yield images of two things in the same order; the first thing of a pair has colour k."""
        for pair, k, g, r in self._cells():
            yield SceneImage(
                self.pair_scene(pair, k, g, self.renderings[r]),
                f"{self.name}: {' and '.join(self.neighbours(pair))}, {self._cell(k, g, r)}",
            )

    def pair_scene(self, pair: int, k: int, g: int, rendering: Rendering) -> Scene:
        """Return the scene of two neighbours in a rendering."""
        first, second = self.neighbours(pair)
        return self._scene(rendering, ((first, k, g), (second, 1 - k, 1 - g)))

    def _scene(self, rendering: Rendering, objects: tuple[tuple[str, int, int], ...]) -> Scene:
        places = rendering.places if len(objects) == 1 else rendering.slots
        look = rendering.look
        things = (
            Thing(s, self.colours[k], look.size, look.texture, *places[g], rendering.rgbs[k])
            for s, k, g in objects
        )
        return Scene(tuple(things), rendering.noise_seed, self.world.name)

    def _cells(self) -> Iterator[tuple[int, int, int, int]]:
        yield from product(range(THINGS), SIDES, SIDES, range(len(self.renderings)))

    def _cell(self, k: int, g: int, r: int) -> str:
        return f"{self.colours[k]}, place {g}, rendering {r}"


@dataclass(frozen=True)
class Rendering:
    """Irrelevant properties, the same for all images of a ring."""

    look: Look
    """Only its size and texture are used."""
    rgbs: tuple[RGB, RGB]
    """Pixel values of the two colours."""
    places: tuple[Place, Place]
    """Places of a single thing: in the left and right half, or in the upper and lower half."""
    slots: Slots
    """Places of a pair."""
    noise_seed: int


def _with_renderings(ring: Ring, rng: Generator) -> Ring:
    """Add renderings in which no two things overlap."""
    renderings: list[Rendering] = []
    while len(renderings) < RENDERINGS:
        rendering = _rendering(ring, rng)
        pairs = (ring.pair_scene(s, 0, g, rendering) for s in range(THINGS) for g in SIDES)
        if all(map(is_clear, pairs)):
            renderings.append(rendering)
    return replace(ring, renderings=tuple(renderings))


def _rendering(ring: Ring, rng: Generator) -> Rendering:
    look = sample_look(ring.world, rng)
    first, second = ring.colours
    slots, _ = slots_for(ring.world, look, look, ring.relation, rng)
    return Rendering(
        look,
        (jittered(first, rng), jittered(second, rng)),
        _halves(ring.world, look, ring.relation, rng),
        slots,
        int(rng.integers(2**32)),
    )


def _halves(world: World, look: Look, relation: Relation, rng: Generator) -> tuple[Place, Place]:
    """Draw a place within one half of the canvas, and mirror it."""
    radius, last_pixel = world.radii[look.size], world.pixels - 1
    along_share, across_share = rng.random(2).tolist()
    along = pick(along_share, radius, last_pixel // 2 - radius)
    across = pick(across_share, radius, last_pixel - radius)
    if relation == "left of":
        return (along, across), (last_pixel - along, across)
    return (across, along), (across, last_pixel - along)
