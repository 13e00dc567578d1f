"""A joined model and kept features come in; towers of which only the open rest is run go out.

Dimensions: N pictures or captions, E width of the text part, D joint space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unbag.train.joined_trainable import JoinedTrainable
from unbag.train.kept_features import FeatureReads, Features
from unbag.train.trainable import Reads

if TYPE_CHECKING:
    from torch import Tensor

    from unbag.models.joined import Joined
    from unbag.train.batch import Inputs


class KeptJoined(JoinedTrainable):
    """A locked picture tower is its vectors, a locked text part what the connector is given."""

    def __init__(
        self, towers: JoinedTrainable, *, pictures: Features | None, captions: Features | None
    ) -> None:
        """Take towers over, without copying them; features must be those of their encoder."""
        self.__dict__.update(towers.__dict__)
        self._kept = (pictures, captions)
        self._seen, self._read = (
            None if one is None else one.vector_NC.to(self._device) for one in self._kept
        )
        self.reads: Reads = FeatureReads(towers.reads, pictures, captions)

    def embed_pictures(self, pixels: Tensor) -> Tensor:
        """Places [N], or pixels, to unit vectors [N, D]."""
        return super().embed_pictures(pixels) if self._seen is None else self._seen[pixels]

    def embed_captions(self, inputs: Inputs) -> Tensor:
        """Places, or tokens, to unit vectors [N, D]."""
        if self._read is None:
            return super().embed_captions(inputs)
        return self.connected(self._read[inputs["place_N"]])

    def beside(self, encoder: Joined) -> KeptJoined:
        """Another model on the same features, for losses that compare with the start."""
        from unbag.train.make_trainable import make_trainable

        towers = make_trainable(encoder, device=self._device)
        assert isinstance(towers, JoinedTrainable)
        pictures, captions = self._kept
        return KeptJoined(towers, pictures=pictures, captions=captions)
