"""A picture comes in; the same picture with its rows, columns or patches in another order goes out.

methods.md 5.2. The picture is cut before the model resizes it; what does not divide evenly is
cropped at the bottom and on the right, where public code leaves it black.
Dimensions: H height, W width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unbag.errors import UserError
from unbag.metrics.resample import generator
from unbag.types import Picture

if TYPE_CHECKING:
    from PIL.Image import Image

GRIDS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"rows_4": (4, 1), "columns_4": (1, 4), "patches_9": (3, 3)}
)
"""Cells from top to bottom and from left to right, by kind."""


@dataclass(frozen=True)
class ShuffledPicture:
    """A picture cut into cells that change places, opened late.

    The order is drawn from seed, kind and the key of the picture, and never leaves all in place.
    """

    picture: Picture
    kind: str
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in GRIDS:
            raise UserError(
                f"the picture shuffle {self.kind!r} is not known",
                expected=f"one of {', '.join(GRIDS)}",
            )

    @property
    def key(self) -> str:
        """That of the picture, with kind and seed."""
        return f"{self.kind}:{self.seed}:{self.picture.key}"

    @property
    def name(self) -> str:
        """The picture's, with kind and seed."""
        return f"{self.picture.name} ({self.kind}, seed {self.seed})"

    def open(self) -> Image:
        """Decode, cut and put together; ValueError if the picture is smaller than its cells."""
        from PIL import Image

        pixels = np.asarray(self.picture.open().convert("RGB"))
        return Image.fromarray(rearranged(pixels, GRIDS[self.kind], self.order()))

    def order(self) -> list[int]:
        """Which cell comes to each place, counted row by row."""
        down, across = GRIDS[self.kind]
        rng = generator(self.seed, self.kind, self.picture.key)
        while True:
            order: list[int] = rng.permutation(down * across).tolist()
            if order != sorted(order):
                return order


def rearranged(
    pixels: NDArray[np.uint8], grid: tuple[int, int], order: Sequence[int]
) -> NDArray[np.uint8]:
    """Pixels [H, W, ...] with cell order[i] of the grid at place i; the remainder is cropped."""
    down, across = grid
    height, width = pixels.shape[0] // down, pixels.shape[1] // across
    if not height or not width:
        raise ValueError(
            f"a picture of {pixels.shape[1]} x {pixels.shape[0]} pixels cannot be cut into "
            f"{across} x {down} cells"
        )
    cells = [
        pixels[row * height : (row + 1) * height, column * width : (column + 1) * width]
        for row in range(down)
        for column in range(across)
    ]
    rows = [
        np.concatenate([cells[i] for i in order[start : start + across]], axis=1)
        for start in range(0, down * across, across)
    ]
    return np.concatenate(rows, axis=0)
