"""Data sets for recognition that VTAB and ELEVATER name, CIFAR and ImageNet-1k, as benchmarks.

Published zero-shot numbers on ImageNet use CLIP's names of the 1,000 classes and its 80 prompts,
which open_clip carries. Two of those names (missile, sunglasses) stand for two classes each, whose
pictures are ties: wrong by our rule, half of them right by the official one.
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
    lines_of,
    names_by_folder,
    split_folder,
    usual_templates,
)
from unbag.benchmarks.classification.readers import Classes, ClassList, Labelled
from unbag.benchmarks.files import Folder
from unbag.benchmarks.sources import by_hand, downloads
from unbag.data.images import PixelPicture
from unbag.errors import IncompleteWarning, UserError
from unbag.metrics.choice import Classify
from unbag.published.lookup import published_for
from unbag.types import MICRO, Aggregate, Benchmark, Download, Item, Loader


def _benchmark(
    name: str,
    about: str,
    cite: str,
    licence: str = "terms of the authors of the data set",
    *,
    load: Loader,
    load_training: Loader | None = None,
    files: tuple[str, ...] = ("*/*",),
    folder: str = "",
    downloads: tuple[Download, ...] = (),
    gated: str = "",
    size: int = 0,
) -> Benchmark:
    """A recognition set as a benchmark: top-1 accuracy over pictures, and over classes."""
    return Benchmark(
        name=name,
        about=about,
        load=load,
        load_training=load_training,
        metrics=(Classify(),),
        headline="accuracy",
        aggregates=(MICRO, Aggregate(by=("class",))),
        # Public code takes the argmax over classes in their order.
        official_ties="argmax_first",
        cite=cite,
        licence=licence,
        files=files,
        folder=folder,
        sources=(cite.split(", ", 1)[-1],),
        published=published_for(name),
        downloads=downloads,
        gated=gated,
        size=size,
    )


def _listed(
    name: str,
    read: Callable[[Folder], Classes],
    about: str,
    cite: str,
    files: tuple[str, ...],
    folder: str = "",
) -> Benchmark:
    """From the lists or archives of the authors."""
    load = ClassList(name, read, usual_templates(name))
    gated = by_hand("classes")
    return _benchmark(name, about, cite, load=load, files=files, folder=folder, gated=gated)


def _folders(
    name: str, about: str, cite: str, *, part: str = "test", codes: str = "", folder: str = ""
) -> Benchmark:
    """From class folders."""
    load = ClassFolder(
        name,
        templates=usual_templates(name),
        parts=("test", part),
        names=names_by_folder(name),
        codes=codes,
    )
    gated = by_hand("classes")
    return _benchmark(name, about, cite, load=load, files=("**/*",), folder=folder, gated=gated)


@dataclass(frozen=True)
class ImageNet:
    """Loads one split of ImageNet-1k; call it with the folder of the benchmark."""

    is_training: bool = False

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """One item a picture."""
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
    """CLIP's names, if the folders are the 1,000 codes, whose sorted order the names follow."""
    if root is None or (root / "classnames.txt").is_file() or find_spec("open_clip") is None:
        return ()
    folders = split_folder(root, parts)
    if len(folders) != 1000:
        return ()
    from open_clip import (  # type: ignore[import-untyped, unused-ignore]
        IMAGENET_CLASSNAMES,
    )

    return tuple(zip(folders, IMAGENET_CLASSNAMES, strict=True))


IMAGENET1K = _benchmark(
    "imagenet1k",
    "Which of 1,000 kinds of thing is in the photograph? What a repair may cost.",
    "Deng et al. 2009, ImageNet",
    "ImageNet terms: research only",
    load=ImageNet(),
    load_training=ImageNet(is_training=True),
    gated=by_hand("imagenet"),
    size=50_000,
)

SIDE = 32


@dataclass(frozen=True)
class Cifar:
    """Loads one split of CIFAR; call it with the folder of the benchmark.

    The binary files of its authors, or class folders. The Python version of the archives is
    pickled, which can run code when it is read; the binary version holds the same pictures.

    Dimensions: N pictures, B bytes of a record, C = 3 colours, H and W pixels.
    """

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


CIFAR10 = _benchmark(
    "cifar10",
    "Which of ten kinds of thing is in the small photograph?",
    "Krizhevsky 2009, CIFAR-10",
    "no licence stated",
    load=_ten(("test_batch.bin",), is_training=False),
    load_training=_ten(tuple(f"data_batch_{n}.bin" for n in range(1, 6)), is_training=True),
    downloads=downloads("cifar10"),
    size=10_000,
)
CIFAR100 = _benchmark(
    "cifar100",
    "Which of a hundred kinds of thing is in the small photograph?",
    "Krizhevsky 2009, CIFAR-100",
    "no licence stated",
    load=_hundred("test.bin", is_training=False),
    load_training=_hundred("train.bin", is_training=True),
    downloads=downloads("cifar100"),
    size=10_000,
)

