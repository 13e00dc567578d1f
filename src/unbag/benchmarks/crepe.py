"""CREPE: a crop of Visual Genome with its caption and several hard negatives.

Productivity: three kinds of negatives for captions of complexity 4 to 12. Systematicity: seen and
unseen compounds of one training set, for models trained on that set only. A warning names absent
files. The official recall@1 among the caption and its negatives is our `accuracy`. The official
sort leaves ties undefined, so they are wrong here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unbag.benchmarks.files import Folder, Record, available_files, not_official
from unbag.benchmarks.sources import benchmark_fields
from unbag.data.images import Box
from unbag.metrics.choice import Choice
from unbag.types import Aggregate, Benchmark, Item

NEGATIVES = ("atom", "swap", "negate")
COMPLEXITIES = tuple(range(4, 13))
TRAINING = ("cc12m", "yfcc", "laion")
SPLITS = ("seen_compounds", "unseen_compounds")
BOX = ("x", "y", "width", "height")
HALVES = ("VG_100K", "VG_100K_2")


@dataclass(frozen=True)
class CrepeFile:
    """One annotation file and its columns of hard negatives."""

    file: str
    columns: Mapping[str, str]
    """Column -> kind of negatives."""
    tags: Mapping[str, str]


def _sources() -> Iterator[CrepeFile]:
    for kind in NEGATIVES:
        for size in COMPLEXITIES:
            file = f"prod_hard_negatives/{kind}/prod_vg_hard_negs_{kind}_complexity_{size}.csv"
            tags = {"part": "productivity", "complexity": str(size)}
            yield CrepeFile(file, {"hard_negs": kind}, tags)
    for training in TRAINING:
        for split in SPLITS:
            file = f"syst_hard_negatives/syst_vg_hard_negs_{split}_in_{training}.csv"
            columns = {"valid_hard_negs_atom": "atom", "valid_hard_negs_comp": "comp"}
            tags = {"part": "systematicity", "training": training, "split": split}
            yield CrepeFile(file, columns, tags)


SOURCES = tuple(_sources())
FILES = tuple(source.file for source in SOURCES)


def load(root: Path | None) -> Sequence[Item]:
    """Load the available files: one item per row and kind of negatives."""
    folder = Folder.of(root, "crepe")
    available = set(available_files(folder, FILES))
    base = folder.image_folder(*(f"{parent}VG_100K" for parent in ("", "../visual_genome/"))).parent
    halves = _halves(base)
    items: list[Item] = []
    for source in SOURCES:
        if source.file in available:
            items += _items(folder, source, base, halves)
    return items


def _halves(base: Path) -> Mapping[str, str]:
    """The Visual Genome folder of each image file; the annotations only give image numbers."""
    return {
        path.name: half
        for half in HALVES
        if (base / half).is_dir()
        for path in (base / half).iterdir()
    }


def _items(
    folder: Folder, source: CrepeFile, base: Path, halves: Mapping[str, str]
) -> Iterator[Item]:
    columns = ("image_id", "caption", *BOX, *source.columns)
    for record in folder.table(source.file, columns=columns):
        name = f"{record.caption('image_id').strip()}.jpg"
        half = halves.get(name, HALVES[0])
        image = folder.image(base, f"{half}/{name}", record.where, box=_box(record))
        for column, kind in source.columns.items():
            negatives = _negatives(record, column)
            yield Item(
                id=f"{Path(source.file).stem}/{record.key}/{kind}",
                images=(image,),
                captions=(record.caption("caption"), *negatives),
                truth=np.eye(1, 1 + len(negatives), dtype=np.bool_),
                tags={**source.tags, "negatives": kind},
                kinds=("original", *[kind] * len(negatives)),
            )


def _box(record: Record) -> Box:
    try:
        x, y, width, height = (round(float(record.text(name))) for name in BOX)
    except (ValueError, OverflowError) as error:
        raise not_official(
            f"{record.where}: x, y, width, height are not a box ({error})", "four numbers of pixels"
        ) from error
    return x, y, width, height


def _negatives(record: Record, column: str) -> list[str]:
    """The captions in a cell, which holds a Python list literal."""
    text = record.text(column)
    try:
        captions = ast.literal_eval(text.strip())
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        captions = None
    if (
        not isinstance(captions, list | tuple)
        or not captions
        or not all(isinstance(caption, str) and caption.strip() for caption in captions)
    ):
        raise not_official(
            f"{record.where}: {column} is {text[:60]!r}",
            "a list of captions, such as ['a dog', 'a cat']",
        )
    return list(captions)


_PRODUCTIVITY = ("part", "productivity")

CREPE = Benchmark(
    **benchmark_fields("crepe"),
    load=load,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(
        Aggregate(by=("negatives", "complexity"), only=(_PRODUCTIVITY,), label="productivity"),
        *(
            Aggregate(
                by=("complexity",),
                only=(_PRODUCTIVITY, ("negatives", kind)),
                label=f"productivity {kind}",
            )
            for kind in NEGATIVES
        ),
        *(
            Aggregate(
                by=("negatives", "split"),
                only=(("training", training),),
                label=f"systematicity {training}",
            )
            for training in TRAINING
        ),
    ),
    files=FILES,
)
