"""Tiny encoders of a few numbers that differ where they are told to, and rows of the unit world."""

from __future__ import annotations

import numpy as np
import torch

from unbag.models.tiny import Tiny, TinyConfig, untrained
from unbag.probes.base import Row
from unbag.training.encoders.adapters import make_trainable
from unbag.types import DualEncoder
from unbag.world.placement import Look, place_apart
from unbag.world.rendering import SceneImage
from unbag.world.vocabulary import UNIT

WORDS = ("a", "red", "blue", "green", "circle", "square", "cross", "and", "left", "of", "two")
CONFIG = TinyConfig(
    pixels=32, patch=16, picture_width=8, picture_depth=1, caption_width=8, caption_depth=1,
    joint=8, heads=2, context=16, words=WORDS,
)  # fmt: skip


def small(seed: int, *, name: str = "", config: TinyConfig = CONFIG) -> Tiny:
    return Tiny(untrained(config, seed=seed), name=name or f"tiny:{seed}")


def perturbed(
    encoder: DualEncoder, name: str, *, only: str = "", size: float = 0.3, seed: int = 3
) -> DualEncoder:
    """Other weights wherever the name begins so, the scale included."""
    trainable = make_trainable(encoder, device="cpu")
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for place, weight in trainable.module.named_parameters():
            noise = size * torch.randn(weight.shape, generator=rng)
            if place.startswith(only):
                weight.add_(noise)
    return trainable.encoder(name)


def rows(count: int = 24) -> tuple[Row, ...]:
    """Two kinds, four rows a cluster."""
    found = []
    for i in range(count):
        rng = np.random.default_rng((i, 5))
        a, b = rng.permutation(UNIT.shapes[:2] + UNIT.shapes[3:4]).tolist()[:2]
        scene = place_apart(UNIT, (Look(a, "red", "small"), Look(b, "blue", "small")), rng)
        kind = "swap" if i % 2 else "replace"
        negative = f"a blue {a} and a red {b}" if i % 2 else f"a green {a} and a blue {b}"
        said = f"a red {a} and a blue {b}"
        image = SceneImage(scene, f"scene {i}")
        found.append(Row(f"row {i}", image, said, negative, kind=kind, cluster=str(i // 4)))
    return tuple(found)
