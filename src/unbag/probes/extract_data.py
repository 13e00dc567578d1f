"""Balanced sheets of images and captions, with the labels that the probes of `extract` read.

Shapes and colours are divided into two hands (halves); each image or caption has one shape and one
colour of each hand. A label says how they are combined: whether the shape of the first hand is on
the left, or whether it has the colour of the first hand. Both answers have exactly the same words,
so a bag of words is at chance, and a reader that saw each shape with some partners can generalise
to others.

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
"""Numbers of shapes and colours of each hand."""
MAX_COUNT = 4
"""Maximum number of copies of one thing in count sheets."""
SIZES: tuple[Size, Size] = ("small", "large")
STYLE = Style(negation="without")
"""With "without", since "an anchor but no cup" and its reverse differ in their articles."""
Input = TypeVar("Input", covariant=True)


@dataclass(frozen=True, eq=False)
class Label:
    """A label to read."""

    name: str
    """Short name for quantities: "left/right"."""
    class_N: IntArray
    bag: float
    """Accuracy of a reader on a perfect bag of words."""
    captions: tuple[tuple[str, ...], ...] = ()
    """For each image a caption for each class, for the model's own score."""


@dataclass(frozen=True, eq=False)
class ProbeSheet(Generic[Input]):
    """Images or captions that share labels and groups."""

    inputs: tuple[Input, ...]
    groups: tuple[str, ...]
    """The things shown or named: never split between training and test, and resampled together."""
    labels: tuple[Label, ...]


