"""Small classifiers on frozen features: they measure whether labels can be read from them.

Readers (methods.md 4.3): `linear` is an L2 logistic regression whose strength is chosen by
cross-validation, `mlp` has one hidden layer of 256, `attentive` is one learned query over patches
or words and a linear layer. Features are standardised. Every unit is classified by a reader that
saw no unit of its group, so memorized objects do not help. The control is the same reader fitted to
shuffled labels and measured by the true ones: selectivity = accuracy - control.

Limits: a reader that fails shows that *this* reader fails with this many units, not that the
information is missing; a reader that succeeds may read what the model itself does not use.
Dimensions: N units, T units of a fold, F or W features, L patches or words, R readers trained at
once, B units of a batch, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from unbag.errors import UnbagError, unknown_name
from unbag.metrics.intervals import generator
from unbag.probes.sampling import deal
from unbag.runs.cache import Vectors
from unbag.scorers.linear_probe import Logistic, fit_logistic
from unbag.types import BoolArray, FloatArray, IntArray

Feature: TypeAlias = FloatArray | Vectors
"""Features in single or double precision."""
Reader = Literal["linear", "mlp", "attentive"]
STOP_FOLDS = 5
"""One in this many groups of the training fold is the validation set for early stopping."""
SMALL = 1 << 25
"""Size of a feature array up to which one thread is enough; patches of large encoders exceed it."""
TOLERANCE = 1e-3
"""Tolerance on the gradient of the mean loss; smaller values hardly change any answer."""


@dataclass(frozen=True)
class Effort:
    """How much computing a reader gets."""

    folds: int = 3
    inverse_strengths: tuple[float, ...] = (1e-3, 1e-1)
    """C of the logistic regression, weakest penalty last: it minimizes
    sum(loss) + |weights|^2 / (2 C)."""
    shuffles: int = 1
    """Number of controls, which are readers fitted to shuffled labels."""
    epochs: int = 25
    """Maximum number of epochs, for readers that are networks."""
    patience: int = 5
    """Epochs without a better validation loss before training stops."""

    def __post_init__(self) -> None:
        if self.folds < 3 or self.shuffles < 0 or not self.inverse_strengths or self.epochs < 1:
            raise UnbagError(
                f"{self.folds} folds, {self.shuffles} shuffles, {self.epochs} epochs, "
                f"{len(self.inverse_strengths)} strengths",
                expected="at least 3 folds, so that a training part can be split again, 1 epoch "
                "and 1 strength; 0 shuffles or more",
            )


QUICK = Effort()
FULL = Effort(
    folds=5,
    inverse_strengths=tuple(10.0**power for power in range(-4, 5)),
    shuffles=3,
    epochs=200,
    patience=25,
)


@dataclass(frozen=True, eq=False)
class Reading:
    """What one reader answered, unit by unit."""

    reader: Reader
    correct_N: FloatArray
    """1 or 0 on held-out groups, 1/K where the features are constant; NaN for units left out."""
    control_N: FloatArray
    """The same for readers fitted to shuffled labels, averaged over shuffles."""
    classes: int
    left_out: int
    """Number of units with a feature that is not finite."""
    inverse_strengths: tuple[float, ...] = ()
    """The C chosen in each fold; of linear readers only."""

    @property
    def chance(self) -> float:
        """1 / number of classes."""
        return 1 / self.classes

    @property
    def accuracy(self) -> float:
        """Share of units with the right answer."""
        return float(np.nanmean(self.correct_N))

    @property
    def control(self) -> float:
        """Accuracy with shuffled labels; NaN without a control."""
        known_T = self.control_N[np.isfinite(self.control_N)]
        return float(known_T.mean()) if len(known_T) else float("nan")

    @property
    def selectivity(self) -> float:
        """Accuracy minus the accuracy of the control."""
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
    """Measure on held-out groups how well labels can be read from features.

    Args:
        feature: [N, F], or [N, L, W] for the attentive reader.
        label_N: Labels to read; any values.
        groups: Units of one group are never split between training and test.
        reader: Kind of classifier.
        mask_NL: True where there is a patch or word; everywhere by default.
        effort: Folds, strengths, shuffles and epochs.
        seed: Seed of folds, shuffles and initial weights.

    Raises:
        UnbagError: The shapes do not match, there are fewer groups than folds, or only one class.
    """
    if mask_NL is None and feature.ndim == 3:
        mask_NL = np.ones(feature.shape[:2], dtype=np.bool_)
    _check_shapes(feature, label_N, groups, reader, mask_NL)
    valid_T = np.flatnonzero(_is_whole(feature, mask_NL))
    class_T = np.unique(np.array(label_N)[valid_T], return_inverse=True)[1].astype(np.int64)
    names = [groups[control] for control in valid_T.tolist()]
    classes = _check_classes(class_T, names, effort, left_out=len(feature) - len(valid_T))
    # Indexing copies, and a copy may be a gigabyte: only where something is left out.
    all_valid = len(valid_T) == len(feature)
    part = feature if all_valid else feature[valid_T]
    mask = mask_NL if all_valid or mask_NL is None else mask_NL[valid_T]
    fits = reader_fits(
        class_T, names, effort, inner=effort.folds if reader == "linear" else STOP_FOLDS, seed=seed
    )
    _check_training(fits)
    with _few_threads(part):
        answers, strengths = _answer(part, mask, fits, reader, classes, effort)
    credit_NS = np.full((len(feature), effort.shuffles + 1), np.nan)
    for fold_fits, fold_answers in zip(fits, answers, strict=True):
        test_T = fold_fits[0].test_T
        if fold_answers is None:
            credit_NS[valid_T[test_T]] = 1 / classes
            continue
        for control, answer_T in enumerate(fold_answers):
            credit_NS[valid_T[test_T], control] = answer_T == class_T[test_T]
    return Reading(
        reader,
        credit_NS[:, 0],
        credit_NS[:, 1:].mean(axis=1) if effort.shuffles else np.full(len(feature), np.nan),
        classes,
        len(feature) - len(valid_T),
        strengths,
    )


def _check_shapes(
    feature: Feature,
    label_N: Sequence[object] | IntArray,
    groups: Sequence[str],
    reader: Reader,
    mask_NL: BoolArray | None,
) -> None:
    if reader not in get_args(Reader):
        raise unknown_name("reader", reader, get_args(Reader))
    dimensions = 3 if reader == "attentive" else 2
    if feature.ndim != dimensions:
        raise UnbagError(
            f"the {reader} reader got features of {feature.ndim} dimensions",
            expected="[units, patches, width]" if dimensions == 3 else "[units, features]",
            hint="use the attentive reader for patches, or average them first",
        )
    shapes_fit = mask_NL is None or mask_NL.shape == feature.shape[:2]
    if not len(feature) == len(label_N) == len(groups) or not shapes_fit:
        raise UnbagError(
            f"{len(feature)} rows of features, {len(label_N)} labels, {len(groups)} groups",
            expected="one label and one group for each row, and a mask of the same shape",
        )


def _is_whole(feature: Feature, mask_NL: BoolArray | None) -> BoolArray:
    if mask_NL is None:
        return np.asarray(np.isfinite(feature).all(axis=1))
    is_bad_NL = ~np.asarray(np.isfinite(feature).all(axis=2)) & mask_NL
    return np.asarray(~is_bad_NL.any(axis=1) & mask_NL.any(axis=1))


def _check_classes(
    class_T: IntArray, groups: Sequence[str], effort: Effort, *, left_out: int
) -> int:
    left_out_note = (
        f" ({left_out} units were left out, their features are not finite)" if left_out else ""
    )
    if len(set(groups)) < effort.folds:
        raise UnbagError(
            f"{len(set(groups))} groups for {effort.folds} folds{left_out_note}",
            expected="at least one group per fold: a reader is tested on groups it never saw",
            hint="use more groups, or an Effort with fewer folds",
        )
    classes = int(class_T.max()) + 1
    if classes < 2:
        raise UnbagError(
            f"all {len(class_T)} units have the same label{left_out_note}",
            expected="at least two classes",
        )
    return classes


def _check_training(fits: Sequence[Sequence[ReaderFit]]) -> None:
    for fold, fold_fits in enumerate(fits):
        if len(set(fold_fits[0].label_T.tolist())) < 2:
            raise UnbagError(
                f"without the groups of fold {fold} all units have the same label",
                expected="each label in several groups",
            )


@contextmanager
def _few_threads(feature: Feature) -> Iterator[None]:
    """Use one thread for small features, where waiting for a second one costs more than it saves.

    On two busy cores, a second thread made readers seven times slower.
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
    fits: Sequence[Sequence[ReaderFit]],
    reader: Reader,
    classes: int,
    effort: Effort,
) -> tuple[list[list[IntArray] | None], tuple[float, ...]]:
    """Return the answers of each reader by fold, None where features are constant, and each C."""
    varying = [_varies(feature, mask_NL, fold_fits[0].train_T) for fold_fits in fits]
    if reader == "linear":
        pairs = [
            answer_linear(feature, fold_fits, classes=classes, effort=effort) if can_vary else None
            for fold_fits, can_vary in zip(fits, varying, strict=True)
        ]
        answers = [None if pair is None else pair[0] for pair in pairs]
        return answers, tuple(pair[1] for pair in pairs if pair is not None)
    trained = [
        fit
        for fold_fits, can_vary in zip(fits, varying, strict=True)
        if can_vary
        for fit in fold_fits
    ]
    if not trained:
        return [None] * len(fits), ()
    from unbag.probes.networks import answer_attentive, answer_mlp

    if mask_NL is None:
        flat_answers = answer_mlp(feature, trained, classes=classes, effort=effort)
    else:
        flat_answers = answer_attentive(feature, mask_NL, trained, classes=classes, effort=effort)
    remaining = iter(flat_answers)
    return [
        [next(remaining) for _ in fold_fits] if can_vary else None
        for fold_fits, can_vary in zip(fits, varying, strict=True)
    ], ()


