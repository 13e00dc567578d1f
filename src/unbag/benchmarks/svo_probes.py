"""SVO-Probes: a sentence, its image, and an image with another subject, verb or object.

The official file holds URLs, not images; save each image as images/<image id>.jpg.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unbag.benchmarks.files import Folder, Record, not_official
from unbag.benchmarks.sources import benchmark_fields
from unbag.metrics.choice import PickImage
from unbag.types import MICRO, Aggregate, Benchmark, BoolArray, Item

FILE = "svo_probes.csv"
FLAGS = ("subj_neg", "verb_neg", "obj_neg")
_PARTS = ("subject", "verb", "object")
FIRST_IMAGE: BoolArray = np.array([[True], [False]])
FIRST_IMAGE.flags.writeable = False


def load(root: Path | None) -> Sequence[Item]:
    """Load one item per row: two images, one sentence. Rows of one sentence form a group."""
    folder = Folder.of(root, "svo_probes")
    images = folder.image_folder("images")
    columns = ("sentence", "pos_image_id", "neg_image_id", *FLAGS)
    items = []
    for record in folder.table(FILE, columns=columns):
        sentence = record.caption("sentence")
        names = [f"{image_id}.jpg" for image_id in record.captions("pos_image_id", "neg_image_id")]
        items.append(
            Item(
                id=f"{FILE}/{record.key}",
                images=folder.images(images, names, record.where),
                captions=(sentence,),
                truth=FIRST_IMAGE,
                group=f"sentence/{sentence}",
                tags={"negative": _negative(record)},
            )
        )
    return items


def _negative(record: Record) -> str:
    """The part of the sentence that the other image does not show."""
    flags = [record.text(flag) for flag in FLAGS]
    if sorted(flags) != ["False", "False", "True"]:
        raise not_official(
            f"{record.where}: {', '.join(FLAGS)} are {', '.join(map(repr, flags))}",
            "True for one of them and False for the others",
        )
    return _PARTS[flags.index("True")]


SVO_PROBES = Benchmark(
    **benchmark_fields("svo_probes"),
    load=load,
    metrics=(PickImage(),),
    headline="image_accuracy",
    aggregates=(Aggregate(by=("negative",)), MICRO),
    files=(FILE,),
)
