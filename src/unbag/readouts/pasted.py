"""Cut-outs and backgrounds come in; opposite pairs of pictures with captions go out (7.1).

Spatial: two things on a background, and exchanged. Size: one small and one big, and the reverse.
Colour: tinted in two colours, and the reverse. Negation: one of the things, and the other. Pictures
are never flipped: captions speak of left and right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
from numpy.random import Generator

from unbag.errors import UserError, unknown_name
from unbag.readouts.cutouts import Cutout

if TYPE_CHECKING:
    from PIL.Image import Image

COLOURS: Mapping[str, tuple[int, int, int]] = {
    "red": (220, 40, 40),
    "green": (40, 160, 60),
    "blue": (50, 90, 230),
    "yellow": (245, 215, 50),
    "purple": (140, 60, 200),
    "orange": (250, 135, 25),
}
RELATIONS: Mapping[str, tuple[str, tuple[float, float], tuple[float, float]]] = {
    "to the left of": ("to the right of", (0.27, 0.5), (0.73, 0.5)),
    "to the right of": ("to the left of", (0.73, 0.5), (0.27, 0.5)),
    "above": ("below", (0.5, 0.27), (0.5, 0.73)),
    "below": ("above", (0.5, 0.73), (0.5, 0.27)),
}
"""A relation, its inverse, and where the first and the second thing lie, as shares of the side."""
DENIALS = ("and not", "but no", "without")
_LARGE, _SMALL = 0.42, 0.21
"""The longer side of a thing, as a share of the picture's."""
_JITTER = 0.03


@dataclass(frozen=True, eq=False)
class Composite:
    """Two pictures and two captions each; equal places have the same form."""

    kind: str
    pictures: tuple[Image, Image]
    captions: tuple[tuple[str, str], tuple[str, str]]


class _Start(NamedTuple):
    a: Cutout
    b: Cutout
    background: Image
    rng: Generator


def paste(
    cutouts: Sequence[Cutout],
    backgrounds: Sequence[Image],
    count: int,
    *,
    seed: int = 0,
    kinds: Sequence[str] = (),
    side: int = 224,
) -> Iterator[Composite]:
    """So many pairs of pictures, kinds taking turns; pair i whatever the count.

    Without backgrounds things lie on plain colours.
    """
    asked = tuple(kinds) or tuple(KINDS)
    for kind in asked:
        if kind not in KINDS:
            raise unknown_name("kind of composite", kind, KINDS)
    if count < 1 or side < 32:
        raise UserError(
            f"{count} composites of {side} pixels", expected="at least one, of at least 32 pixels"
        )
    for i in range(count):
        rng = np.random.default_rng((seed, crc32(b"pasted"), i))
        a, b = _two(cutouts, rng)
        start = _Start(a, b, _background(backgrounds, side, rng), rng)
        yield KINDS[asked[i % len(asked)]](start)


def _spatial(start: _Start) -> Composite:
    a, b, background, rng = start
    relation = list(RELATIONS)[rng.integers(len(RELATIONS))]
    inverse, *places = RELATIONS[relation]
    first, second = _shaken(places, rng)
    size = _LARGE * float(rng.uniform(0.8, 1.0))
    x, y = _a(a.name), _a(b.name)
    return Composite(
        "spatial",
        (
            _on(background, (a.image, first, size), (b.image, second, size)),
            _on(background, (b.image, first, size), (a.image, second, size)),
        ),
        (
            (f"{x} {relation} {y}", f"{y} {inverse} {x}"),
            (f"{y} {relation} {x}", f"{x} {inverse} {y}"),
        ),
    )


def _size(start: _Start) -> Composite:
    a, b, background, rng = start
    first, second = _shaken(_two_places(rng), rng)
    return Composite(
        "size",
        (
            _on(background, (a.image, first, _SMALL), (b.image, second, _LARGE)),
            _on(background, (a.image, first, _LARGE), (b.image, second, _SMALL)),
        ),
        (
            _both(f"small {a.name}", f"big {b.name}"),
            _both(f"big {a.name}", f"small {b.name}"),
        ),
    )


