import numpy as np
import pytest

from unbag.metrics import bootstrap, generator, wilson
from unbag.metrics.intervals import (
    Stratum,
    cluster_rows,
    draws,
    effective_clusters,
    interval,
    is_joint,
    no_spread_interval,
    normal,
    resampled_counts,
    resampled_sums,
)
from unbag.types import FloatArray


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_wilson_by_hand() -> None:
    # 8 of 10 with z = 1.959964: centre (0.8 + 0.19207) / 1.38415, half width 0.22656.
    low, high, name = wilson(8, 10)
    assert (low, high) == pytest.approx((0.49016, 0.94332), abs=1e-5)
    assert name == "wilson"
    assert wilson(0, 10)[:2] == pytest.approx((0.0, 0.27754), abs=1e-5)
    assert wilson(10, 10)[:2] == pytest.approx((0.72246, 1.0), abs=1e-5)
    assert (wilson(0, 7).low, wilson(7, 7).high) == (0.0, 1.0)
    narrow, wide = wilson(8, 10, 0.9), wilson(8, 10, 0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize("rate", [0.02, 0.5, 0.9])
def test_wilson_covers(rate: float) -> None:
    n = 200
    ends = [wilson(k, n)[:2] for k in range(n + 1)]
    drawn = rng().binomial(n, rate, size=20_000)
    covered = np.mean([ends[k][0] <= rate <= ends[k][1] for k in drawn])
    assert 0.925 < covered < 0.98


EXAMPLE = np.array([0.02, 0.01, -0.01, 0.03, 0.00])


def test_bootstrap_worked_example() -> None:
    result = bootstrap(EXAMPLE, confidence=0.99, rng=rng())
    assert result.low == pytest.approx(-0.006, abs=1e-3)
    assert result.high == pytest.approx(0.026, abs=1e-3)
    assert result.name == "bootstrap"


def test_bootstrap_spreads_as_the_plug_in_error_says() -> None:
    row_G2 = np.stack([EXAMPLE, np.ones(5)], axis=1)
    sum_R2 = resampled_sums(row_G2, resamples=50_000, rng=rng())
    mean_R = sum_R2[:, 0] / sum_R2[:, 1]
    assert mean_R.std() == pytest.approx(0.0063246, rel=0.02)
    assert mean_R.mean() == pytest.approx(0.01, abs=1e-4)


def test_clusters_of_one_change_nothing() -> None:
    alone = bootstrap(EXAMPLE, confidence=0.99, rng=rng())
    clustered = bootstrap(EXAMPLE, clusters=list("abcde"), confidence=0.99, rng=rng())
    assert clustered[:2] == alone[:2]
    assert clustered.name == "clustered bootstrap"


def loop(value_N: FloatArray, clusters: list[str], resamples: int) -> FloatArray:
    """The bootstrap as one would write it at first."""
    names = sorted(set(clusters))
    members = {name: [i for i, c in enumerate(clusters) if c == name] for name in names}
    dice, means = rng(7), []
    for _ in range(resamples):
        drawn = [names[i] for i in dice.integers(len(names), size=len(names))]
        means.append(np.mean([value_N[i] for name in drawn for i in members[name]]))
    return np.array(means)


def test_clustered_bootstrap_agrees_with_a_plain_loop() -> None:
    dice = rng(3)
    clusters = [f"c{i}" for i in dice.integers(30, size=150)]
    lean = {f"c{i}": p for i, p in enumerate(dice.random(30))}
    value_N = np.array([float(dice.random() < lean[c]) for c in clusters])
    means = loop(value_N, clusters, 4_000)
    result = bootstrap(value_N, clusters=clusters, resamples=20_000, rng=rng())
    low, high = np.quantile(means, [0.025, 0.975])
    assert result.low == pytest.approx(low, abs=0.01)
    assert result.high == pytest.approx(high, abs=0.01)
    alone = bootstrap(value_N, resamples=20_000, rng=rng())
    assert result.high - result.low > 1.2 * (alone.high - alone.low)


def test_counts_and_indices_draw_from_the_same_distribution() -> None:
    from unbag.metrics.intervals import _sums_by_counts, _sums_by_index

    row_GM = np.repeat(np.array([[0.0, 2.0], [1.0, 3.0], [3.0, 4.0]]), [50, 30, 20], axis=0)
    distinct_DM, count_D = np.unique(row_GM, axis=0, return_counts=True)
    by_counts = _sums_by_counts(distinct_DM, count_D / 100, 100, 40_000, rng(1))
    by_index = _sums_by_index(row_GM, 40_000, rng(2))
    np.testing.assert_allclose(by_counts.mean(axis=0), row_GM.sum(axis=0), rtol=5e-3)
    np.testing.assert_allclose(by_index.mean(axis=0), row_GM.sum(axis=0), rtol=5e-3)
    np.testing.assert_allclose(np.cov(by_counts.T), np.cov(by_index.T), rtol=0.05)


@pytest.mark.parametrize("rows", [40, 4_000])
def test_the_order_of_rows_does_not_matter(rows: int) -> None:
    row_GM = np.stack([rng(1).integers(0, 9, rows) / 8, np.ones(rows)], axis=1)
    outcome = resampled_sums(row_GM, resamples=100, rng=rng())
    other = resampled_sums(row_GM[::-1], resamples=100, rng=rng())
    np.testing.assert_array_equal(outcome, other)


def test_blocks_cover_all_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unbag.metrics.intervals.CELLS", 64)
    for row_GM in (np.ones((100, 1)), np.arange(10.0)[:, None]):
        sum_RM = resampled_sums(row_GM, resamples=101, rng=rng())
        assert sum_RM.shape == (101, 1)
        assert np.isfinite(sum_RM).all()
        assert sum_RM.mean() == pytest.approx(row_GM.sum(), rel=0.1)


def test_normal_is_the_textbook_interval() -> None:
    value_N = rng().standard_normal(20_000)
    result = normal(Stratum(np.stack([value_N, np.ones(20_000)], axis=1)))
    half = 1.959964 * value_N.std(ddof=1) / np.sqrt(20_000)
    assert result.low == pytest.approx(value_N.mean() - half, abs=1e-9)
    assert result.high == pytest.approx(value_N.mean() + half, abs=1e-9)


def test_cluster_rows_sum_over_clusters() -> None:
    row_NM = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    assert cluster_rows(row_NM, ["a", "b", "a"]).tolist() == [[2, 2], [0, 1]]


def test_effective_clusters() -> None:
    ten, forty = Stratum(np.ones((10, 2))), Stratum(np.ones((40, 2)))
    assert effective_clusters([ten]) == pytest.approx(10)
    # Variance of the mean of both means: (p q / 10 + p q / 40) / 4, so 1/n = 1/40 + 1/160.
    halves = [Stratum(ten.row_GM, 0.5), Stratum(forty.row_GM, 0.5)]
    assert effective_clusters(halves) == pytest.approx(32)
    # The ten clusters lie among the forty: each has 1/20 + 1/80, the other thirty 1/80.
    names = tuple(f"c{i}" for i in range(40))
    nested = [Stratum(ten.row_GM, 0.5, names[:10]), Stratum(forty.row_GM, 0.5, names)]
    assert effective_clusters(nested) == pytest.approx(1 / (10 / 16**2 + 30 / 80**2))


def shared(values: FloatArray, share: float, *, first: int = 0) -> Stratum:
    """One unit a cluster, in clusters named from `first` on."""
    rows = np.stack([values, np.ones(len(values))], axis=1)
    return Stratum(rows, share, tuple(f"c{first + i:03}" for i in range(len(values))))


def test_strata_that_share_clusters_are_drawn_together() -> None:
    # Two strata with the same outcome in each image are one stratum: no narrower by averaging.
    value_N = rng().integers(0, 2, 200).astype(float)
    twice = [shared(value_N, 0.5), shared(value_N, 0.5)]
    assert is_joint(twice)
    draw_R = draws(twice, resamples=20_000, rng=rng(1))
    assert draw_R.std() == pytest.approx(value_N.std() / np.sqrt(200), rel=0.03)
    # The same outcomes in images of their own are independent: narrower by the root of two.
    apart = [shared(value_N, 0.5), shared(value_N, 0.5, first=500)]
    assert not is_joint(apart)
    draw_R = draws(apart, resamples=20_000, rng=rng(1))
    assert draw_R.std() == pytest.approx(value_N.std() / np.sqrt(400), rel=0.03)
    # Opposite outcomes cancel: the average never moves.
    opposite = [shared(value_N, 0.5), shared(1 - value_N, 0.5)]
    np.testing.assert_allclose(draws(opposite, resamples=100, rng=rng()), 0.5)


def test_joint_draws_agree_with_a_plain_loop() -> None:
    first, second = shared(rng(1).random(12), 0.25), shared(rng(2).random(30), 0.75, first=8)
    draw_R = draws([first, second], resamples=20_000, rng=rng(3))
    names, dice, means = [f"c{i:03}" for i in range(38)], rng(4), []
    for _ in range(4_000):
        drawn, mean = [names[i] for i in dice.integers(38, size=38)], 0.0
        for stratum in (first, second):
            row_of = dict(zip(stratum.clusters, stratum.row_GM[:, 0], strict=True))
            hit = [row_of[name] for name in drawn if name in row_of]
            mean += stratum.share * (np.mean(hit) if hit else stratum.value)
        means.append(mean)
    assert draw_R.mean() == pytest.approx(np.mean(means), abs=5e-3)
    assert draw_R.std() == pytest.approx(np.std(means), rel=0.05)


def test_a_stratum_that_a_resample_leaves_out_counts_with_its_own_value() -> None:
    many, single = shared(np.zeros(10), 0.5), shared(np.ones(1), 0.5)
    # The one cluster of the second is missing in (9/10)^10 = 35 % of all resamples.
    np.testing.assert_allclose(draws([many, single], resamples=200, rng=rng()), 0.5)


def test_counts_of_a_resample_sum_to_its_rows() -> None:
    blocks = list(resampled_counts(np.ones(70_000, dtype=np.int64), resamples=3, rng=rng()))
    assert [block.shape for block in blocks] == [(70_000, 1)] * 3
    assert all((block.sum(axis=0) == 70_000).all() for block in blocks)


@pytest.mark.parametrize("counts", [[1, 1, 1, 1], [90, 10], [3, 50, 1, 46], [100]])
def test_kinds_are_drawn_by_their_share_of_the_rows(counts: list[int]) -> None:
    # Rare kinds, common kinds and both: multinomial, of mean c and covariance c (1 - c / rows) on
    # the diagonal and -c d / rows beside it.
    count_D, rows = np.array(counts), sum(counts)
    blocks = resampled_counts(count_D, resamples=40_000, rng=rng())
    drawn_DR = np.concatenate(list(blocks), axis=1)
    assert (drawn_DR.sum(axis=0) == rows).all()
    assert drawn_DR.mean(axis=1) == pytest.approx(count_D, rel=0.02)
    expected_DD = np.diag(count_D.astype(float)) - np.outer(count_D, count_D) / rows
    found_DD = np.atleast_2d(np.cov(drawn_DR))
    np.testing.assert_allclose(found_DD, expected_DD, atol=0.03 * max(1.0, expected_DD.max()))


def test_clusters_that_are_alike_make_one_kind_whatever_their_names_and_order() -> None:
    value_N = np.repeat([0.0, 1.0], 100)
    outcome = [shared(value_N, 0.5), shared(value_N, 0.5, first=50)]
    other = [shared(value_N[::-1], 0.5), shared(value_N[::-1], 0.5, first=50)]
    turned = [
        Stratum(s.row_GM[::-1], s.share, tuple(f"d{name}" for name in s.clusters[::-1]))
        for s in outcome
    ]
    first = draws(outcome, resamples=500, rng=rng())
    np.testing.assert_array_equal(draws(turned, resamples=500, rng=rng()), first)
    assert not np.array_equal(draws(other, resamples=500, rng=rng()), first)


@pytest.mark.parametrize(("value", "low", "high"), [(0.5, 0.482, 0.518), (0.25, 0.241, 0.278)])
def test_equal_clusters_are_no_coins(value: float, low: float, high: float) -> None:
    # Wilson's upper end of 0 in 100 is .0370: v - .0370 v and v + .0370 (1 - v).
    assert no_spread_interval(value, 100)[:2] == pytest.approx((low, high), abs=5e-4)


@pytest.mark.parametrize("value", [0, 1])
def test_clusters_all_wrong_or_all_right_keep_wilson(value: int) -> None:
    assert no_spread_interval(value, 37)[:2] == pytest.approx(wilson(37 * value, 37)[:2], abs=1e-12)
    assert no_spread_interval(1 - 1e-14, 37).high == 1.0


def test_half_right_pairs_get_no_zero_width() -> None:
    pairs = Stratum(np.array([[1.0, 2.0]] * 50))
    result = interval(
        [pairs],
        is_macro=False,
        is_clustered=True,
        is_count=True,
        is_rate=True,
        confidence=0.95,
        resamples=100,
        rng=rng(),
    )
    unseen = wilson(0, 50).high / 2
    assert result[:2] == pytest.approx((0.5 - unseen, 0.5 + unseen))
    assert result.name == "wilson (clusters)"


def test_randomness_depends_on_names_only() -> None:
    first = generator(0, "accuracy", "micro").random()
    assert generator(0, "accuracy", "micro").random() == first
    assert generator(1, "accuracy", "micro").random() != first
    assert generator(0, "accuracy", "macro").random() != first
    # Known forever: a changed hash would silently change every published interval.
    assert generator(0, "accuracy", "micro").integers(10**6) == 996794
