"""Compiled layers, recorded steps and the optimizer."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.utils import _triton

from unbag.training.optim import (
    OptimizerSettings,
    Recorded,
    Snapshot,
    compile_layers,
    make_optimizer,
)


def learn(net: nn.Module, optimizer: torch.optim.Optimizer, value: Tensor) -> dict[str, Tensor]:
    loss: Tensor = net(value).square().mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return {"loss": loss.detach()}


def make(device: str) -> tuple[nn.Linear, torch.optim.AdamW, Tensor]:
    torch.manual_seed(0)
    net = nn.Linear(3, 2).to(device)
    is_cuda = device == "cuda"
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, capturable=is_cuda, fused=is_cuda)
    return net, optimizer, torch.ones(4, 3, device=device)


def test_steps_before_the_first_are_forgotten() -> None:
    net, optimizer, value = make("cpu")
    plain, other, _ = make("cpu")
    snapshot = Snapshot(net.parameters(), optimizer)
    for _ in range(3):
        learn(net, optimizer, value)
    assert not torch.equal(net.weight, plain.weight)
    snapshot.restore()
    losses = [learn(net, optimizer, value) for _ in range(4)]
    assert losses == [learn(plain, other, value) for _ in range(4)]


def test_steps_in_the_middle_of_a_training_are_forgotten() -> None:
    net, optimizer, value = make("cpu")
    for _ in range(2):
        learn(net, optimizer, value)
    weight, state = net.weight.clone(), deepcopy(optimizer.state_dict()["state"])
    snapshot = Snapshot(net.parameters(), optimizer)
    for _ in range(3):
        learn(net, optimizer, value)
    snapshot.restore()
    assert torch.equal(net.weight, weight)
    for place, values in optimizer.state_dict()["state"].items():
        for key, tensor in values.items():
            assert torch.equal(tensor, state[place][key]), key


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
def test_a_recorded_step_learns_as_a_plain_one() -> None:
    net, optimizer, value = make("cuda")
    plain, other, _ = make("cuda")
    step = Recorded(lambda: learn(net, optimizer, value), optimizer, device="cuda")
    for _ in range(5):
        torch.testing.assert_close(step(), learn(plain, other, value))
    torch.testing.assert_close(net.weight, plain.weight)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there recording does not fail")
def test_where_nothing_can_be_recorded_steps_are_taken_one_by_one() -> None:
    net, optimizer, value = make("cpu")
    plain, other, _ = make("cpu")
    with pytest.warns(UserWarning, match="cannot be recorded on cuda .* launched one by one"):
        step = Recorded(lambda: learn(net, optimizer, value), optimizer, device="cuda")
    assert [step() for _ in range(4)] == [learn(plain, other, value) for _ in range(4)]


def test_pytorch_chooses_how_weights_are_updated_where_nothing_is_recorded() -> None:
    """`fused=False` would mean one weight at a time on a GPU: slower, and with other last bits."""
    ours = make_optimizer({"w": nn.Parameter(torch.zeros(2))}, OptimizerSettings(1, 0.1))
    plain = torch.optim.AdamW([torch.zeros(2)])
    assert [ours.defaults[name] for name in ("fused", "foreach")] == [
        plain.defaults[name] for name in ("fused", "foreach")
    ]


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
    names = [set(tensor.state_dict()) for tensor in layers]
    with torch._dynamo.config.patch(suppress_errors=False):
        compile_layers(layers, device="cuda:0", varies=True)
        assert torch._dynamo.config.suppress_errors
    assert all(map(is_compiled, layers))
    assert [set(tensor.state_dict()) for tensor in layers] == names
    assert not is_compiled(deepcopy(layers[0]))
