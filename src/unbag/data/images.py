"""Images from files, pixels and parts of files, opened lazily and identified by content.

A file is decoded to the RGB that public benchmark code sees (Pillow's `convert`): alpha is dropped,
not blended; an animation is its first frame; the EXIF orientation is ignored, as in official
numbers and crop boxes. One difference: 16-bit grey is scaled to 8 bits, where Pillow clips
everything above 255 to white.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray

from unbag.errors import UnbagError
from unbag.metrics.intervals import generator
from unbag.types import ImageSource

if TYPE_CHECKING:
    from PIL.Image import Image


Box = tuple[int, int, int, int]
"""x, y, width, height in pixels, from the top left."""

GRIDS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"rows_4": (4, 1), "columns_4": (1, 4), "patches_9": (3, 3)}
)
"""Number of rows and columns of cells, by kind."""

# Pillow warns of large images and of odd headers. Filters of warnings belong to the whole
# process, so only one reader thread may change them at a time; pixels are decoded outside the lock.
_HEADER = Lock()
_SIXTEEN_BIT = frozenset({"PNG", "PPM"})
"""Formats whose mode I holds 16 bits."""


@dataclass(frozen=True)
class FileImage:
    """An image on disk, optionally only the part inside a box (ARO scores crops)."""

    path: Path
    box: Box | None = None
    turn_upright: bool = False
    """Apply the EXIF orientation before the box is cut. Right for your own photographs; no public
    benchmark is measured this way."""

    @property
    def name(self) -> str:
        """The path, with the box if there is one."""
        return f"{self.path}{list(self.box) if self.box else ''}"

    @property
    def key(self) -> str:
        """Hash of the file content, so that one image under two names has one key.

        The key of a file that cannot be read is a hash of its path; `open` raises the error.
        """
        try:
            stat = self.path.stat()
            content = _file_digest(str(self.path), stat.st_size, stat.st_mtime_ns)
        except (OSError, ValueError):
            # ValueError: a path cannot contain NUL.
            content = "missing:" + _digest(str(self.path).encode(errors="surrogatepass"))
        box = ":" + ",".join(map(str, self.box)) if self.box else ""
        return f"file:{content}{box}{':upright' if self.turn_upright else ''}"

    def open(self) -> Image:
        """Decode to RGB; OSError or ValueError with the reason if that fails."""
        return decode(self.path, box=self.box, turn_upright=self.turn_upright)


@dataclass(frozen=True, eq=False)
class PixelImage:
    """An image in memory: uint8 pixels of shape [height, width, 3]."""

    pixels: NDArray[np.uint8]
    name: str = "pixels"

    @cached_property
    def key(self) -> str:
        """Hash of shape and pixels, which must not change."""
        return "pixels:" + _digest(repr(self.pixels.shape).encode() + self.pixels.tobytes())

    def open(self) -> Image:
        """Return the pixels as an RGB image."""
        from PIL import Image

        if self.pixels.ndim != 3 or self.pixels.shape[2] != 3 or self.pixels.dtype != np.uint8:
            raise ValueError(
                f"pixels of shape {self.pixels.shape} and type {self.pixels.dtype}, "
                "expected [height, width, 3] of uint8"
            )
        return Image.fromarray(self.pixels)


@dataclass(frozen=True)
class MemberImage:
    """An encoded image inside a larger file, such as a shard."""

    path: Path
    member: str
    """Its name in the file, for messages."""
    start: int
    """Offset of the first byte."""
    size: int

    @property
    def name(self) -> str:
        """File and member name."""
        return f"{self.path}[{self.member}]"

    @property
    def key(self) -> str:
        """Hash of the encoded image, or of its name if it cannot be read."""
        return encoded_key(self._encoded, self.name)

    def open(self) -> Image:
        """Decode to RGB; OSError or ValueError if that fails."""
        return decode(BytesIO(self._encoded()), name=self.name)

    def _encoded(self) -> bytes:
        return read_part(self.path, self.start, self.size)


@dataclass(frozen=True)
class ShuffledImage:
    """An image whose cells are shuffled, opened lazily.

    The order is drawn from seed, kind and the key of the image, and is never the identity
    (methods.md 5.2). The image is cut before the model resizes it. A remainder that does not divide
    evenly is cropped at the bottom and on the right; public code makes it black.
    """

    image: ImageSource
    kind: str
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in GRIDS:
            raise UnbagError(
                f"the image shuffle {self.kind!r} is not known",
                expected=f"one of {', '.join(GRIDS)}",
            )

    @property
    def key(self) -> str:
        """Key of the image with kind and seed."""
        return f"{self.kind}:{self.seed}:{self.image.key}"

    @property
    def name(self) -> str:
        """Name of the image with kind and seed."""
        return f"{self.image.name} ({self.kind}, seed {self.seed})"

    def open(self) -> Image:
        """Decode and shuffle; ValueError if the image has fewer pixels than cells."""
        from PIL import Image

        pixels = np.asarray(self.image.open().convert("RGB"))
        return Image.fromarray(rearranged(pixels, GRIDS[self.kind], self.order()))

    def order(self) -> list[int]:
        """Return the index of the cell at each position, in row-major order."""
        down, across = GRIDS[self.kind]
        rng = generator(self.seed, self.kind, self.image.key)
        while True:
            order: list[int] = rng.permutation(down * across).tolist()
            if order != sorted(order):
                return order


def decode(
    file: Path | BytesIO, *, name: str = "", box: Box | None = None, turn_upright: bool = False
) -> Image:
    """Decode an image to RGB; errors name it `name`, or by its path."""
    from PIL import ImageOps

    try:
        with _header(file, name or str(file), keeps_exif=turn_upright) as image:
            if turn_upright:
                # In place, since an image that is already upright would be copied needlessly.
                ImageOps.exif_transpose(image, in_place=True)
            part = image.crop(_corners(box, image.size)) if box else image
            return _rgb(part, image.format)
    except (OSError, ValueError, MemoryError):
        raise
    except Exception as error:
        # On damaged bytes, decoders raise anything: struct.error, IndexError, zlib.error.
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _header(file: Path | BytesIO, name: str, *, keeps_exif: bool) -> Image:
    from PIL import Image, UnidentifiedImageError

    try:
        with _HEADER, catch_warnings():
            simplefilter("ignore")
            image = Image.open(file)
            if keeps_exif or image.format == "TIFF":
                # Cached by the image. Pillow reads it again while decoding a TIFF, which it turns
                # upright by itself.
                image.getexif()
            return image
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from error
    except UnidentifiedImageError as error:
        size = file.stat().st_size if isinstance(file, Path) else len(file.getbuffer())
        what = f"{size} bytes in a format unknown to Pillow" if size else "the file is empty"
        raise UnidentifiedImageError(f"{what}: {name}") from error


def _rgb(image: Image, format_: str | None) -> Image:
    """Convert any mode to RGB."""
    from PIL import Image as Images

    if image.mode.startswith("I;16") or (image.mode == "I" and format_ in _SIXTEEN_BIT):
        grey = np.asarray(image).astype(np.uint32)
        return Images.fromarray(((grey + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError(
            f"32-bit pixels (mode {image.mode}) have no known range; save with 8 or 16 bits"
        )
    if image.mode == "P" and "transparency" in image.info:
        # Gives the same colours without a warning from Pillow.
        image = image.convert("RGBA")
    if image.mode == "RGB":
        # Decode only: a conversion would copy it.
        image.load()
        return image
    return image.convert("RGB")


def _corners(box: Box, size: tuple[int, int]) -> Box:
    """Convert a box to corners, clipped to the image: annotated boxes often exceed it."""
    x, y, width, height = box
    left, top = max(0, x), max(0, y)
    right, bottom = min(size[0], x + width), min(size[1], y + height)
    if right <= left or bottom <= top:
        raise ValueError(f"box {list(box)} lies outside the image of size {list(size)}")
    return left, top, right, bottom


def rearranged(
    pixels: NDArray[np.uint8], grid: tuple[int, int], order: Sequence[int]
) -> NDArray[np.uint8]:
    """Return pixels [H, W, ...] with cell order[i] at position i; the remainder is cropped."""
    down, across = grid
    height, width = pixels.shape[0] // down, pixels.shape[1] // across
    if not height or not width:
        raise ValueError(
            f"an image of {pixels.shape[1]} x {pixels.shape[0]} pixels cannot be cut into "
            f"{across} x {down} cells"
        )
    rest = pixels.shape[2:]
    cut = pixels[: down * height, : across * width].reshape(down, height, across, width, *rest)
    cells = cut.swapaxes(1, 2).reshape(down * across, height, width, *rest)[list(order)]
    placed = cells.reshape(down, across, height, width, *rest).swapaxes(1, 2)
    return placed.reshape(down * height, across * width, *rest)


def encoded_key(read: Callable[[], bytes], name: str) -> str:
    """Return a hash of an encoded image, or of its name if it cannot be read."""
    try:
        return "bytes:" + _digest(read())
    except (OSError, ValueError):
        return "missing:" + _digest(name.encode())


def read_part(path: Path, start: int, size: int) -> bytes:
    """Read `size` bytes from `start`; ValueError if the file ends before."""
    with path.open("rb") as file:
        file.seek(start)
        content = file.read(size)
    if len(content) != size:
        raise ValueError(f"{path} ends before byte {start + size:,}: it has changed")
    return content


@lru_cache(maxsize=1_000_000)
def _file_digest(path: str, size: int, mtime_ns: int) -> str:
    """Hash a file; size and time are arguments so that a changed file is read again."""
    digest = blake2b(digest_size=16)
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
