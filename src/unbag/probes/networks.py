"""The readers `mlp` and `attentive`: small networks on frozen features, trained by the trainer.

The networks of all folds and controls form one module: each has its own weights and they do not
interact, but features are read from memory only once for all.
Dimensions: N units, F or W features, L patches or words, R networks trained at once,
H hidden units, B units of a batch, K classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.metrics.intervals import generator
from unbag.probes.classifiers import Effort, Feature, FeatureScale, ReaderFit, scale, scale_of
from unbag.training.optim import OptimizerSettings
from unbag.training.trainer import Task, Trainer, TrainState
from unbag.types import BoolArray, IntArray

HIDDEN = 256
MLP_RATE = 3e-3
ATTENTIVE_RATE = 3e-2
DECAY = 1e-2
BATCH = 96


def answer_mlp(
    vector_NF: Feature, fits: Sequence[ReaderFit], *, classes: int, effort: Effort
) -> list[IntArray]:
    """Train networks with one hidden layer; return the classes of the test units of each fit."""
    scaled = [scale_of(vector_NF[fit.train_T]).apply(vector_NF) for fit in fits]
    module = Mlps(torch.from_numpy(np.stack(scaled).astype(np.float32)), fits, classes)
    return train_networks(module, fits, count=len(vector_NF), effort=effort, learning_rate=MLP_RATE)


def answer_attentive(
    vector_NLW: Feature,
    mask_NL: BoolArray,
    fits: Sequence[ReaderFit],
    *,
    classes: int,
    effort: Effort,
) -> list[IntArray]:
    """Train learned queries over patches or words; return the test units' classes of each fit."""
    count, _, wide = vector_NLW.shape
    # Statistics are over all positions of the training units; each unit is summed once.
    sum_NW, square_NW = np.zeros((2, count, wide))
    for unit, (vector_LW, mask_L) in enumerate(zip(vector_NLW, mask_NL, strict=True)):
        seen_LW = vector_LW[mask_L].astype(np.float64)
        sum_NW[unit], square_NW[unit] = seen_LW.sum(axis=0), (seen_LW**2).sum(axis=0)
    scales = []
    for fit in fits:
        places = mask_NL[fit.train_T].sum()
        mean_W = sum_NW[fit.train_T].sum(axis=0) / places
        variance_W = square_NW[fit.train_T].sum(axis=0) / places - mean_W**2
        scales.append(scale(mean_W, np.sqrt(np.maximum(variance_W, 0))))
    x_NLW = torch.from_numpy(np.where(mask_NL[..., None], vector_NLW, 0).astype(np.float32))
    module = Attentives(x_NLW, mask_NL, scales, fits, classes)
    return train_networks(module, fits, count=count, effort=effort, learning_rate=ATTENTIVE_RATE)


class Mlps(nn.Module):
    """One hidden layer of 256: relu(x A + a) B + b."""

    def __init__(self, x_RNF: Tensor, fits: Sequence[ReaderFit], classes: int) -> None:
        """Take features standardised for each network."""
        super().__init__()
        wide = x_RNF.shape[2]
        self.x_RNF = x_RNF
        self.a_RFH = initial_weights(fits, (wide, HIDDEN), (2 / wide) ** 0.5)
        self.a_R1H = initial_weights(fits, (1, HIDDEN), 0.0)
        self.b_RHK = initial_weights(fits, (HIDDEN, classes), HIDDEN**-0.5)
        self.b_R1K = initial_weights(fits, (1, classes), 0.0)

    def forward(self, at_B: Tensor) -> Tensor:
        """Logits [R, B, K]."""
        hidden_RBH = torch.baddbmm(self.a_R1H, self.x_RNF[:, at_B], self.a_RFH).relu()
        return torch.baddbmm(self.b_R1K, hidden_RBH, self.b_RHK)


class Attentives(nn.Module):
    """sum_l softmax_l(q . x_l) x_l, then a linear layer; x is standardised over all positions."""

    def __init__(
        self,
        x_NLW: Tensor,
        mask_NL: BoolArray,
        scales: Sequence[FeatureScale],
        fits: Sequence[ReaderFit],
        classes: int,
    ) -> None:
        """Take features that are 0 where the mask is False, and a scale for each network."""
        super().__init__()
        wide = x_NLW.shape[2]
        self.x_NLW = x_NLW
        self.hidden_NL1 = ~torch.from_numpy(np.ascontiguousarray(mask_NL))[..., None]
        self.mean_1RW = torch.from_numpy(np.stack([s.mean_F for s in scales])).float()[None]
        self.deviation_RW = torch.from_numpy(np.stack([s.deviation_F for s in scales])).float()
        self.query_RW = initial_weights(fits, (wide,), wide**-0.5)
        self.out_RWK = initial_weights(fits, (wide, classes), wide**-0.5)
        self.out_R1K = initial_weights(fits, (1, classes), 0.0)

    def forward(self, at_B: Tensor) -> Tensor:
        """Logits [R, B, K]."""
        x_BLW = self.x_NLW[at_B]
        # The mean would add the same number at all positions, which a softmax ignores.
        score_BLR = x_BLW @ (self.query_RW / self.deviation_RW).T
        weight_BLR = score_BLR.masked_fill(self.hidden_NL1[at_B], -torch.inf).softmax(dim=1)
        seen_BRW = weight_BLR.transpose(1, 2) @ x_BLW
        scaled_RBW = ((seen_BRW - self.mean_1RW) / self.deviation_RW).transpose(0, 1)
        return torch.baddbmm(self.out_R1K, scaled_RBW, self.out_RWK)


