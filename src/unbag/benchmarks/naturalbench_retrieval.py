"""NaturalBench as retrieval: two photographs and a caption of each, from the authors' archive.

It is read from metadata.json and images/ of NaturalBench-Retrieval.zip; the questions
(`naturalbench`) are in another file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbag.benchmarks.files import MATCHING_2, Folder
from unbag.benchmarks.sources import benchmark_fields
from unbag.errors import UnbagError
from unbag.metrics.pairs import Groups
from unbag.types import Benchmark, Item

FILE = "metadata.json"


def load(root: Path | None) -> Sequence[Item]:
    """Load one item per record; as in the official code their indices must count from 0."""
    folder = Folder.of(root, "naturalbench_retrieval")
    images = folder.image_folder("images")
    items = []
    for position, record in enumerate(folder.records(FILE)):
        index = record.read("index", int)
        if index != position:
            raise UnbagError(
                f"{record.where}: index is {index}",
                expected=f"{position}, its place in the file",
                hint="check that it is the official file, in its order",
            )
        items.append(
            Item(
                id=f"pair/{index}",
                images=folder.images(images, record.captions("image_0", "image_1"), record.where),
                captions=record.captions("caption_0", "caption_1"),
                truth=MATCHING_2,
            )
        )
    return items


NATURALBENCH_RETRIEVAL = Benchmark(
    **benchmark_fields("naturalbench_retrieval"),
    load=load,
    metrics=(Groups(),),
    headline="group",
    official_ties="wrong",
    files=(FILE,),
)
