"""Confidence intervals: Wilson's for counts, cluster bootstraps for everything else.

Dimensions: G rows (clusters), M columns, of which two are (sum of values, sum of weights); D kinds
of distinct rows, of which C common and E rare, F rows of rare kinds; S strata, R resamples, B
resamples of a block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unbag.types import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


CELLS = 4_000_000
"""Numbers drawn at once; limits the memory of any bootstrap to about 200 MB."""
BLOCK = 200_000
"""Counts drawn at once: few enough for the processor's cache, which is several times faster."""
BINOMIAL_COST = 8
"""A binomial draw costs about as much as this many index draws with lookups."""
MIN_NORMAL_CLUSTERS = 10_000
"""With more clusters than this the mean of a continuous score is practically normal."""
FEW = 5
"""With fewer clusters in a group a 95 % interval covers the true value only 3 times in 4."""
JOINT = "clustered bootstrap, joint over groups"


class Interval(NamedTuple):
    """A confidence interval and the name of its method."""

    low: float
    high: float
    name: str


def ratio(sum_XM: FloatArray) -> FloatArray:
    """Sum of values divided by sum of weights; NaN where the weights sum to 0."""
    weight_X = np.where(sum_XM[..., 1] == 0, np.nan, sum_XM[..., 1])
    quotient_X: FloatArray = sum_XM[..., 0] / weight_X
    return quotient_X


@dataclass(frozen=True, eq=False)
class Stratum:
    """Clusters that are resampled together, and their share in the average."""

    row_GM: FloatArray
    """One row per cluster: sum of values, sum of weights (for each scorer, if two are compared)."""
    share: float = 1.0
    clusters: tuple[str, ...] = ()
    """Names of the rows; if empty, no other stratum shares these clusters."""

    @classmethod
    def of(cls, row_NM: FloatArray, clusters: Sequence[str], share: float) -> Stratum:
        """Build a stratum from rows of units, summed within each cluster."""
        return cls(cluster_rows(row_NM, clusters), share, cluster_names(clusters))

    @property
    def value(self) -> float:
        """Sum of values divided by sum of weights; NaN if the weights sum to 0."""
        return float(ratio(self.row_GM.sum(axis=0)))


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
    """The appropriate interval for an average.

    Independent 0/1 outcomes (`is_count`) get Wilson's interval. Everything else gets a bootstrap of
    clusters, within the groups of a macro average unless groups share clusters. The mean of a score
    over very many clusters gets a normal interval. A rate whose resamples are all equal (every unit
    right, or each pair half right) would get an interval of width 0: see `no_spread_interval`. If a
    group of a macro average has few clusters, its interval is too narrow and its name says so.
    """
    if not (is_macro or is_clustered) and is_count:
        value, weight = strata[0].row_GM.sum(axis=0)
        return wilson(float(value), float(weight), confidence)
    if not (is_macro or is_rate) and len(strata[0].row_GM) > MIN_NORMAL_CLUSTERS:
        return normal(strata[0], confidence)
    name = f"{'stratified ' * is_macro}{'clustered ' * is_clustered}bootstrap"
    name = JOINT if is_joint(strata) else name
    bounds = percentile(draws(strata, resamples=resamples, rng=rng), confidence, name)
    value = sum(stratum.share * stratum.value for stratum in strata)
    if is_rate and bounds.high - bounds.low < 1e-12 and -1e-12 <= value <= 1 + 1e-12:
        bounds = no_spread_interval(value, effective_clusters(strata), confidence)
    if is_macro and min(np.count_nonzero(s.row_GM[:, 1]) for s in strata) < FEW:
        return bounds._replace(name=f"{bounds.name}, few clusters")
    return bounds


