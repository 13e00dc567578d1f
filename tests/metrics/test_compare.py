from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.errors import UnbagError
from unbag.metrics import Contest, compare, compare_all, holm, mcnemar
from unbag.metrics.compare import sign_flip
from unbag.types import MICRO, Aggregate, Comparison, EvalProtocol, Outcomes

Make = Callable[..., Outcomes]
NAN = float("nan")


@pytest.fixture
def against(protocol: EvalProtocol) -> Callable[..., Comparison]:
    def run(first: Outcomes, second: Outcomes, aggregate: Aggregate = MICRO) -> Comparison:
        return compare(
            first,
            second,
            names=("old", "new"),
            benchmark="toy",
            aggregate=aggregate,
            protocol=protocol,
            seed=0,
        )

    return run


Against = Callable[..., Comparison]


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


def test_sign_flip_by_hand() -> None:
    rng = np.random.default_rng(0)
    assert sign_flip(np.zeros(5), rng=rng) == 1.0
    # Of the 8 signs of 3, 1, 1 only those of +++ and --- give a sum of 5.
    assert sign_flip(np.array([3.0, 1, 1, 0]), rng=rng) == pytest.approx(2 / 8)
    # A sum of 3 - 1 + 1 = 3 is reached by 5, 3, 3 and their opposites.
    assert sign_flip(np.array([3.0, -1, 1]), rng=rng) == pytest.approx(6 / 8)


def test_sign_flip_of_units_is_mcnemar() -> None:
    rng = np.random.default_rng(0)
    few = np.array([1.0] * 8 + [-1.0] * 2)
    assert sign_flip(few, rng=rng) == pytest.approx(112 / 1024)
    many = np.array([1.0] * 60 + [-1.0] * 42)
    exact = mcnemar((many < 0).astype(float), (many > 0).astype(float))
    assert sign_flip(many, rng=rng) == pytest.approx(exact, abs=0.01)
    # Drawn flips: the one that was seen counts, so that p is never 0.
    assert sign_flip(np.ones(40), rng=rng) == pytest.approx(1 / 10_001)


def test_unequal_sizes_and_blocks_of_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    # The package has a function of the same name as this module.
    monkeypatch.setattr(import_module("unbag.metrics.compare"), "CELLS", 1_000)
    difference_G = np.random.default_rng(1).normal(0.1, 1, 200)
    z = difference_G.sum() / np.sqrt((difference_G**2).sum())
    expected = 2 * (1 - NormalDist().cdf(abs(z)))
    result = sign_flip(difference_G, rng=np.random.default_rng(0))
    assert result == pytest.approx(expected, abs=0.02)


def test_clusters_are_flipped_as_a_whole(outcomes: Make, against: Against) -> None:
    # Four images of eight units each: three are gained, one is lost. All signs of four equal
    # sizes give at least two images of surplus but those of two against two: 1 - 6/16.
    clusters = [f"p{i // 8}" for i in range(32)]
    first = outcomes([0] * 24 + [1] * 8, clusters=clusters)
    second = outcomes([1] * 24 + [0] * 8, clusters=clusters)
    result = against(first, second)
    assert result.test == "sign flip over clusters"
    assert result.p_value == pytest.approx(10 / 16)
    alone = against(replace(first, clusters=first.units), replace(second, clusters=second.units))
    assert alone.test == "mcnemar"
    assert alone.p_value == pytest.approx(mcnemar(first.value_U, second.value_U))
    assert alone.p_value is not None
    assert alone.p_value < 0.01


def test_clustered_differences_of_no_meaning_are_seldom_shown() -> None:
    # 20 clusters of 8 equal units, no true difference: 5 % may be rejected, not 26 %.
    dice, rejected = np.random.default_rng(0), 0
    for _ in range(400):
        difference_G = 8 * dice.integers(-1, 2, 20).astype(float)
        rejected += sign_flip(difference_G, rng=dice) < 0.05
    assert rejected / 400 < 0.08


def test_only_the_units_of_the_rule_are_compared(outcomes: Make, against: Against) -> None:
    tags = [{"order": "kept"}] * 4 + [{"order": "shuffled"}] * 6
    first, second = outcomes([0] * 10, tags=tags), outcomes([1, 0, 0, 0] + [1] * 6, tags=tags)
    original = against(first, second, Aggregate(only=(("order", "kept"),)))
    assert (original.n, original.difference, original.aggregate) == (4, 0.25, "micro[order=kept]")
    assert (original.test, original.p_value) == ("mcnemar", 1.0)
    all_units = against(first, second)
    assert (all_units.n, all_units.difference, all_units.aggregate) == (10, 0.7, "micro")


def test_macro_values_are_compared(outcomes: Make, against: Against) -> None:
    tags = [{"kind": "a"}] * 8 + [{"kind": "b"}] * 2
    first = outcomes([0] * 8 + [1, 1], tags=tags)
    second = outcomes([1, 1] + [0] * 8, tags=tags)
    # a gains 2/8, b loses 2/2; over all units they would cancel.
    assert against(first, second).difference == 0.0
    result = against(first, second, Aggregate(by=("kind",)))
    assert result.difference == pytest.approx((0.25 - 1) / 2)
    assert (result.n, result.aggregate) == (10, "macro(kind)")
    # Parts in the average: 1/16 each in a, 1/4 each in b. |sum| >= 6/16 if the two of b agree.
    assert result.test == "sign flip over clusters"
    assert result.p_value == pytest.approx(8 / 16)
    assert result.low == pytest.approx((0 - 1) / 2)