FOOD101 = _listed(
    "food101",
    readers.food101,
    "Which of 101 dishes is on the photograph?",
    "Bossard et al. 2014, Food-101",
    ("meta/test.json",),
    "food-101",
)
DTD = _listed(
    "dtd",
    readers.dtd,
    "Which of 47 words describes the texture? Split 1 of ten.",
    "Cimpoi et al. 2014, Describable Textures (DTD)",
    ("dtd/labels/test1.txt",),
)
PETS = _listed(
    "pets",
    readers.pets,
    "Which of 37 breeds of cats and dogs is on the photograph?",
    "Parkhi et al. 2012, Oxford-IIIT Pet",
    ("annotations/test.txt",),
    "oxford-iiit-pet",
)
AIRCRAFT = _listed(
    "aircraft",
    readers.aircraft,
    "Which of 100 variants of aircraft is on the photograph?",
    "Maji et al. 2013, FGVC-Aircraft",
    ("data/variants.txt", "data/images_variant_test.txt"),
    "fgvc-aircraft-2013b",
)
FLOWERS102 = _listed(
    "flowers102",
    readers.flowers102,
    "Which of 102 flowers is on the photograph?",
    "Nilsback and Zisserman 2008, Oxford Flowers 102",
    ("setid.mat", "imagelabels.mat"),
    "flowers-102",
)
CARS = _listed(
    "cars",
    readers.cars,
    "Which of 196 models of cars is on the photograph?",
    "Krause et al. 2013, Stanford Cars",
    ("cars_test_annos_withlabels.mat", "devkit/cars_meta.mat"),
    "stanford_cars",
)
GTSRB = _listed(
    "gtsrb",
    readers.gtsrb,
    "Which of 43 traffic signs is on the photograph?",
    "Stallkamp et al. 2012, GTSRB",
    ("GT-final_test.csv",),
)
SUN397 = _listed(
    "sun397",
    readers.sun397,
    "Which of 397 kinds of place is on the photograph? All pictures, not one of the ten splits.",
    "Xiao et al. 2010, SUN397",
    ("ClassName.txt",),
    "SUN397",
)
MNIST = _listed(
    "mnist",
    readers.mnist,
    "Which digit was written by hand?",
    "LeCun et al. 1998, MNIST",
    ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    "MNIST/raw",
)
SVHN = _listed(
    "svhn",
    readers.svhn,
    "Which digit of a house number is in the middle of the photograph?",
    "Netzer et al. 2011, SVHN",
    ("test_32x32.mat",),
)
STL10 = _listed(
    "stl10",
    readers.stl10,
    "Which of ten kinds of thing is on the small photograph?",
    "Coates et al. 2011, STL-10",
    ("test_X.bin", "test_y.bin", "class_names.txt"),
    "stl10_binary",
)
CALTECH101 = _folders(
    "caltech101",
    "Which of 101 kinds of thing is on the picture? All pictures, and the background where its "
    "folder is there.",
    "Fei-Fei et al. 2004, Caltech-101",
    part="101_ObjectCategories",
)
EUROSAT = _folders(
    "eurosat",
    "Which of ten uses of land is on the satellite picture? All pictures.",
    "Helber et al. 2019, EuroSAT",
    part="2750",
)
RESISC45 = _folders(
    "resisc45",
    "Which of 45 kinds of place is on the picture from above? All pictures.",
    "Cheng et al. 2017, RESISC45",
    part="NWPU-RESISC45",
)
COUNTRY211 = _folders(
    "country211",
    "In which of 211 countries was the photograph taken? Needs classnames.txt for its codes.",
    "Radford et al. 2021, Country211",
    codes="[A-Z]{2}",
)
RENDERED_SST2 = _folders(
    "rendered_sst2",
    "Is the sentence that the picture shows friendly or not?",
    "Radford et al. 2021, Rendered SST2",
    folder="rendered-sst2",
)
FER2013 = _folders(
    "fer2013",
    "Which of seven feelings does the face show?",
    "Goodfellow et al. 2013, FER-2013",
)
PCAM = _folders(
    "pcam",
    "Is there tumour tissue in the slide? Pictures in folders 0 and 1, saved from its archives.",
    "Veeling et al. 2018, PatchCamelyon",
)
