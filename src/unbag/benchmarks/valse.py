"""VALSE: one image, a caption and a foil, in eleven instruments.

The files include rows that the annotators rejected: 7,702 of the 8,782 are valid. `load` reads all
rows, of which 24 have a foil equal to its caption. `load_valid` reads those where at least two of
three annotators chose the caption (`mturk.caption >= 2`), like the official code. Published numbers
cover the valid rows, so they are the default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from unbag.benchmarks.files import FIRST_OF_2, Folder
from unbag.benchmarks.sources import benchmark_fields
from unbag.metrics.choice import Choice
from unbag.published.averaging import VALSE_PHENOMENA
from unbag.types import MICRO, Aggregate, Benchmark, Errata, Item
from unbag.types.json import read_field

MIN_VOTES = 2
_VISUAL7W = ("visual7w/images", "images", "../visual7w/images", "../visual7w")
_SWIG = ("actions/images_512", "images", "../swig/images_512", "../swig")
_COREFERENCE = ("coref/release_too_many_is_this_in_color/images", "images")
PLACES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "existence": _VISUAL7W,
        "plurals": ("plurals/test_images", "images", "../coco/val2017"),
        "counting-hard": _VISUAL7W,
        "counting-small-quant": _VISUAL7W,
        "counting-adversarial": _VISUAL7W,
        "relations": ("relations/test_images", "images", "../coco/val2017"),
        "action-replacement": _SWIG,
        "actant-swap": _SWIG,
        "coreference-standard": _COREFERENCE,
        "coreference-hard": (
            "coref/release_v18/test_images",
            "images",
            "../visdial/VisualDialog_val2018",
        ),
        "foil-it": ("val2014", "images", "../coco/val2014"),
    }
)
"""Possible image folders of each instrument; the official code's comes first."""
INSTRUMENTS = tuple(PLACES)
PHENOMENON = MappingProxyType(
    {name: phenomenon for phenomenon, names in VALSE_PHENOMENA.items() for name in names}
)
"""The phenomenon of each instrument; there are seven."""


def load(root: Path | None) -> Sequence[Item]:
    """Load every row, valid or not."""
    return [item for item, _ in _rows(root)]


def load_valid(root: Path | None) -> Sequence[Item]:
    """Load the valid rows, which published numbers cover."""
    return [item for item, votes in _rows(root) if votes >= MIN_VOTES]


def _rows(root: Path | None) -> Iterator[tuple[Item, int]]:
    """Each item, with the number of annotators who chose its caption."""
    folder = Folder.of(root, "valse")
    for instrument in INSTRUMENTS:
        column = "counting" if instrument.startswith("counting") else instrument
        places: dict[str, Path] = {}
        for record in folder.records(f"{instrument}.json"):
            name = record.text("image_file")
            split = ""
            if instrument == "coreference-standard":
                # It mixes both parts of COCO 2014; names tell them apart: COCO_train2014_...
                split = "train2014" if "train2014" in name else "val2014"
            if split not in places:
                shared = (f"../coco/{split}",) if split else ()
                places[split] = folder.image_folder(*PLACES[instrument], *shared)
            item = Item(
                id=f"{instrument}/{record.key}",
                images=(folder.image(places[split], name, record.where),),
                captions=record.captions("caption", "foil"),
                truth=FIRST_OF_2,
                tags={
                    "instrument": instrument,
                    "column": column,
                    "phenomenon": PHENOMENON[instrument],
                },
                kinds=("original", instrument),
            )
            votes = record.read("mturk", object)
            yield item, read_field(votes, "caption", int, f"{record.where}.mturk")


VALSE = Benchmark(
    **benchmark_fields("valse"),
    load=load,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(
        Aggregate(by=("instrument",), label="macro11"),
        Aggregate(by=("column", "instrument"), label="macro9"),
        Aggregate(by=("phenomenon", "instrument"), label="macro7"),
        Aggregate(by=("instrument",), only=(("column", "counting"),), label="macro counting"),
        MICRO,
    ),
    official_ties="wrong",
    files=tuple(f"{instrument}.json" for instrument in INSTRUMENTS),
    errata=Errata(
        "valid rows",
        "1,080 of the 8,782 rows were rejected by the annotators (fewer than two of three chose "
        "the caption); the official code leaves them out.",
        load_valid,
        is_published=True,
    ),
)
