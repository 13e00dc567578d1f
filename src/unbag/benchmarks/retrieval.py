"""COCO and Flickr30k retrieval on the Karpathy test split: one gallery, all captions.

Dimensions: T true cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unbag.benchmarks.files import Folder
from unbag.benchmarks.sources import COCO_VAL2014
from unbag.benchmarks.sources_hosted import FLICKR30K_BY_HAND
from unbag.benchmarks.sources_pinned import karpathy_coco, karpathy_flickr30k
from unbag.errors import UserError
from unbag.metrics.retrieval import Recall
from unbag.pictures.files import FilePicture
from unbag.published.every import published_for
from unbag.types import MICRO, Benchmark, Item, Sparse


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
    seen: dict[Path, str] = {}
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
        picture = folder.picture(root, record.fields.text("image"), record.where)
        # Two entries of one picture would always tie, and each be wrong for the other's captions.
        if (first := seen.setdefault(picture.path, record.where)) != record.where:
            raise UserError(
                f"{record.where}: its picture is also that of {first}: {picture.path.name}",
                expected="every picture of the gallery once, with all of its captions",
                way_out="put the captions into one record, and say so beside your number",
            )
        pictures.append(picture)
    column_T = np.arange(len(captions), dtype=np.int64)
    truth = Sparse((len(pictures), len(captions)), np.array(rows, dtype=np.int64), column_T)
    return Item(file.removesuffix(".json"), tuple(pictures), tuple(captions), truth)


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
    downloads=(*karpathy_coco("coco_retrieval"), COCO_VAL2014),
    published=published_for("coco_retrieval"),
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
    downloads=karpathy_flickr30k("flickr30k_retrieval"),
    gated=FLICKR30K_BY_HAND,
    published=published_for("flickr30k_retrieval"),
)
