"""First weights come from a seed, and nobody else's dice are thrown."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from unbag.models.weights import seeded


def weights(seed: int) -> torch.Tensor:
    with seeded(seed):
        return nn.Linear(3, 4).weight.detach()


def test_a_seed_decides_all_that_is_drawn_inside() -> None:
    with torch.random.fork_rng(devices=[]):
        # What was drawn before must not be felt.
        torch.manual_seed(1)
        first = weights(5)
        torch.rand(7)
        assert torch.equal(first, weights(5))
        assert not torch.equal(first, weights(6))
        # The numbers of `torch.manual_seed`: results that ship were begun from them.
        torch.manual_seed(5)
        assert torch.equal(first, nn.Linear(3, 4).weight)


def test_the_generator_is_left_as_it_was_also_by_a_failure() -> None:
    before = torch.get_rng_state()
    weights(5)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(RuntimeError, match="mat1 and mat2"), seeded(5):
        torch.rand(2, 3) @ torch.rand(2, 3)
    assert torch.equal(torch.get_rng_state(), before)


def test_generators_of_gpus_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not restored, and a process that asks for one may fork no other."""

    def asked(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(torch.cuda, "manual_seed_all", asked)
    monkeypatch.setattr(torch, "manual_seed", asked)
    assert weights(5).shape == (4, 3)


def test_it_is_imported_without_torch() -> None:
    code = "import sys, unbag.models.weights; print('torch' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
