"""Sheets of images and captions in balanced sets, with the labels that `extract` reads from them.

Shapes are dealt into two hands, colours too; each image or caption has one shape and one colour
of each hand. A label says how they belong together: is the shape of the first hand on the left, has
it the colour of the first hand. Both answers have exactly the same words, so a bag of words is at
chance, and a reader that has seen each shape with some partners can answer for the others.

Dimensions: N images or captions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from unbag.metrics.intervals import generator
from unbag.types import ImageSource, IntArray
from unbag.world.grammar import And, Ast, Count, Has, Not, Obj, Rel, Style, realise
from unbag.world.placement import Look, exchange_colours, place_apart, place_copies, place_exchanged
from unbag.world.rendering import SceneImage
from unbag.world.scenes import Scene, is_clear
from unbag.world.vocabulary import DEFAULT, Relation, Size

SHAPES = 4
COLOURS = 2
"""Of each hand."""
MOST = 4
"""Copies of one thing where they are counted."""
SIZES: tuple[Size, Size] = ("small", "large")
STYLE = Style(negation="without")
"""Since "an anchor but no cup" and its turn differ in their articles, which gives them away."""
Given = TypeVar("Given", covariant=True)


@dataclass(frozen=True, eq=False)
class Label:
    """What is to be read."""

    name: str
    """Short, for names of quantities: "left/right"."""
    class_N: IntArray
    bag: float
    """What a reader of a perfect bag of words would reach."""
    captions: tuple[tuple[str, ...], ...] = ()
    """For each image a caption for each class, by which the model's own score decides."""


@dataclass(frozen=True, eq=False)
class ProbeSheet(Generic[Given]):
    """Images or captions that share labels and groups."""

    given: tuple[Given, ...]
    groups: tuple[str, ...]
    """The things shown or named: never in both parts, and resampled together."""
    labels: tuple[Label, ...]


def image_sheets(*, seed: int, images: int, is_full: bool) -> tuple[ProbeSheet[ImageSource], ...]:
    """Left/right and binding on the same images; in full also above/below, count, presence.

    Each sheet has about as many images.
    """
    sets = images // 4
    beside = orbit_sheet("left of", sets, seed=seed)
    if not is_full:
        return (beside,)
    above = orbit_sheet("above", sets, seed=seed)
    return (
        beside,
        ProbeSheet(above.given, above.groups, above.labels[:1]),
        count_sheet(sets, seed=seed),
        presence_sheet(images // 2, seed=seed),
    )


def orbit_sheet(relation: Relation, sets: int, *, seed: int) -> ProbeSheet[ImageSource]:
    """Four images a set: things exchanged or not, colours exchanged or not.

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
    return ProbeSheet(
        _images(scenes, sides),
        tuple(deal.group for deal in dealt for _ in range(4)),
        (
            Label(sides, classes((0, 1, 0, 1), sets), 0.5, tuple(placed)),
            Label("binding", classes((0, 0, 1, 1), sets), 0.5, tuple(bound)),
        ),
    )


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


def count_sheet(sets: int, *, seed: int) -> ProbeSheet[ImageSource]:
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
    return ProbeSheet(_images(scenes, "count"), tuple(groups), (label,))


def presence_sheet(sets: int, *, seed: int) -> ProbeSheet[ImageSource]:
    """Two images a set: one thing beside what is asked for, and beside something else.

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
    return ProbeSheet(_images(scenes, "presence"), tuple(groups), (label,))


def _images(scenes: list[Scene], name: str) -> tuple[SceneImage, ...]:
    return tuple(SceneImage(scene, f"extract/{name}/{i}") for i, scene in enumerate(scenes))


def caption_sheets(*, seed: int, captions: int, is_full: bool) -> tuple[ProbeSheet[str], ...]:
    """Order, binding and negation; with `is_full` also relation, whatever the order of words.

    Each sheet has about as many captions.
    """
    forms: list[tuple[str, Callable[[Deal], tuple[Ast, ...]], tuple[int, ...]]] = [
        ("order", _order, (0, 1)),
        ("binding", _binding, (0, 0, 1, 1)),
        ("negation", _negation, (0, 1)),
    ]
    forms += [("relation", _relation, (0, 0, 1, 1))] if is_full else []
    sheets = []
    for name, said, row in forms:
        dealt = deals(captions // len(row), seed=seed, use=f"captions {name}")
        sheet = ProbeSheet(
            tuple(realise(ast, STYLE) for deal in dealt for ast in said(deal)),
            tuple(deal.group for deal in dealt for _ in row),
            (Label(name, classes(row, len(dealt)), 0.5),),
        )
        sheets.append(sheet)
    return tuple(sheets)


def _order(deal: Deal) -> tuple[Ast, ...]:
    a, b = _things(deal)
    return Rel(a, "left of", b), Rel(b, "left of", a)


def _relation(deal: Deal) -> tuple[Ast, ...]:
    """Both ways to say each, so that neither order nor the word for the side gives it away."""
    a, b = _things(deal)
    return (
        Rel(a, "left of", b),
        Rel(b, "right of", a),
        Rel(b, "left of", a),
        Rel(a, "right of", b),
    )


def _binding(deal: Deal) -> tuple[Ast, ...]:
    """Both orders of each."""
    a, b = _things(deal)
    u, v = Obj(a.shape, b.colour), Obj(b.shape, a.colour)
    return And(a, b), And(b, a), And(u, v), And(v, u)


def _negation(deal: Deal) -> tuple[Ast, ...]:
    """The denied thing stands last in the grammar of the world, so this is order as well."""
    a, b = _things(deal)
    return Has(a, Not(b)), Has(b, Not(a))


def _things(deal: Deal) -> tuple[Obj, Obj]:
    return Obj(deal.shapes[0], deal.colours[0]), Obj(deal.shapes[1], deal.colours[1])


def classes(row: Sequence[int], count: int) -> IntArray:
    """The same classes for each of `count` sets, one after the other."""
    return np.tile(np.array(row, dtype=np.int64), count)


@dataclass(frozen=True)
class Hands:
    """Shapes and colours, each in two hands."""

    shapes: tuple[tuple[str, ...], tuple[str, ...]]
    colours: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Every shape of the first hand with every one of the second."""
        return tuple((a, b) for a in self.shapes[0] for b in self.shapes[1])


@dataclass(frozen=True)
class Deal:
    """Two shapes and two colours of different hands."""

    shapes: tuple[str, str]
    colours: tuple[str, str]

    @property
    def group(self) -> str:
        """The pair of things."""
        return " + ".join(self.shapes)


def hands(seed: int) -> Hands:
    """Dealt by the seed."""
    rng = generator(seed, "hands")
    return Hands(_dealt(DEFAULT.shapes, SHAPES, rng), _dealt(DEFAULT.colours, COLOURS, rng))


def _dealt(
    values: Sequence[str], size: int, rng: np.random.Generator
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    chosen = [values[at] for at in rng.permutation(len(values))[: 2 * size].tolist()]
    return tuple(chosen[:size]), tuple(chosen[size:])


def deals(count: int, *, seed: int, use: str) -> tuple[Deal, ...]:
    """All pairs of shapes in turn, with colours by chance; number i is the same for any count."""
    found = hands(seed)
    pairs = found.pairs
    rows = []
    for i in range(count):
        at = generator(seed, use, str(i)).integers(COLOURS, size=2).tolist()
        colours = (found.colours[0][at[0]], found.colours[1][at[1]])
        rows.append(Deal(pairs[i % len(pairs)], colours))
    return tuple(rows)
