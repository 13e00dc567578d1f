"""Classification benchmarks: CIFAR, ImageNet-1k and the datasets of VTAB and ELEVATER.

Published zero-shot numbers on ImageNet use CLIP's names of the 1,000 classes and its 80 prompts,
which open_clip includes. Two of those names (missile, sunglasses) are used for two classes each.
Their images are ties: wrong by our rule; by the official rule half of them are right.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from unbag.benchmarks.classification import readers
from unbag.benchmarks.classification.folders import (
    TEMPLATES,
    ClassFolder,
    names_by_folder,
    nonempty_lines,
    split_folder,
    usual_templates,
)
from unbag.benchmarks.classification.readers import Classes, ClassList, Labelled
from unbag.benchmarks.files import Folder
from unbag.benchmarks.sources import benchmark_fields
from unbag.data.images import PixelImage
from unbag.errors import IncompleteWarning, UnbagError
from unbag.metrics.choice import Classify
from unbag.types import MICRO, Aggregate, Benchmark, Item, Loader


def _benchmark(
    name: str, load: Loader, files: tuple[str, ...] = ("*/*",), training: Loader | None = None
) -> Benchmark:
    """A classification benchmark: top-1 accuracy over images, and over classes."""
    return Benchmark(
        **benchmark_fields(name),
        load=load,
        load_training=training,
        metrics=(Classify(),),
        headline="accuracy",
        aggregates=(MICRO, Aggregate(by=("class",))),
        # Public code takes the argmax over classes in their order.
        official_ties="argmax_first",
        files=files,
    )


def _listed(name: str, read: Callable[[Folder], Classes], *files: str) -> Benchmark:
    """A benchmark read from the authors' lists or archives."""
    return _benchmark(name, ClassList(name, read, usual_templates(name)), files)


def _folders(name: str, *, part: str = "test", codes: str = "") -> Benchmark:
    """A benchmark read from class folders."""
    load = ClassFolder(
        name,
        templates=usual_templates(name),
        parts=("test", part),
        names=names_by_folder(name),
        codes=codes,
    )
    return _benchmark(name, load, ("**/*",))


@dataclass(frozen=True)
class ImageNet:
    """Loader of one split of ImageNet-1k."""

    is_training: bool = False

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """Load one item per image."""
        parts = ("train",) if self.is_training else ("val", "test")
        return ClassFolder(
            "imagenet1k",
            templates=_templates(root),
            parts=parts,
            is_training=self.is_training,
            names=_imagenet_names(root, parts),
            codes=r"n\d{8}",
            may_repeat=True,
        )(root)


def _templates(root: Path | None) -> tuple[str, ...]:
    if root is None or (root / "templates.txt").is_file():
        return TEMPLATES
    if find_spec("open_clip") is None:
        warnings.warn(
            IncompleteWarning(
                "one prompt a class; published numbers average over CLIP's 80: install "
                "unbag[open_clip], which carries them, or write templates.txt"
            ),
            stacklevel=4,
        )
        return TEMPLATES
    from open_clip import (  # type: ignore[import-untyped, unused-ignore]
        OPENAI_IMAGENET_TEMPLATES,
    )

    return tuple(template("{}") for template in OPENAI_IMAGENET_TEMPLATES)


