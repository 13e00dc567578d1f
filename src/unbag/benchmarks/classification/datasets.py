"""Data sets for recognition that VTAB and ELEVATER name, as benchmarks: readers and prompts.

Prompts are those of data/prompts.md of openai/CLIP (MIT); of SVHN, which it does not have, those of
LAION-AI/CLIP_benchmark (MIT).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unbag.benchmarks.classification import folders as class_names
from unbag.benchmarks.classification import readers as class_arrays
from unbag.benchmarks.classification import readers as class_layouts
from unbag.benchmarks.classification import readers as class_matlab
from unbag.benchmarks.classification.folders import (
    TEMPLATES,
    ClassFolder,
    class_benchmark,
    lines_of,
)
from unbag.benchmarks.classification.readers import Classes, ClassList, Labelled
from unbag.benchmarks.files import Folder
from unbag.benchmarks.sources import by_hand, downloads
from unbag.data.images import PixelPicture
from unbag.errors import UserError
from unbag.metrics.choice import Classify
from unbag.types import MICRO, Aggregate, Benchmark, Item, Loader

# CIFAR-10 and CIFAR-100 from the binary files of their authors, or from class folders.
#
# The Python version of the archives is pickled, which can run code when it is read; the binary
# version holds the same pictures.
#
# Dimensions: N pictures, B bytes of a record, C = 3 colours, H and W pixels.

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
    downloads=downloads("cifar10"),
    size=10_000,
)
CIFAR100 = class_benchmark(
    "cifar100",
    "Which of a hundred kinds of thing is in the small photograph?",
    "Krizhevsky 2009, CIFAR-100",
    "no licence stated",
    load=_hundred("test.bin", is_training=False),
    load_training=_hundred("train.bin", is_training=True),
    downloads=downloads("cifar100"),
    size=10_000,
)

_BOTH = ("a photo of a {}.", "a photo of the {}.")
_ANY = tuple(
    way.replace("?", article)
    for article in ("a", "the")
    for way in (
        "a photo of ? {}.",
        "a painting of ? {}.",
        "? plastic {}.",
        "a sculpture of ? {}.",
        "a sketch of ? {}.",
        "a tattoo of ? {}.",
        "? toy {}.",
        "a rendition of ? {}.",
        "? embroidered {}.",
        "? cartoon {}.",
        "? {} in a video game.",
        "? plushie {}.",
        "? origami {}.",
        "art of ? {}.",
        "graffiti of ? {}.",
        "a drawing of ? {}.",
        "a doodle of ? {}.",
    )
)
_FROM_ABOVE = tuple(
    f"{far} {kind} of {article}{{}}."
    for article in ("", "a ", "the ")
    for kind in ("imagery", "photo", "view")
    for far in ("satellite", "aerial")
)


def _benchmark(
    load: Loader, about: str, cite: str, files: tuple[str, ...], folder: str = "", name: str = ""
) -> Benchmark:
    return Benchmark(
        name=name,
        about=about,
        load=load,
        metrics=(Classify(),),
        headline="accuracy",
        aggregates=(MICRO, Aggregate(by=("class",))),
        # Public code takes the argmax over classes in their order.
        official_ties="argmax_first",
        cite=cite,
        licence="terms of the authors of the data set",
        files=files,
        gated=by_hand("classes"),
        folder=folder,
        sources=(cite.split(", ", 1)[-1],),
    )


def _listed(
    name: str,
    read: Callable[[Folder], Classes],
    templates: tuple[str, ...],
    about: str,
    cite: str,
    files: tuple[str, ...],
    folder: str = "",
) -> Benchmark:
    return _benchmark(ClassList(name, read, templates), about, cite, files, folder, name)


def _folders(
    name: str,
    templates: tuple[str, ...],
    about: str,
    cite: str,
    *,
    part: str = "test",
    names: tuple[tuple[str, str], ...] = (),
    codes: str = "",
    folder: str = "",
) -> Benchmark:
    load = ClassFolder(name, templates=templates, parts=("test", part), names=names, codes=codes)
    return _benchmark(load, about, cite, ("**/*",), folder, name)


FOOD101 = _listed(
    "food101",
    class_layouts.food101,
    ("a photo of {}, a type of food.",),
    "Which of 101 dishes is on the photograph?",
    "Bossard et al. 2014, Food-101",
    ("meta/test.json",),
    "food-101",
)
DTD = _listed(
    "dtd",
    class_layouts.dtd,
    tuple(
        f"a photo of {article} {{}} {thing}."
        for article in ("a", "the")
        for thing in ("texture", "pattern", "thing", "object")
    ),
    "Which of 47 words describes the texture? Split 1 of ten.",
    "Cimpoi et al. 2014, Describable Textures (DTD)",
    ("dtd/labels/test1.txt",),
)
PETS = _listed(
    "pets",
    class_layouts.pets,
    ("a photo of a {}, a type of pet.",),
    "Which of 37 breeds of cats and dogs is on the photograph?",
    "Parkhi et al. 2012, Oxford-IIIT Pet",
    ("annotations/test.txt",),
    "oxford-iiit-pet",
)
AIRCRAFT = _listed(
    "aircraft",
    class_layouts.aircraft,
    ("a photo of a {}, a type of aircraft.", "a photo of the {}, a type of aircraft."),
    "Which of 100 variants of aircraft is on the photograph?",
    "Maji et al. 2013, FGVC-Aircraft",
    ("data/variants.txt", "data/images_variant_test.txt"),
    "fgvc-aircraft-2013b",
)
FLOWERS102 = _listed(
    "flowers102",
    class_matlab.flowers102,
    ("a photo of a {}, a type of flower.",),
    "Which of 102 flowers is on the photograph?",
    "Nilsback and Zisserman 2008, Oxford Flowers 102",
    ("setid.mat", "imagelabels.mat"),
    "flowers-102",
)
CARS = _listed(
    "cars",
    class_matlab.cars,
    (
        *_BOTH,
        "a photo of my {}.",
        "i love my {}!",
        "a photo of my dirty {}.",
        "a photo of my clean {}.",
        "a photo of my new {}.",
        "a photo of my old {}.",
    ),
    "Which of 196 models of cars is on the photograph?",
    "Krause et al. 2013, Stanford Cars",
    ("cars_test_annos_withlabels.mat", "devkit/cars_meta.mat"),
    "stanford_cars",
)
GTSRB = _listed(
    "gtsrb",
    class_layouts.gtsrb,
    tuple(
        f'a {how} photo of a "{{}}" traffic sign.' for how in ("zoomed in", "centered", "close up")
    ),
    "Which of 43 traffic signs is on the photograph?",
    "Stallkamp et al. 2012, GTSRB",
    ("GT-final_test.csv",),
)
SUN397 = _listed(
    "sun397",
    class_layouts.sun397,
    _BOTH,
    "Which of 397 kinds of place is on the photograph? All pictures, not one of the ten splits.",
    "Xiao et al. 2010, SUN397",
    ("ClassName.txt",),
    "SUN397",
)
MNIST = _listed(
    "mnist",
    class_arrays.mnist,
    ('a photo of the number: "{}".',),
    "Which digit was written by hand?",
    "LeCun et al. 1998, MNIST",
    ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
    "MNIST/raw",
)
SVHN = _listed(
    "svhn",
    class_arrays.svhn,
    (
        "a photo of the number {} written on a sign",
        "an outdoor house number {}",
        "the number {} in the center of the image",
        "an outdoor number {} writte on a sign",  # As the source has it.
        "an outdoor number {}",
        "a centered image of the number {}",
    ),
    "Which digit of a house number is in the middle of the photograph?",
    "Netzer et al. 2011, SVHN",
    ("test_32x32.mat",),
)
STL10 = _listed(
    "stl10",
    class_arrays.stl10,
    _BOTH,
    "Which of ten kinds of thing is on the small photograph?",
    "Coates et al. 2011, STL-10",
    ("test_X.bin", "test_y.bin", "class_names.txt"),
    "stl10_binary",
)
CALTECH101 = _folders(
    "caltech101",
    _ANY,
    "Which of 101 kinds of thing is on the picture? All pictures, and the background where its "
    "folder is there.",
    "Fei-Fei et al. 2004, Caltech-101",
    part="101_ObjectCategories",
    names=class_names.CALTECH101,
)
EUROSAT = _folders(
    "eurosat",
    tuple(f"a centered satellite photo of {article}{{}}." for article in ("", "a ", "the ")),
    "Which of ten uses of land is on the satellite picture? All pictures.",
    "Helber et al. 2019, EuroSAT",
    part="2750",
    names=class_names.EUROSAT,
)
RESISC45 = _folders(
    "resisc45",
    _FROM_ABOVE,
    "Which of 45 kinds of place is on the picture from above? All pictures.",
    "Cheng et al. 2017, RESISC45",
    part="NWPU-RESISC45",
)
COUNTRY211 = _folders(
    "country211",
    (
        "a photo i took in {}.",
        "a photo i took while visiting {}.",
        "a photo from my home country of {}.",
        "a photo from my visit to {}.",
        "a photo showing the country of {}.",
    ),
    "In which of 211 countries was the photograph taken? Needs classnames.txt for its codes.",
    "Radford et al. 2021, Country211",
    codes="[A-Z]{2}",
)
RENDERED_SST2 = _folders(
    "rendered_sst2",
    ("a {} review of a movie.",),
    "Is the sentence that the picture shows friendly or not?",
    "Radford et al. 2021, Rendered SST2",
    folder="rendered-sst2",
)
FER2013 = _folders(
    "fer2013",
    (
        "a photo of a {} looking face.",
        "a photo of a face showing the emotion: {}.",
        "a photo of a face looking {}.",
        "a face that looks {}.",
        "they look {}.",
        "look at how {} they are.",
    ),
    "Which of seven feelings does the face show?",
    "Goodfellow et al. 2013, FER-2013",
    names=class_names.FACES,
)
PCAM = _folders(
    "pcam",
    ("this is a photo of {}",),
    "Is there tumour tissue in the slide? Pictures in folders 0 and 1, saved from its archives.",
    "Veeling et al. 2018, PatchCamelyon",
    names=class_names.TISSUES,
)
