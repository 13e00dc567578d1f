"""Vectors and tasks come in; the classes that small networks answer go out, trained side by side.

Readers of all tasks are trained at once, each with weights of its own: nothing passes between
them, and features are read from memory once for all.
Dimensions: R readers, N units, B units of a batch, L patches or words, F or W features, H hidden,
K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unbag.metrics.resample import generator
from unbag.probes.reader_tasks import Effort, Feature, Task
from unbag.probes.readers_linear import Scale, scale, scale_of
from unbag.types import BoolArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

HIDDEN = 256
MLP_RATE = 3e-3
ATTENTIVE_RATE = 3e-2
DECAY = 1e-2
BETAS = (0.9, 0.999)
BATCH = 96


def answer_mlp(
    vector_NF: Feature, tasks: Sequence[Task], *, classes: int, effort: Effort
) -> list[IntArray]:
    """One hidden layer of 256: relu(x A + a) B + b."""
    import torch

    scaled = [scale_of(vector_NF[task.train_T]).of(vector_NF) for task in tasks]
    x_RNF = torch.from_numpy(np.stack(scaled).astype(np.float32))
    wide = vector_NF.shape[1]
    a_RFH, a_RH = _first(tasks, (wide, HIDDEN), (2 / wide) ** 0.5), _first(tasks, (1, HIDDEN), 0.0)
    b_RHK, b_RK = _first(tasks, (HIDDEN, classes), HIDDEN**-0.5), _first(tasks, (1, classes), 0.0)

    def forward(at_B: Tensor) -> Tensor:
        hidden_RBH = torch.baddbmm(a_RH, x_RNF[:, at_B], a_RFH).relu()
        return torch.baddbmm(b_RK, hidden_RBH, b_RHK)

    return _trained(forward, [a_RFH, a_RH, b_RHK, b_RK], tasks, len(vector_NF), effort, MLP_RATE)


def answer_attentive(
    vector_NLW: Feature,
    mask_NL: BoolArray,
    tasks: Sequence[Task],
    *,
    classes: int,
    effort: Effort,
) -> list[IntArray]:
    """sum_l softmax_l(q . x_l) x_l, then a linear layer; x is standardised over all places."""
    import torch

    n, _, wide = vector_NLW.shape
    scales = _place_scales(vector_NLW, mask_NL, tasks)
    mean_1RW = torch.from_numpy(np.stack([s.mean_F for s in scales])).float()[None]
    deviation_RW = torch.from_numpy(np.stack([s.deviation_F for s in scales])).float()
    x_NLW = torch.from_numpy(np.where(mask_NL[..., None], vector_NLW, 0).astype(np.float32))
    hidden_NL1 = ~torch.from_numpy(np.ascontiguousarray(mask_NL))[..., None]
    query_RW = _first(tasks, (wide,), wide**-0.5)
    out_RWK, out_RK = _first(tasks, (wide, classes), wide**-0.5), _first(tasks, (1, classes), 0.0)

    def forward(at_B: Tensor) -> Tensor:
        x_BLW = x_NLW[at_B]
        # The mean would add one number to all places, which a softmax does not see.
        score_BLR = x_BLW @ (query_RW / deviation_RW).T
        weight_BLR = score_BLR.masked_fill(hidden_NL1[at_B], -torch.inf).softmax(dim=1)
        seen_BRW = weight_BLR.transpose(1, 2) @ x_BLW
        scaled_RBW = ((seen_BRW - mean_1RW) / deviation_RW).transpose(0, 1)
        return torch.baddbmm(out_RK, scaled_RBW, out_RWK)

    return _trained(forward, [query_RW, out_RWK, out_RK], tasks, n, effort, ATTENTIVE_RATE)


def _place_scales(vector_NLW: Feature, mask_NL: BoolArray, tasks: Sequence[Task]) -> list[Scale]:
    """Mean and deviation over all places of the training units; each unit is summed up once."""
    shape = (len(vector_NLW), vector_NLW.shape[2])
    sum_NW, square_NW = np.zeros(shape), np.zeros(shape)
    for at, (vector_LW, mask_L) in enumerate(zip(vector_NLW, mask_NL, strict=True)):
        seen_LW = vector_LW[mask_L].astype(np.float64)
        sum_NW[at], square_NW[at] = seen_LW.sum(axis=0), (seen_LW**2).sum(axis=0)
    scales = []
    for task in tasks:
        count = mask_NL[task.train_T].sum()
        mean_W = sum_NW[task.train_T].sum(axis=0) / count
        variance_W = square_NW[task.train_T].sum(axis=0) / count - mean_W**2
        scales.append(scale(mean_W, np.sqrt(np.maximum(variance_W, 0))))
    return scales


def _first(tasks: Sequence[Task], shape: tuple[int, ...], deviation: float) -> Tensor:
    """First weights [R, ...], each task's by its own seed."""
    import torch

    rows = [
        generator(task.seed, "weights", str(shape)).normal(0.0, 1.0, shape) * deviation
        for task in tasks
    ]
    return torch.from_numpy(np.stack(rows).astype(np.float32)).requires_grad_()


