"""A folder whose classes stand in MATLAB files comes in; labelled pictures go out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbag.benchmarks.class_lists import Classes, Labelled, checked, no_line
from unbag.benchmarks.class_names import FLOWERS
from unbag.benchmarks.files import Folder
from unbag.errors import UserError


def flowers102(folder: Folder) -> Classes:
    """setid.mat says which pictures are of the test split, imagelabels.mat their classes from 1."""
    ids = _matlab(folder, "setid.mat", "tstid")
    labels = _matlab(folder, "imagelabels.mat", "labels")
    found = []
    for number in map(int, ids):
        label = int(labels[number - 1]) - 1 if 1 <= number <= len(labels) else -1
        if not 0 <= label < len(FLOWERS):
            raise no_line(folder, "setid.mat", f"picture {number}", "a picture with a class")
        name = f"image_{number:05d}.jpg"
        picture = folder.picture(folder.root / "jpg", name, "setid.mat")
        found.append(Labelled(name, picture, label))
    return checked(folder, "setid.mat", FLOWERS, found)


def cars(folder: Folder) -> Classes:
    """cars_test_annos_withlabels.mat: fname, class from 1; devkit/cars_meta.mat has the names."""
    file = "cars_test_annos_withlabels.mat"
    names = [str(name) for name in _matlab(folder, "devkit/cars_meta.mat", "class_names")]
    notes = _matlab(folder, file, "annotations")
    if not notes.dtype.names or not {"fname", "class"} <= set(notes.dtype.names):
        raise no_line(folder, file, "annotations", "the fields fname and class")
    found = []
    for name, number in zip(notes["fname"], notes["class"], strict=True):
        if not isinstance(name, str) or not 1 <= int(number) <= len(names):
            raise no_line(folder, file, f"{name}: {number}", "a name and the number of a class")
        picture = folder.picture(folder.root / "cars_test", name, f"{file}: {name}")
        found.append(Labelled(name, picture, int(number) - 1))
    return checked(folder, file, names, found)


def _matlab(folder: Folder, file: str, variable: str) -> NDArray[Any]:
    """One variable of a MATLAB file, as a row."""
    content = matlab(folder, file)
    if variable not in content:
        raise UserError(
            f"{file} of {folder.benchmark} has no variable {variable!r}",
            expected=f"the variable {variable}",
            way_out="check that it is the official file",
        )
    return np.atleast_1d(content[variable]).ravel()


def matlab(folder: Folder, file: str) -> Mapping[str, NDArray[Any]]:
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
        # SciPy's reader meets damaged bytes with anything from ValueError to struct.error.
        raise UserError(
            f"{file} of {folder.benchmark} cannot be read: {error}",
            expected="the official MATLAB file, whole",
            way_out="download it again",
        ) from error
    return {name: np.asarray(content[name]) for name in content if not name.startswith("__")}
