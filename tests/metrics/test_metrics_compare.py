from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.errors import UserError
from unbag.metrics import Contest, compare, compare_all, holm, mcnemar
from unbag.types import Comparison, EvalProtocol, Outcomes

Make = Callable[..., Outcomes]
NAN = float("nan")


@pytest.fixture
def against(protocol: EvalProtocol) -> Callable[[Outcomes, Outcomes], Comparison]:
    def run(first: Outcomes, second: Outcomes) -> Comparison:
        return compare(
            first, second, names=("old", "new"), benchmark="toy", protocol=protocol, seed=0
        )

    return run


Against = Callable[[Outcomes, Outcomes], Comparison]


def test_holm_by_hand() -> None:
    # Sorted .005, .01, .03, .04 times 4, 3, 2, 1, never falling: .02, .03, .06, .06.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
    assert holm([0.7, 0.9]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_order_and_never_lowers(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
    ranked = [adjusted[i] for i in sorted(range(len(p_values)), key=lambda i: p_values[i])]
    assert ranked == sorted(ranked)


def test_mcnemar_by_hand() -> None:
    first = np.array([1.0] * 2 + [0.0] * 8 + [1.0] * 50)
    second = np.array([0.0] * 2 + [1.0] * 8 + [1.0] * 50)
    # 2 against 8: 2 (C(10,0) + C(10,1) + C(10,2)) / 2^10 = 2 * 56 / 1024.
    assert mcnemar(first, second) == pytest.approx(112 / 1024)
    assert mcnemar(second, first) == pytest.approx(112 / 1024)
    assert mcnemar(first, first) == 1.0
    assert mcnemar(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1.0


def test_difference_on_shared_valid_units(outcomes: Make, against: Against) -> None:
    first = outcomes([1, 0, 0, 0, NAN])
    second = replace(outcomes([1, 1, 1, NAN, 1]), units=("u0", "u1", "u2", "u3", "elsewhere"))
    found = against(first, second)
    assert found.n == 3
    assert found.difference == pytest.approx(2 / 3)
    assert (found.first, found.second, found.metric) == ("old", "new", "accuracy")
    assert found.p_mcnemar == pytest.approx(0.5)
    assert found.p_holm is None


def test_units_are_matched_by_name(outcomes: Make, against: Against) -> None:
    first = outcomes([1, 0, 1, 0, 1, 1])
    second = replace(outcomes([1, 1, 0, 1, 0, 1]), units=first.units[::-1])
    assert against(first, second).difference == 0.0
    assert against(first, second).p_mcnemar == 1.0


def test_pairing_narrows_the_interval(outcomes: Make, against: Against) -> None:
    rng = np.random.default_rng(0)
    base = rng.integers(0, 2, 400).astype(float)
    better = np.where(np.arange(400) % 40 == 0, 1.0, base)
    found = against(outcomes(base.tolist()), outcomes(better.tolist()))
    gain_N = better - base
    half = 1.96 * gain_N.std() / 20
    assert found.difference == pytest.approx(gain_N.mean())
    assert found.high - found.low == pytest.approx(2 * half, rel=0.2)


def test_clusters_widen_it(outcomes: Make, against: Against) -> None:
    gain = np.repeat(np.random.default_rng(0).integers(0, 2, 40), 5).tolist()
    zero = [0] * 200
    clusters = [f"p{i // 5}" for i in range(200)]
    alone = against(outcomes(zero), outcomes(gain))
    together = against(outcomes(zero, clusters=clusters), outcomes(gain, clusters=clusters))
    assert together.high - together.low > 1.8 * (alone.high - alone.low)


def test_means_and_ratios_have_no_mcnemar(outcomes: Make, against: Against) -> None:
    scores = against(outcomes([0.1, 0.2], is_rate=False), outcomes([0.3, 0.4], is_rate=False))
    assert scores.p_mcnemar is None
    assert scores.difference == pytest.approx(0.2)
    first = outcomes([1, 0, 1, 0], weights=[1, 1, 1, 1])
    second = outcomes([1, 0, 1, 0], weights=[1, 0, 1, 1])
    ratio = against(first, second)
    assert ratio.difference == pytest.approx(2 / 3 - 2 / 4)
    assert ratio.p_mcnemar is None
    assert against(outcomes([0.5, 1]), outcomes([1, 1])).p_mcnemar is None


def test_holm_runs_over_all_comparisons_with_a_test(outcomes: Make, protocol: EvalProtocol) -> None:
    worse, better = outcomes([0] * 10), outcomes([1] * 8 + [0] * 2)
    means = outcomes([0.1] * 10, is_rate=False)
    contests = [
        Contest("a", ("old", "new"), worse, better),
        Contest("b", ("old", "new"), means, means),
        Contest("c", ("old", "new"), worse, worse),
    ]
    a, b, c = compare_all(contests, protocol=protocol, seed=0)
    assert a.p_mcnemar == pytest.approx(2 / 2**8)
    assert a.p_holm == pytest.approx(4 / 2**8)
    assert (b.p_mcnemar, b.p_holm) == (None, None)
    assert (c.p_mcnemar, c.p_holm) == (1.0, 1.0)


def test_what_cannot_be_compared(outcomes: Make, against: Against) -> None:
    with pytest.raises(UserError, match="toy: 'accuracy' of old against 'pair' of new"):
        against(outcomes([1]), outcomes([1], metric="pair"))
    with pytest.raises(UserError, match="toy: old and new share no valid unit of 'accuracy'"):
        against(outcomes([1, NAN]), replace(outcomes([1, 1]), units=("x", "u1")))
