"""Frozen features and labels come in; whether a reader finds the labels in them goes out.

Readers (methods.md 4.3): `linear` is an L2 logistic regression whose strength is chosen by
cross-validation, `mlp` has one hidden layer of 256, `attentive` is one learned query over patches
or words and a linear layer. Features are standardised. Every unit is judged by a reader that saw
no unit of its group, so a reader cannot learn the objects by heart. The control is the same reader
fitted to shuffled labels and judged by the true ones: selectivity = accuracy - control.

Limits: a reader that fails shows that *this* reader fails on so many units, not that nothing is
there; a reader that succeeds may read what the model itself has no use for.
Dimensions: N units, F features, L patches or words, W width, T units of a part, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from unbag.errors import UserError, unknown_name
from unbag.probes.reader_tasks import QUICK, STOP_FOLDS, Effort, Feature, Task, tasks_of
from unbag.probes.readers_linear import answer_linear
from unbag.probes.readers_net import answer_attentive, answer_mlp
from unbag.types import BoolArray, FloatArray, IntArray

Reader = Literal["linear", "mlp", "attentive"]
SMALL = 1 << 25
"""Numbers of features up to which one thread is enough; patches of a large tower have more."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What one reader found, unit by unit."""

    reader: Reader
    correct_N: FloatArray
    """1 or 0 on held-out groups, 1/K where features never vary; NaN for units left out."""
    control_N: FloatArray
    """The same of readers that were fitted to shuffled labels, averaged over shuffles."""
    classes: int
    left_out: int
    """Units with a feature that is not finite."""
    inverse_strengths: tuple[float, ...] = ()
    """C that was chosen in each fold; of linear readers only."""

    @property
    def chance(self) -> float:
        """1 / number of classes."""
        return 1 / self.classes

    @property
    def accuracy(self) -> float:
        """Share of units that were read rightly."""
        return float(np.nanmean(self.correct_N))

    @property
    def control(self) -> float:
        """The same with shuffled labels; NaN without a control."""
        known_T = self.control_N[np.isfinite(self.control_N)]
        return float(known_T.mean()) if len(known_T) else float("nan")

    @property
    def selectivity(self) -> float:
        """Accuracy minus that of the control."""
        return self.accuracy - self.control


def read(
    feature: Feature,
    label_N: Sequence[object] | IntArray,
    groups: Sequence[str],
    *,
    reader: Reader = "linear",
    mask_NL: BoolArray | None = None,
    effort: Effort = QUICK,
    seed: int = 0,
) -> Reading:
    """Whether labels can be read from features, judged on held-out groups.

    Args:
        feature: [N, F], or [N, L, W] for the attentive reader.
        label_N: What is to be read; any values.
        groups: What must not be in both parts, such as the pair of things shown.
        reader: Which one.
        mask_NL: True where there is a patch or word; all by default.
        effort: Folds, strengths, shuffles and epochs.
        seed: Of folds, shuffles and first weights.

    Raises:
        UserError: for shapes that do not fit, fewer groups than folds, or a single class.
    """
    if mask_NL is None and feature.ndim == 3:
        mask_NL = np.ones(feature.shape[:2], dtype=np.bool_)
    _check_shapes(feature, label_N, groups, reader, mask_NL)
    kept_T = np.flatnonzero(_is_whole(feature, mask_NL))
    class_T = np.unique(np.array(label_N)[kept_T], return_inverse=True)[1].astype(np.int64)
    names = [groups[at] for at in kept_T.tolist()]
    classes = _check_classes(class_T, names, effort, left_out=len(feature) - len(kept_T))
    # Asked for by place only where something is left out: a copy may be a gigabyte.
    is_all = len(kept_T) == len(feature)
    part = feature if is_all else feature[kept_T]
    mask = mask_NL if is_all or mask_NL is None else mask_NL[kept_T]
    rows = tasks_of(
        class_T, names, effort, inner=effort.folds if reader == "linear" else STOP_FOLDS, seed=seed
    )
    _check_training(rows)
    with _few_threads(part):
        answers, strengths = _answer(part, mask, rows, reader, classes, effort)
    credit_NS = np.full((len(feature), effort.shuffles + 1), np.nan)
    for row, said in zip(rows, answers, strict=True):
        test_T = row[0].test_T
        if said is None:
            credit_NS[kept_T[test_T]] = 1 / classes
            continue
        for at, answer_T in enumerate(said):
            credit_NS[kept_T[test_T], at] = answer_T == class_T[test_T]
    return Reading(
        reader,
        credit_NS[:, 0],
        _mean(credit_NS[:, 1:]),
        classes,
        len(feature) - len(kept_T),
        strengths,
    )


