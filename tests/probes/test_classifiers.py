"""Readers on features whose content is known: separable, independent, exclusive or, one patch."""

from __future__ import annotations

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.probes.classifiers import (
    FULL,
    QUICK,
    Effort,
    Reader,
    read,
    reader_fits,
    scale_of,
)
from unbag.probes.sampling import deal
from unbag.types import FloatArray, IntArray

GROUPS = 12
EACH = 20
NAMES = tuple(f"pair {at}" for at in range(GROUPS) for _ in range(EACH))
VECTOR_READERS: tuple[Reader, ...] = ("linear", "mlp")


def _classes(count: int = 2) -> IntArray:
    """As many units of each class in every group."""
    return np.arange(len(NAMES)) % count


def _noise(*shape: int, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(len(NAMES), *shape))


@pytest.mark.parametrize("reader", VECTOR_READERS)
@pytest.mark.parametrize("classes", [2, 4])
def test_separable_classes_are_read_without_a_mistake(reader: Reader, classes: int) -> None:
    class_N = _classes(classes)
    feature_NF = np.hstack([8.0 * np.eye(classes)[class_N], _noise(3)])
    result = read(feature_NF, class_N, NAMES, reader=reader)
    assert result.accuracy == 1.0
    assert result.classes == classes
    assert result.chance == 1 / classes
    assert result.selectivity == pytest.approx(1 - result.control)


@pytest.mark.parametrize("reader", VECTOR_READERS)
def test_labels_that_are_not_there_are_not_read(reader: Reader) -> None:
    result = read(_noise(8), _classes(), NAMES, reader=reader)
    # 240 units: a standard deviation of 3.2 points.
    assert abs(result.accuracy - 0.5) < 0.1
    assert abs(result.control - 0.5) < 0.1


def test_exclusive_or_is_read_by_the_network_only() -> None:
    sign_NF = np.sign(_noise(2))
    label_N = (sign_NF[:, 0] * sign_NF[:, 1] > 0).astype(int)
    feature_NF = sign_NF + 0.1 * _noise(2, seed=1)
    effort = Effort(epochs=100, patience=30)
    assert read(feature_NF, label_N, NAMES, reader="mlp", effort=effort).accuracy > 0.97
    assert abs(read(feature_NF, label_N, NAMES, reader="linear").accuracy - 0.5) < 0.12


def _one_patch() -> tuple[FloatArray, IntArray]:
    """One of ten patches is marked, at a place that differs; only there the sign is the label."""
    rng = np.random.default_rng(2)
    class_N, place_N = _classes(), rng.integers(10, size=len(NAMES))
    vector_NLW = np.stack([np.zeros((len(NAMES), 10)), rng.choice([-1.0, 1.0], (len(NAMES), 10))])
    vector_NLW = vector_NLW.transpose(1, 2, 0).copy()
    vector_NLW[np.arange(len(NAMES)), place_N] = np.stack(
        [np.ones(len(NAMES)), 2.0 * class_N - 1], axis=1
    )
    return vector_NLW, class_N


def test_the_query_finds_the_one_patch_that_tells() -> None:
    vector_NLW, class_N = _one_patch()
    effort = Effort(epochs=150, patience=40)
    result = read(vector_NLW, class_N, NAMES, reader="attentive", effort=effort)
    assert result.accuracy > 0.97
    # Nine patches in ten are beside the point, so their mean tells little.
    assert read(vector_NLW.mean(axis=1), class_N, NAMES).accuracy < 0.8


def test_what_is_masked_is_not_attended_to() -> None:
    vector_NLW, class_N = _one_patch()
    mask_NL = vector_NLW[:, :, 0] != 1
    vector_NLW[~mask_NL] = np.nan
    result = read(vector_NLW, class_N, NAMES, reader="attentive", mask_NL=mask_NL)
    assert result.left_out == 0
    assert abs(result.accuracy - 0.5) < 0.1


def test_groups_are_never_in_both_parts() -> None:
    for row in reader_fits(_classes(), NAMES, FULL, inner=5, seed=3):
        for task in row:
            train = {NAMES[at] for at in task.train_T}
            assert train.isdisjoint({NAMES[at] for at in task.test_T})
            for fold in range(5):
                held = {NAMES[at] for at in task.train_T[task.inner_T == fold]}
                assert held
                assert held.isdisjoint({NAMES[at] for at in task.train_T[task.inner_T != fold]})
    tested = [row[0].test_T for row in reader_fits(_classes(), NAMES, QUICK, inner=3, seed=3)]
    assert sorted(np.concatenate(tested).tolist()) == list(range(len(NAMES)))


def test_objects_learned_by_heart_are_of_no_use() -> None:
    """Each group says its label in a direction of its own, which no other group has."""
    group_N = np.arange(GROUPS).repeat(EACH)
    feature_NF = np.eye(GROUPS)[group_N] * (2 * _classes() - 1)[:, None]
    assert read(feature_NF, _classes(), NAMES).accuracy == 0.5
    units = [str(at) for at in range(len(NAMES))]
    assert read(feature_NF, _classes(), units).accuracy == 1.0


