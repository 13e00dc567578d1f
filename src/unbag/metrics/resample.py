"""Rows of sums come in, one row a cluster; the sums of many resamples of them go out.

Dimensions: G rows (clusters), M columns, D distinct rows (kinds), of which C common and E rare, F
rows of rare kinds, R resamples, B resamples of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

from unbag.types import FloatArray, IntArray

CELLS = 4_000_000
"""Numbers drawn at once; keeps the memory of any bootstrap under about 200 MB."""
BLOCK = 200_000
"""Counts made at once: few enough to stay in a processor's cache, which is several times faster."""
PRICE = 8
"""A binomial draw costs about as much as this many index draws with their look-ups."""


def generator(seed: int, *names: str) -> np.random.Generator:
    """Randomness that depends on the seed and on what it is for, never on the order of work."""
    digest = blake2b("\0".join([str(seed), *names]).encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def resampled_sums(row_GM: FloatArray, *, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Column sums of G rows drawn with replacement, `resamples` times: [R, M].

    How often each distinct row is drawn is multinomial, so equal rows are drawn together: 30,000
    outcomes that are 0 or 1 cost one binomial draw a resample. This is exact, not approximate.
    """
    distinct_DM, count_D = np.unique(row_GM, axis=0, return_counts=True)
    if len(distinct_DM) * PRICE <= len(row_GM):
        return _by_counts(distinct_DM, count_D / len(row_GM), len(row_GM), resamples, rng)
    # Sorted, so that the same rows in another order give the same numbers.
    return _by_index(np.repeat(distinct_DM, count_D, axis=0), resamples, rng)


def resampled_counts(
    count_D: IntArray, *, resamples: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """How often each kind of row is drawn, where there are `count_D` rows of each: [D, B].

    For sums that are best made by the caller, such as those of sparse rows. Exact, and block by
    block: the counts of common kinds are multinomial, the rows of rare kinds are drawn one by one.
    """
    rows, is_common_D = int(count_D.sum()), count_D >= PRICE
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
            count_DB[rare_E] = _rare(kind_F, len(rare_E), drawn_BC[:, -1], rng).T
        yield count_DB


def _rare(kind_F: IntArray, kinds: int, draws_B: IntArray, rng: np.random.Generator) -> IntArray:
    """Of F rows, `draws_B` are drawn for each resample: how often each kind is, [B, E]."""
    place = np.repeat(np.arange(len(draws_B)) * kinds, draws_B)
    place += kind_F[rng.integers(len(kind_F), size=len(place), dtype=np.int32)]
    return np.bincount(place, minlength=len(draws_B) * kinds).reshape(len(draws_B), kinds)


def _by_counts(
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


def _by_index(sorted_GM: FloatArray, resamples: int, rng: np.random.Generator) -> FloatArray:
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
