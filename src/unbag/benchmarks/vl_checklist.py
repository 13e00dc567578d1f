"""VL-CheckList: one image and two phrases, in nine columns of attributes, objects and relations.

The folder is the official `data`. The release lacks some of its 56 files; a warning lists those
that are absent. As in the official code only the first phrase of each side counts; unlike it, all
rows of a file are read, not only the first thousand. In 108 rows of the Visual Genome attributes
and relations both phrases are equal: a tie, hence wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unbag.benchmarks.files import (
    FIRST_OF_2,
    Folder,
    Record,
    available_files,
    bad_record,
    not_official,
)
from unbag.benchmarks.sources import benchmark_fields
from unbag.metrics.choice import Choice
from unbag.types import MICRO, Aggregate, Benchmark, Item
from unbag.types.json import from_json


@dataclass(frozen=True)
class ChecklistFile:
    """One annotation file and its place in the benchmark."""

    file: str
    group: str
    """attribute, object or relation"""
    column: str
    """One of the nine columns of published tables, such as "object location"."""
    images: str
    """Folder of the image source: vg, swig or hake."""


def _sources() -> Iterator[ChecklistFile]:
    for source in ("vg", "vaw"):
        for name in ("action", "color", "material", "size", "state"):
            # Images of VAW are those of Visual Genome.
            yield ChecklistFile(
                f"Attribute/{source}/{name}.json", "attribute", f"attribute {name}", "vg"
            )
    for column, parts in (
        ("Location", ("center", "mid", "margin")),
        ("Size", ("small", "medium", "large")),
    ):
        for part in parts:
            for name in ("hake_obj", "vg_obj", "vg_subj"):
                source = name.partition("_")[0]
                file = f"Object/{column}/{source}_{column.lower()}/{name}_{part}.json"
                yield ChecklistFile(file, "object", f"object {column.lower()}", source)
            for name in ("swig_agent", "swig_destination", "swig_item", "swig_tool"):
                file = f"Object/{column}/swig_{column.lower()}/{name}/{name}_{part}.json"
                yield ChecklistFile(file, "object", f"object {column.lower()}", "swig")
    for source in ("hake", "swig"):
        yield ChecklistFile(f"Relation/{source}_action.json", "relation", "relation action", source)
    for name in ("action", "spatial"):
        yield ChecklistFile(f"Relation/vg/{name}.json", "relation", f"relation {name}", "vg")


SOURCES = tuple(_sources())
FILES = tuple(source.file for source in SOURCES)
GROUPS = ("attribute", "object", "relation")
COLUMNS = tuple(dict.fromkeys(source.column for source in SOURCES))
PLACES = {
    "vg": ("vg", "../visual_genome", "../vg"),
    "swig": ("swig", "../swig/images_512", "../swig"),
    "hake": ("hake", "../hake"),
}


def load(root: Path | None) -> Sequence[Item]:
    """Load the available files; a warning lists the absent ones."""
    folder = Folder.of(root, "vl_checklist")
    available = set(available_files(folder, FILES))
    places = {name: folder.image_folder(*candidates) for name, candidates in PLACES.items()}
    items: list[Item] = []
    for source in SOURCES:
        if source.file in available:
            items += _items(folder, source, places[source.images])
    return items


def _items(folder: Folder, source: ChecklistFile, images: Path) -> Iterator[Item]:
    tags = {
        "group": source.group,
        "column": source.column,
        "file": source.file.removesuffix(".json"),
    }
    kinds = ("original", source.column)
    for record in folder.records(source.file):
        name, phrases = _pair(record)
        yield Item(
            id=f"{tags['file']}/{record.key}",
            images=(folder.image(images, name, record.where),),
            captions=(_first(phrases, "POS"), _first(phrases, "NEG")),
            truth=FIRST_OF_2,
            tags=tags,
            kinds=kinds,
        )


def _pair(record: Record) -> tuple[str, Record]:
    """Image name and phrases of a row [name, {"POS": [...], "NEG": [...]}]."""
    row = record.value
    if not isinstance(row, list) or len(row) != 2:
        raise not_official(
            f"{record.where} is not a pair", '[image, {"POS": [text], "NEG": [text]}]'
        )
    name = from_json(str, row[0], f"{record.where}, image")
    return name, Record(row[1], record.key, record.where)


def _first(phrases: Record, side: str) -> str:
    texts = phrases.read(side, tuple[str, ...])
    if not texts or not texts[0].strip():
        raise bad_record(f"{phrases.where}: {side} is empty", "at least one phrase")
    return texts[0]


VL_CHECKLIST = Benchmark(
    **benchmark_fields("vl_checklist"),
    load=load,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(
        Aggregate(by=("column", "file"), label="macro9"),
        Aggregate(by=("group", "column", "file"), label="macro3"),
        *(
            Aggregate(by=("column", "file"), only=(("group", group),), label=f"macro {group}")
            for group in GROUPS
        ),
        *(
            Aggregate(by=("file",), only=(("column", column),), label=f"macro {column}")
            for column in COLUMNS
        ),
        MICRO,
    ),
    official_ties="wrong",
    files=FILES,
)