def test_macro_differences_of_shared_images_move_together(outcomes: Make, against: Against) -> None:
    gain_P = np.random.default_rng(0).integers(0, 2, 100)
    tags = [{"kind": str(i // 100)} for i in range(400)]
    clusters = [f"p{i % 100}" for i in range(400)]
    first = outcomes([0] * 400, clusters=clusters, tags=tags)
    second = outcomes(np.tile(gain_P, 4).tolist(), clusters=clusters, tags=tags)
    result = against(first, second, Aggregate(by=("kind",)))
    assert result.difference == pytest.approx(gain_P.mean())
    assert result.high - result.low == pytest.approx(2 * 1.96 * gain_P.std() / 10, rel=0.1)


def test_a_rule_without_meaning_gives_way_to_micro(outcomes: Make, against: Against) -> None:
    result = against(outcomes([0, 1]), outcomes([1, 1]), Aggregate(by=("kind",)))
    assert (result.aggregate, result.n, result.difference) == ("micro", 2, 0.5)


def test_difference_on_shared_valid_units(outcomes: Make, against: Against) -> None:
    first = outcomes([1, 0, 0, 0, NAN])
    second = replace(outcomes([1, 1, 1, NAN, 1]), units=("u0", "u1", "u2", "u3", "elsewhere"))
    result = against(first, second)
    assert result.n == 3
    assert result.difference == pytest.approx(2 / 3)
    assert (result.first, result.second, result.metric) == ("old", "new", "accuracy")
    assert result.p_value == pytest.approx(0.5)
    assert result.p_holm is None


def test_units_are_matched_by_name(outcomes: Make, against: Against) -> None:
    first = outcomes([1, 0, 1, 0, 1, 1])
    second = replace(outcomes([1, 1, 0, 1, 0, 1]), units=first.units[::-1])
    assert against(first, second).difference == 0.0
    assert against(first, second).p_value == 1.0


def test_pairing_narrows_the_interval(outcomes: Make, against: Against) -> None:
    rng = np.random.default_rng(0)
    base = rng.integers(0, 2, 400).astype(float)
    better = np.where(np.arange(400) % 40 == 0, 1.0, base)
    result = against(outcomes(base.tolist()), outcomes(better.tolist()))
    gain_N = better - base
    half = 1.96 * gain_N.std() / 20
    assert result.difference == pytest.approx(gain_N.mean())
    assert result.high - result.low == pytest.approx(2 * half, rel=0.2)


def test_clusters_widen_it(outcomes: Make, against: Against) -> None:
    gain = np.repeat(np.random.default_rng(0).integers(0, 2, 40), 5).tolist()
    zero = [0] * 200
    clusters = [f"p{i // 5}" for i in range(200)]
    alone = against(outcomes(zero), outcomes(gain))
    together = against(outcomes(zero, clusters=clusters), outcomes(gain, clusters=clusters))
    assert together.high - together.low > 1.8 * (alone.high - alone.low)


def test_means_and_ratios_have_no_mcnemar(outcomes: Make, against: Against) -> None:
    scores = against(outcomes([0.1, 0.2], is_rate=False), outcomes([0.3, 0.4], is_rate=False))
    assert (scores.p_value, scores.test) == (None, "")
    assert scores.difference == pytest.approx(0.2)
    first = outcomes([1, 0, 1, 0], weights=[1, 1, 1, 1])
    second = outcomes([1, 0, 1, 0], weights=[1, 0, 1, 1])
    ratio = against(first, second)
    assert ratio.difference == pytest.approx(2 / 3 - 2 / 4)
    assert ratio.p_value is None
    assert against(outcomes([0.5, 1]), outcomes([1, 1])).p_value is None


def test_holm_runs_over_all_comparisons_with_a_test(outcomes: Make, protocol: EvalProtocol) -> None:
    worse, better = outcomes([0] * 10), outcomes([1] * 8 + [0] * 2)
    means = outcomes([0.1] * 10, is_rate=False)
    contests = [
        Contest("a", ("old", "new"), worse, better),
        Contest("b", ("old", "new"), means, means),
        Contest("c", ("old", "new"), worse, worse, Aggregate(only=())),
    ]
    a, b, c = compare_all(contests, protocol=protocol, seed=0)
    assert a.test == "mcnemar"
    assert a.p_value == pytest.approx(2 / 2**8)
    assert a.p_holm == pytest.approx(4 / 2**8)
    assert (b.p_value, b.p_holm) == (None, None)
    assert (c.p_value, c.p_holm) == (1.0, 1.0)


def test_what_cannot_be_compared(outcomes: Make, against: Against) -> None:
    with pytest.raises(UnbagError, match="toy: 'accuracy' of old against 'pair' of new"):
        against(outcomes([1]), outcomes([1], metric="pair"))
    with pytest.raises(UnbagError, match="toy: old and new share no valid unit of 'accuracy'"):
        against(outcomes([1, NAN]), replace(outcomes([1, 1]), units=("x", "u1")))