def initial_weights(
    fits: Sequence[ReaderFit], shape: tuple[int, ...], deviation: float
) -> nn.Parameter:
    """Draw normal weights [R, ...], each network with its own seed."""
    rows = [
        generator(fit.seed, "weights", str(shape)).normal(0.0, 1.0, shape) * deviation
        for fit in fits
    ]
    return nn.Parameter(torch.from_numpy(np.stack(rows).astype(np.float32)))


def train_networks(
    module: Mlps | Attentives,
    fits: Sequence[ReaderFit],
    *,
    count: int,
    effort: Effort,
    learning_rate: float,
) -> list[IntArray]:
    """Train until no network improves, or to the end; return the classes of each fit's test units.

    Each network answers with the weights of its best validation loss.
    """
    task = NetworkTask(module, fits, count=count, effort=effort, learning_rate=learning_rate)
    Trainer(task).run(on_step=task.stops_after)
    return [task.answer_RN[r].numpy()[fit.test_T] for r, fit in enumerate(fits)]


class NetworkTask(Task[Tensor]):
    """Networks of one shape; a batch is the indices of its units, the same for all networks."""

    name = "networks of a probe"
    steps_per_epoch: int

    def __init__(
        self,
        module: Mlps | Attentives,
        fits: Sequence[ReaderFit],
        *,
        count: int,
        effort: Effort,
        learning_rate: float,
    ) -> None:
        self.module, self.seed = module, fits[0].seed
        self.steps_per_epoch = -(-count // BATCH)
        self.optimizer = OptimizerSettings(
            steps=effort.epochs * self.steps_per_epoch,
            learning_rate=learning_rate,
            weight_decay=DECAY,
        )
        self._count, self._patience = count, effort.patience
        truth_RN = np.zeros((len(fits), count), dtype=np.int64)
        # A unit that is not in a network's training fold has weight 0 there.
        fit_RN, stop_RN = np.zeros((2, len(fits), count), dtype=np.float32)
        for r, fit in enumerate(fits):
            truth_RN[r, fit.train_T] = fit.label_T
            is_stop_T = fit.inner_T == 0
            fit_RN[r, fit.train_T[~is_stop_T]] = 1 / (~is_stop_T).sum()
            stop_RN[r, fit.train_T[is_stop_T]] = 1 / is_stop_T.sum()
        self._truth_RN, self._fit_RN = torch.from_numpy(truth_RN), torch.from_numpy(fit_RN)
        self._stop_RN = torch.from_numpy(stop_RN)
        self._least_R = torch.full((len(fits),), torch.inf)
        self._better_epoch = 0
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)
        self.answer_RN = torch.zeros((len(fits), count), dtype=torch.long)

    def batch(self, step: int) -> Tensor:
        """Return units in a random order that changes every epoch."""
        epoch, at = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            rng = generator(self.seed, "order", str(epoch))
            self._epoch, self._order = epoch, torch.from_numpy(rng.permutation(self._count))
        return self._order[at * BATCH : (at + 1) * BATCH]

    def loss(self, batch: Tensor, step: int) -> Tensor:
        """Return the mean cross-entropy of each network, summed over networks."""
        loss_RB = _losses(self.module(batch), self._truth_RN[:, batch])
        # Weights sum to 1 over all batches of an epoch, not over this batch.
        return (loss_RB * self._fit_RN[:, batch]).sum() * (self._count / len(batch))

    def learning_rate(self, step: int) -> float:
        """Return the same rate at every step."""
        return self.optimizer.learning_rate

    def stops_after(self, state: TrainState, numbers: Mapping[str, Tensor]) -> bool:
        """After each epoch, store answers of networks that improved; stop when none improves."""
        epoch, step_in_epoch = divmod(state.step, self.steps_per_epoch)
        if step_in_epoch:
            return False
        with torch.no_grad():
            logits = [self.module(at_B) for at_B in torch.split(torch.arange(self._count), BATCH)]
            logit_RNK = torch.cat(logits, dim=1)
            validation_R = (_losses(logit_RNK, self._truth_RN) * self._stop_RN).sum(dim=1)
        better_R = validation_R < self._least_R
        self._least_R = torch.where(better_R, validation_R, self._least_R)
        self.answer_RN[better_R] = logit_RNK[better_R].argmax(dim=2)
        self._better_epoch = epoch if bool(better_R.any()) else self._better_epoch
        return epoch - self._better_epoch >= self._patience


def _losses(logit_RNK: Tensor, truth_RN: Tensor) -> Tensor:
    return functional.cross_entropy(logit_RNK.transpose(1, 2), truth_RN, reduction="none")
