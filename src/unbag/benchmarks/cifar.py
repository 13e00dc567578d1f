"""CIFAR-10 and CIFAR-100 from the binary files of their authors, or from class folders.

The Python version of the archives is pickled, which can run code when it is read; the binary
version holds the same pictures.

Dimensions: N pictures, B bytes of a record, C = 3 colours, H and W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unbag.benchmarks.class_lists import Classes, ClassList, Labelled
from unbag.benchmarks.classes import TEMPLATES, ClassFolder, class_benchmark, lines_of
from unbag.benchmarks.files import Folder
from unbag.benchmarks.sources_hosted import CIFAR10_FILES, CIFAR100_FILES
from unbag.errors import UserError
from unbag.pictures.files import PixelPicture
from unbag.types import Item

SIDE = 32


@dataclass(frozen=True)
class Cifar:
    """Loads one split; call it with the folder of the benchmark."""

    name: str
    folder: str
    """Of the unpacked archive."""
    files: tuple[str, ...]
    class_file: str
    """The names of the classes, in their order."""
    labels: int
    """Bytes before the pixels of each picture; the last of them is the class."""
    is_training: bool = False

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """From the binary files if they are there, else from class folders."""
        if root is not None and (root / self.folder).is_dir():
            return ClassList(self.name, self._read, TEMPLATES)(root)
        parts = ("train",) if self.is_training else ("val", "test")
        return ClassFolder(self.name, parts=parts, is_training=self.is_training)(root)

    def _read(self, folder: Folder) -> Classes:
        names = lines_of(folder, f"{self.folder}/{self.class_file}")
        found = [one for file in self.files for one in self._pictures(folder, file, len(names))]
        return Classes(tuple(names), found)

    def _pictures(self, folder: Folder, file: str, classes: int) -> list[Labelled]:
        place = f"{self.folder}/{file}"
        path = folder.root / place
        if not path.is_file():
            folder.text(place)  # Says what is missing.
        size = self.labels + 3 * SIDE * SIDE
        content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        record_NB = content[: len(content) // size * size].reshape(-1, size)
        label_N = record_NB[:, self.labels - 1]
        if len(content) % size or not len(content) or int(label_N.max()) >= classes:
            raise UserError(
                f"{place} of {self.name} is not the file it should be",
                expected=f"records of {size} bytes with a class below {classes}",
                way_out="unpack or download it again",
            )
        pixel_NCHW = record_NB[:, self.labels :].reshape(-1, 3, SIDE, SIDE)
        return [
            Labelled(f"{file}/{at}", PixelPicture(pixels, f"{path}[{at}]"), int(label))
            for at, (pixels, label) in enumerate(
                zip(pixel_NCHW.transpose(0, 2, 3, 1), label_N, strict=True)
            )
        ]


def _ten(files: tuple[str, ...], *, is_training: bool) -> Cifar:
    return Cifar("cifar10", "cifar-10-batches-bin", files, "batches.meta.txt", 1, is_training)


def _hundred(file: str, *, is_training: bool) -> Cifar:
    names = "fine_label_names.txt"
    return Cifar("cifar100", "cifar-100-binary", (file,), names, 2, is_training)


CIFAR10 = class_benchmark(
    "cifar10",
    "Which of ten kinds of thing is in the small photograph?",
    "Krizhevsky 2009, CIFAR-10",
    "no licence stated",
    load=_ten(("test_batch.bin",), is_training=False),
    load_training=_ten(tuple(f"data_batch_{n}.bin" for n in range(1, 6)), is_training=True),
    downloads=CIFAR10_FILES,
    size=10_000,
)
CIFAR100 = class_benchmark(
    "cifar100",
    "Which of a hundred kinds of thing is in the small photograph?",
    "Krizhevsky 2009, CIFAR-100",
    "no licence stated",
    load=_hundred("test.bin", is_training=False),
    load_training=_hundred("train.bin", is_training=True),
    downloads=CIFAR100_FILES,
    size=10_000,
)
