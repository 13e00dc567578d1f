"""The contrastive loss against the worked batch of the specification."""

import pytest
import torch
from torch import Tensor

from unbag.training.losses import contrastive
from unbag.types import Embedded

IMAGE = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
CAPTION = [[0.8, 0.6, 0.0], [0.0, 0.8, 0.6]]


def embedded(
    image: Tensor, caption: Tensor, *, also_true: Tensor | None = None, scale: float = 10.0
) -> Embedded:
    return Embedded(image, caption, torch.tensor(scale), torch.tensor(0.0), also_true_BB=also_true)


def double(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def test_worked_example() -> None:
    loss = contrastive(embedded(double(IMAGE), double(CAPTION)))
    assert loss.item() == pytest.approx(0.0636317, abs=1e-6)


def test_a_batch_of_one_costs_nothing() -> None:
    assert contrastive(embedded(double(IMAGE[:1]), double(CAPTION[:1]))).item() == 0.0


def test_a_caption_that_also_fits_is_no_negative() -> None:
    both = torch.tensor([[True, False], [True, True]])
    loss = contrastive(embedded(double(IMAGE), double(CAPTION), also_true=both))
    # S = [[8, 0], [6, 8]]; the 6 is left out, so only exp(-8) remains in one row and one column.
    expected = torch.log1p(torch.exp(torch.tensor(-8.0, dtype=torch.float64))) / 2
    assert loss.item() == pytest.approx(expected.item(), rel=1e-9)


def test_gradient_by_finite_differences() -> None:
    image = double(IMAGE).requires_grad_()
    caption = double(CAPTION).requires_grad_()
    assert torch.autograd.gradcheck(lambda p, c: contrastive(embedded(p, c)), (image, caption))
