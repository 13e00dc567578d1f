"""Scenes of the world come in; their images, drawn on whatever device asks for them, go out.

Equal, byte for byte, to what `unbag.world.draw` gives for each scene: the noise of a picture comes
from its own scene, so parts of a batch draw what the whole does.

Dimensions: N scenes, H rows, W columns, 3 colour channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbag.train.trainable import Reads
from unbag.world.draw import ScenePicture, noise
from unbag.world.scene import Scene
from unbag.world.sprites import Packed, draw_batch, pack, sprite_table
from unbag.world.words import WORLDS


@dataclass(frozen=True, eq=False)
class DrawnPixels:
    """Scenes of one world, drawn on demand."""

    world: str
    packed: Packed
    noise_NHW3: NDArray[np.int8]
    # An array, not a tensor: tensors of workers travel in shared memory, which containers bound.

    def __len__(self) -> int:
        """Scenes."""
        return len(self.noise_NHW3)

    def __getitem__(self, part: slice, /) -> DrawnPixels:
        """Some of them."""
        packed = Packed(**{name: value[part] for name, value in vars(self.packed).items()})
        return DrawnPixels(self.world, packed, self.noise_NHW3[part])

    def to(self, device: str, /, *, non_blocking: bool = False) -> Tensor:
        """Levels [N, 3, H, W] in bytes, on the device."""
        side = WORLDS[self.world].pixels
        plain_N3HW = draw_batch(
            _table(self.world, device), self.packed, pixels=side, generator=None
        )
        noise_NHW3 = torch.from_numpy(self.noise_NHW3).to(device, non_blocking=non_blocking)
        level_N3HW = (255 * plain_N3HW).round_() + noise_NHW3.permute(0, 3, 1, 2)
        return level_N3HW.clamp_(0, 255).to(torch.uint8)


def drawn(scenes: Sequence[Scene]) -> DrawnPixels:
    """Scenes of one world, at least one."""
    world = WORLDS[scenes[0].world]
    shape = (world.pixels, world.pixels, 3)
    noise_NHW3 = np.empty((len(scenes), *shape), dtype=np.int8)
    for n, scene in enumerate(scenes):
        noise_NHW3[n] = noise(scene.noise_seed, noise_NHW3[n].size).reshape(shape)
    return DrawnPixels(world.name, pack(scenes), noise_NHW3)


def prepared(scenes: Sequence[Scene], reads: Reads) -> Tensor:
    """The same for a model with a preparation of its own: drawn here, picture by picture."""
    return torch.stack([reads.prepare(ScenePicture(scene, "").open()) for scene in scenes])


def takes_bytes(reads: Reads, scene: Scene) -> bool:
    """Whether a model wants the bytes of a drawing as they are; tried, not believed."""
    wanted, found = drawn([scene]).to("cpu")[0], prepared([scene], reads)[0]
    return found.dtype == torch.uint8 and torch.equal(found, wanted)


@cache
def _table(world: str, device: str) -> Tensor:
    return torch.from_numpy(sprite_table(WORLDS[world])).to(device)
