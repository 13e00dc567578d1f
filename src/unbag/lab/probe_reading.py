"""A space and pictures with labels come in; what linear readers find in its features goes out.

`extract`, of "left/right" (is the thing of the first hand on the left) and "binding" (has it the
colour of the first): accuracy on pairs of things that the reader never saw, from "projected" (the
vector that is compared), "unprojected", "mean patch" and "all patches" of the last layer; "control"
is the reader of all patches fitted to shuffled labels; "own score" is the caption with the greater
cosine. "merged pairs" is the share of pairs of pictures which differ in that label alone and have
a cosine above 0.95; "of merged pairs" how often both pictures of such a pair are right (chance
25 %), left out where there is none.

Dimensions: N pictures, P pairs of pictures, T and S pictures to fit to and to test on, F features,
R rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from unbag.lab.probe_material import Asked
from unbag.lab.probe_space import TinySpace
from unbag.probes.agreement import agree
from unbag.probes.classifiers import Effort, Feature, Task, scale_of, tasks_of
from unbag.probes.extract import credits
from unbag.probes.extract_data import Label
from unbag.scorers.linear_probe import Logistic, fit_logistic
from unbag.types import FloatArray, IntArray

TOLERANCE = 1e-3
INNER = 2
"""Parts of the training groups by which a strength is chosen; most of the time goes into this."""
WIDEST = "all patches"
_PARTNERS: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {"left/right": ((0, 1), (2, 3)), "binding": ((0, 2), (1, 3))}
)
"""Pictures of a set of four that differ in a label alone."""


def readings(space: TinySpace, asked: Asked) -> dict[str, float]:
    """All readers of all labels."""
    sheet = asked.sheet
    cls_NW, patch_NLW = space.last_layer(sheet.given)
    vector_ND = space.pictures(sheet.given)
    places = {
        "projected": vector_ND,
        "unprojected": cls_NW,
        "mean patch": patch_NLW.mean(axis=1),
        WIDEST: patch_NLW.reshape(len(patch_NLW), -1),
    }
    right = {label.name: {"own score": _own(space, vector_ND, label)} for label in sheet.labels}
    for place, feature_NF in places.items():
        said = read_linear(
            feature_NF, sheet.labels, sheet.groups, effort=asked.effort, seed=asked.seed
        )
        for label, (right_N, control_N) in zip(sheet.labels, said, strict=True):
            right[label.name][place] = right_N
            if place == WIDEST:
                right[label.name]["control"] = control_N
    found = {}
    for name, by_place in right.items():
        for place, right_N in by_place.items():
            found[f"{name}, {place}"] = float(right_N.mean())
        found |= _of_merged(name, by_place, vector_ND)
    return found


def _own(space: TinySpace, vector_ND: FloatArray, label: Label) -> FloatArray:
    captions = [space.captions([row[k] for row in label.captions]) for k in (0, 1)]
    score_NK = np.stack([(vector_ND * caption_ND).sum(axis=1) for caption_ND in captions], axis=1)
    return credits(score_NK, label)


def _of_merged(
    name: str, right: Mapping[str, FloatArray], vector_ND: FloatArray
) -> Iterator[tuple[str, float]]:
    first = np.arange(0, len(vector_ND), 4)
    first_P, second_P = (
        np.concatenate([first + pair[k] for pair in _PARTNERS[name]]) for k in (0, 1)
    )
    is_merged_P = agree(vector_ND[first_P], vector_ND[second_P]) == 1
    yield f"{name}, merged pairs", float(is_merged_P.mean())
    if is_merged_P.any():
        for place, right_N in right.items():
            # A tie of the own score is half right; both are right only where neither ties.
            both_P = (right_N[first_P] == 1) & (right_N[second_P] == 1)
            yield f"{name} of merged pairs, {place}", float(both_P[is_merged_P].mean())


def read_linear(
    feature_NF: Feature,
    labels: Sequence[Label],
    groups: Sequence[str],
    *,
    effort: Effort,
    seed: int,
) -> list[tuple[FloatArray, FloatArray]]:
    """For each label 1 where a logistic regression is right on unseen groups, and its control.

    As `unbag.probes.classifiers.read`, for features in thousands: the best weights lie in the
    span of the training rows, so features are first turned into that span, once for all labels.
    """
    tasks = [tasks_of(label.class_N, groups, effort, inner=INNER, seed=seed) for label in labels]
    credit = np.zeros((len(labels), 2, len(feature_NF)))
    for fold in range(effort.folds):
        # Which rows are fitted to and tested on follows from the groups, not from labels.
        first = tasks[0][fold][0]
        train_TR, test_TR = _turned(feature_NF, first)
        for at, label in enumerate(labels):
            row = tasks[at][fold]
            inverse = _chosen(train_TR, row[0], effort)
            for kind, task in enumerate(row):
                fit = _fit(train_TR, task.told_T, inverse)
                answer_T = fit.scores(test_TR).argmax(axis=1)
                credit[at, kind, task.test_T] = answer_T == label.class_N[task.test_T]
    return [(right_N, control_N) for right_N, control_N in credit]


def _turned(feature_NF: Feature, task: Task) -> tuple[FloatArray, FloatArray]:
    """Training and test rows, standardised; in as many dimensions as there are training rows."""
    train_TF = feature_NF[task.train_T]
    scale = scale_of(train_TF)
    # Single precision halves the time of the one large product, and is far finer than the noise.
    train_TF, test_TF = (
        scale.of(part).astype(np.float32) for part in (train_TF, feature_NF[task.test_T])
    )
    if train_TF.shape[1] <= train_TF.shape[0]:
        return train_TF.astype(float), test_TF.astype(float)
    length_T, turn_TT = np.linalg.eigh((train_TF @ train_TF.T).astype(float))
    is_kept_T = length_T > 1e-6 * length_T.max()
    turn_TR, long_R = turn_TT[:, is_kept_T], np.sqrt(length_T[is_kept_T])
    across_ST = (test_TF @ train_TF.T).astype(float)
    return turn_TR * long_R, across_ST @ (turn_TR / long_R)


def _chosen(train_TR: FloatArray, task: Task, effort: Effort) -> float:
    """The strength with the most right answers over inner folds of the training groups."""
    strengths = effort.inverse_strengths
    if len(strengths) == 1:
        return strengths[0]
    right = np.zeros(len(strengths))
    for fold in range(int(task.inner_T.max()) + 1):
        is_held_T = task.inner_T == fold
        fit = None
        for at, inverse in enumerate(strengths):
            fit = _fit(train_TR[~is_held_T], task.told_T[~is_held_T], inverse, start=fit)
            answer_T = fit.scores(train_TR[is_held_T]).argmax(axis=1)
            right[at] += (answer_T == task.told_T[is_held_T]).sum()
    return strengths[int(right.argmax())]


def _fit(
    train_TR: FloatArray, told_T: IntArray, inverse: float, *, start: Logistic | None = None
) -> Logistic:
    return fit_logistic(
        train_TR,
        told_T,
        classes=2,
        strength=1 / (inverse * len(told_T)),
        start=start,
        tolerance=TOLERANCE,
    )
