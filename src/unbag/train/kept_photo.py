"""A photo model and kept features come in; towers that start at the head, ready to train, go out.

Dimensions: N pictures or captions, C features of a part, D joint space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from unbag.models.photo import Photo
from unbag.train.photo_trainable import PhotoReads, PhotoTrainable
from unbag.types import Picture

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.train.batch import Inputs


@dataclass(frozen=True, eq=False)
class Features:
    """What a head is given, of every input."""

    place_of: Mapping[str, int]
    """Rows by name of the picture, or by caption."""
    vector_NC: Tensor
    damaged: Mapping[str, str] = field(default_factory=dict)
    """Names of pictures that could not be opened, with the reason."""


class KeptPhotoReads(PhotoReads):
    """A picture or a caption is its place among kept features, where they are kept."""

    def __init__(
        self, tokenizer: Any, pictures: Features | None, captions: Features | None
    ) -> None:
        """Places only: features stay with the towers and are sent to no worker."""
        super().__init__(tokenizer)
        self._pictures = None if pictures is None else pictures.place_of
        self._damaged = {} if pictures is None else pictures.damaged
        self._captions = None if captions is None else captions.place_of

    def kept(self, picture: Picture) -> Tensor:
        """A place, or pixels where the picture tower is trained."""
        if self._pictures is None:
            return self.prepare(picture.open())
        place = self._pictures.get(picture.name)
        if place is None:
            why = self._damaged.get(picture.name, "it is not in the collection")
            raise ValueError(f"no features of {picture.name} are kept: {why}")
        return torch.tensor(place)

    def tokenize(self, captions: Sequence[str]) -> Inputs:
        """Places, or tokens where the caption tower is trained."""
        if self._captions is None:
            return super().tokenize(captions)
        return {"place_N": torch.tensor([self._captions[one] for one in captions])}


class KeptPhoto(PhotoTrainable):
    """Towers of which one or both are run from their head on."""

    def __init__(
        self, encoder: Photo, *, device: str, pictures: Features | None, captions: Features | None
    ) -> None:
        """Copy the towers of an encoder; features must be those of its parts."""
        super().__init__(encoder, device=device)
        self._kept = (pictures, captions)
        self._pictures, self._captions = (
            None if one is None else one.vector_NC.to(device) for one in self._kept
        )
        self.reads = KeptPhotoReads(encoder.tokenizer, pictures, captions)

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Places [N], or pixels, to unit vectors [N, D]."""
        if self._pictures is None:
            return super().embed_pictures(pixels)
        return _unit(self.module.picture.head(self._pictures[pixels]))

    def embed_captions(self, inputs: Inputs) -> Tensor:
        """Places, or tokens, to unit vectors [N, D]."""
        if self._captions is None:
            return super().embed_captions(inputs)
        return _unit(self.module.caption.head(self._captions[inputs["place_N"]]))

    def beside(self, encoder: Photo) -> KeptPhoto:
        """Another model on the same features, for losses that compare with the start."""
        pictures, captions = self._kept
        return KeptPhoto(encoder, device=self._device, pictures=pictures, captions=captions)


def _unit(vector_ND: Tensor) -> Tensor:
    return functional.normalize(vector_ND.float(), dim=-1)
