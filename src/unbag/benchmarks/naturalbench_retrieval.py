"""NaturalBench as retrieval: two photographs and a caption of each, from the authors' archive.

Read from metadata.json and images/ of NaturalBench-Retrieval.zip; it is another file than that of
the questions (`naturalbench`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.benchmarks.files import MATCHING_2, Folder, Record
from unbag.benchmarks.sources import by_hand
from unbag.errors import UserError
from unbag.metrics.pairs import Groups
from unbag.published.lookup import published_for
from unbag.types import MICRO, Benchmark, Item

FILE = "metadata.json"


def load(root: Path | None) -> Sequence[Item]:
    """One item a record; records are numbered from 0 in their order, as official code demands."""
    folder = Folder.of(root, "naturalbench_retrieval")
    pictures = folder.picture_folder("images")
    return [_item(folder, pictures, record, at) for at, record in enumerate(folder.records(FILE))]


def _item(folder: Folder, pictures: Path, record: Record, at: int) -> Item:
    index = record.read("index", int)
    if index != at:
        raise UserError(
            f"{record.where}: index is {index}",
            expected=f"{at}, its place in the file",
            way_out="check that it is the official file, in its order",
        )
    return Item(
        id=f"pair/{index}",
        pictures=tuple(
            folder.picture(pictures, record.caption(name), record.where)
            for name in ("image_0", "image_1")
        ),
        captions=(record.caption("caption_0"), record.caption("caption_1")),
        truth=MATCHING_2,
    )


NATURALBENCH_RETRIEVAL = Benchmark(
    name="naturalbench_retrieval",
    about="Two photographs that a model takes for alike and a caption of each: which belong "
    "together?",
    load=load,
    metrics=(Groups(),),
    headline="group",
    aggregates=(MICRO,),
    official_ties="wrong",
    cite="Li et al. 2024, NaturalBench",
    licence="Apache-2.0 (page of the data set); pictures: Flickr30k and DOCCI terms",
    files=(FILE,),
    gated=by_hand("naturalbench_retrieval"),
    # What the authors' archive unpacks to.
    folder="NaturalBench-Retrieval",
    sources=("Flickr30k", "DOCCI"),
    published=published_for("naturalbench_retrieval"),
)