def wilson(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """Wilson's score interval for a share of n independent trials."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(max(0.0, rate * (1 - rate) / n + z * z / (4 * n * n)))
    # Exact at the ends: rounding must not push 0 of n above 0 or n of n below 1.
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
    row_GM = np.stack([value_N, np.ones(len(value_N))], axis=1)
    if clusters is not None:
        row_GM = cluster_rows(row_GM, clusters)
    draw_R = draws([Stratum(row_GM)], resamples=resamples, rng=rng)
    name = "bootstrap" if clusters is None else "clustered bootstrap"
    return percentile(draw_R, confidence, name)


def normal(stratum: Stratum, confidence: float = 0.95) -> Interval:
    """Normal interval of a ratio of sums, from the spread between clusters."""
    value_G, weight_G = stratum.row_GM.T
    clusters, value = len(value_G), stratum.value
    spread = float(np.sum((value_G - value * weight_G) ** 2)) * clusters / (clusters - 1)
    half = NormalDist().inv_cdf((1 + confidence) / 2) * sqrt(spread) / float(weight_G.sum())
    return Interval(value - half, value + half, "normal")


def no_spread_interval(value: float, clusters: float, confidence: float = 0.95) -> Interval:
    """Interval of a rate without any spread between clusters.

    Only unseen kinds of clusters could change the rate. Wilson's upper end for 0 of all clusters
    bounds their share; they may be all wrong or all right. At 0 and 1 this equals Wilson's
    interval. In between, Wilson's would treat equal clusters as coin tosses.
    """
    # Rounding may leave n of n slightly below n, which would end the interval below 1.
    value, unseen = round(value, 12), wilson(0, clusters, confidence).high
    return Interval(value - value * unseen, value + (1 - value) * unseen, "wilson (clusters)")


def effective_clusters(strata: Sequence[Stratum]) -> float:
    """Number of independent trials with the spread of this average: 1 / sum(share^2 / clusters).

    A cluster in several strata counts once, with the sum of its shares.
    """
    share_of_cluster: dict[str, float] = {}
    alone = 0.0
    for stratum in strata:
        used_K = np.flatnonzero(stratum.row_GM[:, 1])
        part = stratum.share / len(used_K)
        alone += 0.0 if stratum.clusters else part * stratum.share
        for name in [stratum.clusters[i] for i in used_K] if stratum.clusters else ():
            share_of_cluster[name] = share_of_cluster.get(name, 0.0) + part
    return 1 / (alone + sum(part**2 for part in share_of_cluster.values()))


def percentile(draw_R: FloatArray, confidence: float, name: str) -> Interval:
    """Percentile interval of the resamples; those without a value are left out."""
    known_R = draw_R[np.isfinite(draw_R)]
    if not len(known_R):
        return Interval(float("nan"), float("nan"), name)
    tail = (1 - confidence) / 2
    low, high = np.quantile(known_R, [tail, 1 - tail])
    return Interval(float(low), float(high), name)


def is_joint(strata: Sequence[Stratum]) -> bool:
    """Whether a cluster has units in several strata."""
    names = [name for stratum in strata for name in stratum.clusters]
    return len(set(names)) < len(names)


def draws(
    strata: Sequence[Stratum],
    *,
    resamples: int,
    rng: np.random.Generator,
    statistic: Callable[[FloatArray], FloatArray] = ratio,
) -> FloatArray:
    """The average of every resample: the weighted sum of each stratum's statistic.

    Strata are resampled one by one, which preserves their sizes, unless a cluster has units in
    several of them: then clusters are drawn once for all strata, so that their units stay
    together. A resample without any weight is NaN.
    """
    if is_joint(strata):
        return _joint_draws(strata, resamples, rng, statistic)
    total_R = np.zeros(resamples)
    for stratum in strata:
        sum_RM = resampled_sums(stratum.row_GM, resamples=resamples, rng=rng)
        total_R += stratum.share * statistic(sum_RM)
    return total_R


def _joint_draws(
    strata: Sequence[Stratum],
    resamples: int,
    rng: np.random.Generator,
    statistic: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """Draw whole clusters, with their rows in all strata.

    A stratum that is empty in a resample contributes its own estimate: leaving out such resamples
    would, with many small strata, leave hardly any.
    """
    columns = strata[0].row_GM.shape[1]
    row_SMxD, count_D = _kinds(strata, columns)
    share_S1 = np.array([[stratum.share] for stratum in strata])
    estimate_S1 = np.array([[float(statistic(stratum.row_GM.sum(axis=0)))] for stratum in strata])
    total = []
    for count_DB in resampled_counts(count_D, resamples=resamples, rng=rng):
        sum_SMB = np.asarray(row_SMxD @ count_DB).reshape(len(strata), columns, -1)
        value_SB = statistic(np.moveaxis(sum_SMB, 1, -1))
        shared_SB = share_S1 * np.where(np.isnan(value_SB), estimate_S1, value_SB)
        total.append(shared_SB.sum(axis=0))
    return np.concatenate(total)


def _kinds(strata: Sequence[Stratum], columns: int) -> tuple[csr_array, IntArray]:
    """The distinct clusters, as columns of their rows in all strata, and their counts.

    Clusters with equal rows in every stratum are drawn together: 7,000 images with one or two
    captions each, right or wrong, are about 70 kinds.
    """
    from scipy.sparse import csr_array

    parts_of: dict[str, list[tuple[int, bytes]]] = {}
    for position, stratum in enumerate(strata):
        for name, row_M in zip(stratum.clusters, stratum.row_GM, strict=True):
            parts_of.setdefault(name, []).append((position, row_M.tobytes()))
    # Sorted, so that the same clusters in another order give the same numbers.
    kinds = sorted(Counter(tuple(parts) for parts in parts_of.values()).items())
    value = np.frombuffer(b"".join(row for kind, _ in kinds for _, row in kind))
    place = [
        position * columns + m for kind, _ in kinds for position, _ in kind for m in range(columns)
    ]
    start = np.cumsum([0] + [len(kind) * columns for kind, _ in kinds])
    row_DxSM = csr_array((value, place, start), shape=(len(kinds), len(strata) * columns))
    return csr_array(row_DxSM.T), np.array([count for _, count in kinds], dtype=np.int64)


def cluster_rows(row_NM: FloatArray, clusters: Sequence[str]) -> FloatArray:
    """Sum the rows of each cluster."""
    code_of = {name: code for code, name in enumerate(cluster_names(clusters))}
    code_N = np.array([code_of[name] for name in clusters], dtype=np.int64)
    columns = [
        np.bincount(code_N, weights=row_NM[:, column], minlength=len(code_of))
        for column in range(row_NM.shape[1])
    ]
    return np.stack(columns, axis=1)


def cluster_names(clusters: Sequence[str]) -> tuple[str, ...]:
    """Each cluster once, in the row order of `cluster_rows`."""
    return tuple(dict.fromkeys(clusters))


def resampled_sums(row_GM: FloatArray, *, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Column sums of G rows drawn with replacement, `resamples` times: [R, M].

    The counts of the distinct rows are multinomial, so equal rows are drawn together: 30,000
    outcomes that are 0 or 1 cost one binomial draw per resample. This is exact.
    """
    distinct_DM, count_D = np.unique(row_GM, axis=0, return_counts=True)
    if len(distinct_DM) * BINOMIAL_COST <= len(row_GM):
        return _sums_by_counts(distinct_DM, count_D / len(row_GM), len(row_GM), resamples, rng)
    # Sorted, so that the same rows in another order give the same numbers.
    return _sums_by_index(np.repeat(distinct_DM, count_D, axis=0), resamples, rng)


def _sums_by_counts(
    distinct_DM: FloatArray,
    share_D: FloatArray,
    rows: int,
    resamples: int,
    rng: np.random.Generator,
) -> FloatArray:
    step = max(1, CELLS // len(distinct_DM))
    parts = [
        rng.multinomial(rows, share_D, size=min(step, resamples - start)) @ distinct_DM
        for start in range(0, resamples, step)
    ]
    return np.concatenate(parts)


def _sums_by_index(sorted_GM: FloatArray, resamples: int, rng: np.random.Generator) -> FloatArray:
    rows, columns = sorted_GM.shape
    sum_RM = np.empty((resamples, columns))
    step = max(1, CELLS // rows)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        index_RG = rng.integers(rows, size=(stop - start, rows), dtype=np.int32)
        for column in range(columns):
            value_G = np.ascontiguousarray(sorted_GM[:, column])
            is_constant = value_G[0] == value_G[-1] and bool(np.all(value_G == value_G[0]))
            sum_R = value_G[0] * rows if is_constant else value_G[index_RG].sum(axis=1)
            sum_RM[start:stop, column] = sum_R
    return sum_RM


def resampled_counts(
    count_D: IntArray, *, resamples: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """How often each kind of row is drawn, given `count_D` rows of each: blocks of [D, B].

    For callers that compute the sums themselves, such as those of sparse rows. The counts of common
    kinds are multinomial, and rows of rare kinds are drawn one by one. This is exact.
    """
    rows, is_common_D = int(count_D.sum()), count_D >= BINOMIAL_COST
    common_C, rare_E = np.flatnonzero(is_common_D), np.flatnonzero(~is_common_D)
    kind_F = np.repeat(np.arange(len(rare_E)), count_D[rare_E])
    parts = [*count_D[common_C], *([len(kind_F)] if len(kind_F) else [])]
    step = max(1, BLOCK // (len(count_D) + len(kind_F)))
    for start in range(0, resamples, step):
        block = min(step, resamples - start)
        drawn_BC = rng.multinomial(rows, np.array(parts) / rows, size=block)
        count_DB = np.empty((len(count_D), block))
        count_DB[common_C] = drawn_BC[:, : len(common_C)].T
        if len(kind_F):
            count_DB[rare_E] = _rare_counts(kind_F, len(rare_E), drawn_BC[:, -1], rng).T
        yield count_DB


def _rare_counts(
    kind_F: IntArray, kinds: int, draws_B: IntArray, rng: np.random.Generator
) -> IntArray:
    """How often each kind occurs [B, E] when `draws_B` of the F rows are drawn per resample."""
    place = np.repeat(np.arange(len(draws_B)) * kinds, draws_B)
    place += kind_F[rng.integers(len(kind_F), size=len(place), dtype=np.int32)]
    return np.bincount(place, minlength=len(draws_B) * kinds).reshape(len(draws_B), kinds)


def generator(seed: int, *names: str) -> np.random.Generator:
    """A random generator that depends on the seed and on its purpose, not on the order of work."""
    digest = blake2b("\0".join([str(seed), *names]).encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))
