"""Flickr8k with human judgements: how well does a caption describe the photograph?

There are two sets of ratings of the same images: from 1 to 4 by three experts, and the share of
"yes" answers of crowd workers. The lines that count and the kind of tau follow CLIPScore's code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from unbag.benchmarks.files import Folder, not_official
from unbag.benchmarks.sources import benchmark_fields
from unbag.errors import UnbagError
from unbag.metrics.statements import Correlation
from unbag.types import Benchmark, Item, Loader

TOKENS = "Flickr8k.token.txt"
EXPERTS = "ExpertAnnotations.txt"
CROWD = "CrowdFlowerAnnotations.txt"
# Spelled with an e in the authors' archive.
_IMAGES = "Flicker8k_Dataset"


def load_experts(root: Path | None) -> Sequence[Item]:
    """Load one item per rating (three per line), without captions written for the image itself."""
    folder = Folder.of(root, "flickr8k")
    captions = _captions(folder)
    own: dict[str, set[str]] = {}
    for name, caption in captions.items():
        own.setdefault(_stem(name), set()).add(caption)
    items = []
    for number, (image, name, *cells) in _rows(folder, EXPERTS):
        where = f"{EXPERTS}, line {number}"
        caption = _caption(captions, name, where)
        ratings = [_number(cell, where, low=1, high=4) for cell in cells]
        if caption not in own.get(_stem(image), ()):
            for expert, rating in enumerate(ratings, start=1):
                items.append(
                    _item(folder, image, caption, rating, where, f"expert {expert}/{number}")
                )
    return items


def load_crowd(root: Path | None) -> Sequence[Item]:
    """Load one item per line; the rating is the share of "yes" answers."""
    folder = Folder.of(root, "flickr8k_crowd")
    captions = _captions(folder)
    items = []
    for number, (image, name, *cells) in _rows(folder, CROWD):
        where = f"{CROWD}, line {number}"
        share, yes, no = (_number(cell, where, low=0, high=1e6) for cell in cells)
        if not yes + no or abs(share - yes / (yes + no)) > 1e-5:
            raise not_official(
                f"{where}: a share of {share:g} with {yes:g} yes and {no:g} no",
                "the share of yes, the number of yes, the number of no",
            )
        caption = _caption(captions, name, where)
        items.append(_item(folder, image, caption, share, where, f"crowd/{number}"))
    return items


def _rows(folder: Folder, file: str, cells: int = 5) -> list[tuple[int, list[str]]]:
    """The tab-separated cells of each line, with the line number."""
    rows = []
    for number, line in enumerate(folder.text(file).split("\n"), start=1):
        if not line.strip():
            continue
        row = line.strip().split("\t")
        if len(row) != cells:
            raise UnbagError(
                f"{file}, line {number} of {folder.benchmark} has {len(row)} cells",
                expected=f"{cells} cells between tabs",
                hint="check that it is the official file, whole",
            )
        rows.append((number, row))
    if not rows:
        raise UnbagError(
            f"{file} of {folder.benchmark} has no records",
            expected=f"lines of {cells} cells between tabs",
            hint="download it again",
        )
    return rows


def _captions(folder: Folder) -> Mapping[str, str]:
    """Captions by "<image>#<number>"."""
    captions: dict[str, str] = {}
    for number, (name, caption) in _rows(folder, TOKENS, cells=2):
        if name in captions:
            raise not_official(
                f"{TOKENS}, line {number}: {name!r} stands twice", "every caption once"
            )
        captions[name] = caption
    return captions


def _caption(captions: Mapping[str, str], name: str, where: str) -> str:
    if not captions.get(name, "").strip():
        raise UnbagError(
            f"{where}: there is no caption {name!r}",
            expected=f"one of the names in {TOKENS}",
            hint="check that both files are official and whole",
        )
    return captions[name]


def _stem(name: str) -> str:
    """The name of an image without its extension, which differs in the token file for one image."""
    return name.split("#")[0].split(".")[0]


def _number(cell: str, where: str, *, low: float, high: float) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = float("nan")
    if not low <= number <= high:
        raise not_official(
            f"{where}: {cell!r} is not a rating", f"a number from {low:g} to {high:g}"
        )
    return number


def _item(folder: Folder, image: str, caption: str, rating: float, where: str, name: str) -> Item:
    return Item(
        id=name,
        images=(folder.image(folder.image_folder(_IMAGES), image, where),),
        # As in CLIPScore's code, which also prepends "A photo depicts".
        captions=(" ".join(caption.split()),),
        truth=np.array([[rating]], dtype=np.float64),
        group=image,
    )


def _benchmark(name: str, load: Loader, file: str, tau: str) -> Benchmark:
    return Benchmark(
        **benchmark_fields(name),
        load=load,
        metrics=(Correlation(),),
        headline=tau,
        files=(TOKENS, file),
    )


FLICKR8K = _benchmark("flickr8k", load_experts, EXPERTS, "tau_c")
FLICKR8K_CROWD = _benchmark("flickr8k_crowd", load_crowd, CROWD, "tau_b")
