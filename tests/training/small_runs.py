"""Training runs of a few steps on the world, with encoders of a few numbers."""

from __future__ import annotations

import json
from pathlib import Path

from torch import Tensor

from unbag.errors import UnbagError
from unbag.runs import checkpoint
from unbag.training.data.world import WorldBatches
from unbag.training.encoders.adapters import make_trainable
from unbag.training.fine_tuning import TrainJob
from unbag.training.recipes import Recipe, make_recipe

from .small_world import small

FAST = ("batch_size=4", "epochs=2", "warmup_steps=2", "learning_rate=0.01")
"""Settings under which a few steps change weights by much."""


def fast(name: str = "clip_ft", *settings: str) -> Recipe:
    """A recipe of two epochs of a few steps, four images each."""
    return make_recipe(name, [*FAST, *settings])


def job_of(
    out: Path,
    recipe: Recipe | None = None,
    *,
    seed: int = 0,
    per_epoch: int = 3,
    model: int = 1,
) -> TrainJob:
    """Six steps on the world."""
    recipe = recipe or fast()
    trainable = make_trainable(small(model), device="cpu")
    batches = WorldBatches(recipe, trainable.reads, seed=seed, per_epoch=per_epoch)
    return TrainJob(trainable, batches, recipe, out, seed=seed, command="unbag train")


def rows(folder: Path) -> list[dict[str, float]]:
    """Of log.jsonl."""
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def column(folder: Path, name: str) -> list[float]:
    """Of log.jsonl."""
    return [row[name] for row in rows(folder)]


def weights(folder: Path, name: str = checkpoint.LAST) -> dict[str, Tensor]:
    """Of a checkpoint."""
    return dict(checkpoint.load_checkpoint(folder / name).group("weights"))


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def one_line(error: UnbagError) -> str:
    """In one line."""
    return str(error).replace("\n  ", "; ")
