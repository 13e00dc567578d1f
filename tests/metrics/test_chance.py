from collections.abc import Callable

import numpy as np
import pytest

from unbag.metrics import (
    CHANCE,
    Choice,
    Groups,
    Pairs,
    Recall,
    Triples,
    hit_chance,
    simulate,
    triple_outcomes,
)
from unbag.types import Case, Metric

Make = Callable[..., Case]
TOLERANCE = 0.005
UNITS = 200_000
EYE2, EYE4 = np.eye(2), np.eye(4)


def chances(case: Make, metric: Metric, true: object, cases: int) -> dict[str, float]:
    shape = np.atleast_2d(np.array(true)).shape
    item = case(np.zeros(shape), true).item
    return dict(simulate(metric, item, cases=cases, rng=np.random.default_rng(1)))


@pytest.mark.parametrize("options", [2, 5])
def test_choice(case: Make, options: int) -> None:
    result = chances(case, Choice(), [1] + [0] * (options - 1), UNITS)
    assert result["accuracy"] == pytest.approx(1 / options, abs=TOLERANCE)


@pytest.mark.parametrize(
    ("metric", "true", "cases"),
    [
        (Triples(), [1, 0, 1], UNITS),
        (Groups(), EYE2, UNITS),
        (Pairs(), EYE2, UNITS // 2),
        (Pairs(), EYE4, UNITS // 4),
    ],
    ids=["triples", "groups", "pairs", "sets"],
)
def test_levels_by_simulation(case: Make, metric: Metric, true: object, cases: int) -> None:
    result = chances(case, metric, true, cases)
    expected = {name: CHANCE[name] for name in result if not name.startswith("mean_")}
    assert {name: result[name] for name in expected} == pytest.approx(expected, abs=TOLERANCE)


def test_independent_coins() -> None:
    """The second null of triples: c_n differs from both true captions by independent signs."""
    rng = np.random.default_rng(2)
    score_NC = rng.standard_normal((UNITS, 3))
    score_NC[:, 1] = 0.0
    result = triple_outcomes(score_NC, np.tile([True, False, True], (UNITS, 1)))
    assert result["augmented"].value_N.mean() == pytest.approx(1 / 4, abs=TOLERANCE)
    assert result["brittleness"].value_N.mean() == pytest.approx(1 / 2, abs=TOLERANCE)


def test_recall(case: Make) -> None:
    true = np.zeros((100, 300))
    true[np.arange(300) % 100, np.arange(300)] = 1
    result = chances(case, Recall((1, 5)), true, 200)
    for k in (1, 5):
        assert result[f"text_to_image@{k}"] == pytest.approx(k / 100, abs=TOLERANCE)
        expected = hit_chance(300, np.array([3]), k)[0]
        assert result[f"image_to_text@{k}"] == pytest.approx(expected, abs=TOLERANCE)
