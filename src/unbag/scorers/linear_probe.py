"""Classes by logistic regression on frozen picture vectors: a scorer fitted to a training split.

The caption only says which class is meant; its words and the text encoder play no part. The
published CIFAR and ImageNet numbers of the ARO paper are such probes, not zero-shot.
Dimensions: N pairs, P pictures, C captions or classes, D embedding, E embedding and bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unbag.errors import UserError
from unbag.models.batching import even
from unbag.types import Caption, DualEncoder, Ensemble, FloatArray, IntArray, Picture, Query

if TYPE_CHECKING:
    from torch import Tensor

SCORING = "linear probe"


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """Scores a picture and a class; made by `unbag.evaluation.linear_probe.fit_linear_probe`."""

    encoder: DualEncoder
    classes: tuple[Caption, ...]
    weight_CE: FloatArray
    """For each class its weights, then its bias."""
    strength: float
    """Of the L2 penalty, chosen on a held-out part of the training split."""
    held_out: float
    """Accuracy on that part under the chosen strength."""
    training: str
    """Fingerprint of what it was fitted to, and how."""
    scoring: str = SCORING
    is_blind: bool = False

    @property
    def name(self) -> str:
        """The model's name."""
        return self.encoder.name

    @property
    def fingerprint(self) -> str:
        """Of the model and of what the probe was fitted to."""
        return f"{self.encoder.fingerprint}-probe-{self.training}"

    def caption_vectors(self, captions: Sequence[Caption]) -> Tensor:
        """The weights of each class, in place of the vectors of its caption: [C, E]."""
        import torch

        place = {caption: i for i, caption in enumerate(self.classes)}
        unknown = [caption for caption in captions if caption not in place]
        if unknown:
            raise UserError(
                f"the linear probe has no class {_name(unknown[0])!r}",
                expected=f"one of its {len(self.classes)}: {_some(self.classes)}",
                way_out="fit one to the training split of this benchmark, and run it on that alone",
            )
        return torch.from_numpy(self.weight_CE[[place[caption] for caption in captions]])

    def compare(self, picture_ND: Tensor, caption_ND: Tensor) -> Tensor:
        """Row with row."""
        product_N = (picture_ND.double() * caption_ND[:, :-1].double()).sum(dim=-1)
        return product_N + caption_ND[:, -1].double()

    def compare_all(self, picture_PD: Tensor, caption_CD: Tensor) -> Tensor:
        """Every picture with every class, [P, C]; rounded as the cosine is, and for its reason."""
        product_PC = picture_PD.double() @ caption_CD[:, :-1].double().T
        return (product_PC + caption_CD[:, -1].double()).float()

    def score(self, queries: Sequence[Query]) -> Tensor:
        """Without cache or plan, for a handful of pairs."""
        picture_ND = self._embed([query.picture for query in queries])
        return self.compare(picture_ND, self.caption_vectors([q.caption for q in queries]))

    def score_matrix(self, pictures: Sequence[Picture], captions: Sequence[Caption]) -> Tensor:
        """Without cache or plan, [P, C]."""
        return self.compare_all(self._embed(pictures), self.caption_vectors(captions))

    def _embed(self, pictures: Sequence[Picture]) -> Tensor:
        import torch

        prepared = even([self.encoder.prepare(picture.open()) for picture in pictures])
        return self.encoder.encode_pictures(torch.stack(list(prepared)))


def untrained(model: object) -> LinearProbe:
    """What the name linear-probe alone leads to: an error, since there is nothing to fit it to."""
    raise UserError(
        "the scorer 'linear-probe' must first be fitted to a training split",
        expected="one benchmark that has one, such as cifar10",
        way_out="`unbag run --scorer linear-probe --bench cifar10`, or "
        "unbag.evaluation.linear_probe.fit_linear_probe in Python",
    )


def _name(caption: Caption) -> str:
    return caption.name if isinstance(caption, Ensemble) else caption


def _some(captions: Sequence[Caption]) -> str:
    more = ", ..." if len(captions) > 5 else ""
    return ", ".join(_name(caption) for caption in captions[:5]) + more


# Full batch, double precision, L-BFGS from a fixed start: the same input gives the same weights.
# Dimensions: N vectors, D embedding, C classes, B vectors of a block.

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
