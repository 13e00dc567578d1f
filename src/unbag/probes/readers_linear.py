"""Vectors and tasks come in; the classes that logistic regressions answer go out.

Dimensions: N units, T units of a part, F features, K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unbag.probes.reader_tasks import Effort, Feature, Task
from unbag.scorers.logistic import Logistic, fit_logistic
from unbag.types import FloatArray, IntArray

TOLERANCE = 1e-3
"""Of the gradient of the mean loss; answers hardly change below."""


class Scale(NamedTuple):
    """Mean and standard deviation of the training units; 1 where a feature never varies."""

    mean_F: FloatArray
    deviation_F: FloatArray

    def of(self, vector_NF: Feature) -> FloatArray:
        """Standardised."""
        scaled_NF: FloatArray = (vector_NF - self.mean_F) / self.deviation_F
        return scaled_NF


def scale_of(vector_NF: Feature) -> Scale:
    """Fitted to these; sums are in double precision."""
    wide_NF = vector_NF.astype(np.float64)
    return scale(wide_NF.mean(axis=0), wide_NF.std(axis=0))


def scale(mean_F: FloatArray, deviation_F: FloatArray) -> Scale:
    """A constant may come out a last bit beside its mean, which must not be blown up."""
    is_constant_F = deviation_F <= 1e-6 * np.abs(mean_F)
    return Scale(mean_F, np.where(is_constant_F, 1.0, deviation_F))


def answer_linear(
    vector_NF: Feature, tasks: Sequence[Task], *, classes: int, effort: Effort
) -> tuple[list[IntArray], float]:
    """The class of each test unit for each task of one fold, and the inverse strength chosen.

    The strength is chosen for the first task, by the held-out log-loss over inner folds of its
    training groups; controls are the same reader, so they have it too.
    """
    train_NF, test_TF = vector_NF[tasks[0].train_T], vector_NF[tasks[0].test_T]
    chosen = _chosen(train_NF, tasks[0], classes, effort)
    scale = scale_of(train_NF)
    fits = [
        fit_logistic(
            scale.of(train_NF),
            task.told_T,
            classes=classes,
            strength=1 / (chosen * len(train_NF)),
            tolerance=TOLERANCE,
        )
        for task in tasks
    ]
    return [fit.scores(scale.of(test_TF)).argmax(axis=1) for fit in fits], chosen


def _chosen(train_NF: Feature, task: Task, classes: int, effort: Effort) -> float:
    loss_C = np.zeros(len(effort.inverse_strengths))
    for fold in range(task.inner_T.max() + 1):
        is_held_T = task.inner_T == fold
        fits = _path(train_NF[~is_held_T], task.told_T[~is_held_T], classes, effort)
        held_TF = scale_of(train_NF[~is_held_T]).of(train_NF[is_held_T])
        loss_C += [_log_loss(fit.scores(held_TF), task.told_T[is_held_T]) for fit in fits]
    return effort.inverse_strengths[int(loss_C.argmin())]


def _path(train_TF: Feature, told_T: IntArray, classes: int, effort: Effort) -> list[Logistic]:
    """From the strongest penalty on, each started where the last one ended."""
    scaled_TF = scale_of(train_TF).of(train_TF)
    fits: list[Logistic] = []
    for inverse in effort.inverse_strengths:
        fits.append(
            fit_logistic(
                scaled_TF,
                told_T,
                classes=classes,
                strength=1 / (inverse * len(told_T)),
                start=fits[-1] if fits else None,
                tolerance=TOLERANCE,
            )
        )
    return fits


def _log_loss(score_TK: FloatArray, told_T: IntArray) -> float:
    """Summed over units."""
    top_T1 = score_TK.max(axis=1, keepdims=True)
    total_T = top_T1[:, 0] + np.log(np.exp(score_TK - top_T1).sum(axis=1))
    return float((total_T - score_TK[np.arange(len(told_T)), told_T]).sum())
