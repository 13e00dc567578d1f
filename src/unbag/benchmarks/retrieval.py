"""COCO and Flickr30k retrieval on the Karpathy test split: one gallery, all captions.

Dimensions: T true cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unbag.benchmarks.files import Folder
from unbag.benchmarks.published import CLIP_B32, VL_COMPO, VL_COMPO_MODELS, by_model, by_rule
from unbag.errors import UserError
from unbag.metrics.retrieval import Recall
from unbag.pictures.files import FilePicture
from unbag.types import MICRO, Benchmark, Item, Published, Sparse


def load_coco(root: Path | None) -> Sequence[Item]:
    """5,000 pictures of COCO val2014; ten of them have six captions, and all captions count."""
    folder = Folder.of(root, "coco_retrieval")
    pictures = folder.picture_folder("val2014", "../coco/val2014").parent
    return (_gallery(folder, pictures, "coco_karpathy_test.json"),)


def load_flickr30k(root: Path | None) -> Sequence[Item]:
    """1,000 pictures with five captions each."""
    folder = Folder.of(root, "flickr30k_retrieval")
    pictures = folder.picture_folder("flickr30k-images", "../flickr30k/flickr30k-images").parent
    return (_gallery(folder, pictures, "flickr30k_test.json"),)


def _gallery(folder: Folder, root: Path, file: str) -> Item:
    pictures: list[FilePicture] = []
    captions: list[str] = []
    rows: list[int] = []
    for record in folder.records(file):
        found = record.fields.texts("caption")
        if not found or not all(caption.strip() for caption in found):
            raise UserError(
                f"{record.where}: caption is {list(found)}",
                expected="one or more captions, none empty",
                way_out="mend or remove that record, and say so beside your number",
            )
        rows += [len(pictures)] * len(found)
        captions += found
        pictures.append(folder.picture(root, record.fields.text("image"), record.where))
    if not pictures:
        raise UserError(
            f"{file} of {folder.benchmark} has no records",
            expected="the pictures of the test split",
            way_out="download it again",
        )
    column_T = np.arange(len(captions), dtype=np.int64)
    truth = Sparse((len(pictures), len(captions)), np.array(rows, dtype=np.int64), column_T)
    return Item(file.removesuffix(".json"), tuple(pictures), tuple(captions), truth)


_PAPER = "Kamath et al. 2024, The hard positive truth, table 10"


def _published(
    image_to_text: Sequence[float], text_to_image: Sequence[float], paper: tuple[float, float]
) -> tuple[Published, ...]:
    compo = {"image_to_text@1": image_to_text, "text_to_image@1": text_to_image}
    return tuple(
        one
        for (metric, row), percent in zip(compo.items(), paper, strict=True)
        for one in (
            *by_model(VL_COMPO, VL_COMPO_MODELS, {"micro": row}, metric=metric),
            *by_rule(_PAPER, ["micro"], {CLIP_B32: (percent,)}, metric=metric),
        )
    )


COCO_RETRIEVAL = Benchmark(
    name="coco_retrieval",
    about="Find the picture of a caption among 5,000 of COCO, and the caption of a picture.",
    load=load_coco,
    metrics=(Recall(),),
    headline="text_to_image@1",
    aggregates=(MICRO,),
    cite="Lin et al. 2014, Microsoft COCO; split of Karpathy and Fei-Fei 2015",
    licence="CC BY 4.0 (captions); pictures: COCO terms",
    files=("coco_karpathy_test.json",),
    sources=("COCO val2014",),
    published=_published((50.1, 56.3, 59.3, 56.0), (30.5, 36.5, 45.2, 47.1), (50.14, 30.46)),
)
FLICKR30K_RETRIEVAL = Benchmark(
    name="flickr30k_retrieval",
    about="Find the picture of a caption among 1,000 of Flickr30k, and the caption of a picture.",
    load=load_flickr30k,
    metrics=(Recall(),),
    headline="text_to_image@1",
    aggregates=(MICRO,),
    cite="Young et al. 2014, From image descriptions to visual denotations; Karpathy split",
    licence="Flickr30k terms: research only",
    files=("flickr30k_test.json",),
    sources=("Flickr30k",),
    published=_published((78.8, 85.2, 85.7, 75.3), (58.8, 64.9, 71.6, 68.9), (77.40, 58.82)),
)
