"""A tiny model comes in; a space that draws and encodes each scene and caption once goes out.

Like `unbag.probes.space`, but pictures are drawn together where the model computes, which needs
neither files nor PIL, and patches of the last layer come from the same pass.

Dimensions: N pictures or captions, B a batch, D joint space, L patches, W width of the last layer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from unbag.data.images import GRIDS, ShuffledPicture, rearranged
from unbag.models.tiny import Tiny
from unbag.runs.cache import Vectors
from unbag.training.data.world import drawn
from unbag.types import FloatArray, Picture
from unbag.world.rendering import ScenePicture
from unbag.world.scenes import Scene

"""A tiny model comes in; a space that draws and encodes each scene and caption once goes out.

Like `unbag.probes.space`, but pictures are drawn together where the model computes, which needs
neither files nor PIL, and patches of the last layer come from the same pass.

Dimensions: N pictures or captions, B a batch, D joint space, L patches, W width of the last layer.
"""


_PICTURES = (512, 64)
"""That go through the tower at once, on a GPU and on a processor."""
_CAPTIONS = (4_096, 256)


class TinySpace:
    """The vectors of a tiny model, kept in memory."""

    layers = None
    tokens = None
    damaged: Mapping[str, str] = MappingProxyType({})

    def __init__(self, encoder: Tiny) -> None:
        """Nothing is encoded before it is asked for."""
        self.name, self.fingerprint = encoder.name, encoder.fingerprint
        self._encoder = encoder
        self._at = int(encoder.device == "cpu")
        self._picture: dict[Hashable, FloatArray] = {}
        self._caption: dict[str, FloatArray] = {}

    def pictures(self, pictures: Sequence[Picture]) -> FloatArray:
        """Unit vectors [N, D] in double precision."""
        keys = [_key(picture) for picture in pictures]
        missing = {k: p for k, p in zip(keys, pictures, strict=True) if k not in self._picture}
        some = list(missing.values())
        for at in range(0, len(some), _PICTURES[self._at]):
            self._look(some[at : at + _PICTURES[self._at]])
        return np.array([self._picture[key] for key in keys])

    def captions(self, captions: Sequence[str]) -> FloatArray:
        """Unit vectors [N, D] in double precision."""
        missing = sorted({c for c in captions if c not in self._caption}, key=lambda c: (len(c), c))
        for at in range(0, len(missing), _CAPTIONS[self._at]):
            some = missing[at : at + _CAPTIONS[self._at]]
            vector_BD = self._encoder.encode_captions(some).double().numpy()
            self._caption.update(zip(some, vector_BD, strict=True))
        return np.array([self._caption[caption] for caption in captions])

    def last_layer(self, pictures: Sequence[Picture]) -> tuple[Vectors, Vectors]:
        """What enters the projection: CLS [N, W] and patches [N, L, W]; not kept."""
        step = _PICTURES[self._at]
        parts = [self._look(pictures[at : at + step]) for at in range(0, len(pictures), step)]
        every_NLW = np.concatenate([part.float().cpu().numpy() for part in parts])
        return every_NLW[:, 0], every_NLW[:, 1:]

    @torch.inference_mode()
    def _look(self, pictures: Sequence[Picture]) -> Tensor:
        """One pass: vectors are kept, the last layer goes out."""
        tower = self._encoder.towers.picture
        pixels = _levels(pictures, self._encoder.device).float() / 127.5 - 1.0
        last_BLW: Tensor = tower.norm(tower.blocks(tower.enter(pixels)))
        vector_BD = functional.normalize(tower.project(last_BLW[:, 0]), dim=-1)
        found_BD = vector_BD.double().cpu().numpy()
        self._picture.update(zip(map(_key, pictures), found_BD, strict=True))
        return last_BLW


def _scene(picture: Picture) -> Scene:
    assert isinstance(picture, ScenePicture)
    return picture.scene


def _key(picture: Picture) -> Hashable:
    """Scenes compare by what they show, whatever a picture is called."""
    if isinstance(picture, ShuffledPicture):
        return _scene(picture.picture), picture.kind, picture.seed
    return _scene(picture)


def _levels(pictures: Sequence[Picture], device: str) -> Tensor:
    """Bytes [B, 3, H, W]; what is shuffled is cut after it is drawn, and filled up with black.

    Nine patches of 64 pixels leave one row and one column, which public code leaves black too.
    """
    plain = [one.picture if isinstance(one, ShuffledPicture) else one for one in pictures]
    level_B3HW = drawn([_scene(one) for one in plain]).to(device)
    for at, one in enumerate(pictures):
        if isinstance(one, ShuffledPicture):
            image_HW3 = level_B3HW[at].permute(1, 2, 0).cpu().numpy()
            cut_HW3 = rearranged(image_HW3, GRIDS[one.kind], one.order())
            high, wide = cut_HW3.shape[:2]
            level_B3HW[at] = 0
            level_B3HW[at, :, :high, :wide] = torch.from_numpy(cut_HW3).permute(2, 0, 1).to(device)
    return level_B3HW