def _colour(start: _Start) -> Composite:
    a, b, background, rng = start
    one, other = (list(COLOURS)[at] for at in rng.permutation(len(COLOURS))[:2])
    first, second = _shaken(_two_places(rng), rng)
    pictures = [
        _on(
            background,
            (tinted(a.image, COLOURS[x]), first, _LARGE),
            (tinted(b.image, COLOURS[y]), second, _LARGE),
        )
        for x, y in ((one, other), (other, one))
    ]
    return Composite(
        "colour",
        (pictures[0], pictures[1]),
        (
            _both(f"{one} {a.name}", f"{other} {b.name}"),
            _both(f"{other} {a.name}", f"{one} {b.name}"),
        ),
    )


def _negation(start: _Start) -> Composite:
    a, b, background, rng = start
    (place,) = _shaken([(0.5, 0.5)], rng)
    first, second = (DENIALS[at] for at in rng.permutation(len(DENIALS))[:2])
    x, y = _a(a.name), _a(b.name)
    return Composite(
        "negation",
        (_on(background, (a.image, place, _LARGE)), _on(background, (b.image, place, _LARGE))),
        (
            (_denied(x, first, b.name), _denied(x, second, b.name)),
            (_denied(y, first, a.name), _denied(y, second, a.name)),
        ),
    )


def tinted(image: Image, colour: tuple[int, int, int]) -> Image:
    """A thing in shades of one colour; its light and shadow stay."""
    from PIL import Image as Images

    level_HW4 = np.array(image).astype(np.float64)
    grey_HW = level_HW4[..., :3] @ (0.299, 0.587, 0.114)
    # From a third of the colour where it was black to the whole of it where it was white.
    share_HW = 1 / 3 + 2 / 3 * grey_HW / 255
    level_HW4[..., :3] = share_HW[..., None] * np.array(colour)
    return Images.fromarray(level_HW4.round().astype(np.uint8))


def _on(background: Image, *things: tuple[Image, tuple[float, float], float]) -> Image:
    from PIL.Image import Resampling

    canvas = background.copy()
    side = canvas.width
    for image, (x, y), share in things:
        scale = share * side / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        shown = image.resize(size, Resampling.LANCZOS)
        corner = round(x * side - size[0] / 2), round(y * side - size[1] / 2)
        canvas.paste(shown, corner, shown)
    return canvas


def _background(backgrounds: Sequence[Image], side: int, rng: Generator) -> Image:
    """The middle square of one of them, or a plain colour."""
    from PIL import Image as Images
    from PIL import ImageOps

    level_3 = rng.integers(90, 230, 3).tolist()
    if not backgrounds:
        return Images.new("RGB", (side, side), (level_3[0], level_3[1], level_3[2]))
    return ImageOps.fit(
        backgrounds[int(rng.integers(len(backgrounds)))].convert("RGB"), (side, side)
    )


def _two(cutouts: Sequence[Cutout], rng: Generator) -> tuple[Cutout, Cutout]:
    """Of different names, and neither name within the other: a cup is seen in a coffee cup."""
    a = cutouts[int(rng.integers(len(cutouts)))]
    others = [one for one in cutouts if one.name not in a.name and a.name not in one.name]
    if not others:
        raise UserError(
            f"no thing to paste beside {_a(a.name)}", expected="cut-outs of two different things"
        )
    return a, others[int(rng.integers(len(others)))]


def _two_places(rng: Generator) -> list[tuple[float, float]]:
    _, first, second = list(RELATIONS.values())[rng.integers(len(RELATIONS))]
    return [first, second]


def _shaken(places: Sequence[tuple[float, float]], rng: Generator) -> list[tuple[float, float]]:
    return [
        (x + rng.uniform(-_JITTER, _JITTER), y + rng.uniform(-_JITTER, _JITTER)) for x, y in places
    ]


def _both(first: str, second: str) -> tuple[str, str]:
    return f"{_a(first)} and {_a(second)}", f"{_a(second)} and {_a(first)}"


def _denied(present: str, denial: str, absent: str) -> str:
    return f"{present} {denial} {absent if denial == 'but no' else _a(absent)}"


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


KINDS: Mapping[str, Callable[[_Start], Composite]] = {
    "spatial": _spatial,
    "colour": _colour,
    "size": _size,
    "negation": _negation,
}
