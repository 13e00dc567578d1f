"""Quantities: means, ratios and other statistics with intervals."""

from __future__ import annotations

import numpy as np
import pytest

from unbag.probes.base import Known, Options, ProbeResult, mean, statistic
from unbag.types import IntArray

QUICK = Options(resamples=500)


def test_a_mean_leaves_out_what_is_not_a_number() -> None:
    result = mean("m", np.array([1.0, np.nan, 3.0]), about="a", options=QUICK).estimate
    assert (result.value, result.n, result.invalid) == (2.0, 2, 1)
    assert not result.is_rate


def test_a_rate_has_wilsons_interval_and_the_known_chance() -> None:
    value = np.array([1.0] * 8 + [0.0] * 2)
    result = mean("m", value, about="a", options=QUICK, known=Known(chance=0.5), is_rate=True)
    assert result.estimate.interval == "wilson"
    assert result.estimate.low == pytest.approx(0.4901625, abs=1e-6)
    assert result.estimate.chance == 0.5


def test_a_ratio_is_of_sums() -> None:
    result = mean("m", np.array([1.0, 0.0]), weight_N=np.array([1.0, 3.0]), about="", options=QUICK)
    assert result.estimate.value == 0.25


def test_clusters_widen_the_interval() -> None:
    value = np.repeat([0.0, 1.0] * 10, 10)
    names = [str(i // 10) for i in range(200)]
    alone = mean("m", value, about="", options=QUICK, is_rate=True).estimate
    joined = mean("m", value, about="", options=QUICK, clusters=names, is_rate=True).estimate
    assert joined.high - joined.low > 2 * (alone.high - alone.low)


def test_nothing_measured_is_not_a_number() -> None:
    result = mean("m", np.array([np.nan]), about="", options=QUICK).estimate
    assert result.n == 0
    assert np.isnan(result.value)


def test_a_statistic_draws_the_same_units_for_every_model() -> None:
    value_N = np.random.default_rng(0).normal(size=50)

    def drawn(shift: float) -> np.ndarray:
        def median(at_N: IntArray) -> float:
            return float(np.median(value_N[at_N])) + shift

        result = statistic("median", median, 50, about="", options=QUICK)
        assert result.draw_R is not None
        assert result.estimate.low < result.estimate.value < result.estimate.high
        return result.draw_R

    assert np.allclose(drawn(1.0) - drawn(0.0), 1.0)


def test_a_finding_is_asked_by_name() -> None:
    one = mean("m", np.array([1.0]), about="", options=QUICK)
    result = ProbeResult("p", (one,), "m")
    assert result["m"] is one
    assert result.get("other") is None
    with pytest.raises(KeyError, match="other"):
        result["other"]


def test_clusters_are_resampled_whole() -> None:
    value_N = np.repeat(np.random.default_rng(0).normal(size=50), 4)
    clusters = [f"{i // 4}" for i in range(200)]

    def middle(place_M: IntArray) -> float:
        assert (np.bincount(place_M, minlength=200).reshape(50, 4).std(axis=1) == 0).all()
        return float(value_N[place_M].mean())

    result = statistic(
        "m", middle, 200, about="", options=Options(resamples=500), clusters=clusters
    ).estimate
    assert result.interval == "clustered bootstrap"
    assert result.n == 200
    half = 1.96 * value_N.std() / np.sqrt(50)
    assert (result.high - result.low) / 2 == pytest.approx(half, rel=0.15)
