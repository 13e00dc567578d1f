"""Draw the weights of a PACL and a SPARC that were trained for tiny:base.

unbag train --model tiny:base --readout pacl --pairs world --out readers/pacl
unbag train --model tiny:base --readout sparc_fixed --pairs world --out readers/sparc_fixed
python docs/make_weights.py readers/pacl readers/sparc_fixed
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import isqrt
from pathlib import Path
from typing import cast

import torch
from PIL import Image, ImageDraw, ImageFont

import unbag as ub
from unbag.models.features import placed_words
from unbag.models.tiny import Tiny, load
from unbag.readouts.base import find_readout
from unbag.readouts.pacl import Pacl
from unbag.readouts.reader import load_reader, read_head
from unbag.readouts.sparc import Sparc
from unbag.readouts.training import ReaderReadout
from unbag.types import ImageSource, TokenFeatures

IMAGES = Path(__file__).parent / "images"
ITEM = 24
"""Of world-relation: its first caption is true."""
SIDE, GAP, LINE = 256, 24, 30
ORANGE, STRONGEST = (255, 122, 0), 217


def two_lines(caption: str) -> list[str]:
    """Cut at the space nearest to the middle."""
    spaces = [at for at, sign in enumerate(caption) if sign == " "]
    middle = min(spaces, key=lambda at: abs(at - len(caption) / 2))
    return [caption[:middle], caption[middle + 1 :]]


def panel(image: ImageSource, weight_L: Sequence[float], lines: Sequence[str]) -> Image.Image:
    """The image under its weights: the fuller the orange, the larger the weight."""
    side, least, most = isqrt(len(weight_L)), min(weight_L), max(weight_L)
    share = [(w - least) / (most - least) if most > least else 0.0 for w in weight_L]
    veil = Image.new("L", (side, side))
    veil.putdata([round(STRONGEST * one) for one in share])
    scene = image.open().convert("RGB").resize((SIDE, SIDE), Image.Resampling.NEAREST)
    scene.paste(ORANGE, (0, 0, SIDE, SIDE), veil.resize((SIDE, SIDE), Image.Resampling.NEAREST))
    found = Image.new("RGB", (SIDE, SIDE + 2 * LINE + GAP // 2), "white")
    found.paste(scene)
    font = ImageFont.load_default(22)
    for row, line in enumerate(lines):
        ImageDraw.Draw(found).text((0, SIDE + 4 + row * LINE), line, fill="#222", font=font)
    return found


def save(name: str, panels: Sequence[Image.Image]) -> None:
    """One row of panels."""
    width, height = panels[0].size
    found = Image.new("RGB", (GAP + len(panels) * (width + GAP), height + 2 * GAP), "white")
    for at, one in enumerate(panels):
        found.paste(one, (GAP + at * (width + GAP), GAP))
    found.save(IMAGES / name, optimize=True)
    print(f"{name}: {len(panels)} panels, {(IMAGES / name).stat().st_size // 1000} KB")


def looked(encoder: Tiny, image: ImageSource, reader: Pacl | Sparc) -> TokenFeatures:
    """The patches of one image."""
    return reader.view.encode_images(encoder, encoder.prepare(image.open())[None])


def trained(encoder: Tiny, folder: Path) -> Pacl | Sparc:
    """The reader of a folder."""
    name = read_head(folder / "reader.safetensors")[0].readout
    readout = cast("ReaderReadout", find_readout(name))
    settings = type(readout.settings)
    found = load_reader(folder, encoder, readout=name, settings=settings, build=readout.build)
    return cast("Pacl | Sparc", found[0])


@torch.inference_mode()
def draw_pacl(encoder: Tiny, reader: Pacl, image: ImageSource, caption: str) -> None:
    """Each thing alone, then the whole caption: PACL has one map for a text."""
    panels = [panel(image, [0.0], two_lines(caption))]
    relation = next(word for word in ("above", "below", "left", "right") if f" {word} " in caption)
    first, second = caption.split(f" {relation} ")
    seen = looked(encoder, image, reader)
    for text in (first, second.removeprefix("of "), caption):
        weight_L = reader.weights(seen, reader.view.encode_texts(encoder, [text]))[0].tolist()
        said = "the whole caption" if text == caption else text
        lines = [said, f"{min(weight_L):.2f} to {max(weight_L):.2f}"]
        panels.append(panel(image, weight_L, lines))
    save("pacl-weights.png", panels)


@torch.inference_mode()
def draw_sparc(encoder: Tiny, reader: Sparc, image: ImageSource, caption: str) -> None:
    """Each word but the articles."""
    said = reader.view.encode_texts(encoder, [caption])
    weight_TL = reader.weights(looked(encoder, image, reader), said)[0]
    (words,) = placed_words(encoder, [caption])
    panels = [panel(image, [0.0], two_lines(caption))]
    for word in words or ():
        if word.word not in ("a", "an", "of"):
            weight_L = weight_TL[word.start].tolist()
            lines = [word.word, f"{sum(w > 0 for w in weight_L)} of {len(weight_L)} patches"]
            panels.append(panel(image, weight_L, lines))
    save("sparc-weights.png", panels)


if __name__ == "__main__":
    model = load("base")
    item = ub.load_benchmark("world-relation").load(None)[ITEM]
    said = str(item.captions[0])
    for given in map(Path, sys.argv[1:]):
        one = trained(model, given)
        if isinstance(one, Pacl):
            draw_pacl(model, one, item.images[0], said)
        else:
            draw_sparc(model, one, item.images[0], said)
