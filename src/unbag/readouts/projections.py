"""Frozen vectors come in; vectors of patches and captions in a space that is learned go out.

Dimensions: L patches or words, W width of the encoder, D width of the learned space; any
dimensions may stand before W.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from unbag.errors import UserError


def check_space(*, width: int, dropout: float, temperature: float) -> None:
    """Refuses settings of a learned space with which nothing can be learned."""
    for name, value, is_fit, expected in (
        ("width", width, width >= 0, "at least 1, or 0 for that of the encoder"),
        ("dropout", dropout, 0 <= dropout < 1, "from 0 to below 1"),
        ("temperature", temperature, temperature > 0, "above 0"),
    ):
        if not is_fit:
            raise UserError(f"the setting {name}={value}", expected=expected)


class PatchProjection(nn.Module):
    """A norm, dropout, then a linear layer plus one of two layers with a GELU."""

    def __init__(self, width: int, into: int, *, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.straight = nn.Linear(width, into)
        self.bent = nn.Sequential(nn.Linear(width, into), nn.GELU(), nn.Linear(into, into))

    def forward(self, part_W: Tensor) -> Tensor:
        """[..., W] to [..., D], float32 whatever comes in."""
        hidden_W = self.dropout(self.norm(part_W.float()))
        return cast("Tensor", (self.straight(hidden_W) + self.bent(hidden_W)).float())


class CaptionProjection(nn.Module):
    """A norm, dropout, a linear layer. The norm makes the length of what comes in irrelevant."""

    def __init__(self, width: int, into: int, *, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.straight = nn.Linear(width, into)

    def forward(self, vector_W: Tensor) -> Tensor:
        """[..., W] to [..., D], float32 whatever comes in."""
        return cast("Tensor", self.straight(self.dropout(self.norm(vector_W.float()))).float())