def test_folds_do_not_depend_on_the_order_of_units() -> None:
    fold_N = deal(NAMES, 4, salt="1")
    assert np.array_equal(deal(NAMES[::-1], 4, salt="1"), fold_N[::-1])
    assert np.bincount(fold_N).tolist() == [60] * 4
    assert not np.array_equal(deal(NAMES, 4, salt="2"), fold_N)


def test_controls_are_told_the_same_labels_in_another_order() -> None:
    rows = reader_fits(_classes(), NAMES, Effort(shuffles=2), inner=3, seed=0)
    for true, *controls in rows:
        assert np.array_equal(true.label_T, _classes()[true.train_T])
        for control in controls:
            assert np.array_equal(control.train_T, true.train_T)
            assert sorted(control.label_T) == sorted(true.label_T)
            assert 0.35 < (control.label_T == true.label_T).mean() < 0.65


@pytest.mark.parametrize("reader", ["linear", "mlp", "attentive"])
def test_the_same_seed_reads_the_same(reader: Reader) -> None:
    shape = (4, 3) if reader == "attentive" else (5,)
    feature = _noise(*shape) + 0.3 * _classes().reshape(-1, *[1] * len(shape))
    first, again = (read(feature, _classes(), NAMES, reader=reader, seed=5) for _ in range(2))
    assert np.array_equal(first.correct_N, again.correct_N)
    assert np.array_equal(first.control_N, again.control_N)


@pytest.mark.parametrize("reader", ["linear", "mlp", "attentive"])
def test_constant_features_are_at_chance_exactly(reader: Reader) -> None:
    shape = (len(NAMES), 4, 3) if reader == "attentive" else (len(NAMES), 3)
    result = read(np.full(shape, 0.7), _classes(4), NAMES, reader=reader)
    assert set(result.correct_N) == {0.25}
    assert result.selectivity == 0.0


def test_a_feature_that_hardly_varies_is_not_blown_up() -> None:
    scale = scale_of(np.array([[1.0, 5.0], [1.0 + 1e-9, 7.0]]))
    assert scale.deviation_F.tolist() == [1.0, 1.0]
    assert scale.apply(np.array([[1.0, 8.0]]))[0, 1] == 2.0


@pytest.mark.parametrize("reader", ["linear", "mlp", "attentive"])
def test_features_that_are_not_finite_are_left_out_and_counted(reader: Reader) -> None:
    class_N = _classes()
    feature = np.hstack([8.0 * np.eye(2)[class_N], _noise(2)])
    feature[[3, 70], [0, 2]] = np.nan, np.inf
    given = feature[:, None] if reader == "attentive" else feature
    result = read(given, class_N, NAMES, reader=reader)
    assert result.left_out == 2
    assert np.flatnonzero(np.isnan(result.correct_N)).tolist() == [3, 70]
    assert np.flatnonzero(np.isnan(result.control_N)).tolist() == [3, 70]
    assert result.accuracy == 1.0


def test_without_shuffles_there_is_no_control() -> None:
    result = read(_noise(3), _classes(), NAMES, effort=Effort(shuffles=0))
    assert np.isnan(result.control)
    assert np.isnan(result.control_N).all()


def test_a_strength_is_chosen_in_each_fold() -> None:
    result = read(_noise(3), _classes(), NAMES, effort=FULL)
    assert len(result.inverse_strengths) == 5
    assert set(result.inverse_strengths) <= {10.0**power for power in range(-4, 5)}


NOT_FINITE_NF = np.where(np.arange(len(NAMES))[:, None] < 40, _noise(3), np.nan)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"groups": tuple("ab"[at % 2] for at in range(len(NAMES)))}, "2 groups for 3 folds"),
        ({"feature": NOT_FINITE_NF}, "2 groups for 3 folds .200 units were left out"),
        ({"label_N": np.zeros(len(NAMES), dtype=int)}, "all 240 units have the same label"),
        ({"label_N": np.array([n == "pair 0" for n in NAMES])}, "all units have the same label"),
        ({"reader": "attentive"}, "attentive reader got features of 2 dim"),
        ({"feature": _noise(2, 3)}, "linear reader got features of 3 dim"),
        ({"label_N": [0, 1, 0]}, "240 rows of features, 3 labels, 240 groups"),
        ({"reader": "linea"}, "unknown reader 'linea'"),
    ],
)
def test_bad_input(changes: dict[str, object], words: str) -> None:
    given = {"feature": _noise(3), "label_N": _classes(), "groups": NAMES, **changes}
    with pytest.raises(UnbagError, match=words):
        read(**given)  # type: ignore[arg-type]


def test_an_effort_needs_three_folds() -> None:
    with pytest.raises(UnbagError, match="2 folds, 1 shuffles, 25 epochs, 2 strengths"):
        Effort(folds=2)
