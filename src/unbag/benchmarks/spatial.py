"""COCO-spatial and GQA-spatial: a photograph, a caption with a place or relation, its opposite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from unbag.benchmarks.files import FIRST_OF_2, Folder
from unbag.benchmarks.rows import named
from unbag.benchmarks.sources import COCO_VAL2017
from unbag.benchmarks.sources_hosted import COCO_SPATIAL as _COCO_FILES
from unbag.benchmarks.sources_hosted import GQA_SPATIAL as _GQA_FILES
from unbag.metrics.choice import Choice
from unbag.published.every import published_for
from unbag.types import MICRO, Aggregate, Benchmark, Item
from unbag.types.json_fields import as_whole, wrong

OBJECTS = ("one", "two")
_WORDS = ("left of", "right of", "front of", "behind", "above", "below")


def load_coco(root: Path | None) -> Sequence[Item]:
    """Pictures are COCO val2017, named by twelve digits."""
    folder = Folder.of(root, "coco_spatial")
    pictures = folder.picture_folder("val2017", "../coco/val2017")
    return _load(folder, pictures, prefix="coco_qa", digits=12)


def load_gqa(root: Path | None) -> Sequence[Item]:
    """Pictures are those of Visual Genome, named by their id."""
    folder = Folder.of(root, "gqa_spatial")
    pictures = folder.picture_folder("vg_images", "../visual_genome")
    return _load(folder, pictures, prefix="vg_qa", digits=0)


def _load(folder: Folder, pictures: Path, *, prefix: str, digits: int) -> Sequence[Item]:
    items = []
    for objects in OBJECTS:
        file = f"{prefix}_{objects}_obj.json"
        for row in folder.records(file):
            record = named(row, ["image_id", "correct", "wrong"])
            name = f"{record.fields.read('image_id', _image_id).zfill(digits)}.jpg"
            captions = (record.caption("correct"), record.caption("wrong"))
            items.append(
                Item(
                    id=f"{file}/{record.key}",
                    pictures=(folder.picture(pictures, name, record.where),),
                    captions=captions,
                    truth=FIRST_OF_2,
                    tags={"objects": objects, "relation": _relation(captions[0], objects)},
                )
            )
    return items


def _image_id(value: object, where: str) -> str:
    """Ids stand in the files as numbers or as text."""
    text = value if isinstance(value, str) else str(as_whole(value, where))
    if not text.isalnum():
        raise wrong(where, found=value, expected="an image id of letters and digits")
    return text


def _relation(caption: str, objects: str) -> str:
    """By the rule of the official code: the last word for one object, the phrase for two."""
    if objects == "one":
        return caption.split()[-1]
    return next((words.removesuffix(" of") for words in _WORDS if words in caption), "top")


_benchmark = partial(
    Benchmark,
    metrics=(Choice(),),
    headline="accuracy",
    aggregates=(Aggregate(by=("objects",)), MICRO),
    official_ties="argmax_first",
    cite='Kamath et al. 2023, What\'s "up" with vision-language models?',
)
COCO_SPATIAL = _benchmark(
    name="coco_spatial",
    about="Where is a thing in a COCO photograph, or where are two of them to each other?",
    load=load_coco,
    licence="MIT (annotations); pictures: COCO terms",
    files=("coco_qa_one_obj.json", "coco_qa_two_obj.json"),
    sources=("COCO val2017",),
    downloads=(*_COCO_FILES, COCO_VAL2017),
    published=published_for("coco_spatial"),
)
GQA_SPATIAL = _benchmark(
    name="gqa_spatial",
    about="Where is a thing in a Visual Genome photograph, or where are two of them to each other?",
    load=load_gqa,
    licence="MIT (annotations); pictures: Visual Genome terms",
    files=("vg_qa_one_obj.json", "vg_qa_two_obj.json"),
    sources=("Visual Genome",),
    downloads=_GQA_FILES,
    published=published_for("gqa_spatial"),
)
