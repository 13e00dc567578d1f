"""Small classifiers fitted to frozen features: whether labels can be read from them.

Readers (methods.md 4.3): `linear` is an L2 logistic regression whose strength is chosen by
cross-validation, `mlp` has one hidden layer of 256, `attentive` is one learned query over patches
or words and a linear layer. Features are standardised. Every unit is judged by a reader that saw
no unit of its group, so a reader cannot learn the objects by heart. The control is the same reader
fitted to shuffled labels and judged by the true ones: selectivity = accuracy - control.

Limits: a reader that fails shows that *this* reader fails on so many units, not that nothing is
there; a reader that succeeds may read what the model itself has no use for.
Dimensions: N units, T units of a part, F or W features, L patches or words, R readers that are
trained at once, B units of a batch, K classes.
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
"""In either precision."""
Reader = Literal["linear", "mlp", "attentive"]
STOP_FOLDS = 5
"""One in so many groups of the training part says when to stop."""
SMALL = 1 << 25
"""Numbers of features up to which one thread is enough; patches of a large encoder have more."""
TOLERANCE = 1e-3
"""Of the gradient of the mean loss; answers hardly change below."""


@dataclass(frozen=True)
class Effort:
    """How hard a reader tries."""

    folds: int = 3
    inverse_strengths: tuple[float, ...] = (1e-3, 1e-1)
    """C of a logistic regression, weakest last: it least sum(loss) + |weights|^2 / (2 C)."""
    shuffles: int = 1
    """Controls: readers that are fitted to shuffled labels; 0 for none."""
    epochs: int = 25
    """Most rounds over the training part of the readers that are networks."""
    patience: int = 5
    """Rounds without a better loss on the groups that say when to stop."""

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
        UnbagError: for shapes that do not fit, fewer groups than folds, or a single class.
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
    rows = reader_fits(
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
        credit_NS[:, 1:].mean(axis=1) if effort.shuffles else np.full(len(feature), np.nan),
        classes,
        len(feature) - len(kept_T),
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
    wanted = 3 if reader == "attentive" else 2
    if feature.ndim != wanted:
        raise UnbagError(
            f"the {reader} reader was given features of {feature.ndim} dimensions",
            expected="[units, patches, width]" if wanted == 3 else "[units, features]",
            hint="read patches by attention, or average them first",
        )
    shapes_fit = mask_NL is None or mask_NL.shape == feature.shape[:2]
    if not len(feature) == len(label_N) == len(groups) or not shapes_fit:
        raise UnbagError(
            f"{len(feature)} rows of features, {len(label_N)} labels, {len(groups)} groups",
            expected="one label and one group for each row, and a mask for each place",
        )


def _is_whole(feature: Feature, mask_NL: BoolArray | None) -> BoolArray:
    if mask_NL is None:
        return np.asarray(np.isfinite(feature).all(axis=1))
    is_bad_NL = ~np.asarray(np.isfinite(feature).all(axis=2)) & mask_NL
    return np.asarray(~is_bad_NL.any(axis=1) & mask_NL.any(axis=1))


def _check_classes(
    class_T: IntArray, groups: Sequence[str], effort: Effort, *, left_out: int
) -> int:
    beside = f" ({left_out} units were left out, their features are not finite)" if left_out else ""
    if len(set(groups)) < effort.folds:
        raise UnbagError(
            f"{len(set(groups))} groups for {effort.folds} folds{beside}",
            expected="at least one group a fold: a reader is judged on groups that it never saw",
            hint="give more pairs of things, or an Effort of fewer folds",
        )
    classes = int(class_T.max()) + 1
    if classes < 2:
        raise UnbagError(
            f"all {len(class_T)} units have the same label{beside}",
            expected="at least two classes",
        )
    return classes


def _check_training(rows: Sequence[Sequence[ReaderFit]]) -> None:
    for fold, row in enumerate(rows):
        if len(set(row[0].told_T.tolist())) < 2:
            raise UnbagError(
                f"without the groups of fold {fold} all units have the same label",
                expected="each label in several groups, so that groups do not give it away",
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
    rows: Sequence[Sequence[ReaderFit]],
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
    fits = [fit for row, v in zip(rows, varies, strict=True) if v for fit in row]
    if not fits:
        return [None] * len(rows), ()
    from unbag.probes.networks import answer_attentive, answer_mlp

    if mask_NL is None:
        flat = answer_mlp(feature, fits, classes=classes, effort=effort)
    else:
        flat = answer_attentive(feature, mask_NL, fits, classes=classes, effort=effort)
    each = iter(flat)
    return [
        [next(each) for _ in row] if v else None for row, v in zip(rows, varies, strict=True)
    ], ()


def _varies(feature: Feature, mask_NL: BoolArray | None, train_T: IntArray) -> bool:
    """Whether two training units differ by more than the last bits of the first."""
    first = feature[train_T[0]]
    limit = 1e-6 * float(np.abs(first).max(initial=0.0))
    if mask_NL is not None and (mask_NL[train_T] != mask_NL[train_T[0]]).any():
        return True
    return any(bool((np.abs(feature[at] - first) > limit).any()) for at in train_T)


@dataclass(frozen=True, eq=False)
class ReaderFit:
    """One reader to fit: indices of units, and their classes."""

    train_T: IntArray
    told_T: IntArray
    """Of the training units; shuffled in a control."""
    inner_T: IntArray
    """Fold of each training unit, by group: for what is chosen without the test part. Networks
    are not fitted to fold 0, which says when to stop."""
    test_T: IntArray
    seed: int
    """Of its first weights."""


def reader_fits(
    class_N: IntArray, groups: Sequence[str], effort: Effort, *, inner: int, seed: int
) -> list[list[ReaderFit]]:
    """For each fold the reader of the true classes, then those of shuffled ones."""
    fold_N = deal(groups, effort.folds, salt=f"{seed}\0test\0")
    found = []
    for fold in range(effort.folds):
        train_T, test_T = np.flatnonzero(fold_N != fold), np.flatnonzero(fold_N == fold)
        names = [groups[at] for at in train_T.tolist()]
        inner_T = deal(names, min(inner, len(set(names))), salt=f"{seed}\0inner\0")
        row = []
        for shuffle in range(effort.shuffles + 1):
            rng = generator(seed, "reader", str(fold), str(shuffle))
            told_T = class_N[train_T]
            # Over the whole part: within a group nothing would change where a group is one class.
            told_T = rng.permutation(told_T) if shuffle else told_T
            row.append(ReaderFit(train_T, told_T, inner_T, test_T, int(rng.integers(2**31))))
        found.append(row)
    return found


class FeatureScale(NamedTuple):
    """Mean and standard deviation of the training units; 1 where a feature never varies."""

    mean_F: FloatArray
    deviation_F: FloatArray

    def of(self, vector_NF: Feature) -> FloatArray:
        """Standardised."""
        scaled_NF: FloatArray = (vector_NF - self.mean_F) / self.deviation_F
        return scaled_NF


def scale_of(vector_NF: Feature) -> FeatureScale:
    """Fitted to these; sums are in double precision."""
    wide_NF = vector_NF.astype(np.float64)
    return scale(wide_NF.mean(axis=0), wide_NF.std(axis=0))


def scale(mean_F: FloatArray, deviation_F: FloatArray) -> FeatureScale:
    """A constant may come out a last bit beside its mean, which must not be blown up."""
    is_constant_F = deviation_F <= 1e-6 * np.abs(mean_F)
    return FeatureScale(mean_F, np.where(is_constant_F, 1.0, deviation_F))


def answer_linear(
    vector_NF: Feature, fits: Sequence[ReaderFit], *, classes: int, effort: Effort
) -> tuple[list[IntArray], float]:
    """The class of each test unit for each fit of one fold, and the inverse strength chosen.

    The strength is chosen for the first fit, by the held-out log-loss over inner folds of its
    training groups; controls are the same reader, so they have it too.
    """
    train_NF, test_TF = vector_NF[fits[0].train_T], vector_NF[fits[0].test_T]
    chosen = _chosen(train_NF, fits[0], classes, effort)
    scale = scale_of(train_NF)
    found = [
        fit_logistic(
            scale.of(train_NF),
            fit.told_T,
            classes=classes,
            strength=1 / (chosen * len(train_NF)),
            tolerance=TOLERANCE,
        )
        for fit in fits
    ]
    return [one.scores(scale.of(test_TF)).argmax(axis=1) for one in found], chosen


def _chosen(train_NF: Feature, fit: ReaderFit, classes: int, effort: Effort) -> float:
    """From the strongest penalty on, each fit starts where the last one ended."""
    from scipy.special import logsumexp

    loss_C = np.zeros(len(effort.inverse_strengths))
    for fold in range(fit.inner_T.max() + 1):
        is_held_T = fit.inner_T == fold
        scale = scale_of(train_NF[~is_held_T])
        fitted_TF, held_TF = scale.of(train_NF[~is_held_T]), scale.of(train_NF[is_held_T])
        told_T, true_T = fit.told_T[~is_held_T], fit.told_T[is_held_T]
        found: Logistic | None = None
        for at, inverse in enumerate(effort.inverse_strengths):
            found = fit_logistic(
                fitted_TF,
                told_T,
                classes=classes,
                strength=1 / (inverse * len(told_T)),
                start=found,
                tolerance=TOLERANCE,
            )
            score_TK = found.scores(held_TF)
            own_T = score_TK[np.arange(len(true_T)), true_T]
            loss_C[at] += float((logsumexp(score_TK, axis=1) - own_T).sum())
    return effort.inverse_strengths[int(loss_C.argmin())]
