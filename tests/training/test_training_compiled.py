"""Layers are compiled on a GPU with a compiler, and left alone everywhere else."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.utils import _triton

from unbag.training.optim import compile_layers


def is_compiled(layer: nn.Module) -> bool:
    return layer._compiled_call_impl is not None


@pytest.mark.parametrize(("device", "has_triton"), [("cpu", True), ("cuda", False)])
def test_a_processor_or_a_gpu_without_compiler_runs_plain_layers(
    monkeypatch: pytest.MonkeyPatch, device: str, has_triton: bool
) -> None:
    monkeypatch.setattr(_triton, "has_triton", lambda: has_triton)
    layer = nn.Linear(2, 2)
    compile_layers([layer], device=device)
    assert not is_compiled(layer)


def test_a_copy_of_a_compiled_layer_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_triton, "has_triton", lambda: True)
    layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
    names = [set(one.state_dict()) for one in layers]
    with torch._dynamo.config.patch(suppress_errors=False):
        compile_layers(layers, device="cuda:0", varies=True)
        assert torch._dynamo.config.suppress_errors
    assert all(map(is_compiled, layers))
    assert [set(one.state_dict()) for one in layers] == names
    assert not is_compiled(deepcopy(layers[0]))
