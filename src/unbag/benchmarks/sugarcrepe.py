"""SugarCrepe: one image, a caption and a fluent hard negative, in seven kinds of edit.

The current release has 7,511 rows. An earlier one had 7,512: see `ERRATA`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from unbag.benchmarks.files import FIRST_OF_2, Folder, Record
from unbag.benchmarks.sources import benchmark_fields
from unbag.data.images import FileImage
from unbag.metrics.choice import Choice
from unbag.types import MICRO, Aggregate, Benchmark, Errata, Item

KINDS = (
    "add_att",
    "add_obj",
    "replace_att",
    "replace_obj",
    "replace_rel",
    "swap_att",
    "swap_obj",
)
FAMILIES = ("replace", "swap", "add")
ERRATA: Mapping[str, str] = MappingProxyType({"swap_obj": "000000310622.jpg"})
"""Kind -> image of the one row that the authors removed: it shows two street signs, so that the
swapped caption is true as well. Papers with swap_obj 61.38 for CLIP ViT-B/32 used the 246 rows
with it, those with 61.22 the 245 without. No other row of that file uses this image."""


def load(root: Path | None) -> Sequence[Item]:
    """Load all seven files."""
    return [
        Item(
            id=f"{tags['kind']}/{record.key}",
            images=(image,),
            captions=record.captions("caption", "negative_caption"),
            truth=FIRST_OF_2,
            tags=tags,
            kinds=("original", tags["kind"]),
        )
        for record, image, tags in rows(root, "sugarcrepe", KINDS)
    ]


def rows(
    root: Path | None, benchmark: str, kinds: Sequence[str]
) -> Iterator[tuple[Record, FileImage, Mapping[str, str]]]:
    """Records of one file per kind, with image (of COCO val2017) and tags."""
    folder = Folder.of(root, benchmark)
    images = folder.image_folder("val2017", "../coco/val2017", "images")
    for kind in kinds:
        tags = {"kind": kind, "family": kind.partition("_")[0]}
        for record in folder.records(f"{kind}.json"):
            yield record, folder.image(images, record.text("filename"), record.where), tags


def load_corrected(root: Path | None) -> Sequence[Item]:
    """Like `load`, without the row in ERRATA, for folders with the earlier release."""
    return [item for item in load(root) if not _is_removed(item)]


def _is_removed(item: Item) -> bool:
    removed = ERRATA.get(item.tags["kind"])
    return removed is not None and item.images[0].name.endswith(removed)


SUGARCREPE = Benchmark(
    **benchmark_fields("sugarcrepe"),
    load=load,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(
        Aggregate(by=("kind",), label="macro7"),
        Aggregate(by=("family", "kind"), label="macro3"),
        Aggregate(by=("family",)),
        *(
            Aggregate(by=("kind",), only=(("family", family),), label=f"macro {family}")
            for family in FAMILIES
        ),
        MICRO,
    ),
    official_ties="wrong",
    files=tuple(f"{kind}.json" for kind in KINDS),
    errata=Errata(
        "removed row",
        "The first release had one more row of swap_obj (image 000000310622, two street signs), "
        "whose swapped caption is true as well; the authors took it out. Without it here too.",
        load_corrected,
    ),
)
