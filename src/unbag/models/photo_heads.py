"""A seed or a file comes in; heads of a photo model go out, without the parts before them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file
from torch import nn

from unbag.models.photo_towers import PhotoConfig, PhotoTowers
from unbag.models.seeded import seeded


@dataclass(frozen=True, eq=False)
class PhotoHeads:
    """Heads and temperature of `unbag.models.photo.Photo`; its parts are not even loaded.

    No encoder: what a part would make of pictures and captions must be at hand.
    """

    towers: PhotoTowers
    name: str = "heads"
    fingerprint: str = ""
    tokenizer: None = None


def load_heads(start: Path | None, *, seed: int) -> PhotoHeads:
    """From a file that `unbag.models.photo.write` made, or from the seed."""
    with seeded(seed):
        towers = PhotoTowers(nn.Identity(), nn.Identity(), PhotoConfig())
    if start is not None:
        towers.load_state_dict({name: w.float() for name, w in load_file(start).items()})
    return PhotoHeads(towers)
