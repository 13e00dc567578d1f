"""Counts or clustered sums come in; low and high go out, with the name of the way they were found.

Dimensions: G clusters, R resamples; the columns of a row are (sum of values, sum of weights).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from unbag.metrics.resample import resampled_sums
from unbag.types import FloatArray

MANY = 10_000
"""Clusters from which the mean of a continuous score is normal for every purpose."""


class Interval(NamedTuple):
    """Where the true value may lie, and how that was found."""

    low: float
    high: float
    name: str


@dataclass(frozen=True, eq=False)
class Stratum:
    """Clusters that are resampled among themselves, and their share in the average."""

    row_G2: FloatArray
    """One row a cluster: sum of values, sum of weights."""
    share: float = 1.0

    @property
    def value(self) -> float:
        """Sum of values over sum of weights; NaN when the weights sum to 0."""
        value, weight = self.row_G2.sum(axis=0)
        return float(value / weight) if weight else float("nan")


def wilson(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for a share of n independent trials."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(max(0.0, rate * (1 - rate) / n + z * z / (4 * n * n)))
    # Exact at the ends: rounding may not push 0 of n above 0 or n of n below 1.
    low = 0.0 if successes <= 0 else max(0.0, centre - half)
    high = 1.0 if successes >= n else min(1.0, centre + half)
    return Interval(low, high, "wilson")


def bootstrap(
    value_N: FloatArray,
    *,
    clusters: Sequence[str] | None = None,
    confidence: float = 0.95,
    resamples: int = 50_000,
    rng: np.random.Generator,
) -> Interval:
    """Percentile bootstrap of a mean; values of one cluster are resampled together."""
    row_G2 = np.stack([value_N, np.ones(len(value_N))], axis=1)
    if clusters is not None:
        row_G2 = cluster_rows(row_G2, clusters)
    draw_R = draws([Stratum(row_G2)], resamples=resamples, rng=rng)
    name = "bootstrap" if clusters is None else "clustered bootstrap"
    return percentile(draw_R, confidence, name)


def cluster_rows(row_NM: FloatArray, clusters: Sequence[str]) -> FloatArray:
    """Sums over the rows of each cluster."""
    code_of = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    code_N = np.array([code_of[name] for name in clusters], dtype=np.int64)
    columns = [
        np.bincount(code_N, weights=row_NM[:, column], minlength=len(code_of))
        for column in range(row_NM.shape[1])
    ]
    return np.stack(columns, axis=1)


def draws(strata: Sequence[Stratum], *, resamples: int, rng: np.random.Generator) -> FloatArray:
    """The statistic of every resample: the shared sum of each stratum's ratio.

    A resample without any weight has no ratio and is NaN.
    """
    total_R = np.zeros(resamples)
    for stratum in strata:
        sum_R2 = resampled_sums(stratum.row_G2, resamples=resamples, rng=rng)
        weight_R = np.where(sum_R2[:, 1] == 0, np.nan, sum_R2[:, 1])
        total_R += stratum.share * sum_R2[:, 0] / weight_R
    return total_R


def percentile(draw_R: FloatArray, confidence: float, name: str) -> Interval:
    """The middle of the resamples; those without a value are left out."""
    known_R = draw_R[np.isfinite(draw_R)]
    if not len(known_R):
        return Interval(float("nan"), float("nan"), name)
    tail = (1 - confidence) / 2
    low, high = np.quantile(known_R, [tail, 1 - tail])
    return Interval(float(low), float(high), name)


def normal(stratum: Stratum, confidence: float = 0.95) -> Interval:
    """Normal interval of a ratio of sums, with the spread between clusters."""
    value_G, weight_G = stratum.row_G2.T
    clusters, ratio = len(value_G), stratum.value
    spread = float(np.sum((value_G - ratio * weight_G) ** 2)) * clusters / (clusters - 1)
    half = NormalDist().inv_cdf((1 + confidence) / 2) * sqrt(spread) / float(weight_G.sum())
    return Interval(ratio - half, ratio + half, "normal")


def interval(
    strata: Sequence[Stratum],
    *,
    is_macro: bool,
    is_clustered: bool,
    is_count: bool,
    is_rate: bool,
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
) -> Interval:
    """The right interval for an average.

    Independent 0/1 outcomes (`is_count`) get Wilson's. All else gets a bootstrap, of clusters, and
    within the groups of a macro average; except that the mean of a score over very many clusters
    is normal. A rate whose resamples are all alike (every unit right, or each pair half right)
    would get an interval of no width: it gets Wilson's with the number of clusters instead.
    """
    if not (is_macro or is_clustered) and is_count:
        value, weight = strata[0].row_G2.sum(axis=0)
        return wilson(float(value), float(weight), confidence)
    if not (is_macro or is_rate) and len(strata[0].row_G2) > MANY:
        return normal(strata[0], confidence)
    name = f"{'stratified ' * is_macro}{'clustered ' * is_clustered}bootstrap"
    found = percentile(draws(strata, resamples=resamples, rng=rng), confidence, name)
    value = sum(stratum.share * stratum.value for stratum in strata)
    if is_rate and found.high - found.low < 1e-12 and -1e-12 <= value <= 1 + 1e-12:
        n = effective_clusters(strata)
        # Rounding leaves n of n a hair under n, which would cut the interval off below 1.
        successes = round(value * n, 9)
        return wilson(successes, n, confidence)._replace(name="wilson (clusters)")
    return found


def effective_clusters(strata: Sequence[Stratum]) -> float:
    """Independent trials that would spread as much as this average: 1 / sum(share^2 / clusters)."""
    return 1 / sum(s.share**2 / np.count_nonzero(s.row_G2[:, 1]) for s in strata)
