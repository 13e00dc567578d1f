"""Pictures from files and from pixels, opened late and known by their content.

A file becomes the RGB that public benchmark code sees (Pillow's `convert`): alpha is dropped, not
blended; the first frame of an animation counts; pixels stay as they are stored, whatever EXIF says
of the camera, because official numbers and crop boxes are made that way. One thing differs: 16-bit
grey is scaled to 8 bits, where Pillow cuts everything above 255 to white.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

Box = tuple[int, int, int, int]
"""x, y, width, height in pixels, from the top left."""

# Pillow warns of large pictures and of odd headers. Filters of warnings belong to the whole
# process, so only one reader thread may change them at a time; pixels are decoded outside the lock.
_HEADER = Lock()
_SIXTEEN_BIT = frozenset({"PNG", "PPM"})
"""Formats whose mode I holds 16 bits."""


@dataclass(frozen=True)
class FilePicture:
    """A picture on disk, optionally only the part inside a box (ARO scores crops)."""

    path: Path
    box: Box | None = None
    turn_upright: bool = False
    """Turn the image as its EXIF note says, before the box is cut. Right for photographs of your
    own; no public benchmark is measured so."""

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
        except (OSError, ValueError):
            # ValueError: no path can hold a NUL.
            content = "missing:" + _digest(str(self.path).encode(errors="surrogatepass"))
        box = ":" + ",".join(map(str, self.box)) if self.box else ""
        return f"file:{content}{box}{':upright' if self.turn_upright else ''}"

    def open(self) -> Image:
        """Decode to RGB; OSError or ValueError, saying why, if that cannot be done."""
        return decode(self.path, box=self.box, turn_upright=self.turn_upright)


@dataclass(frozen=True, eq=False)
class PixelPicture:
    """A picture that is already in memory, as [height, width, 3] bytes."""

    pixels: NDArray[np.uint8]
    name: str = "pixels"

    @cached_property
    def key(self) -> str:
        """Hash of size and pixels, which must not be changed."""
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


def decode(
    file: Path | BytesIO, *, name: str = "", box: Box | None = None, turn_upright: bool = False
) -> Image:
    """An encoded picture to RGB; `name` is said in errors instead of the path."""
    from PIL import ImageOps

    try:
        with _header(file, name or str(file), keeps_exif=turn_upright) as image:
            if turn_upright:
                # In place: else an upright picture, as most are, would be copied for nothing.
                ImageOps.exif_transpose(image, in_place=True)
            part = image.crop(_corners(box, image.size)) if box else image
            return _rgb(part, image.format)
    except (OSError, ValueError, MemoryError):
        raise
    except Exception as error:
        # Decoders that meet damaged bytes raise anything: struct.error, IndexError, zlib.error.
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _header(file: Path | BytesIO, name: str, *, keeps_exif: bool) -> Image:
    from PIL import Image, UnidentifiedImageError

    try:
        with _HEADER, catch_warnings():
            simplefilter("ignore")
            image = Image.open(file)
            if keeps_exif or image.format == "TIFF":
                # Kept by the image. Pillow reads it again while it decodes a TIFF, which it
                # turns upright by itself.
                image.getexif()
            return image
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from error
    except UnidentifiedImageError as error:
        size = file.stat().st_size if isinstance(file, Path) else len(file.getbuffer())
        what = f"{size} bytes in no format that Pillow knows" if size else "the file is empty"
        raise UnidentifiedImageError(f"{what}: {name}") from error


def _rgb(image: Image, format_: str | None) -> Image:
    """Any mode to RGB by its meaning."""
    from PIL import Image as Images

    if image.mode.startswith("I;16") or (image.mode == "I" and format_ in _SIXTEEN_BIT):
        grey = np.asarray(image).astype(np.uint32)
        return Images.fromarray(((grey + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError(
            f"pixels of 32 bits (mode {image.mode}) have no known range; save it with 8 or 16 bits"
        )
    if image.mode == "P" and "transparency" in image.info:
        # The same colours by a way on which Pillow does not warn.
        image = image.convert("RGBA")
    if image.mode == "RGB":
        # Only decoded: a conversion would copy it.
        image.load()
        return image
    return image.convert("RGB")


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
