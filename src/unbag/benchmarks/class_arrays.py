"""A data set whose pictures are kept as one array comes in; labelled pictures go out.

Dimensions: N pictures, H and W pixels, C = 3 colours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unbag.benchmarks.class_lists import Classes, Labelled
from unbag.benchmarks.class_matlab import matlab
from unbag.benchmarks.class_names import DIGITS
from unbag.benchmarks.classes import lines_of
from unbag.benchmarks.files import Folder
from unbag.errors import UserError
from unbag.pictures.files import PixelPicture

Pixels = NDArray[np.uint8]

_IDX_HEADER = 4
"""Bytes of an IDX number: the magic and each dimension, most significant first."""
_BYTES = 8
"""The code of unsigned bytes in an IDX magic."""


def mnist(folder: Folder) -> Classes:
    """t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, unpacked; grey."""
    grey_NHW = _idx(folder, "t10k-images-idx3-ubyte", dimensions=3)
    label_N = _idx(folder, "t10k-labels-idx1-ubyte", dimensions=1)
    pixel_NHWC = np.broadcast_to(grey_NHW[..., None], (*grey_NHW.shape, 3))
    return _classes(folder, "t10k-images-idx3-ubyte", DIGITS, pixel_NHWC, label_N)


def svhn(folder: Folder) -> Classes:
    """test_32x32.mat: X is [H, W, C, N] and y the digit, where 10 stands for 0."""
    file = "test_32x32.mat"
    content = matlab(folder, file)
    pixel, label = content.get("X"), content.get("y")
    if pixel is None or label is None or pixel.ndim != 4 or pixel.dtype != np.uint8:
        raise _odd(folder, file, "X of bytes [height, width, 3, pictures] and y")
    label_N = np.atleast_1d(label).ravel().astype(np.int64) % 10
    return _classes(folder, file, DIGITS, np.moveaxis(pixel, 3, 0), label_N)


def stl10(folder: Folder) -> Classes:
    """test_X.bin: colour by colour, column by column, 96 x 96; test_y.bin counts from 1."""
    file, side = "test_X.bin", 96
    byte_B = np.frombuffer(_bytes(folder, file), dtype=np.uint8)
    if len(byte_B) % (3 * side * side):
        raise _odd(folder, file, f"pictures of 3 x {side} x {side} bytes")
    pixel_NHWC = byte_B.reshape(-1, 3, side, side).transpose(0, 3, 2, 1)
    label_N = np.frombuffer(_bytes(folder, "test_y.bin"), dtype=np.uint8).astype(np.int64) - 1
    names = lines_of(folder, "class_names.txt")
    return _classes(folder, file, names, pixel_NHWC, label_N)


def _classes(
    folder: Folder,
    file: str,
    names: Sequence[str],
    pixel_NHWC: Pixels,
    label_N: NDArray[np.generic],
) -> Classes:
    """Views of the array, not copies: nothing is decoded before it is opened."""
    labels = [int(label) for label in label_N]
    fits = len(labels) == len(pixel_NHWC) > 0 and len(names) > 1
    if not fits or not all(0 <= label < len(names) for label in labels):
        raise _odd(folder, file, f"as many pictures as labels, each one of {len(names)} classes")
    if pixel_NHWC.shape[3] != 3:
        raise _odd(folder, file, "pictures of three colours")
    found = [
        Labelled(str(at), PixelPicture(pixels, f"{folder.root / file}[{at}]"), label)
        for at, (pixels, label) in enumerate(zip(pixel_NHWC, labels, strict=True))
    ]
    return Classes(tuple(names), found)


def _idx(folder: Folder, file: str, *, dimensions: int) -> Pixels:
    """An array of bytes with a header: magic, then its dimensions."""
    content = _bytes(folder, file)
    start = _IDX_HEADER * (dimensions + 1)
    header = np.frombuffer(content[:start], dtype=">u4") if len(content) >= start else None
    if header is None or int(header[0]) != 256 * _BYTES + dimensions:
        raise _odd(folder, file, f"an IDX file of bytes with {dimensions} dimensions")
    shape = tuple(int(length) for length in header[1:])
    if len(content) - start != int(np.prod([*shape], dtype=object)):
        raise _odd(folder, file, f"{shape} bytes after the header")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _bytes(folder: Folder, file: str) -> bytes:
    path = folder.root / file
    if not path.is_file():
        folder.text(file)  # Says what is missing.
    try:
        return path.read_bytes()
    except OSError as error:
        raise _odd(folder, file, f"a file that can be read ({error})") from error


def _odd(folder: Folder, file: str, expected: str) -> UserError:
    return UserError(
        f"{file} of {folder.benchmark} is not the file it should be",
        expected=expected,
        way_out="unpack or download it again",
    )
