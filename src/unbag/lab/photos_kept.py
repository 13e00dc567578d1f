"""Kept features of photographs and captions come in; heads on them, ready to be trained, go out.

The parts before the heads are not even loaded. Dimensions: N pictures or captions, C features of a
part, D joint space.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors.torch import load_file
from torch import nn

from unbag.models.photo import Photo
from unbag.models.photo_towers import PhotoConfig, PhotoTowers
from unbag.models.seeded import seeded
from unbag.train.kept_features import FeatureReads, Features
from unbag.train.kept_photo import unit
from unbag.train.trainable import Reads

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from unbag.train.batch import Inputs


class _Nothing:
    """Preparation of what was prepared before."""

    def prepare(self, image: Image) -> Tensor:
        """Never: features of all pictures are kept."""
        raise NotImplementedError

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Never: features of all captions are kept."""
        raise NotImplementedError

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """A place each: whatever was too long was cut when its features were made."""
        return [1] * len(captions)


class KeptHeads:
    """Both heads and the temperature; see `unbag.train.trainable.Trainable`."""

    name = "heads"
    fingerprint = ""

    def __init__(
        self, start: Path | None, *, seed: int, pictures: Features, captions: Features, device: str
    ) -> None:
        """From a file that `unbag.models.photo.write` made, or from the seed."""
        with seeded(seed):
            towers = PhotoTowers(nn.Identity(), nn.Identity(), PhotoConfig())
        if start is not None:
            towers.load_state_dict({name: w.float() for name, w in load_file(start).items()})
        self.module = towers.to(device).train()
        self.picture_layers = ((towers.picture.head,),)
        self.caption_layers = ((towers.caption.head,),)
        self.temperature = (towers.log_scale,)
        self.reads: Reads = FeatureReads(_Nothing(), pictures, captions)
        self._picture_NC = pictures.vector_NC.to(device)
        self._caption_NC = captions.vector_NC.to(device)

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Places [N] to unit vectors [N, D]."""
        return unit(self.module.picture.head(self._picture_NC[pixels]))

    def embed_captions(self, inputs: Inputs) -> Tensor:
        """Places [N] to unit vectors [N, D]."""
        return unit(self.module.caption.head(self._caption_NC[inputs["place_N"]]))

    def encoder(self, name: str) -> Photo:
        """Without its parts it is none; `unbag.models.photo.read` puts them before the heads."""
        raise NotImplementedError(name)
