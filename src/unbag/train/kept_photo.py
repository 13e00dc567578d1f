"""A photo model and kept features come in; towers that start at the head, ready to train, go out.

Where features of everything are kept, heads alone will do: no part has to be loaded.

Dimensions: N pictures or captions, C features of a part, D joint space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional

from unbag.models.photo import Photo
from unbag.models.photo_heads import PhotoHeads
from unbag.train.kept_features import FeatureReads
from unbag.train.kept_features import Features as Features
from unbag.train.photo_trainable import PhotoReads, PhotoTrainable
from unbag.train.trainable import Reads

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.train.batch import Inputs


class KeptPhoto(PhotoTrainable):
    """Towers of which one or both are run from their head on."""

    def __init__(
        self,
        encoder: Photo | PhotoHeads,
        *,
        device: str,
        pictures: Features | None,
        captions: Features | None,
    ) -> None:
        """Copy the towers of an encoder; features must be those of its parts."""
        super().__init__(encoder, device=device)
        plain = PhotoReads(encoder.tokenizer) if isinstance(encoder, Photo) else None
        if plain is None and (pictures is None or captions is None):
            raise ValueError("heads without parts need features of pictures and of captions")
        self._kept = (pictures, captions)
        self._pictures, self._captions = (
            None if one is None else one.vector_NC.to(device) for one in self._kept
        )
        self.reads: Reads = FeatureReads(plain, pictures, captions)

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
    """Of length one, with all digits."""
    return functional.normalize(vector_ND.float(), dim=-1)
