"""One photo model for all tests of a process: its parts take seconds to read."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from PIL import Image

from unbag.models.photo import Photo, load


@cache
def photo() -> Photo:
    """Heads before training."""
    return load("random")


def drawn(number: int, size: tuple[int, int] = (96, 72)) -> Image.Image:
    """Coarse noise, another for each number."""
    noise = np.random.default_rng(number).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size)


def pixels(count: int = 2) -> torch.Tensor:
    """Prepared."""
    return torch.stack([photo().prepare(drawn(n)) for n in range(count)])
