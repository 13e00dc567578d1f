"""The control of every reader: the same training, but on one pooled vector of each input.

What it gains is gained by training; what another reader gains beside it is in the parts.
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
    """What decides the control, besides its weights."""

    width: int = 256
    """Of the joint space and of the hidden layers."""
    contrast_size: int = bounded(256, low=1)
    """Telling one vector from another costs nothing, so the whole batch is a crowd."""


class Pooled(Reader):
    """Two small networks into a joint space, and the cosine there."""

    name = "pooled"
    view = POOLED_ONLY
    scale = 14.3

    def __init__(self, settings: PooledSettings, sizes: Sizes) -> None:
        super().__init__()
        self.settings = settings
        self.picture = _network(sizes.picture_width, settings.width)
        self.caption = _network(sizes.caption_width, settings.width)

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Cosine, row with row."""
        return (_unit(self.picture, image) * _unit(self.caption, caption)).sum(dim=-1)

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Cosine of all with all."""
        return _unit(self.picture, image) @ _unit(self.caption, caption).T


def _unit(network: nn.Module, parts: TokenFeatures) -> Tensor:
    return functional.normalize(network(parts.pooled.float()), dim=-1)


def _network(wide: int, width: int) -> nn.Module:
    return nn.Sequential(
        nn.LayerNorm(wide), nn.Linear(wide, width), nn.GELU(), nn.Linear(width, width)
    )


POOLED = ReaderReadout("pooled", PooledSettings(), lambda settings: POOLED_ONLY, Pooled)
