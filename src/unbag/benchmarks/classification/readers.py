"""Classification from the lists and archives of datasets' authors, in torchvision's layout.

Dimensions: N images, H and W pixels, C = 3 colours.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbag.benchmarks.classification.folders import (
    class_captions,
    class_truth,
    nonempty_lines,
    usual_names,
)
from unbag.benchmarks.files import Folder, not_official
from unbag.data.images import PixelImage
from unbag.errors import UnbagError
from unbag.metrics.choice import check_names
from unbag.types import ImageSource, Item
from unbag.types.json import from_json

Pixels = NDArray[np.uint8]
_IDX_HEADER = 4
"""Bytes of one IDX header field (the magic number, each dimension), big-endian."""
_BYTES = 8
"""The type code of unsigned bytes in an IDX magic number."""


@dataclass(frozen=True)
class ClassList:
    """Loader of a dataset with its own reader.

    classnames.txt (one name per line, in the order of the labels) and templates.txt in the folder
    replace the usual names and prompts.
    """

    name: str
    read: Callable[[Folder], Classes]
    templates: tuple[str, ...]

    def __call__(self, root: Path | None) -> Sequence[Item]:
        """Load one item per image, with all classes as captions."""
        folder = Folder.of(root, self.name)
        dataset = self.read(folder)
        names = _names(folder, dataset.names)
        captions = class_captions(folder, names, self.templates)
        truths = [class_truth(label, len(names)) for label in range(len(names))]
        return [
            Item(
                id=name,
                images=(image,),
                captions=captions,
                truth=truths[label],
                tags={"class": names[label]},
            )
            for name, image, label in dataset.images
        ]


@dataclass(frozen=True)
class Classes:
    """Class names and labelled images of a dataset."""

    names: tuple[str, ...]
    images: Sequence[Labelled]


class Labelled(NamedTuple):
    """An image with its id and its label."""

    id: str
    image: ImageSource
    label: int


def _names(folder: Folder, usual: tuple[str, ...]) -> list[str]:
    names = list(usual)
    if folder.has("classnames.txt"):
        names = nonempty_lines(folder, "classnames.txt")
    if len(names) != len(usual):
        raise UnbagError(
            f"classnames.txt of {folder.benchmark}: {len(names)} names, {len(usual)} classes",
            expected="a line for each class, in their order",
            hint="complete the file, or remove it to use the usual names",
        )
    check_names(names)
    return names


def food101(folder: Folder) -> Classes:
    """meta/test.json: images by class."""
    file = "meta/test.json"
    listed = from_json(dict[str, tuple[str, ...]], folder.json(file), file)
    names = sorted(listed)
    images = [
        Labelled(image, folder.image(folder.root / "images", f"{image}.jpg", file), label)
        for label, name in enumerate(names)
        for image in listed[name]
    ]
    return _checked(folder, file, [_spaced(name) for name in names], images)


def dtd(folder: Folder) -> Classes:
    """dtd/labels/test1.txt, the first of ten official splits: class/image."""
    file, place = "dtd/labels/test1.txt", folder.root / "dtd/images"
    lines = nonempty_lines(folder, file)
    for line in lines:
        if len(PurePosixPath(line).parts) != 2:
            raise _bad_line(folder, file, line, "class/image")
    names = sorted({line.partition("/")[0] for line in lines})
    label_of = {name: label for label, name in enumerate(names)}
    images = []
    for line in lines:
        image = folder.image(place, line, f"{file}: {line!r}")
        images.append(Labelled(line, image, label_of[line.partition("/")[0]]))
    return _checked(folder, file, [_spaced(name) for name in names], images)


def sun397(folder: Folder) -> Classes:
    """ClassName.txt lists the classes, each with its own folder of images.

    The authors' ten splits are not used: all images count, as in torchvision.
    """
    file = "ClassName.txt"
    places = [line.strip("/") for line in nonempty_lines(folder, file)]
    images = []
    for label, place in enumerate(places):
        try:
            paths = sorted((folder.root / place).glob("sun_*.jpg"))
        except (OSError, ValueError) as error:
            # Such as a name that no file system supports.
            raise _bad_line(
                folder, file, place[:60], f"a folder ({type(error).__name__})"
            ) from error
        for path in paths:
            image = folder.image(path.parent, path.name, file)
            images.append(Labelled(f"{place}/{path.name}", image, label))
    # Each begins with the letter that its folder is in: /a/apse/indoor.
    names = [_spaced(place.partition("/")[2].replace("/", " ")) for place in places]
    return _checked(folder, file, names, images)


def pets(folder: Folder) -> Classes:
    """annotations/test.txt: image, class from 1, species, breed; image names hold class names."""
    file = "annotations/test.txt"
    names: dict[int, str] = {}
    images = []
    for line in nonempty_lines(folder, file):
        cells = line.split()
        if len(cells) != 4 or not cells[1].isdecimal():
            raise _bad_line(folder, file, line, "image, class, species, breed")
        label = int(cells[1]) - 1
        names.setdefault(label, _spaced(cells[0].rpartition("_")[0]))
        image = folder.image(folder.root / "images", f"{cells[0]}.jpg", f"{file}: {line!r}")
        images.append(Labelled(cells[0], image, label))
    if sorted(names) != list(range(len(names))):
        raise UnbagError(
            f"{file} of {folder.benchmark} has images of {len(names)} classes with gaps",
            expected="images of every class",
            hint="download it again",
        )
    return _checked(folder, file, [names[label] for label in range(len(names))], images)


def aircraft(folder: Folder) -> Classes:
    """data/variants.txt lists the classes, data/images_variant_test.txt: image, class."""
    file = "data/images_variant_test.txt"
    names = nonempty_lines(folder, "data/variants.txt")
    label_of = {name: label for label, name in enumerate(names)}
    images = []
    for line in nonempty_lines(folder, file):
        name, _, variant = line.partition(" ")
        if variant not in label_of:
            raise _bad_line(folder, file, line, "image and one of data/variants.txt")
        place, where = folder.root / "data/images", f"{file}: {line!r}"
        image = folder.image(place, f"{name}.jpg", where)
        images.append(Labelled(name, image, label_of[variant]))
    return _checked(folder, file, names, images)


def gtsrb(folder: Folder) -> Classes:
    """GT-final_test.csv, separated by semicolons: Filename ... ClassId."""
    file, names = "GT-final_test.csv", usual_names("gtsrb")
    images = []
    rows = csv.DictReader(StringIO(folder.text(file)), delimiter=";", skipinitialspace=True)
    for number, row in enumerate(rows, start=1):
        name, label = row.get("Filename"), row.get("ClassId")
        if not name or not label or not label.isdecimal() or int(label) >= len(names):
            raise _bad_line(folder, file, f"row {number}", "Filename and ClassId from 0 to 42")
        place = folder.root / "GTSRB/Final_Test/Images"
        image = folder.image(place, name, f"{file}, row {number}")
        images.append(Labelled(name, image, int(label)))
    return _checked(folder, file, names, images)


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def flowers102(folder: Folder) -> Classes:
    """setid.mat lists the test images, imagelabels.mat the labels of all images, from 1."""
    names = usual_names("flowers102")
    ids = _row(folder, "setid.mat", "tstid")
    labels = _row(folder, "imagelabels.mat", "labels")
    images = []
    for number in map(int, ids):
        label = int(labels[number - 1]) - 1 if 1 <= number <= len(labels) else -1
        if not 0 <= label < len(names):
            raise _bad_line(folder, "setid.mat", f"image {number}", "an image with a class")
        name = f"image_{number:05d}.jpg"
        image = folder.image(folder.root / "jpg", name, "setid.mat")
        images.append(Labelled(name, image, label))
    return _checked(folder, "setid.mat", names, images)


def cars(folder: Folder) -> Classes:
    """cars_test_annos_withlabels.mat: fname, class from 1; devkit/cars_meta.mat has the names."""
    file = "cars_test_annos_withlabels.mat"
    names = [str(name) for name in _row(folder, "devkit/cars_meta.mat", "class_names")]
    annotations = _row(folder, file, "annotations")
    if not annotations.dtype.names or not {"fname", "class"} <= set(annotations.dtype.names):
        raise _bad_line(folder, file, "annotations", "the fields fname and class")
    images = []
    for name, number in zip(annotations["fname"], annotations["class"], strict=True):
        if not isinstance(name, str) or not 1 <= int(number) <= len(names):
            raise _bad_line(folder, file, f"{name}: {number}", "a name and the number of a class")
        image = folder.image(folder.root / "cars_test", name, f"{file}: {name}")
        images.append(Labelled(name, image, int(number) - 1))
    return _checked(folder, file, names, images)


def _row(folder: Folder, file: str, variable: str) -> NDArray[Any]:
    """One variable of a MATLAB file, as a row."""
    content = _variables(folder, file)
    if variable not in content:
        raise not_official(
            f"{file} of {folder.benchmark} has no variable {variable!r}", f"the variable {variable}"
        )
    return np.atleast_1d(content[variable]).ravel()


def _variables(folder: Folder, file: str) -> Mapping[str, NDArray[Any]]:
    """The variables of a MATLAB file, without dimensions of one."""
    from scipy.io import loadmat

    path = folder.root / file
    if not path.is_file():
        folder.text(file)  # Says what is missing.
    try:
        content = loadmat(str(path), squeeze_me=True, appendmat=False)
    except MemoryError:
        raise
    except Exception as error:
        # On damaged bytes SciPy's reader raises anything from ValueError to struct.error.
        raise UnbagError(
            f"{file} of {folder.benchmark} cannot be read: {error}",
            expected="the official MATLAB file, whole",
            hint="download it again",
        ) from error
    return {name: np.asarray(content[name]) for name in content if not name.startswith("__")}


def _checked(
    folder: Folder, file: str, names: Sequence[str], images: Sequence[Labelled]
) -> Classes:
    """Build `Classes`, unless there are no images or fewer than two classes."""
    if len(names) < 2 or not images:
        raise UnbagError(
            f"{file} of {folder.benchmark} gives {len(images)} images of {len(names)} classes",
            expected="images of at least two classes",
            hint="check that the files are whole and lie where they belong",
        )
    return Classes(tuple(names), images)


def _bad_line(folder: Folder, file: str, line: str, expected: str) -> UnbagError:
    """The error for a malformed line or entry."""
    return UnbagError(
        f"{file} of {folder.benchmark}: {line!r}",
        expected=expected,
        hint="check that it is the official file, whole",
    )


def mnist(folder: Folder) -> Classes:
    """t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, unpacked; grey images."""
    grey_NHW = _idx(folder, "t10k-images-idx3-ubyte", dimensions=3)
    label_N = _idx(folder, "t10k-labels-idx1-ubyte", dimensions=1)
    pixel_NHWC = np.broadcast_to(grey_NHW[..., None], (*grey_NHW.shape, 3))
    return _classes(folder, "t10k-images-idx3-ubyte", usual_names("mnist"), pixel_NHWC, label_N)


def svhn(folder: Folder) -> Classes:
    """test_32x32.mat: X is [H, W, C, N] and y the digit, where 10 stands for 0."""
    file = "test_32x32.mat"
    content = _variables(folder, file)
    pixel, label = content.get("X"), content.get("y")
    if pixel is None or label is None or pixel.ndim != 4 or pixel.dtype != np.uint8:
        raise _bad_file(folder, file, "X of bytes [height, width, 3, images] and y")
    label_N = np.atleast_1d(label).ravel().astype(np.int64) % 10
    return _classes(folder, file, usual_names("svhn"), np.moveaxis(pixel, 3, 0), label_N)


def stl10(folder: Folder) -> Classes:
    """test_X.bin: 96 x 96, colour by colour, column by column; test_y.bin: labels from 1."""
    file, side = "test_X.bin", 96
    byte_B = np.frombuffer(_content(folder, file), dtype=np.uint8)
    if len(byte_B) % (3 * side * side):
        raise _bad_file(folder, file, f"images of 3 x {side} x {side} bytes")
    pixel_NHWC = byte_B.reshape(-1, 3, side, side).transpose(0, 3, 2, 1)
    label_N = np.frombuffer(_content(folder, "test_y.bin"), dtype=np.uint8).astype(np.int64) - 1
    names = nonempty_lines(folder, "class_names.txt")
    return _classes(folder, file, names, pixel_NHWC, label_N)


def _classes(
    folder: Folder,
    file: str,
    names: Sequence[str],
    pixel_NHWC: Pixels,
    label_N: NDArray[np.generic],
) -> Classes:
    """Build `Classes` from an array of images, as views without copies."""
    labels = [int(label) for label in label_N]
    fits = len(labels) == len(pixel_NHWC) > 0 and len(names) > 1
    if not fits or not all(0 <= label < len(names) for label in labels):
        raise _bad_file(folder, file, f"as many images as labels, each one of {len(names)} classes")
    if pixel_NHWC.shape[3] != 3:
        raise _bad_file(folder, file, "images of three colours")
    images = [
        Labelled(str(index), PixelImage(pixels, f"{folder.root / file}[{index}]"), label)
        for index, (pixels, label) in enumerate(zip(pixel_NHWC, labels, strict=True))
    ]
    return Classes(tuple(names), images)


def _idx(folder: Folder, file: str, *, dimensions: int) -> Pixels:
    """The array of an IDX file, whose header holds a magic number and the dimensions."""
    content = _content(folder, file)
    start = _IDX_HEADER * (dimensions + 1)
    header = np.frombuffer(content[:start], dtype=">u4") if len(content) >= start else None
    if header is None or int(header[0]) != 256 * _BYTES + dimensions:
        raise _bad_file(folder, file, f"an IDX file of bytes with {dimensions} dimensions")
    shape = tuple(int(length) for length in header[1:])
    if len(content) - start != int(np.prod([*shape], dtype=object)):
        raise _bad_file(folder, file, f"{shape} bytes after the header")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _content(folder: Folder, file: str) -> bytes:
    path = folder.root / file
    if not path.is_file():
        folder.text(file)  # Says what is missing.
    try:
        return path.read_bytes()
    except OSError as error:
        raise _bad_file(folder, file, f"a file that can be read ({error})") from error


def _bad_file(folder: Folder, file: str, expected: str) -> UnbagError:
    return UnbagError(
        f"{file} of {folder.benchmark} is not the file it should be",
        expected=expected,
        hint="unpack or download it again",
    )