@contextmanager
def _few_threads(feature: Feature) -> Iterator[None]:
    """One thread for small features: a second one has less to do than to be waited for.

    On two busy cores it made readers seven times slower.
    """
    import torch

    before = torch.get_num_threads()
    if feature.size < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _answer(
    feature: Feature,
    mask_NL: BoolArray | None,
    rows: Sequence[Sequence[Task]],
    reader: Reader,
    classes: int,
    effort: Effort,
) -> tuple[list[list[IntArray] | None], tuple[float, ...]]:
    """Fold by fold what each reader says of the test units; None where features never vary."""
    varies = [_varies(feature, mask_NL, row[0].train_T) for row in rows]
    if reader == "linear":
        pairs = [
            answer_linear(feature, row, classes=classes, effort=effort) if is_worth_it else None
            for row, is_worth_it in zip(rows, varies, strict=True)
        ]
        said = [None if pair is None else pair[0] for pair in pairs]
        return said, tuple(pair[1] for pair in pairs if pair is not None)
    tasks = [task for row, v in zip(rows, varies, strict=True) if v for task in row]
    if not tasks:
        return [None] * len(rows), ()
    if mask_NL is None:
        flat = answer_mlp(feature, tasks, classes=classes, effort=effort)
    else:
        flat = answer_attentive(feature, mask_NL, tasks, classes=classes, effort=effort)
    each = iter(flat)
    return [
        [next(each) for _ in row] if v else None for row, v in zip(rows, varies, strict=True)
    ], ()


def _mean(control_NS: FloatArray) -> FloatArray:
    """Over shuffles; NaN where there was none."""
    if not control_NS.shape[1]:
        return np.full(len(control_NS), np.nan)
    mean_N: FloatArray = control_NS.mean(axis=1)
    return mean_N


def _varies(feature: Feature, mask_NL: BoolArray | None, train_T: IntArray) -> bool:
    """Whether two training units differ by more than the last bits of the first."""
    first = feature[train_T[0]]
    limit = 1e-6 * float(np.abs(first).max(initial=0.0))
    if mask_NL is not None and (mask_NL[train_T] != mask_NL[train_T[0]]).any():
        return True
    return any(bool((np.abs(feature[at] - first) > limit).any()) for at in train_T)


def _is_whole(feature: Feature, mask_NL: BoolArray | None) -> BoolArray:
    if mask_NL is None:
        return np.asarray(np.isfinite(feature).all(axis=1))
    is_bad_NL = ~np.asarray(np.isfinite(feature).all(axis=2)) & mask_NL
    return np.asarray(~is_bad_NL.any(axis=1) & mask_NL.any(axis=1))


def _check_shapes(
    feature: Feature,
    label_N: Sequence[object] | IntArray,
    groups: Sequence[str],
    reader: Reader,
    mask_NL: BoolArray | None,
) -> None:
    if reader not in get_args(Reader):
        raise unknown_name("reader", reader, get_args(Reader))
    wanted = 3 if reader == "attentive" else 2
    if feature.ndim != wanted:
        raise UserError(
            f"the {reader} reader was given features of {feature.ndim} dimensions",
            expected="[units, patches, width]" if wanted == 3 else "[units, features]",
            way_out="read patches by attention, or average them first",
        )
    shapes_fit = mask_NL is None or mask_NL.shape == feature.shape[:2]
    if not len(feature) == len(label_N) == len(groups) or not shapes_fit:
        raise UserError(
            f"{len(feature)} rows of features, {len(label_N)} labels, {len(groups)} groups",
            expected="one label and one group for each row, and a mask for each place",
        )


def _check_classes(
    class_T: IntArray, groups: Sequence[str], effort: Effort, *, left_out: int
) -> int:
    beside = f" ({left_out} units were left out, their features are not finite)" if left_out else ""
    if len(set(groups)) < effort.folds:
        raise UserError(
            f"{len(set(groups))} groups for {effort.folds} folds{beside}",
            expected="at least one group a fold: a reader is judged on groups that it never saw",
            way_out="give more pairs of things, or an Effort of fewer folds",
        )
    classes = int(class_T.max()) + 1
    if classes < 2:
        raise UserError(
            f"all {len(class_T)} units have the same label{beside}",
            expected="at least two classes",
        )
    return classes


def _check_training(rows: Sequence[Sequence[Task]]) -> None:
    for fold, row in enumerate(rows):
        if len(set(row[0].told_T.tolist())) < 2:
            raise UserError(
                f"without the groups of fold {fold} all units have the same label",
                expected="each label in several groups, so that groups do not give it away",
            )
