"""A device without room. The CPU has no such error, so a loss raises the GPU's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.runs import checkpoint
from unbag.training.fine_tuning import train
from unbag.training.losses import contrastive
from unbag.training.objective import Objective, Term
from unbag.types import Embedded

from .small_runs import fast, job_of


def test_a_batch_that_does_not_fit_is_told_with_the_hint(tmp_path: Path) -> None:
    calls: list[int] = []

    def full(embedded: Embedded) -> Tensor:
        calls.append(1)
        if len(calls) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return contrastive(embedded)

    recipe = replace(fast(), objective=Objective((Term("full", 1.0, full),)))
    with pytest.raises(UnbagError, match="no room for 4 images and their captions at once") as one:
        train(job_of(tmp_path, recipe))
    assert "--micro-batch-size 2 in a new folder" in str(one.value)
    assert checkpoint.load_checkpoint(tmp_path / checkpoint.LAST).header["step"] == 2
