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


def learn(net: nn.Module, optimiser: torch.optim.Optimizer, value: Tensor) -> dict[str, Tensor]:
    loss: Tensor = net(value).square().mean()
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return {"loss": loss.detach()}


def made(device: str) -> tuple[nn.Linear, torch.optim.AdamW, Tensor]:
    torch.manual_seed(0)
    net = nn.Linear(3, 2).to(device)
    is_cuda = device == "cuda"
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.1, capturable=is_cuda, fused=is_cuda)
    return net, optimiser, torch.ones(4, 3, device=device)


def test_steps_before_the_first_are_forgotten() -> None:
    net, optimiser, value = made("cpu")
    twin, other, _ = made("cpu")
    kept = Snapshot(net.parameters(), optimiser)
    for _ in range(3):
        learn(net, optimiser, value)
    assert not torch.equal(net.weight, twin.weight)
    kept.restore()
    found = [learn(net, optimiser, value) for _ in range(4)]
    assert found == [learn(twin, other, value) for _ in range(4)]


def test_steps_in_the_middle_of_a_training_are_forgotten() -> None:
    net, optimiser, value = made("cpu")
    for _ in range(2):
        learn(net, optimiser, value)
    weight, moments = net.weight.clone(), deepcopy(optimiser.state_dict()["state"])
    kept = Snapshot(net.parameters(), optimiser)
    for _ in range(3):
        learn(net, optimiser, value)
    kept.restore()
    assert torch.equal(net.weight, weight)
    for place, some in optimiser.state_dict()["state"].items():
        for key, one in some.items():
            assert torch.equal(one, moments[place][key]), key


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
def test_a_recorded_step_learns_as_a_plain_one() -> None:
    net, optimiser, value = made("cuda")
    twin, other, _ = made("cuda")
    step = Recorded(lambda: learn(net, optimiser, value), optimiser, device="cuda")
    for _ in range(5):
        torch.testing.assert_close(step(), learn(twin, other, value))
    torch.testing.assert_close(net.weight, twin.weight)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there recording does not fail")
def test_where_nothing_can_be_recorded_steps_are_taken_one_by_one() -> None:
    net, optimiser, value = made("cpu")
    twin, other, _ = made("cpu")
    with pytest.warns(UserWarning, match="cannot be recorded on cuda .* launched one by one"):
        step = Recorded(lambda: learn(net, optimiser, value), optimiser, device="cuda")
    assert [step() for _ in range(4)] == [learn(twin, other, value) for _ in range(4)]


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
    names = [set(one.state_dict()) for one in layers]
    with torch._dynamo.config.patch(suppress_errors=False):
        compile_layers(layers, device="cuda:0", varies=True)
        assert torch._dynamo.config.suppress_errors
    assert all(map(is_compiled, layers))
    assert [set(one.state_dict()) for one in layers] == names
    assert not is_compiled(deepcopy(layers[0]))
