"""COCO-spatial and GQA-spatial: a photograph, a caption with a place or relation, its opposite."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from unbag.benchmarks.files import FIRST_OF_2, Folder
from unbag.benchmarks.published import CLIP_L14, VL_COMPO, VL_COMPO_MODELS, by_model, by_rule
from unbag.benchmarks.rows import named
from unbag.metrics.choice import Choice
from unbag.types import MICRO, Aggregate, Benchmark, Item, Published
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


_L14_336 = "CLIP ViT-L/14-336 (openai)"
_RESPONSES = "CLIP against chat models, free answers"
_RULES = ["micro[objects=one]", "micro[objects=two]"]


def _published(
    compo: dict[str, tuple[float, ...]], rows: dict[str, tuple[float, float]]
) -> tuple[Published, ...]:
    return (*by_model(VL_COMPO, VL_COMPO_MODELS, compo), *by_rule(_RESPONSES, _RULES, rows))


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
    published=_published(
        {_RULES[0]: (43.3, 48.8, 46.0, 42.0), _RULES[1]: (50.7, 49.8, 46.1, 51.8)},
        {
            CLIP_L14: (49.1, 50.2),
            _L14_336: (48.9, 51.1),
            "XVLM-COCO": (68.4, 73.6),
            "LLaVA-1.5-7B": (96.0, 82.3),
        },
    ),
)
GQA_SPATIAL = _benchmark(
    name="gqa_spatial",
    about="Where is a thing in a Visual Genome photograph, or where are two of them to each other?",
    load=load_gqa,
    licence="MIT (annotations); pictures: Visual Genome terms",
    files=("vg_qa_one_obj.json", "vg_qa_two_obj.json"),
    sources=("Visual Genome",),
    published=_published(
        {_RULES[0]: (46.3, 45.5, 46.1, 47.1), _RULES[1]: (47.1, 48.1, 48.1, 47.8)},
        {
            CLIP_L14: (46.0, 48.1),
            _L14_336: (46.6, 49.1),
            "XVLM-COCO": (69.1, 67.0),
            "LLaVA-1.5-7B": (96.0, 90.7),
        },
    ),
)
