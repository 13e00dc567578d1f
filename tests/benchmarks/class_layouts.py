"""Classification datasets in their authors' layouts, with the images and classes in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat


def draw(path: Path) -> None:
    """An image whose colour is made of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = tuple(sum(map(ord, path.as_posix()[-9:])) * k % 256 for k in (1, 3, 7))
    Image.new("RGB", (8, 8), colour).save(path)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def food101(root: Path) -> None:
    listed = {"ice_cream": ["ice_cream/1", "ice_cream/2"], "apple_pie": ["apple_pie/7"]}
    write(root / "meta/test.json", json.dumps(listed))
    for name in ("ice_cream/1", "ice_cream/2", "apple_pie/7"):
        draw(root / f"images/{name}.jpg")


def dtd(root: Path) -> None:
    write(root / "dtd/labels/test1.txt", "woven/woven_1.jpg\npolka-dotted/x.jpg\nwoven/w.jpg\n")
    for name in ("woven/woven_1.jpg", "polka-dotted/x.jpg", "woven/w.jpg"):
        draw(root / f"dtd/images/{name}")


def pets(root: Path) -> None:
    write(root / "annotations/test.txt", "great_pyrenees_3 2 2 1\nAbyssinian_201 1 1 1\n")
    for name in ("great_pyrenees_3", "Abyssinian_201"):
        draw(root / f"images/{name}.jpg")


def aircraft(root: Path) -> None:
    write(root / "data/variants.txt", "707-320\nBAE 146-200\n")
    write(root / "data/images_variant_test.txt", "0012 BAE 146-200\n0034 707-320\n")
    for name in ("0012", "0034"):
        draw(root / f"data/images/{name}.jpg")


def gtsrb(root: Path) -> None:
    rows = "Filename;Width;Height;ClassId\n00000.ppm;8;8;16\n00001.ppm;8;8;1\n"
    write(root / "GT-final_test.csv", rows)
    for name in ("00000.ppm", "00001.ppm"):
        draw(root / f"GTSRB/Final_Test/Images/{name}")


def sun397(root: Path) -> None:
    write(root / "ClassName.txt", "/a/abbey\n/a/apse/indoor\n")
    for name in ("a/abbey/sun_1.jpg", "a/apse/indoor/sun_2.jpg", "a/apse/indoor/sun_3.jpg"):
        draw(root / name)


def cars(root: Path) -> None:
    names = np.array(["Audi S4 Sedan 2012", "BMW M3 Coupe 2012"], dtype=object)
    (root / "devkit").mkdir(parents=True)
    savemat(root / "devkit/cars_meta.mat", {"class_names": names})
    notes = np.array([("00001.jpg", 2), ("00002.jpg", 1)], dtype=[("fname", "O"), ("class", "u1")])
    savemat(root / "cars_test_annos_withlabels.mat", {"annotations": notes})
    for name in ("00001.jpg", "00002.jpg"):
        draw(root / f"cars_test/{name}")


def flowers102(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    savemat(root / "setid.mat", {"tstid": np.array([[3, 1]]), "trnid": np.array([[2]])})
    savemat(root / "imagelabels.mat", {"labels": np.array([[102, 5, 1]])})
    for number in (1, 2, 3):
        draw(root / f"jpg/image_{number:05d}.jpg")


def folders(*classes: str) -> Callable[[Path], None]:
    def lay_out(root: Path) -> None:
        for place in classes:
            draw(root / place / "1.jpg")

    return lay_out


def mnist(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    pixels = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    head = np.array([0x803, 2, 28, 28], dtype=">u4").tobytes()
    (root / "t10k-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
    head = np.array([0x801, 2], dtype=">u4").tobytes()
    (root / "t10k-labels-idx1-ubyte").write_bytes(head + bytes([7, 2]))


def svhn(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    pixels = np.arange(32 * 32 * 3 * 2, dtype=np.uint8).reshape(32, 32, 3, 2)
    savemat(root / "test_32x32.mat", {"X": pixels, "y": np.array([[10], [3]])})


def stl10(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros((2, 3, 96, 96), dtype=np.uint8)
    # Stored column by column: this is the pixel in column 5 of row 9.
    pixels[0, 1, 5, 9] = 77
    (root / "test_X.bin").write_bytes(pixels.tobytes())
    (root / "test_y.bin").write_bytes(bytes([2, 1]))
    write(root / "class_names.txt", "airplane\nbird\n")


LAYOUTS: Mapping[str, tuple[Callable[[Path], None], list[tuple[str, str]]]] = {
    "food101": (
        food101,
        [
            ("apple_pie/7", "apple pie"),
            ("ice_cream/1", "ice cream"),
            ("ice_cream/2", "ice cream"),
        ],
    ),
    "dtd": (
        dtd,
        [
            ("woven/woven_1.jpg", "woven"),
            ("polka-dotted/x.jpg", "polka-dotted"),
            ("woven/w.jpg", "woven"),
        ],
    ),
    "pets": (pets, [("great_pyrenees_3", "great pyrenees"), ("Abyssinian_201", "Abyssinian")]),
    "aircraft": (aircraft, [("0012", "BAE 146-200"), ("0034", "707-320")]),
    "gtsrb": (
        gtsrb,
        [
            ("00000.ppm", "red and white circle no truck entry"),
            ("00001.ppm", "red and white circle 30 kph speed limit"),
        ],
    ),
    "sun397": (
        sun397,
        [
            ("a/abbey/sun_1.jpg", "abbey"),
            ("a/apse/indoor/sun_2.jpg", "apse indoor"),
            ("a/apse/indoor/sun_3.jpg", "apse indoor"),
        ],
    ),
    "cars": (cars, [("00001.jpg", "BMW M3 Coupe 2012"), ("00002.jpg", "Audi S4 Sedan 2012")]),
    "flowers102": (
        flowers102,
        [("image_00003.jpg", "pink primrose"), ("image_00001.jpg", "blackberry lily")],
    ),
    "mnist": (mnist, [("0", "7"), ("1", "2")]),
    "svhn": (svhn, [("0", "0"), ("1", "3")]),
    "stl10": (stl10, [("0", "bird"), ("1", "airplane")]),
    "caltech101": (
        folders("101_ObjectCategories/Faces", "101_ObjectCategories/water_lilly"),
        [("Faces/1.jpg", "off-center face"), ("water_lilly/1.jpg", "water lilly")],
    ),
    "eurosat": (
        folders("2750/SeaLake", "2750/AnnualCrop"),
        [("AnnualCrop/1.jpg", "annual crop land"), ("SeaLake/1.jpg", "lake or sea")],
    ),
    "resisc45": (
        folders("NWPU-RESISC45/sea_ice", "NWPU-RESISC45/ship"),
        [("sea_ice/1.jpg", "sea ice"), ("ship/1.jpg", "ship")],
    ),
    "rendered_sst2": (
        folders("test/negative", "test/positive", "train/negative"),
        [("negative/1.jpg", "negative"), ("positive/1.jpg", "positive")],
    ),
    "fer2013": (
        folders("test/fear", "test/happy"),
        [("fear/1.jpg", "fearful"), ("happy/1.jpg", "happy")],
    ),
    "pcam": (
        folders("test/0", "test/1"),
        [("0/1.jpg", "lymph node"), ("1/1.jpg", "lymph node containing metastatic tumor tissue")],
    ),
    "country211": (
        folders("test/andorra", "test/peru"),
        [("andorra/1.jpg", "andorra"), ("peru/1.jpg", "peru")],
    ),
}
