"""Vectors with their classes come in; the weights of a logistic regression go out.

Full batch, double precision, L-BFGS from a fixed start: the same input gives the same weights.
Dimensions: N vectors, D embedding, C classes, B vectors of a block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unbag.types import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = 8192
"""Vectors whose class probabilities are held at once."""


@dataclass(frozen=True, eq=False)
class Logistic:
    """Class scores are vector_ND @ weight_CD.T + bias_C."""

    weight_CD: FloatArray
    bias_C: FloatArray
    loss: float
    """Mean cross-entropy plus strength / 2 times the squared length of the weights."""
    gradient: float
    """Largest derivative of that loss where the solver stopped; 0 at the optimum."""
    steps: int

    def scores(self, vector_ND: FloatArray) -> FloatArray:
        """[N, C]."""
        score_NC: FloatArray = vector_ND @ self.weight_CD.T + self.bias_C
        return score_NC


def fit_logistic(
    vector_ND: FloatArray,
    class_N: IntArray,
    *,
    classes: int,
    strength: float,
    start: Logistic | None = None,
    tolerance: float = 1e-6,
    most_steps: int = 2000,
    device: str = "cpu",
) -> Logistic:
    """Least mean cross-entropy + strength / 2 |weights|^2; biases are free.

    Stops when no derivative exceeds `tolerance`; a caller must look at `gradient`.
    """
    import torch
    from scipy.optimize import minimize

    vectors = torch.from_numpy(np.ascontiguousarray(vector_ND, dtype=np.float64)).to(device)
    truth = torch.from_numpy(np.asarray(class_N, dtype=np.int64)).to(device)
    shape = (classes, vector_ND.shape[1] + 1)
    first = np.zeros(shape)
    if start is not None:
        first = np.column_stack([start.weight_CD, start.bias_C])

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        weights = torch.from_numpy(flat.reshape(shape)).to(device)
        value, slope = _loss(vectors, truth, weights, strength)
        return value, slope.cpu().numpy().ravel()

    found = minimize(
        loss,
        first.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": most_steps, "maxfun": 2 * most_steps, "gtol": tolerance, "ftol": 0.0},
    )
    weight_CE = np.asarray(found.x, dtype=np.float64).reshape(shape)
    return Logistic(
        weight_CD=weight_CE[:, :-1].copy(),
        bias_C=weight_CE[:, -1].copy(),
        loss=float(found.fun),
        gradient=float(np.abs(found.jac).max()),
        steps=int(found.nit),
    )


def _loss(
    vector_ND: Tensor, class_N: Tensor, weight_CE: Tensor, strength: float
) -> tuple[float, Tensor]:
    """The loss and its derivatives [C, D + 1], a block at a time."""
    import torch

    weight_CD, bias_C = weight_CE[:, :-1], weight_CE[:, -1]
    slope_CE = torch.zeros_like(weight_CE)
    total = torch.zeros((), dtype=weight_CE.dtype, device=weight_CE.device)
    for start in range(0, len(vector_ND), _BLOCK):
        vector_BD, class_B = vector_ND[start : start + _BLOCK], class_N[start : start + _BLOCK]
        log_BC = torch.log_softmax(torch.addmm(bias_C, vector_BD, weight_CD.T), dim=1)
        own_B1 = class_B[:, None]
        total -= log_BC.gather(1, own_B1).sum()
        error_BC = log_BC.exp_().scatter_add_(1, own_B1, -torch.ones_like(log_BC[:, :1]))
        slope_CE[:, :-1] += error_BC.T @ vector_BD
        slope_CE[:, -1] += error_BC.sum(dim=0)
    slope_CE /= len(vector_ND)
    slope_CE[:, :-1] += strength * weight_CD
    penalty = strength / 2 * weight_CD.square().sum()
    return float(total / len(vector_ND) + penalty), slope_CE
