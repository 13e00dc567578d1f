"""BiVLC: SugarCrepe's captions and hard negatives, with a picture drawn for each hard negative.

Read from the Parquet files of the hub, which hold the pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.benchmarks.files import (
    MATCHING_2,
    Folder,
    ParquetPicture,
    Record,
    parquet_files,
    parquet_rows,
)
from unbag.benchmarks.sources import described
from unbag.metrics.pairs import Groups
from unbag.types import Benchmark, Item
from unbag.types.json import wrong

PATTERN = "data/test-*.parquet"
_TEXTS = ("caption", "negative_caption", "type", "subtype")
_PICTURES = ("image", "negative_image")


def load(root: Path | None) -> Sequence[Item]:
    """One item a row."""
    folder = Folder.of(root, "bivlc")
    return [
        _item(record)
        for path in parquet_files(folder, PATTERN)
        for record in parquet_rows(folder, path, texts=_TEXTS, pictures=_PICTURES)
    ]


def _item(record: Record) -> Item:
    kind, part = record.text("type"), record.text("subtype")
    return Item(
        id=record.key,
        pictures=tuple(_picture(record, name) for name in _PICTURES),
        captions=record.captions("caption", "negative_caption"),
        truth=MATCHING_2,
        tags={"type": kind, "subtype": f"{kind} {part}"},
    )


def _picture(record: Record, name: str) -> ParquetPicture:
    value = record.read(name, object)
    if not isinstance(value, ParquetPicture):
        raise wrong(f"{record.where}.{name}", found=value, expected="a picture")
    return value


BIVLC = Benchmark(
    **described("bivlc"),
    load=load,
    metrics=(Groups(),),
    headline="group",
    official_ties="wrong",
    files=(PATTERN,),
)
