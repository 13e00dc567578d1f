"""Features that were computed once come in; pictures and captions by their place among them go out.

Dimensions: N pictures or captions, C features of a part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import torch

from unbag.train.trainable import Reads, Trainable
from unbag.types import Picture

if TYPE_CHECKING:
    from PIL.Image import Image
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


@runtime_checkable
class OnFeatures(Protocol):
    """Towers that run from kept features on."""

    def beside(self, encoder: Any) -> Trainable:
        """Another model on the same features, for losses that compare with the start."""


class FeatureReads:
    """A picture or a caption is its place among kept features, where they are kept."""

    def __init__(
        self, plain: Reads | None, pictures: Features | None, captions: Features | None
    ) -> None:
        """Places only: features stay with the towers and are sent to no worker.

        `plain` prepares what has no features; None where everything has some.
        """
        self._plain = plain
        self._pictures = None if pictures is None else pictures.place_of
        self._damaged = {} if pictures is None else pictures.damaged
        self._captions = None if captions is None else captions.place_of

    def prepare(self, image: Image) -> Tensor:
        """As the towers want pixels."""
        assert self._plain is not None
        return self._plain.prepare(image)

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
            assert self._plain is not None
            return self._plain.tokenize(captions)
        return {"place_N": torch.tensor([self._captions[one] for one in captions])}

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Before cutting, special ones included."""
        if self._plain is None:
            # A place each: whatever was too long was cut when its features were made.
            return [1] * len(captions)
        return self._plain.count_tokens(captions)