def _varies(feature: Feature, mask_NL: BoolArray | None, train_T: IntArray) -> bool:
    """Whether training units differ by more than rounding."""
    first = feature[train_T[0]]
    limit = 1e-6 * float(np.abs(first).max(initial=0.0))
    if mask_NL is not None and (mask_NL[train_T] != mask_NL[train_T[0]]).any():
        return True
    return any(bool((np.abs(feature[row] - first) > limit).any()) for row in train_T)


@dataclass(frozen=True, eq=False)
class ReaderFit:
    """One reader to fit: indices of its units, and their classes."""

    train_T: IntArray
    label_T: IntArray
    """Classes of the training units; shuffled in a control."""
    inner_T: IntArray
    """Inner fold of each training unit, by group, for choices made without the test fold. For
    networks, fold 0 is the validation set."""
    test_T: IntArray
    seed: int
    """Seed of its initial weights."""


def reader_fits(
    class_N: IntArray, groups: Sequence[str], effort: Effort, *, inner: int, seed: int
) -> list[list[ReaderFit]]:
    """Return for each fold the reader of the true classes, then those of shuffled classes."""
    fold_N = deal(groups, effort.folds, salt=f"{seed}\0test\0")
    fits = []
    for fold in range(effort.folds):
        train_T, test_T = np.flatnonzero(fold_N != fold), np.flatnonzero(fold_N == fold)
        names = [groups[unit] for unit in train_T.tolist()]
        inner_T = deal(names, min(inner, len(set(names))), salt=f"{seed}\0inner\0")
        fold_fits = []
        for shuffle in range(effort.shuffles + 1):
            rng = generator(seed, "reader", str(fold), str(shuffle))
            label_T = class_N[train_T]
            # Over the whole fold: within a group of a single class, shuffling would change nothing.
            label_T = rng.permutation(label_T) if shuffle else label_T
            fold_fits.append(ReaderFit(train_T, label_T, inner_T, test_T, int(rng.integers(2**31))))
        fits.append(fold_fits)
    return fits


