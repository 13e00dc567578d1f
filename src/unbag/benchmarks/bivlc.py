"""BiVLC: SugarCrepe's captions and hard negatives, with a generated image for each hard negative.

It is read from the Parquet files of the Hugging Face hub, which contain the images.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.benchmarks.files import (
    MATCHING_2,
    Folder,
    ParquetImage,
    Record,
    parquet_files,
    parquet_rows,
)
from unbag.benchmarks.sources import benchmark_fields
from unbag.metrics.pairs import Groups
from unbag.types import Benchmark, Item
from unbag.types.json import wrong

PATTERN = "data/test-*.parquet"
_TEXTS = ("caption", "negative_caption", "type", "subtype")
_IMAGES = ("image", "negative_image")


def load(root: Path | None) -> Sequence[Item]:
    """Load one item per row."""
    folder = Folder.of(root, "bivlc")
    return [
        _item(record)
        for path in parquet_files(folder, PATTERN)
        for record in parquet_rows(folder, path, texts=_TEXTS, images=_IMAGES)
    ]


def _item(record: Record) -> Item:
    kind, subtype = record.text("type"), record.text("subtype")
    return Item(
        id=record.key,
        images=tuple(_image(record, name) for name in _IMAGES),
        captions=record.captions("caption", "negative_caption"),
        truth=MATCHING_2,
        tags={"type": kind, "subtype": f"{kind} {subtype}"},
    )


def _image(record: Record, name: str) -> ParquetImage:
    value = record.read(name, object)
    if not isinstance(value, ParquetImage):
        raise wrong(f"{record.where}.{name}", found=value, expected="an image")
    return value


BIVLC = Benchmark(
    **benchmark_fields("bivlc"),
    load=load,
    metrics=(Groups(),),
    headline="group",
    official_ties="wrong",
    files=(PATTERN,),
)
