"""Composites come in; pictures and a file that `unbag train --pairs` reads go out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from unbag.engine.atomic import write_text
from unbag.errors import UserError
from unbag.readouts.pasted import Composite

if TYPE_CHECKING:
    from PIL.Image import Image

PAIRS, PICTURES = "pairs.jsonl", "pictures"
_SIDE = re.compile(r"(?<=\d{6})-[ab](?=\.png$)")
_KINDS = {
    "spatial": ("swap_arguments", "relation_inverse"),
    "colour": ("swap_attributes", "conjunct_swap"),
    "size": ("swap_attributes", "conjunct_swap"),
    "negation": ("swap_arguments", "word_form"),
}
"""What leads to the opposite's caption and to the other version, as recipes call it."""
_TURN, _SHIFT, _SHIFTED, _SPECKLED = 4.0, 0.05, 0.2, 0.02
"""Degrees; share of the side that corners move, and how often; share of white and of black."""


def write_composites(every: Iterable[Composite], out: Path, *, varied: int | None = None) -> Path:
    """Both pictures of each pair and a line for each: its two captions with their edits.

    The opposite's caption of the same form is a hard negative, the other true one a hard positive.

    Args:
        every: As `paste` makes them.
        out: A folder that has no such pairs yet.
        varied: A seed; then pictures are turned, bent and speckled a little, as in the paper.
    """
    path = out / PAIRS
    if path.exists():
        raise UserError(
            f"{path} is there already", expected="a new folder", way_out="name another folder"
        )
    (out / PICTURES).mkdir(parents=True, exist_ok=True)
    lines = []
    for at, one in enumerate(every):
        for side, image in enumerate(one.pictures):
            name = f"{PICTURES}/{at:06d}-{'ab'[side]}.png"
            if varied is not None:
                image = vary(image, np.random.default_rng((varied, at, side)))
            image.save(out / name)
            lines.append(json.dumps(_line(one, side, name), ensure_ascii=False))
    write_text(path, "\n".join(lines) + "\n")
    return path


def _line(one: Composite, side: int, name: str) -> dict[str, object]:
    own, other = one.captions[side], one.captions[1 - side]
    negative, positive = _KINDS[one.kind]
    edits = [
        [
            {"text": other[at], "kind": negative, "keeps_meaning": False},
            {"text": own[1 - at], "kind": positive, "keeps_meaning": True},
        ]
        for at in (0, 1)
    ]
    return {"id": Path(name).stem, "image": name, "captions": list(own), "edits": edits}


def pair_name(name: str) -> str:
    """The same for both pictures of a pair; any other name as it is."""
    return _SIDE.sub("", name)


def vary(image: Image, rng: Generator) -> Image:
    """Turned by up to 4 degrees, seen slightly from the side, with specks; never flipped."""
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
    """The eight numbers of a map that moves each corner inwards by up to 2.5 % of a side."""
    width, height = size
    corner_42 = np.array([(0, 0), (width, 0), (width, height), (0, height)], dtype=np.float64)
    inwards_42 = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)], dtype=np.float64)
    moved_42 = corner_42 + inwards_42 * rng.uniform(0, _SHIFT / 2, (4, 2)) * (width, height)
    rows, wanted = [], []
    for (x, y), (u, v) in zip(moved_42, corner_42, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        wanted += [u, v]
    found: list[float] = np.linalg.solve(np.array(rows), np.array(wanted)).tolist()
    return found