class FeatureScale(NamedTuple):
    """Mean and standard deviation of the training units; 1 where a feature is constant."""

    mean_F: FloatArray
    deviation_F: FloatArray

    def apply(self, vector_NF: Feature) -> FloatArray:
        """Standardise features."""
        scaled_NF: FloatArray = (vector_NF - self.mean_F) / self.deviation_F
        return scaled_NF


def scale_of(vector_NF: Feature) -> FeatureScale:
    """Fit the scale to these features, with sums in double precision."""
    wide_NF = vector_NF.astype(np.float64)
    return scale(wide_NF.mean(axis=0), wide_NF.std(axis=0))


def scale(mean_F: FloatArray, deviation_F: FloatArray) -> FeatureScale:
    """Return the scale. A constant feature may deviate by rounding, which must not be amplified."""
    is_constant_F = deviation_F <= 1e-6 * np.abs(mean_F)
    return FeatureScale(mean_F, np.where(is_constant_F, 1.0, deviation_F))


def answer_linear(
    vector_NF: Feature, fits: Sequence[ReaderFit], *, classes: int, effort: Effort
) -> tuple[list[IntArray], float]:
    """Return the class of each test unit for each fit of one fold, and the chosen C.

    C is chosen for the first fit, by the held-out log-loss over inner folds of its training groups;
    the controls use the same C.
    """
    train_NF, test_TF = vector_NF[fits[0].train_T], vector_NF[fits[0].test_T]
    inverse_strength = _choose_strength(train_NF, fits[0], classes, effort)
    scale = scale_of(train_NF)
    models = [
        fit_logistic(
            scale.apply(train_NF),
            fit.label_T,
            classes=classes,
            strength=1 / (inverse_strength * len(train_NF)),
            tolerance=TOLERANCE,
        )
        for fit in fits
    ]
    return [model.scores(scale.apply(test_TF)).argmax(axis=1) for model in models], inverse_strength


def _choose_strength(train_NF: Feature, fit: ReaderFit, classes: int, effort: Effort) -> float:
    """Choose C. From the strongest penalty on, each fit starts where the last one ended."""
    from scipy.special import logsumexp

    loss_C = np.zeros(len(effort.inverse_strengths))
    for fold in range(fit.inner_T.max() + 1):
        held_out_T = fit.inner_T == fold
        scale = scale_of(train_NF[~held_out_T])
        fitted_TF, held_out_TF = (
            scale.apply(train_NF[~held_out_T]),
            scale.apply(train_NF[held_out_T]),
        )
        label_T, true_T = fit.label_T[~held_out_T], fit.label_T[held_out_T]
        model: Logistic | None = None
        for place, inverse_strength in enumerate(effort.inverse_strengths):
            model = fit_logistic(
                fitted_TF,
                label_T,
                classes=classes,
                strength=1 / (inverse_strength * len(label_T)),
                start=model,
                tolerance=TOLERANCE,
            )
            score_TK = model.scores(held_out_TF)
            own_T = score_TK[np.arange(len(true_T)), true_T]
            loss_C[place] += float((logsumexp(score_TK, axis=1) - own_T).sum())
    return effort.inverse_strengths[int(loss_C.argmin())]
