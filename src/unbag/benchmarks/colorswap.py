"""ColorSwap: two captions of the same words with the colours exchanged, and a picture of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.benchmarks.files import MATCHING_2, Folder
from unbag.benchmarks.sources import by_hand
from unbag.metrics.pairs import Groups, Relaxed
from unbag.published.lookup import published_for
from unbag.types import MICRO, Benchmark, Item


def load(root: Path | None) -> Sequence[Item]:
    """The items of the test split; picture names begin with images/."""
    folder = Folder.of(root, "colorswap")
    pictures = folder.picture_folder("images", "data/images").parent
    items = []
    for record in folder.records("test.json"):
        items.append(
            Item(
                id=f"test/{record.read('id', int)}",
                pictures=tuple(
                    folder.picture(pictures, record.text(name), record.where)
                    for name in ("image_1", "image_2")
                ),
                captions=(record.caption("caption_1"), record.caption("caption_2")),
                truth=MATCHING_2,
                tags={name: record.text(name) for name in ("image_source", "caption_source")},
            )
        )
    return items


COLORSWAP = Benchmark(
    name="colorswap",
    about="Which colour belongs to which thing: the colours of a caption exchanged, with a picture "
    "for each.",
    load=load,
    metrics=(Groups(), Relaxed()),
    headline="group",
    aggregates=(MICRO,),
    official_ties="wrong",
    cite="Burapacheep et al. 2024, ColorSwap",
    licence="MIT",
    files=("test.json",),
    sources=("ColorSwap (generated)",),
    gated=by_hand("colorswap"),
    published=published_for("colorswap"),
)
