"""VSR, zero-shot split: a COCO photograph and a true or false statement about locations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unbag.benchmarks.files import Folder, Record, not_official
from unbag.benchmarks.sources import benchmark_fields
from unbag.data.images import FileImage
from unbag.metrics.statements import Statements
from unbag.types import Benchmark, BoolArray, Item
from unbag.types.json import wrong

SPLITS = ("dev", "test")
_TRUTHS: tuple[BoolArray, BoolArray] = (np.array([[False]]), np.array([[True]]))
for _truth in _TRUTHS:
    _truth.flags.writeable = False


def load(root: Path | None) -> Sequence[Item]:
    """Load the development split (for the threshold) and the test split."""
    folder = Folder.of(root, "vsr")
    items = []
    for split in SPLITS:
        file = f"zeroshot/{split}.jsonl"
        for record in folder.lines(file):
            items.append(
                Item(
                    id=f"{split}/{record.key}",
                    images=(_image(folder, record),),
                    captions=(record.caption("caption"),),
                    truth=_TRUTHS[_label(record)],
                    tags={"split": split, "relation": record.text("relation")},
                )
            )
    return items


def _label(record: Record) -> int:
    value = record.read("label", object)
    if value is True or value is False or value not in (0, 1):
        raise wrong(f"{record.where}.label", found=value, expected="0 or 1")
    return 1 if value == 1 else 0


def _image(folder: Folder, record: Record) -> FileImage:
    """The image, in the authors' folders or in a shared copy of COCO."""
    part = record.text("image_link").split("/")[-2:-1]
    if part not in (["train2017"], ["val2017"]):
        raise not_official(
            f"{record.where}: image_link is {record.text('image_link')!r}",
            "a URL that ends in train2017/<name> or val2017/<name>",
        )
    images = folder.image_folder("images", "trainval2017", f"../coco/{part[0]}")
    return folder.image(images, record.text("image"), record.where)


VSR = Benchmark(
    **benchmark_fields("vsr"),
    load=load,
    metrics=(Statements(),),
    headline="threshold_accuracy",
    official_ties="half",
    files=tuple(f"zeroshot/{split}.jsonl" for split in SPLITS),
)
