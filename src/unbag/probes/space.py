"""What a probe asks of a model: vectors of pictures and captions, and what stands before them.

A space can be a model (`unbag.probes.encoded`) or one that is constructed, so that its verdict is
known beforehand (`unbag.probes.constructed`). It remembers vectors: probes ask freely.

Dimensions: N pictures or captions, D joint space, L patches or words, W width of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from unbag.engine.cache import Vectors
from unbag.types import BoolArray, FloatArray, Picture


class Space(Protocol):
    """A joint space of pictures and captions."""

    @property
    def name(self) -> str:
        """What a table calls it."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever a vector could."""

    @property
    def damaged(self) -> Mapping[str, str]:
        """Name of each picture that could not be opened so far, with the reason."""

    @property
    def layers(self) -> LayerView | None:
        """What stands after each layer; None where the model does not show it."""

    @property
    def tokens(self) -> TokenView | None:
        """Patches and words in the joint space; None where the model does not show them."""

    def pictures(self, pictures: Sequence[Picture]) -> FloatArray:
        """Unit vectors [N, D]; NaN for a picture that cannot be opened."""

    def captions(self, captions: Sequence[str]) -> FloatArray:
        """Unit vectors [N, D]."""


@dataclass(frozen=True, eq=False)
class Features:
    """What stands at one place of a tower for N inputs. Single precision, to save memory."""

    vector_NLW: Vectors
    """Patches or words; NaN for a picture that cannot be opened."""
    mask_NL: BoolArray
    pooled_NW: Vectors | None = None
    """What is read out there (CLS, end token); None where there is no such place."""


class LayerView(Protocol):
    """Layers of both towers: 0 enters the first block, the last enters the projection.

    Vectors are not at unit norm. A tower of a kind that cannot be taken apart raises UserError.
    """

    @property
    def picture_depth(self) -> int:
        """Number of layers of pictures, the first and the last included."""

    @property
    def caption_depth(self) -> int:
        """Number of layers of captions."""

    def pictures(self, pictures: Sequence[Picture], layers: Sequence[int]) -> tuple[Features, ...]:
        """The layers asked for (-1 is the last), in one pass over the pictures."""

    def captions(self, captions: Sequence[str], layers: Sequence[int]) -> tuple[Features, ...]:
        """Likewise; captions are padded to the longest."""


class TokenView(Protocol):
    """Patches and words as unit vectors in the joint space, [N, L, D]."""

    def pictures(self, pictures: Sequence[Picture]) -> Features:
        """Patches, row by row from the top left."""

    def captions(self, captions: Sequence[str]) -> Features:
        """Words or their pieces."""
