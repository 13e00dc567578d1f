"""SugarCrepe: one picture, a caption and a fluent hard negative, in seven kinds of edit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.benchmarks.files import FIRST_OF_2, Folder
from unbag.metrics.choice import Choice
from unbag.types import MICRO, Aggregate, Benchmark, Item

KINDS = (
    "add_att",
    "add_obj",
    "replace_att",
    "replace_obj",
    "replace_rel",
    "swap_att",
    "swap_obj",
)


def load(root: Path | None) -> Sequence[Item]:
    """Items of all seven files; pictures are COCO val2017."""
    folder = Folder.of(root, "sugarcrepe")
    pictures = folder.picture_folder("val2017", "../coco/val2017", "images")
    items = []
    for kind in KINDS:
        family = kind.partition("_")[0]
        for record in folder.records(f"{kind}.json"):
            name = record.fields.text("filename")
            items.append(
                Item(
                    id=f"{kind}/{record.key}",
                    pictures=(folder.picture(pictures, name, record.where),),
                    captions=(record.caption("caption"), record.caption("negative_caption")),
                    truth=FIRST_OF_2,
                    tags={"kind": kind, "family": family},
                    kinds=("original", kind),
                )
            )
    return items


SUGARCREPE = Benchmark(
    name="sugarcrepe",
    about="A fluent caption against the same with an object, attribute or relation added, "
    "replaced or swapped.",
    load=load,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(
        Aggregate(by=("kind",), label="macro7"),
        Aggregate(by=("family", "kind"), label="macro3"),
        MICRO,
    ),
    cite="Hsieh et al. 2023, SugarCrepe",
    licence="MIT (annotations); pictures: COCO terms",
    files=tuple(f"{kind}.json" for kind in KINDS),
    sources=("COCO val2017",),
)
