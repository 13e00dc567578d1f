"""The solver of the linear probe against optima found in other ways."""

import numpy as np
import pytest
from scipy.optimize import brentq

from unbag.scorers.linear_probe import fit_logistic
from unbag.types import FloatArray, IntArray


def loss(
    vector_ND: FloatArray,
    class_N: IntArray,
    weight_CD: FloatArray,
    bias_C: FloatArray,
    strength: float,
) -> float:
    """Mean cross-entropy and penalty, written out."""
    score_NC = vector_ND @ weight_CD.T + bias_C
    own_N = score_NC[np.arange(len(class_N)), class_N]
    return float(
        np.mean(np.log(np.exp(score_NC).sum(axis=1)) - own_N) + strength / 2 * np.sum(weight_CD**2)
    )


def cloud(n: int, classes: int, width: int, *, apart: float) -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(7)
    class_N = np.arange(n) % classes
    centre_CD = rng.standard_normal((classes, width)) * apart
    return centre_CD[class_N] + rng.standard_normal((n, width)), class_N


def test_two_separable_points_have_a_known_optimum() -> None:
    # Points -1 and 1 of classes 0 and 1: weights -w and w, loss log(1 + exp(-2w)) + strength w^2.
    strength = 0.1
    best = brentq(lambda w: -2 / (1 + np.exp(2 * w)) + 2 * strength * w, 0, 10)
    found = fit_logistic(
        np.array([[-1.0], [1.0]]), np.array([0, 1]), classes=2, strength=strength, tolerance=1e-9
    )
    assert found.weight_CD.ravel() == pytest.approx([-best, best], abs=1e-6)
    assert found.bias_C == pytest.approx([0, 0], abs=1e-6)
    assert found.loss == pytest.approx(np.log1p(np.exp(-2 * best)) + strength * best**2, abs=1e-9)


def test_classes_that_cannot_be_told_apart_get_their_shares() -> None:
    found = fit_logistic(np.zeros((10, 3)), np.array([0] * 7 + [1] * 3), classes=2, strength=1e-3)
    assert np.abs(found.weight_CD).max() < 1e-6
    assert found.bias_C[0] - found.bias_C[1] == pytest.approx(np.log(7 / 3), abs=1e-4)
    assert found.loss == pytest.approx(-(0.7 * np.log(0.7) + 0.3 * np.log(0.3)), abs=1e-6)


@pytest.mark.parametrize("strength", [1e-2, 1.0])
def test_no_point_of_a_fine_grid_is_better(strength: float) -> None:
    # Overlapping points on a line; by symmetry of the penalty the two weights are opposite.
    vector_ND = np.array([[-2.0], [-1.0], [0.5], [-0.5], [1.0], [2.0]])
    class_N = np.array([0, 0, 0, 1, 1, 1])
    found = fit_logistic(vector_ND, class_N, classes=2, strength=strength, tolerance=1e-8)
    grid = [
        loss(vector_ND, class_N, np.array([[-w], [w]]), np.array([-b, b]), strength)
        for w in np.linspace(0, 4, 401)
        for b in np.linspace(-1, 1, 41)
    ]
    assert found.loss <= min(grid) + 1e-9
    assert found.loss == pytest.approx(min(grid), abs=1e-4)


@pytest.mark.parametrize(("apart", "strength"), [(0.3, 1e-3), (3.0, 1e-2)])
def test_gradient_descent_of_many_steps_finds_the_same_loss(apart: float, strength: float) -> None:
    vector_ND, class_N = cloud(60, 3, 4, apart=apart)
    found = fit_logistic(vector_ND, class_N, classes=3, strength=strength, tolerance=1e-8)
    assert found.gradient <= 1e-8
    weight_CD, bias_C = np.zeros((3, 4)), np.zeros(3)
    true_NC = np.eye(3)[class_N]
    momentum = [np.zeros((3, 4)), np.zeros(3)]
    for _ in range(5_000):
        score_NC = vector_ND @ weight_CD.T + bias_C
        error_NC = np.exp(score_NC - score_NC.max(axis=1, keepdims=True))
        error_NC = (error_NC / error_NC.sum(axis=1, keepdims=True) - true_NC) / len(class_N)
        slope = (error_NC.T @ vector_ND + strength * weight_CD, error_NC.sum(axis=0))
        momentum = [0.95 * old + new for old, new in zip(momentum, slope, strict=True)]
        weight_CD, bias_C = weight_CD - 0.05 * momentum[0], bias_C - 0.05 * momentum[1]
    assert found.loss <= loss(vector_ND, class_N, weight_CD, bias_C, strength) + 1e-9
    assert found.loss == pytest.approx(
        loss(vector_ND, class_N, weight_CD, bias_C, strength), abs=1e-4
    )
    assert found.loss == pytest.approx(
        loss(vector_ND, class_N, found.weight_CD, found.bias_C, strength), abs=1e-12
    )


def test_the_same_input_gives_the_same_bits_and_any_start_the_same_optimum() -> None:
    vector_ND, class_N = cloud(300, 5, 8, apart=1.0)
    first, second = (fit_logistic(vector_ND, class_N, classes=5, strength=1e-3) for _ in range(2))
    np.testing.assert_array_equal(first.weight_CD, second.weight_CD)
    weak = fit_logistic(vector_ND, class_N, classes=5, strength=1.0)
    other = fit_logistic(vector_ND, class_N, classes=5, strength=1e-3, start=weak)
    assert other.loss == pytest.approx(first.loss, abs=1e-7)
    assert first.scores(vector_ND).shape == (300, 5)


def test_a_solver_that_was_stopped_shows_it() -> None:
    vector_ND, class_N = cloud(300, 5, 8, apart=1.0)
    found = fit_logistic(vector_ND, class_N, classes=5, strength=1e-3, max_steps=1)
    assert found.steps == 1
    assert found.gradient > 1e-3


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vector_ND, class_N = cloud(100, 3, 4, apart=1.0)
    whole = fit_logistic(vector_ND, class_N, classes=3, strength=1e-2)
    monkeypatch.setattr("unbag.scorers.linear_probe._BLOCK", 7)
    parts = fit_logistic(vector_ND, class_N, classes=3, strength=1e-2)
    assert parts.weight_CD == pytest.approx(whole.weight_CD, abs=1e-5)