def _imagenet_names(root: Path | None, parts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """CLIP's class names by folder, if there are 1,000 folders; names follow their sorted order."""
    if root is None or (root / "classnames.txt").is_file() or find_spec("open_clip") is None:
        return ()
    folders = split_folder(root, parts)
    if len(folders) != 1000:
        return ()
    from open_clip import (  # type: ignore[import-untyped, unused-ignore]
        IMAGENET_CLASSNAMES,
    )

    return tuple(zip(folders, IMAGENET_CLASSNAMES, strict=True))


IMAGENET1K = _benchmark("imagenet1k", ImageNet(), training=ImageNet(is_training=True))

SIDE = 32


@dataclass(frozen=True)
class Cifar:
    """Loader of one split of CIFAR, from the authors' binary files or from class folders.

    The Python version of the archives is not supported: it is pickled, so reading it can run code.
    The binary version holds the same images.

    Dimensions: N images, B bytes of a record, C = 3 colours, H and W pixels.
    """

    name: str
    folder: str
    """Folder of the unpacked archive."""
    files: tuple[str, ...]
    class_file: str
    """The names of the classes, in their order."""
    labels: int
    """Bytes before the pixels of each image; the last of them is the class."""
    is_training: bool = False

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """Load the binary files if their folder exists, else class folders."""
        if root is not None and (root / self.folder).is_dir():
            return ClassList(self.name, self._read, TEMPLATES)(root)
        parts = ("train",) if self.is_training else ("val", "test")
        return ClassFolder(self.name, parts=parts, is_training=self.is_training)(root)

    def _read(self, folder: Folder) -> Classes:
        names = nonempty_lines(folder, f"{self.folder}/{self.class_file}")
        images = [image for file in self.files for image in self._images(folder, file, len(names))]
        return Classes(tuple(names), images)

    def _images(self, folder: Folder, file: str, classes: int) -> list[Labelled]:
        place = f"{self.folder}/{file}"
        path = folder.root / place
        if not path.is_file():
            folder.text(place)  # Raises the error that names the missing file.
        size = self.labels + 3 * SIDE * SIDE
        content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        record_NB = content[: len(content) // size * size].reshape(-1, size)
        label_N = record_NB[:, self.labels - 1]
        if len(content) % size or not len(content) or int(label_N.max()) >= classes:
            raise UnbagError(
                f"{place} of {self.name} is not the file it should be",
                expected=f"records of {size} bytes with a class below {classes}",
                hint="unpack or download it again",
            )
        pixel_NCHW = record_NB[:, self.labels :].reshape(-1, 3, SIDE, SIDE)
        return [
            Labelled(f"{file}/{index}", PixelImage(pixels, f"{path}[{index}]"), int(label))
            for index, (pixels, label) in enumerate(
                zip(pixel_NCHW.transpose(0, 2, 3, 1), label_N, strict=True)
            )
        ]


def _ten(files: tuple[str, ...], *, is_training: bool) -> Cifar:
    return Cifar("cifar10", "cifar-10-batches-bin", files, "batches.meta.txt", 1, is_training)


def _hundred(file: str, *, is_training: bool) -> Cifar:
    names = "fine_label_names.txt"
    return Cifar("cifar100", "cifar-100-binary", (file,), names, 2, is_training)


CIFAR10 = _benchmark(
    "cifar10",
    _ten(("test_batch.bin",), is_training=False),
    training=_ten(tuple(f"data_batch_{n}.bin" for n in range(1, 6)), is_training=True),
)
CIFAR100 = _benchmark(
    "cifar100",
    _hundred("test.bin", is_training=False),
    training=_hundred("train.bin", is_training=True),
)

FOOD101 = _listed("food101", readers.food101, "meta/test.json")
DTD = _listed("dtd", readers.dtd, "dtd/labels/test1.txt")
PETS = _listed("pets", readers.pets, "annotations/test.txt")
AIRCRAFT = _listed(
    "aircraft", readers.aircraft, "data/variants.txt", "data/images_variant_test.txt"
)
FLOWERS102 = _listed("flowers102", readers.flowers102, "setid.mat", "imagelabels.mat")
CARS = _listed("cars", readers.cars, "cars_test_annos_withlabels.mat", "devkit/cars_meta.mat")
GTSRB = _listed("gtsrb", readers.gtsrb, "GT-final_test.csv")
SUN397 = _listed("sun397", readers.sun397, "ClassName.txt")
MNIST = _listed("mnist", readers.mnist, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
SVHN = _listed("svhn", readers.svhn, "test_32x32.mat")
STL10 = _listed("stl10", readers.stl10, "test_X.bin", "test_y.bin", "class_names.txt")
CALTECH101 = _folders("caltech101", part="101_ObjectCategories")
EUROSAT = _folders("eurosat", part="2750")
RESISC45 = _folders("resisc45", part="NWPU-RESISC45")
COUNTRY211 = _folders("country211", codes="[A-Z]{2}")
RENDERED_SST2 = _folders("rendered_sst2")
FER2013 = _folders("fer2013")
PCAM = _folders("pcam")
