"""Towers as they come in; towers with what a recipe trains open, and copies of the start, out."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from unbag.errors import UserError
from unbag.train.batch import Batch
from unbag.train.job import TrainJob
from unbag.train.kept_features import OnFeatures
from unbag.train.locks import apply_locks
from unbag.train.lora import add_lora
from unbag.train.make_trainable import make_trainable
from unbag.train.optimise import open_weights
from unbag.train.trainable import Trainable


def open_towers(job: TrainJob) -> str:
    """Lock and widen what the recipe says; gives what is trained, in words."""
    said = apply_locks(job.trainable, job.recipe.locks)
    if job.recipe.lora is not None:
        torch.manual_seed(job.seed)
        said = add_lora(job.trainable, job.recipe.lora)
    return said


def frozen_copy(job: TrainJob) -> Trainable:
    """The weights before training, for losses that compare with them."""
    encoder = job.trainable.encoder("start")
    if isinstance(job.trainable, OnFeatures):
        start: Trainable = job.trainable.beside(encoder)
    else:
        start = make_trainable(encoder, device=job.device)
    start.module.requires_grad_(False).eval()
    return start


def first_weights(job: TrainJob) -> Mapping[str, Tensor]:
    """Copies of what is open, for recipes that hold on to the start."""
    return {name: w.detach().clone() for name, w in open_weights(job.trainable).items()}


def too_large(job: TrainJob, batch: Batch) -> UserError:
    """The error for a batch that a device has no room for."""
    now = job.micro or len(batch)
    return UserError(
        f"{job.device} has no room for {now} pictures and their captions at once",
        expected="a part of the batch that fits; the gradient is that of the whole batch",
        way_out=f"--micro {max(1, now // 2)} in a new folder (--out), or a smaller model",
    )
