"""Composites: pairs of images pasted from cut-out objects, with captions that differ as they do.

Kinds: spatial (two objects on a background, and swapped), size (one small and one big, and the
reverse), colour (tinted in two colours, and the reverse) and negation (one of the objects, and the
other). `write_composites` writes them as a file that `unbag train --pairs` reads.

Dimensions: H rows and W columns of pixels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
from numpy.random import Generator

from unbag.errors import UnbagError, said_by, unknown_name
from unbag.runs.files import write_text
from unbag.types import BoolArray, IntArray

if TYPE_CHECKING:
    from PIL.Image import Image


ENDINGS = (".png", ".webp", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")
PLAIN = 24
"""Largest difference from the background, in levels of 255, of a background pixel."""
_BORDER = 0.9
"""Smallest share of the image border that must be background."""
_MIN_SHARE = 0.01
"""Smallest share of the image that the object must fill."""
_NUMBER = re.compile(r"[\s_\-]*\(?\d+\)?$")

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
"""Each relation with its inverse and the centres of both objects, as shares of the image side."""
DENIALS = ("and not", "but no", "without")
_LARGE, _SMALL = 0.42, 0.21
"""The longer side of an object, as a share of the image side."""
_JITTER = 0.03
PAIRS, IMAGES = "pairs.jsonl", "images"
_SIDE = re.compile(r"(?<=\d{6})-[ab](?=\.png$)")

_KINDS = {
    "spatial": ("swap_arguments", "relation_inverse"),
    "colour": ("swap_attributes", "conjunct_swap"),
    "size": ("swap_attributes", "conjunct_swap"),
    "negation": ("swap_arguments", "word_form"),
}
"""The edit kinds of the hard negative and of the hard positive, by kind of composite."""
_TURN, _SHIFT, _SHIFTED, _SPECKLED = 4.0, 0.05, 0.2, 0.02
"""Rotation in degrees; corner shift as a share of the side, and its probability; noise share."""


def write_composites(
    composites: Iterable[Composite], out: Path, *, varied: int | None = None
) -> Path:
    """Write the images of composites, and JSON lines of their captions with edits.

    The caption of the same form for the other image is a hard negative; the second true caption is
    a hard positive.

    Args:
        composites: As `paste` makes them.
        out: A folder that has no such pairs yet.
        varied: A seed; if given, images are augmented as in the paper (see `vary`).
    """
    path = out / PAIRS
    if path.exists():
        raise UnbagError(
            f"{path} already exists", expected="a new folder", hint="choose another folder"
        )
    (out / IMAGES).mkdir(parents=True, exist_ok=True)
    lines = []
    for i, composite in enumerate(composites):
        for side, image in enumerate(composite.images):
            name = f"{IMAGES}/{i:06d}-{'ab'[side]}.png"
            if varied is not None:
                image = vary(image, np.random.default_rng((varied, i, side)))
            image.save(out / name)
            lines.append(json.dumps(_line(composite, side, name), ensure_ascii=False))
    write_text(path, "\n".join(lines) + "\n")
    return path


def _line(composite: Composite, side: int, name: str) -> dict[str, object]:
    own, other = composite.captions[side], composite.captions[1 - side]
    negative, positive = _KINDS[composite.kind]
    edits = [
        [
            {"text": other[i], "kind": negative, "is_positive": False},
            {"text": own[1 - i], "kind": positive, "is_positive": True},
        ]
        for i in (0, 1)
    ]
    return {"id": Path(name).stem, "image": name, "captions": list(own), "edits": edits}


def pair_name(name: str) -> str:
    """Return the name that both images of a composite share; other names are returned unchanged."""
    return _SIDE.sub("", name)


@dataclass(frozen=True, eq=False)
class Composite:
    """Two images with two captions each; captions at the same position have the same form."""

    kind: str
    images: tuple[Image, Image]
    captions: tuple[tuple[str, str], tuple[str, str]]


def paste(
    cutouts: Sequence[Cutout],
    backgrounds: Sequence[Image],
    count: int,
    *,
    seed: int = 0,
    kinds: Sequence[str] = (),
    side: int = 224,
) -> Iterator[Composite]:
    """Yield `count` composites, with kinds in turn; composite i does not depend on the count.

    Without backgrounds, objects are pasted on plain colours.
    """
    chosen = tuple(kinds) or tuple(KINDS)
    for kind in chosen:
        if kind not in KINDS:
            raise unknown_name("kind of composite", kind, KINDS)
    if count < 1 or side < 32:
        raise UnbagError(
            f"{count} composites of {side} pixels", expected="at least one, of at least 32 pixels"
        )
    for i in range(count):
        rng = np.random.default_rng((seed, crc32(b"pasted"), i))
        a, b = _pick_two(cutouts, rng)
        start = _PairInputs(a, b, _background(backgrounds, side, rng), rng)
        yield KINDS[chosen[i % len(chosen)]](start)


class _PairInputs(NamedTuple):
    a: Cutout
    b: Cutout
    background: Image
    rng: Generator


def _spatial(inputs: _PairInputs) -> Composite:
    a, b, background, rng = inputs
    relation = list(RELATIONS)[rng.integers(len(RELATIONS))]
    inverse, *places = RELATIONS[relation]
    first, second = _jittered(places, rng)
    size = _LARGE * float(rng.uniform(0.8, 1.0))
    x, y = _with_article(a.name), _with_article(b.name)
    return Composite(
        "spatial",
        (
            _paste_on(background, (a.image, first, size), (b.image, second, size)),
            _paste_on(background, (b.image, first, size), (a.image, second, size)),
        ),
        (
            (f"{x} {relation} {y}", f"{y} {inverse} {x}"),
            (f"{y} {relation} {x}", f"{x} {inverse} {y}"),
        ),
    )


def _size(inputs: _PairInputs) -> Composite:
    a, b, background, rng = inputs
    first, second = _jittered(_pick_places(rng), rng)
    return Composite(
        "size",
        (
            _paste_on(background, (a.image, first, _SMALL), (b.image, second, _LARGE)),
            _paste_on(background, (a.image, first, _LARGE), (b.image, second, _SMALL)),
        ),
        (
            _both_orders(f"small {a.name}", f"big {b.name}"),
            _both_orders(f"big {a.name}", f"small {b.name}"),
        ),
    )


def _colour(inputs: _PairInputs) -> Composite:
    a, b, background, rng = inputs
    colour, other_colour = (list(COLOURS)[i] for i in rng.permutation(len(COLOURS))[:2])
    first, second = _jittered(_pick_places(rng), rng)
    images = [
        _paste_on(
            background,
            (tinted(a.image, COLOURS[x]), first, _LARGE),
            (tinted(b.image, COLOURS[y]), second, _LARGE),
        )
        for x, y in ((colour, other_colour), (other_colour, colour))
    ]
    return Composite(
        "colour",
        (images[0], images[1]),
        (
            _both_orders(f"{colour} {a.name}", f"{other_colour} {b.name}"),
            _both_orders(f"{other_colour} {a.name}", f"{colour} {b.name}"),
        ),
    )


def _negation(inputs: _PairInputs) -> Composite:
    a, b, background, rng = inputs
    (place,) = _jittered([(0.5, 0.5)], rng)
    first, second = (DENIALS[at] for at in rng.permutation(len(DENIALS))[:2])
    x, y = _with_article(a.name), _with_article(b.name)
    return Composite(
        "negation",
        (
            _paste_on(background, (a.image, place, _LARGE)),
            _paste_on(background, (b.image, place, _LARGE)),
        ),
        (
            (_negated(x, first, b.name), _negated(x, second, b.name)),
            (_negated(y, first, a.name), _negated(y, second, a.name)),
        ),
    )


KINDS: Mapping[str, Callable[[_PairInputs], Composite]] = {
    "spatial": _spatial,
    "colour": _colour,
    "size": _size,
    "negation": _negation,
}


def _pick_two(cutouts: Sequence[Cutout], rng: Generator) -> tuple[Cutout, Cutout]:
    """Draw two objects; neither name contains the other, since a coffee cup is also a cup."""
    a = cutouts[int(rng.integers(len(cutouts)))]
    others = [
        cutout for cutout in cutouts if cutout.name not in a.name and a.name not in cutout.name
    ]
    if not others:
        raise UnbagError(
            f"no object to paste next to {_with_article(a.name)}",
            expected="cut-outs of two different objects",
        )
    return a, others[int(rng.integers(len(others)))]


def _pick_places(rng: Generator) -> list[tuple[float, float]]:
    _, first, second = list(RELATIONS.values())[rng.integers(len(RELATIONS))]
    return [first, second]


def _jittered(places: Sequence[tuple[float, float]], rng: Generator) -> list[tuple[float, float]]:
    return [
        (x + rng.uniform(-_JITTER, _JITTER), y + rng.uniform(-_JITTER, _JITTER)) for x, y in places
    ]


def _both_orders(first: str, second: str) -> tuple[str, str]:
    return (
        f"{_with_article(first)} and {_with_article(second)}",
        f"{_with_article(second)} and {_with_article(first)}",
    )


def _negated(present: str, denial: str, absent: str) -> str:
    return f"{present} {denial} {absent if denial == 'but no' else _with_article(absent)}"


def _with_article(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _background(backgrounds: Sequence[Image], side: int, rng: Generator) -> Image:
    """Return the centre square of a random background, or a plain colour without backgrounds."""
    from PIL import Image as Images
    from PIL import ImageOps

    colour_3 = rng.integers(90, 230, 3).tolist()
    if not backgrounds:
        return Images.new("RGB", (side, side), (colour_3[0], colour_3[1], colour_3[2]))
    return ImageOps.fit(
        backgrounds[int(rng.integers(len(backgrounds)))].convert("RGB"), (side, side)
    )


def _paste_on(background: Image, *things: tuple[Image, tuple[float, float], float]) -> Image:
    from PIL.Image import Resampling

    canvas = background.copy()
    side = canvas.width
    for image, (x, y), share in things:
        scale = share * side / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        resized = image.resize(size, Resampling.LANCZOS)
        corner = round(x * side - size[0] / 2), round(y * side - size[1] / 2)
        canvas.paste(resized, corner, resized)
    return canvas


def tinted(image: Image, colour: tuple[int, int, int]) -> Image:
    """Return the object in shades of one colour, with its light and shadow."""
    from PIL import Image as Images

    level_HW4 = np.array(image).astype(np.float64)
    grey_HW = level_HW4[..., :3] @ (0.299, 0.587, 0.114)
    # Black becomes a third of the colour and white the full colour.
    share_HW = 1 / 3 + 2 / 3 * grey_HW / 255
    level_HW4[..., :3] = share_HW[..., None] * np.array(colour)
    return Images.fromarray(level_HW4.round().astype(np.uint8))


def vary(image: Image, rng: Generator) -> Image:
    """Augment: rotate by up to 4 degrees, shift perspective, add noise; never flip."""
    from PIL import Image as Images
    from PIL.Image import Resampling, Transform

    if rng.random() < _SHIFTED:
        bent = image.transform(
            image.size, Transform.PERSPECTIVE, _perspective(image.size, rng), Resampling.BILINEAR
        )
        image = bent
    image = image.rotate(float(rng.uniform(-_TURN, _TURN)), Resampling.BILINEAR)
    level_HW3 = np.array(image)
    draw_HW3 = rng.random(level_HW3.shape)
    level_HW3[draw_HW3 < _SPECKLED] = 255
    level_HW3[draw_HW3 > 1 - _SPECKLED] = 0
    return Images.fromarray(level_HW3)


def _perspective(size: tuple[int, int], rng: Generator) -> list[float]:
    """Return the coefficients of a transform that moves corners inwards by up to 2.5 %."""
    width, height = size
    corner_42 = np.array([(0, 0), (width, 0), (width, height), (0, height)], dtype=np.float64)
    inwards_42 = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)], dtype=np.float64)
    moved_42 = corner_42 + inwards_42 * rng.uniform(0, _SHIFT / 2, (4, 2)) * (width, height)
    rows, targets = [], []
    for (x, y), (u, v) in zip(moved_42, corner_42, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        targets += [u, v]
    coefficients: list[float] = np.linalg.solve(np.array(rows), np.array(targets)).tolist()
    return coefficients


def read_cutouts(folder: Path) -> tuple[Cutout, ...]:
    """Read all cut-outs of a folder, sorted by file name.

    An object has the name of its file without numbers at the end: coffee_cup_2.png is a coffee cup.
    An image needs a transparent background, or a plain one of the colour of its border.
    """
    cutouts = tuple(cut_out(path) for path in images_in(folder, what="cut-outs"))
    names = sorted({cutout.name for cutout in cutouts})
    if len(names) < 2:
        raise UnbagError(
            f"{folder} contains one kind of object: {names[0]}",
            expected="two or more, since a composite shows two objects",
            hint="name each file as captions should call the object: cup.png, plate_1.png",
        )
    return cutouts


@dataclass(frozen=True, eq=False)
class Cutout:
    """An object without its background."""

    name: str
    """As in a caption, such as "coffee cup"."""
    image: Image
    """RGBA, cropped to the object."""


def images_in(folder: Path, *, what: str) -> list[Path]:
    """List the image files of a folder and its subfolders."""
    paths = sorted(p for p in folder.rglob("*") if p.suffix.lower() in ENDINGS)
    if not paths:
        raise UnbagError(
            f"no images in {folder}",
            expected=f"a folder of {what}: {', '.join(ENDINGS)}",
            hint="check the path",
        )
    return paths


def cut_out(path: Path) -> Cutout:
    """Cut the object out of its image; UnbagError if the background is not plain."""
    from PIL import Image as Images
    from PIL import UnidentifiedImageError

    try:
        with Images.open(path) as file:
            image = file.convert("RGBA")
    except (OSError, UnidentifiedImageError, ValueError) as error:
        raise UnbagError(f"{path} cannot be opened as an image: {said_by(error)}") from error
    level_HW4 = np.array(image)
    if (level_HW4[..., 3] == 255).all():
        level_HW4[..., 3] = np.where(_is_thing(level_HW4[..., :3], path), 255, 0)
    is_there_HW = level_HW4[..., 3] > 127
    if is_there_HW.mean() < _MIN_SHARE:
        raise UnbagError(
            f"{path}: no object is left after removing the background",
            expected=f"an object that fills at least {_MIN_SHARE:.0%} of the image",
        )
    row_N, column_N = np.nonzero(is_there_HW)
    box = (int(column_N.min()), int(row_N.min()), int(column_N.max()) + 1, int(row_N.max()) + 1)
    return Cutout(thing_name(path), Images.fromarray(level_HW4).crop(box))


def thing_name(path: Path) -> str:
    """Return the words of a file name without numbers at its end."""
    name = " ".join(_NUMBER.sub("", path.stem).replace("_", " ").replace("-", " ").lower().split())
    if not name:
        raise UnbagError(
            f"{path} has no name that a caption could say",
            expected="the name of the object, such as cup.png or coffee_cup_2.png",
        )
    return name


def _is_thing(level_HW3: IntArray, path: Path) -> BoolArray:
    """Return a mask of the pixels that differ from the colour of the border."""
    edge = (level_HW3[0], level_HW3[-1], level_HW3[:, 0], level_HW3[:, -1])
    border_N3 = np.concatenate(edge).astype(np.int64)
    colour_3 = np.median(border_N3, axis=0)
    if (np.abs(border_N3 - colour_3).max(axis=1) <= PLAIN).mean() < _BORDER:
        raise UnbagError(
            f"{path} has no plain background and is not transparent",
            expected=f"a border of one colour, or a PNG with an alpha channel; colours within "
            f"{PLAIN} of 255 levels count as one",
            hint="cut the object out with an image editor and save it as RGBA PNG",
        )
    is_thing_HW: BoolArray = np.abs(level_HW3.astype(np.int64) - colour_3).max(axis=2) > PLAIN
    return is_thing_HW
