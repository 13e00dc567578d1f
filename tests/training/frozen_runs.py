"""Pairs, recipes and runs of a few steps for models with frozen parts: photo and joined ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from unbag.data.pairs import Pairs
from unbag.data.readers import open_pairs
from unbag.runs.progress import Silent
from unbag.training.data.pairs import PairBatches
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.base import Trainable
from unbag.training.encoders.cached_features import cache_frozen
from unbag.training.fine_tuning import TrainJob, train
from unbag.training.recipes import Freeze, Recipe, make_recipe

from .pair_files import lines, negative

PART = Freeze("part", "part")
COUNT = 8


def save_pairs(folder: Path, *, torn: bool = False) -> Pairs:
    """Eight images with two captions each, the first with an edit; `torn` adds a damaged image."""
    rows = []
    for n in range(COUNT):
        noise = np.random.default_rng(n).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((80, 60)).save(folder / f"{n}.png")
        captions = [f"a red dog and {'cat ' * n}on a ball", f"a cube {n} left of a dog"]
        edits = [[negative(f"a ball on {n} red dog")], []]
        rows.append({"image": f"{n}.png", "captions": captions, "edits": edits})
    if torn:
        (folder / "torn.png").write_bytes(b"nothing")
        rows.append({"image": "torn.png", "captions": ["torn"], "edits": [[]]})
    return open_pairs(str(lines(folder / "pairs.jsonl", *rows)))


def recipe(name: str = "clip_ft", freeze: Freeze = PART, **fields: Any) -> Recipe:
    """Two epochs of two steps that change weights a lot."""
    fast = make_recipe(name, ["batch_size=4", "epochs=2", "warmup_steps=1", "learning_rate=0.01"])
    return replace(fast, freeze=freeze, **fields)


def trained(
    model: Any,
    out: Path,
    pairs: Any,
    recipe: Recipe,
    *,
    caches: bool = True,
    cache: Path | None = None,
) -> Trainable:
    """Train as `repair` does, on cached features unless `caches` is false."""
    trainable: Trainable = make_trainable(model, device="cpu")
    if caches:
        trainable = cache_frozen(model, trainable, pairs, recipe, cache=cache, progress=Silent())
    train(TrainJob(trainable, PairBatches(pairs, recipe, trainable.reads, 0), recipe, out))
    return trainable
