"""The control for all readers: the same training on one pooled vector per input.

Its gain is due to training alone. What another reader gains over it is in the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from unbag.models.features import POOLED_ONLY
from unbag.readouts.reader import Reader, Sizes
from unbag.readouts.training import ReaderEffort, ReaderReadout
from unbag.training.settings import bounded
from unbag.types import TokenFeatures


@dataclass(frozen=True)
class PooledSettings(ReaderEffort):
    """Settings of the control."""

    width: int = 256
    """Width of the joint space and of the hidden layers."""
    contrast_size: int = bounded(256, low=1)
    """Comparing single vectors is cheap, so the whole batch is contrasted."""


class Pooled(Reader):
    """Cosine of two small networks that map into a joint space."""

    name = "pooled"
    view = POOLED_ONLY
    scale = 14.3

    def __init__(self, settings: PooledSettings, sizes: Sizes) -> None:
        super().__init__()
        self.settings = settings
        self.picture = _network(sizes.picture_width, settings.width)
        self.caption = _network(sizes.caption_width, settings.width)

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Return cosines row by row."""
        return (_unit_vectors(self.picture, image) * _unit_vectors(self.caption, caption)).sum(
            dim=-1
        )

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Return cosines of all images with all captions."""
        return _unit_vectors(self.picture, image) @ _unit_vectors(self.caption, caption).T


def _unit_vectors(network: nn.Module, features: TokenFeatures) -> Tensor:
    return functional.normalize(network(features.pooled.float()), dim=-1)


def _network(input_width: int, width: int) -> nn.Module:
    return nn.Sequential(
        nn.LayerNorm(input_width), nn.Linear(input_width, width), nn.GELU(), nn.Linear(width, width)
    )


POOLED = ReaderReadout("pooled", PooledSettings(), lambda settings: POOLED_ONLY, Pooled)
