"""A folder with lists of pictures and classes comes in; labelled pictures go out.

The layouts are those in which torchvision keeps the data sets, which are those of their authors.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path, PurePosixPath

from unbag.benchmarks.class_lists import Classes, Labelled, checked, no_line
from unbag.benchmarks.class_names import TRAFFIC_SIGNS
from unbag.benchmarks.classes import lines_of
from unbag.benchmarks.files import Folder
from unbag.errors import UserError
from unbag.types.json_fields import as_mapping, as_text, as_tuple


def food101(folder: Folder) -> Classes:
    """meta/test.json: pictures by class."""
    file = "meta/test.json"
    listed = as_mapping(
        folder.json(file), file, of=lambda value, where: as_tuple(value, where, of=as_text)
    )
    names = sorted(listed)
    found = [
        Labelled(name, folder.picture(folder.root / "images", f"{name}.jpg", file), at)
        for at, kind in enumerate(names)
        for name in listed[kind]
    ]
    return checked(folder, file, [_spaced(name) for name in names], found)


def dtd(folder: Folder) -> Classes:
    """dtd/labels/test1.txt, the first of ten official splits: class/picture."""
    file = "dtd/labels/test1.txt"
    return _by_folder(folder, file, lines_of(folder, file), folder.root / "dtd/images")


def sun397(folder: Folder) -> Classes:
    """ClassName.txt lists the classes; the pictures of one lie in its folder.

    The authors' ten splits are not read: all pictures count, as in torchvision.
    """
    file = "ClassName.txt"
    places = [line.strip("/") for line in lines_of(folder, file)]
    found = [
        Labelled(f"{place}/{path.name}", folder.picture(folder.root / place, path.name, file), at)
        for at, place in enumerate(places)
        for path in sorted((folder.root / place).glob("sun_*.jpg"))
    ]
    # Each begins with the letter its folder stands under: /a/apse/indoor.
    names = [_spaced(place.partition("/")[2].replace("/", " ")) for place in places]
    return checked(folder, file, names, found)


def pets(folder: Folder) -> Classes:
    """annotations/test.txt: picture, class from 1, cat or dog, breed; pictures bear the names."""
    file = "annotations/test.txt"
    names: dict[int, str] = {}
    found = []
    for line in lines_of(folder, file):
        cells = line.split()
        if len(cells) != 4 or not cells[1].isdecimal():
            raise no_line(folder, file, line, "picture, class, species, breed")
        label = int(cells[1]) - 1
        names.setdefault(label, _spaced(cells[0].rpartition("_")[0]))
        picture = folder.picture(folder.root / "images", f"{cells[0]}.jpg", f"{file}: {line!r}")
        found.append(Labelled(cells[0], picture, label))
    if sorted(names) != list(range(len(names))):
        raise UserError(
            f"{file} of {folder.benchmark} has pictures of {len(names)} classes with gaps",
            expected="pictures of every class",
            way_out="download it again",
        )
    return checked(folder, file, [names[label] for label in range(len(names))], found)


def aircraft(folder: Folder) -> Classes:
    """data/variants.txt lists the classes, data/images_variant_test.txt: picture, class."""
    file = "data/images_variant_test.txt"
    names = lines_of(folder, "data/variants.txt")
    label_of = {name: at for at, name in enumerate(names)}
    found = []
    for line in lines_of(folder, file):
        picture, _, kind = line.partition(" ")
        if kind not in label_of:
            raise no_line(folder, file, line, "picture and one of data/variants.txt")
        where = f"{file}: {line!r}"
        place = folder.root / "data/images"
        found.append(
            Labelled(picture, folder.picture(place, f"{picture}.jpg", where), label_of[kind])
        )
    return checked(folder, file, names, found)


def gtsrb(folder: Folder) -> Classes:
    """GT-final_test.csv, between semicolons: Filename ... ClassId."""
    file = "GT-final_test.csv"
    found = []
    rows = csv.DictReader(StringIO(folder.text(file)), delimiter=";", skipinitialspace=True)
    for number, row in enumerate(rows, start=1):
        name, label = row.get("Filename"), row.get("ClassId")
        if not name or not label or not label.isdecimal() or int(label) >= len(TRAFFIC_SIGNS):
            raise no_line(folder, file, f"row {number}", "Filename and ClassId from 0 to 42")
        place = folder.root / "GTSRB/Final_Test/Images"
        found.append(
            Labelled(name, folder.picture(place, name, f"{file}, row {number}"), int(label))
        )
    return checked(folder, file, TRAFFIC_SIGNS, found)


def _by_folder(folder: Folder, file: str, lines: Sequence[str], place: Path) -> Classes:
    """Lines that are class/picture."""
    for line in lines:
        if len(PurePosixPath(line).parts) != 2:
            raise no_line(folder, file, line, "class/picture")
    names = sorted({line.partition("/")[0] for line in lines})
    label_of = {name: at for at, name in enumerate(names)}
    found = [
        Labelled(
            line,
            folder.picture(place, line, f"{file}: {line!r}"),
            label_of[line.partition("/")[0]],
        )
        for line in lines
    ]
    return checked(folder, file, [_spaced(name) for name in names], found)


def _spaced(name: str) -> str:
    return name.replace("_", " ")