def image_sheets(*, seed: int, images: int, is_full: bool) -> tuple[ProbeSheet[ImageSource], ...]:
    """Draw sheets for left/right and binding; in full also above/below, count and presence.

    Each sheet has about as many images.
    """
    sets = images // 4
    left_right = orbit_sheet("left of", sets, seed=seed)
    if not is_full:
        return (left_right,)
    above = orbit_sheet("above", sets, seed=seed)
    return (
        left_right,
        ProbeSheet(above.inputs, above.groups, above.labels[:1]),
        count_sheet(sets, seed=seed),
        presence_sheet(images // 2, seed=seed),
    )


def orbit_sheet(relation: Relation, sets: int, *, seed: int) -> ProbeSheet[ImageSource]:
    """Draw four images per set: things exchanged or not, colours exchanged or not.

    Labels: whether the thing of the first hand is on the left (above), and whether it has the
    colour of the first hand.
    """
    drawn = deals(sets, seed=seed, use=relation)
    scenes = [
        scene
        for i, deal in enumerate(drawn)
        for scene in _orbit(deal, relation, generator(seed, "orbit", relation, str(i)))
    ]
    sides = "left/right" if relation == "left of" else "above/below"
    side_captions = [_places(deal, relation) for deal in drawn for _ in range(4)]
    binding_captions = [_bindings(deal) for deal in drawn for _ in range(4)]
    return ProbeSheet(
        _images(scenes, sides),
        tuple(deal.group for deal in drawn for _ in range(4)),
        (
            Label(sides, classes((0, 1, 0, 1), sets), 0.5, tuple(side_captions)),
            Label("binding", classes((0, 0, 1, 1), sets), 0.5, tuple(binding_captions)),
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
    """Draw one to four copies of one thing, which is the group.

    Sizes are drawn for each image, so that the share of coloured pixels does not give the count.
    """
    shapes = (*hands(seed).shapes[0], *hands(seed).shapes[1])
    scenes, captions, groups = [], [], []
    for i, deal in enumerate(deals(sets, seed=seed, use="count")):
        shape = shapes[i % len(shapes)]
        rng = generator(seed, "count", "scene", str(i))
        for n in range(1, MAX_COUNT + 1):
            look = Look(shape, deal.colours[0], SIZES[int(rng.integers(2))])
            scenes.append(place_copies(DEFAULT, look, n, rng))
        count_captions = tuple(realise(Count(n, Obj(shape))) for n in range(1, MAX_COUNT + 1))
        captions += [count_captions] * MAX_COUNT
        groups += [shape] * MAX_COUNT
    label = Label("count", classes(range(MAX_COUNT), sets), 1 / MAX_COUNT, tuple(captions))
    return ProbeSheet(_images(scenes, "count"), tuple(groups), (label,))


def presence_sheet(sets: int, *, seed: int) -> ProbeSheet[ImageSource]:
    """Draw two images per set: one thing with the target, and with something else.

    The target is the same shape in all sets; the group is the other thing.
    """
    target, *partners = (*hands(seed).shapes[0], *hands(seed).shapes[1])
    scenes, captions, groups = [], [], []
    for i, deal in enumerate(deals(sets, seed=seed, use="presence")):
        shape_shown = partners[i % len(partners)]
        rng = generator(seed, "presence", "scene", str(i))
        others = [shape for shape in partners if shape != shape_shown]
        other = others[int(rng.integers(len(others)))]
        for shape in (target, other):
            looks = (Look(shape_shown, deal.colours[0]), Look(shape, deal.colours[1]))
            scenes.append(place_apart(DEFAULT, looks, rng))
        asts: tuple[Ast, Ast] = (
            And(Obj(shape_shown), Obj(target)),
            Has(Obj(shape_shown), Not(Obj(target))),
        )
        captions += [tuple(map(realise, asts))] * 2
        groups += [shape_shown] * 2
    label = Label("presence", classes((0, 1), sets), 1.0, tuple(captions))
    return ProbeSheet(_images(scenes, "presence"), tuple(groups), (label,))


def _images(scenes: list[Scene], name: str) -> tuple[SceneImage, ...]:
    return tuple(SceneImage(scene, f"extract/{name}/{i}") for i, scene in enumerate(scenes))


def caption_sheets(*, seed: int, captions: int, is_full: bool) -> tuple[ProbeSheet[str], ...]:
    """Write captions for order, binding and negation; in full also relation in both word orders.

    Each sheet has about as many captions.
    """
    forms: list[tuple[str, Callable[[Deal], tuple[Ast, ...]], tuple[int, ...]]] = [
        ("order", _order, (0, 1)),
        ("binding", _binding, (0, 0, 1, 1)),
        ("negation", _negation, (0, 1)),
    ]
    forms += [("relation", _relation, (0, 0, 1, 1))] if is_full else []
    sheets = []
    for name, captions_of, set_classes in forms:
        drawn = deals(captions // len(set_classes), seed=seed, use=f"captions {name}")
        sheet = ProbeSheet(
            tuple(realise(ast, STYLE) for deal in drawn for ast in captions_of(deal)),
            tuple(deal.group for deal in drawn for _ in set_classes),
            (Label(name, classes(set_classes, len(drawn)), 0.5),),
        )
        sheets.append(sheet)
    return tuple(sheets)


def _order(deal: Deal) -> tuple[Ast, ...]:
    a, b = _things(deal)
    return Rel(a, "left of", b), Rel(b, "left of", a)


def _relation(deal: Deal) -> tuple[Ast, ...]:
    """Say each in both ways, so that neither order nor the word for the side gives it away."""
    a, b = _things(deal)
    return (
        Rel(a, "left of", b),
        Rel(b, "right of", a),
        Rel(b, "left of", a),
        Rel(a, "right of", b),
    )


def _binding(deal: Deal) -> tuple[Ast, ...]:
    """Name each in both orders."""
    a, b = _things(deal)
    u, v = Obj(a.shape, b.colour), Obj(b.shape, a.colour)
    return And(a, b), And(b, a), And(u, v), And(v, u)


def _negation(deal: Deal) -> tuple[Ast, ...]:
    """Deny either thing; the grammar of the world denies the last one, so this is order as well."""
    a, b = _things(deal)
    return Has(a, Not(b)), Has(b, Not(a))


def _things(deal: Deal) -> tuple[Obj, Obj]:
    return Obj(deal.shapes[0], deal.colours[0]), Obj(deal.shapes[1], deal.colours[1])


def classes(row: Sequence[int], count: int) -> IntArray:
    """Repeat the classes for each of `count` sets."""
    return np.tile(np.array(row, dtype=np.int64), count)


@dataclass(frozen=True)
class Hands:
    """Shapes and colours, each divided into two hands."""

    shapes: tuple[tuple[str, ...], tuple[str, ...]]
    colours: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Every shape of the first hand with every one of the second."""
        return tuple((a, b) for a in self.shapes[0] for b in self.shapes[1])


@dataclass(frozen=True)
class Deal:
    """Two shapes and two colours, one of each hand."""

    shapes: tuple[str, str]
    colours: tuple[str, str]

    @property
    def group(self) -> str:
        """Name of the pair of things."""
        return " + ".join(self.shapes)


def hands(seed: int) -> Hands:
    """Divide shapes and colours by the seed."""
    rng = generator(seed, "hands")
    return Hands(_divide(DEFAULT.shapes, SHAPES, rng), _divide(DEFAULT.colours, COLOURS, rng))


def _divide(
    values: Sequence[str], size: int, rng: np.random.Generator
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    chosen = [values[at] for at in rng.permutation(len(values))[: 2 * size].tolist()]
    return tuple(chosen[:size]), tuple(chosen[size:])


def deals(count: int, *, seed: int, use: str) -> tuple[Deal, ...]:
    """Return all pairs of shapes in turn, with random colours; deal i is the same for any count."""
    halves = hands(seed)
    pairs = halves.pairs
    rows = []
    for i in range(count):
        colour_places = generator(seed, use, str(i)).integers(COLOURS, size=2).tolist()
        colours = (halves.colours[0][colour_places[0]], halves.colours[1][colour_places[1]])
        rows.append(Deal(pairs[i % len(pairs)], colours))
    return tuple(rows)
