"""Pictures from files and from pixels, opened late and known by their content."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

Box = tuple[int, int, int, int]
"""x, y, width, height in pixels, from the top left."""


@dataclass(frozen=True)
class FilePicture:
    """A picture on disk, optionally only the part inside a box (ARO scores crops)."""

    path: Path
    box: Box | None = None

    @property
    def name(self) -> str:
        """The path, with the box if there is one."""
        return f"{self.path}{list(self.box) if self.box else ''}"

    @property
    def key(self) -> str:
        """Hash of the file's bytes, so that one picture under two names is one picture.

        A file that cannot be read gets a key of its path; opening it is what will fail.
        """
        try:
            stat = self.path.stat()
            content = _file_digest(str(self.path), stat.st_size, stat.st_mtime_ns)
        except OSError:
            content = "missing:" + _digest(str(self.path).encode())
        return f"file:{content}:{','.join(map(str, self.box))}" if self.box else f"file:{content}"

    def open(self) -> Image:
        """Decode to RGB; OSError or ValueError if that cannot be done."""
        from PIL import Image

        try:
            with Image.open(self.path) as image:
                part = image.crop(_corners(self.box, image.size)) if self.box else image
                return part.convert("RGB")
        except (Image.DecompressionBombError, SyntaxError, RuntimeError) as error:
            # Pillow and its plug-ins raise these outside the usual OSError family.
            raise ValueError(str(error)) from error


@dataclass(frozen=True, eq=False)
class PixelPicture:
    """A picture that is already in memory, as [height, width, 3] bytes."""

    pixels: NDArray[np.uint8]
    name: str = "pixels"

    @property
    def key(self) -> str:
        """Hash of size and pixels."""
        return "pixels:" + _digest(repr(self.pixels.shape).encode() + self.pixels.tobytes())

    def open(self) -> Image:
        """As an RGB image."""
        from PIL import Image

        if self.pixels.ndim != 3 or self.pixels.shape[2] != 3 or self.pixels.dtype != np.uint8:
            raise ValueError(
                f"pixels of shape {self.pixels.shape} and type {self.pixels.dtype}, "
                "expected [height, width, 3] of uint8"
            )
        return Image.fromarray(self.pixels)


def _corners(box: Box, size: tuple[int, int]) -> Box:
    """Box to corners, kept inside the picture; annotated boxes often hang over its edge."""
    x, y, width, height = box
    left, top = max(0, x), max(0, y)
    right, bottom = min(size[0], x + width), min(size[1], y + height)
    if right <= left or bottom <= top:
        raise ValueError(f"box {list(box)} lies outside the picture of size {list(size)}")
    return left, top, right, bottom


@lru_cache(maxsize=1_000_000)
def _file_digest(path: str, size: int, mtime_ns: int) -> str:
    """Hash of a file; size and time are arguments so that a changed file is read again."""
    digest = blake2b(digest_size=16)
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
