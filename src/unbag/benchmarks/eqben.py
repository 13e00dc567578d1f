"""EqBen, the public 10 % subset: two similar frames, and a caption of each.

Frames of YouCook2 are stored as NumPy arrays in BGR order. The full annotation is not supported,
because no public code shows its layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from unbag.benchmarks.files import MATCHING_2, Folder, Record
from unbag.benchmarks.sources import benchmark_fields
from unbag.data.images import FileImage
from unbag.metrics.pairs import Groups
from unbag.types import Benchmark, ImageSource, Item

if TYPE_CHECKING:
    from PIL.Image import Image

FILE = "eqben_subset_10percent_final.json"


@dataclass(frozen=True)
class BgrImage:
    """A frame stored as an array [height, width, blue-green-red] in a .npy file."""

    path: Path

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def key(self) -> str:
        """Hash of the file's bytes."""
        return f"bgr:{FileImage(self.path).key}"

    def open(self) -> Image:
        """Decode to RGB; raises OSError or ValueError on failure. Nothing is unpickled."""
        from PIL import Image

        try:
            pixels = np.load(self.path, allow_pickle=False)
        except EOFError as error:
            raise ValueError(str(error)) from error
        if not isinstance(pixels, np.ndarray):
            raise ValueError(f"{self.path.name} holds several arrays, expected one")
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise ValueError(
                f"an array of shape {pixels.shape} and type {pixels.dtype}, "
                "expected [height, width, 3] of uint8"
            )
        return Image.fromarray(np.ascontiguousarray(pixels[:, :, ::-1]))


def load(root: Path | None) -> Sequence[Item]:
    """Load one item per record; the first folder of an image name is its collection."""
    folder = Folder.of(root, "eqben")
    images = folder.image_folder("image_subset")
    items = []
    for record in folder.records(FILE):
        parts = PurePosixPath(record.caption("image0")).parts
        items.append(
            Item(
                id=f"pair/{record.key}",
                images=tuple(_image(folder, images, record, name) for name in ("image0", "image1")),
                captions=record.captions("caption0", "caption1"),
                truth=MATCHING_2,
                tags={"collection": parts[0] if len(parts) > 1 else "not named"},
            )
        )
    return items


def _image(folder: Folder, images: Path, record: Record, name: str) -> ImageSource:
    image = folder.image(images, record.caption(name), record.where)
    return BgrImage(image.path) if image.path.suffix == ".npy" else image


EQBEN = Benchmark(
    **benchmark_fields("eqben"),
    load=load,
    metrics=(Groups(),),
    headline="group",
    official_ties="wrong",
    files=(FILE,),
)
