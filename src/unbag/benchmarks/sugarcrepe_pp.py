"""SugarCrepe++: one picture, two captions that both describe it, and a hard negative.

The official image-text hit, both captions above the negative, is our `augmented`; its text-only
hit, which asks the text encoder alone, is `text_only`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.benchmarks.files import FIRST_AND_THIRD, Folder
from unbag.benchmarks.sources import downloads
from unbag.metrics.triples import TextOnly, Triples
from unbag.types import MICRO, Aggregate, Benchmark, Item

KINDS = ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")


def load(root: Path | None) -> Sequence[Item]:
    """Items of all five files; pictures are COCO val2017."""
    folder = Folder.of(root, "sugarcrepe_pp")
    pictures = folder.picture_folder("val2017", "../coco/val2017", "images")
    items = []
    for kind in KINDS:
        family = kind.partition("_")[0]
        for record in folder.records(f"{kind}.json"):
            name = record.text("filename")
            items.append(
                Item(
                    id=f"{kind}/{record.read('id', int)}",
                    pictures=(folder.picture(pictures, name, record.where),),
                    captions=(
                        record.caption("caption"),
                        record.caption("negative_caption"),
                        record.caption("caption2"),
                    ),
                    truth=FIRST_AND_THIRD,
                    tags={"kind": kind, "family": family},
                    kinds=("original", kind, "paraphrase"),
                )
            )
    return items


SUGARCREPE_PP = Benchmark(
    name="sugarcrepe_pp",
    about="Two captions that mean the same must both beat one that reads alike and does not. "
    "Three of the 4,757 triples repeat a caption and are not judged.",
    load=load,
    metrics=(Triples(), TextOnly()),
    compares_captions=True,
    headline="augmented",
    aggregates=(
        Aggregate(by=("kind",), label="macro5"),
        Aggregate(by=("family", "kind"), label="macro2"),
        MICRO,
    ),
    official_ties="wrong",
    cite="Dumpala et al. 2024, SugarCrepe++",
    licence="MIT (annotations); pictures: COCO terms",
    files=tuple(f"{kind}.json" for kind in KINDS),
    sources=("COCO val2017",),
    size=4_757,
    downloads=downloads("sugarcrepe_pp", "coco_val2017"),
)