def _trained(
    forward: Callable[[Tensor], Tensor],
    weights: list[Tensor],
    tasks: Sequence[Task],
    count: int,
    effort: Effort,
    rate: float,
) -> list[IntArray]:
    """AdamW; answers are those at the least loss on the part that says when to stop.

    Batches are the same for all readers: a unit that is not one's own has no weight there.
    """
    import torch

    truth_RN, fit_RN, stop_RN = _shares(tasks, count)
    descent = _Adam(weights, rate)
    least_R = torch.full((len(tasks),), torch.inf)
    answer_RN = torch.zeros((len(tasks), count), dtype=torch.long)
    last_better = 0
    for epoch in range(effort.epochs):
        order = torch.from_numpy(generator(tasks[0].seed, "order", str(epoch)).permutation(count))
        for at_B in torch.split(order, BATCH):
            loss_RB = _losses(forward(at_B), truth_RN[:, at_B])
            # Weights sum to 1 over all batches of an epoch, not over this one.
            loss = (loss_RB * fit_RN[:, at_B]).sum() * (count / len(at_B))
            descent.step(torch.autograd.grad(loss, weights))
        with torch.no_grad():
            every = [forward(at_B) for at_B in torch.split(torch.arange(count), BATCH)]
            logit_RNK = torch.cat(every, dim=1)
            held_R = (_losses(logit_RNK, truth_RN) * stop_RN).sum(dim=1)
        better_R = held_R < least_R
        least_R = torch.where(better_R, held_R, least_R)
        answer_RN[better_R] = logit_RNK[better_R].argmax(dim=2)
        last_better = epoch if bool(better_R.any()) else last_better
        if epoch - last_better >= effort.patience:
            break
    return [answer_RN[r].numpy()[task.test_T] for r, task in enumerate(tasks)]


class _Adam:
    """AdamW as in its paper; that of torch imports a compiler first, which takes seconds."""

    def __init__(self, weights: list[Tensor], rate: float) -> None:
        self._weights, self._rate, self._steps = weights, rate, 0
        self._mean = [weight.detach() * 0 for weight in weights]
        self._square = [weight.detach() * 0 for weight in weights]

    def step(self, slopes: Sequence[Tensor]) -> None:
        import torch

        self._steps += 1
        fair_mean, fair_square = (1 - beta**self._steps for beta in BETAS)
        with torch.no_grad():
            for weight, slope, mean, square in zip(
                self._weights, slopes, self._mean, self._square, strict=True
            ):
                mean.lerp_(slope, 1 - BETAS[0])
                square.lerp_(slope * slope, 1 - BETAS[1])
                weight *= 1 - self._rate * DECAY
                weight -= self._rate * (mean / fair_mean) / ((square / fair_square).sqrt() + 1e-8)


def _losses(logit_RNK: Tensor, truth_RN: Tensor) -> Tensor:
    from torch.nn import functional

    return functional.cross_entropy(logit_RNK.transpose(1, 2), truth_RN, reduction="none")


def _shares(tasks: Sequence[Task], count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Classes told, weights of units that are fitted to, and of those that say when to stop."""
    import torch

    truth_RN = np.zeros((len(tasks), count), dtype=np.int64)
    fit_RN, stop_RN = np.zeros((2, len(tasks), count), dtype=np.float32)
    for r, task in enumerate(tasks):
        truth_RN[r, task.train_T] = task.told_T
        is_stop_T = task.inner_T == 0
        fit_RN[r, task.train_T[~is_stop_T]] = 1 / (~is_stop_T).sum()
        stop_RN[r, task.train_T[is_stop_T]] = 1 / is_stop_T.sum()
    return torch.from_numpy(truth_RN), torch.from_numpy(fit_RN), torch.from_numpy(stop_RN)
