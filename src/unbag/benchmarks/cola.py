"""COLA, multi-object setting: two captions with the attributes of two objects exchanged.

The single-object setting asks for a mean average precision over 320 labels and is not read: the
official page and the official script disagree on the layout of its files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from unbag.benchmarks.files import MATCHING_2, Folder, with_field_names
from unbag.benchmarks.sources import benchmark_fields
from unbag.metrics.pairs import Groups
from unbag.types import Benchmark, Item

FILE = "COLA_multiobjects_matching_benchmark.json"
_CELLS = ("image_1", "caption_1", "image_2", "caption_2")


def load(root: Path | None) -> Sequence[Item]:
    """Load one item per row; images are those of Visual Genome, named by id."""
    folder = Folder.of(root, "cola")
    images = folder.image_folder("images", "vg_images", "../visual_genome")
    items = []
    for row in folder.records(FILE):
        record = with_field_names(row, _CELLS)
        # The rows hold URLs; the last part is the file name.
        names = [PurePosixPath(address).name for address in record.captions("image_1", "image_2")]
        items.append(
            Item(
                id=f"pair/{record.key}",
                images=folder.images(images, names, record.where),
                captions=record.captions("caption_1", "caption_2"),
                truth=MATCHING_2,
            )
        )
    return items


COLA = Benchmark(
    **benchmark_fields("cola"),
    load=load,
    metrics=(Groups(),),
    # The official accuracy is that of the captions, each of which must pick its image.
    headline="image",
    files=(FILE,),
)
