"""What a verdict is about, and what may not be read into it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Where:
    """Pictures on which a claim is tried."""

    name: str
    """As verdicts say it."""
    small: str
    """Why sizes of effects found there mean little elsewhere."""


WORLD = Where("the world", "small models on drawn scenes")
PHOTOGRAPHS = Where(
    "these photographs",
    "small heads on two frozen parts, asked about edits that rules made of the captions of one "
    "collection",
)
