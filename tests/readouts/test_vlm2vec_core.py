"""VLM2Vec's loss by hand, and gradients in chunks against plain ones."""

import math

import pytest
import torch
from torch import Tensor, nn

from unbag.readouts.vlm2vec.model import unit
from unbag.readouts.vlm2vec.training import contrast
from unbag.training.optim import lr_factor
from unbag.training.step import Part, cached_step


def test_the_worked_number_of_the_specification() -> None:
    target_TD = torch.tensor([[0.8, 0.6], [0.6, 0.8]]).double()
    # Both rows: log(1 + exp(-0.2 / 0.02)).
    assert float(contrast(torch.eye(2).double(), target_TD)) == pytest.approx(4.5399e-05, rel=1e-5)
    # A hard negative as a third target, as near as the first caption.
    more_TD = torch.cat([target_TD, torch.tensor([[0.8, 0.6]])])
    wanted = (math.log(2 + math.exp(-10)) + math.log(1 + 2 * math.exp(-10))) / 2
    assert float(contrast(torch.eye(2).double(), more_TD)) == pytest.approx(wanted, rel=1e-4)


def test_the_norm_of_vectors_says_nothing() -> None:
    random = torch.Generator().manual_seed(0)
    query_BD, target_TD = (torch.randn(4, 6, generator=random) for _ in range(2))
    assert torch.allclose(contrast(query_BD, target_TD), contrast(9 * query_BD, target_TD / 7))


def test_one_direction_only() -> None:
    """Each query chooses among targets; a target that two queries like costs nothing."""
    query_BD = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    target_TD = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    own_B = torch.tensor([0, 0])
    assert float(contrast(query_BD, target_TD, own_B=own_B)) == pytest.approx(0, abs=1e-8)


def test_what_also_fits_is_left_out_but_never_the_own_target() -> None:
    target_TD = torch.tensor([[0.8, 0.6], [0.6, 0.8]]).double()
    masked_BT = torch.tensor([[True, True], [False, False]])
    found = float(contrast(torch.eye(2).double(), target_TD, masked_BT=masked_BT))
    assert found == pytest.approx(4.5399e-05 / 2, rel=1e-4)


def test_the_norm_is_taken_in_float32() -> None:
    """300 squared is 90,000, which float16 cannot hold: the norm would be infinite."""
    hidden_ND = torch.full((2, 4), 300.0, dtype=torch.float16)
    assert torch.isinf((hidden_ND * hidden_ND).sum(dim=1)).all()
    found_ND = unit(hidden_ND)
    assert found_ND.dtype == torch.float32
    assert torch.allclose(found_ND, torch.full((2, 4), 0.5))


class Encoders(nn.Module):
    """One network for queries and targets, as in VLM2Vec, with dropout."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Dropout(dropout), nn.Linear(16, 7))
        self.passes: list[int] = []

    def forward(self, row_NF: Tensor) -> Tensor:
        self.passes.append(len(row_NF))
        found: Tensor = self.net(row_NF)
        return found


def gradient(network: Encoders, *, chunk: int | None, seed: int = 0) -> tuple[float, list[Tensor]]:
    random = torch.Generator().manual_seed(1)
    query_BF = torch.randn(6, 5, generator=random)
    target_TF = torch.randn(10, 5, generator=random)
    network.zero_grad()
    sides = [
        [
            Part(lambda some=some: network(some), seed=hash((seed, side, number)))  # type: ignore[misc]
            for number, some in enumerate(torch.split(row_NF, chunk or len(row_NF)))
        ]
        for side, row_NF in enumerate((query_BF, target_TF))
    ]
    loss = cached_step(sides, contrast, keeps_graphs=chunk is None)
    grads = [weight.grad for weight in network.parameters()]
    return float(loss), [grad.clone() for grad in grads if grad is not None]


@pytest.mark.parametrize("chunk", [1, 3, 4, 6])
def test_gradients_in_chunks_are_the_plain_ones(chunk: int) -> None:
    network = Encoders(0.0)
    wanted_loss, wanted = gradient(network, chunk=None)
    assert network.passes == [6, 10]
    loss, found = gradient(network, chunk=chunk)
    assert loss == pytest.approx(wanted_loss, abs=1e-5)
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert max(one.abs().max() for one in wanted) > 1e-2
    assert max(network.passes[2:]) == chunk


def test_dropout_is_the_same_in_both_passes() -> None:
    """Were it not, the gradient would be that of another network than the one the loss saw."""
    network = Encoders(0.5)
    kept: list[Tensor] = []
    network.net[2].register_forward_hook(lambda _, inputs, made: kept.append(made.detach().clone()))
    gradient(network, chunk=4, seed=5)
    half = len(kept) // 2
    assert len(kept) == 10
    for first, second in zip(kept[:half], kept[half:], strict=True):
        assert torch.equal(first, second)
    again = gradient(network, chunk=4, seed=5)[0]
    assert again == gradient(network, chunk=4, seed=5)[0]
    assert again != gradient(network, chunk=4, seed=6)[0]


def test_the_rate_goes_up_and_down_a_line() -> None:
    shares = [lr_factor(step, steps=10, warmup_steps=4, schedule="linear") for step in range(10)]
    assert shares[:4] == [0.25, 0.5, 0.75, 1.0]
    assert shares[4] == 1.0
    assert shares[7] == pytest.approx(0.5)
    assert shares[9] == pytest.approx(1 / 6)
