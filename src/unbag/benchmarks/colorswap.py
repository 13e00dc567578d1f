"""ColorSwap: two captions of the same words with the colours exchanged, and an image of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.benchmarks.files import MATCHING_2, Folder
from unbag.benchmarks.sources import benchmark_fields
from unbag.metrics.pairs import Groups, Relaxed
from unbag.types import Benchmark, Item


def load(root: Path | None) -> Sequence[Item]:
    """Load the test split; image names begin with images/."""
    folder = Folder.of(root, "colorswap")
    images = folder.image_folder("images", "data/images").parent
    return [
        Item(
            id=f"test/{record.read('id', int)}",
            images=folder.images(
                images, (record.text(name) for name in ("image_1", "image_2")), record.where
            ),
            captions=record.captions("caption_1", "caption_2"),
            truth=MATCHING_2,
            tags={name: record.text(name) for name in ("image_source", "caption_source")},
        )
        for record in folder.records("test.json")
    ]


COLORSWAP = Benchmark(
    **benchmark_fields("colorswap"),
    load=load,
    metrics=(Groups(), Relaxed()),
    headline="group",
    official_ties="wrong",
    files=("test.json",),
)
