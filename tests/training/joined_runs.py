"""Images, recipes and runs of a few steps for joined models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from unbag.data.pairs import Pairs
from unbag.data.readers import open_pairs
from unbag.models.joined import JoinedEncoder
from unbag.models.tiny import write
from unbag.reports.cards import Card
from unbag.runs.progress import Silent
from unbag.training.data.pairs import PairBatches
from unbag.training.encoders.adapters import JoinedTrainable, make_trainable
from unbag.training.encoders.base import Trainable
from unbag.training.encoders.cached_features import cache_frozen
from unbag.training.fine_tuning import TrainJob, train
from unbag.training.recipes import Freeze, Recipe, make_recipe

from .small_world import small

CAPTIONS = ("a red cube", "a blue ball on a dog")
PART = Freeze("all", "part")
CARD = Card(title="t", base="b", recipe="r", settings="", data="d")


def save_eyes(folder: Path) -> str:
    """A tiny image model; gives the name that loads it."""
    write(small(1).network, folder / "eyes.safetensors", dtype=torch.float32)
    return f"tiny:{folder / 'eyes.safetensors'}"


def save_pairs(folder: Path) -> Pairs:
    """Eight images with two captions each; the first has an edit."""
    rows = []
    for at in range(8):
        noise = np.random.default_rng(at).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((40, 30)).save(folder / f"{at}.png")
        captions = [f"a red dog and {'cat ' * at}on a ball", f"a cube {at} left of a dog"]
        edits = [[{"text": f"a ball on {at} red dog", "kind": "swap_nouns", "is_positive": False,
                   "changes": []}], []]  # fmt: skip
        rows.append({"image": f"{at}.png", "captions": captions, "edits": edits})
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_pairs(str(folder / "pairs.jsonl"))


def recipe(name: str = "clip_ft", freeze: Freeze = PART, **fields: object) -> Recipe:
    """Two epochs of two steps that change weights by much."""
    made = make_recipe(name, ["batch_size=4", "epochs=2", "warmup_steps=1", "learning_rate=0.01"])
    return replace(made, freeze=freeze, **fields)  # type: ignore[arg-type]


def trained(
    joined: JoinedEncoder, out: Path, pairs: Pairs, asked: Recipe, *, keeps: bool = False
) -> Trainable:
    """As `repair` trains."""
    found: Trainable = make_trainable(joined, device="cpu")
    if keeps:
        found = cache_frozen(joined, found, pairs, asked, cache=None, progress=Silent())
    train(TrainJob(found, PairBatches(pairs, asked, found.reads, 0), asked, out))
    return found


def part(state: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    return {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}


def is_same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def trainable_of(joined: JoinedEncoder) -> JoinedTrainable:
    """Ready to train."""
    found = make_trainable(joined, device="cpu")
    assert isinstance(found, JoinedTrainable)
    return found
