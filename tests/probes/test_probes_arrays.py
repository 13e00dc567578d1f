"""Worked numbers of the specification, and spaces whose verdict is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbag.errors import UnbagError
from unbag.probes.agreement import agree, mine_pairs
from unbag.probes.conditions import CONDITIONS, below_one, for_all, larger
from unbag.probes.sensitivity import detector_auc, detector_ratio, sensitivity
from unbag.probes.space import centred, cosines, spearman, unit
from unbag.probes.superposition import (
    cone,
    fit_additive,
    optimum,
    superposed,
    superposition,
)
from unbag.types import FloatArray

E = np.eye(4)


def rows(*vectors: list[float]) -> FloatArray:
    return np.array(vectors, dtype=float)


def test_a_high_cosine_can_hide_opposite_ranks() -> None:
    first = rows([10, 11, 12])
    assert cosines(first, rows([12, 11, 10]))[0] == pytest.approx(0.989041, abs=1e-6)
    assert spearman(first, rows([12, 11, 10]))[0] == pytest.approx(-1.0)
    assert cosines(rows([1, 2, 2, 3]), rows([4, 3, 3, 1]))[0] == pytest.approx(0.756978, abs=1e-6)
    assert spearman(rows([1, 2, 2, 3]), rows([4, 3, 3, 1]))[0] == pytest.approx(-1.0)


def test_a_constant_vector_has_no_ranks_and_zero_no_direction() -> None:
    assert np.isnan(spearman(rows([2, 2, 2]), rows([1, 2, 3]))[0])
    assert np.isnan(cosines(rows([0, 0]), rows([1, 0]))[0])


def test_agreement_is_strict_and_unknown_without_a_direction() -> None:
    first = rows([1, 0], [1, 0], [0, 0])
    second = rows([0.95, np.sqrt(1 - 0.95**2)], [1, 0.01], [1, 0])
    found = agree(first, second, above=cosines(first[:1], second[:1])[0])
    assert found[:2].tolist() == [0.0, 1.0]
    assert np.isnan(found[2])


def test_centring_takes_the_axis_of_a_cone_away() -> None:
    cloud = np.random.default_rng(0).normal(size=(200, 8))
    shifted = cloud + 20
    pairs = shifted[:100], shifted[100:]
    assert cosines(*pairs).mean() > 0.99
    assert abs(cosines(*(centred(one, shifted) for one in pairs)).mean()) < 0.1


def plain_mining(
    merging: FloatArray, parting: FloatArray, keys: list[str]
) -> list[tuple[int, int]]:
    first, second = unit(merging) @ unit(merging).T, unit(parting) @ unit(parting).T
    found = [
        (-first[i, j], i, j)
        for i in range(len(first))
        for j in range(i + 1, len(first))
        if first[i, j] > 0.95 and second[i, j] < 0.6 and keys[i] != keys[j]
    ]
    return [(i, j) for _, i, j in sorted(found)]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.sampled_from([3, 7, 64]))
def test_mining_in_blocks_finds_what_a_loop_finds(seed: int, block: int) -> None:
    rng = np.random.default_rng(seed)
    merging = rng.normal(size=(20, 1, 3)) + 0.2 * rng.normal(size=(20, 2, 3))
    merging = merging.reshape(40, 3)
    parting = rng.normal(size=(40, 5))
    keys = [str(k) for k in rng.integers(0, 30, 40)]
    found = mine_pairs(merging, parting, block=block, keys=keys)
    wanted = plain_mining(merging, parting, keys)
    assert sorted((p.first, p.second) for p in found) == sorted(wanted)
    few = mine_pairs(merging, parting, block=block, keys=keys, max_pairs=2)
    assert [p.merged for p in few] == [p.merged for p in found[:2]]


def test_mining_needs_both_encoders_on_the_same_images() -> None:
    with pytest.raises(UnbagError, match="3 vectors of one encoder and 2 of the other"):
        mine_pairs(np.eye(3), np.eye(2))


def test_superposition_and_optimum_of_orthogonal_things() -> None:
    sum_, best = superposed(E[:1, :3], E[1:2, :3]), optimum(E[:1, :3], E[1:2, :3], E[:3, :3])
    assert sum_[0] == pytest.approx([0.707107, 0.707107, 0], abs=1e-6)
    assert best[0] == pytest.approx([0.577350, 0.577350, -0.577350], abs=1e-6)
    assert cosines(sum_, best)[0] == pytest.approx(0.816497, abs=1e-6)


def test_superposition_and_optimum_in_a_cone() -> None:
    things = unit(np.eye(3) + 1.5 / np.sqrt(3))
    assert things[0] == pytest.approx([0.836014, 0.387995, 0.387995], abs=1e-6)
    assert things[0] @ things[1] == pytest.approx(0.799279, abs=1e-6)
    assert cone(things) == pytest.approx(0.930691, abs=1e-6)
    best, sum_ = optimum(things[:1], things[1:2], things), superposed(things[:1], things[1:2])
    assert best[0] == pytest.approx([0.706197, 0.706197, -0.050703], abs=1e-6)
    assert sum_[0] == pytest.approx([0.645239, 0.645239, 0.409065], abs=1e-6)
    assert cosines(best, sum_)[0] == pytest.approx(0.890591, abs=1e-6)


def test_superposed_attributes_lose_what_belongs_to_what() -> None:
    x, y, a, b = E[:1], E[1:2], E[2:3], E[3:]
    one = superposed(unit(x + 0.3 * a), unit(y + 0.3 * b))
    other = superposed(unit(x + 0.3 * b), unit(y + 0.3 * a))
    assert one[0] == pytest.approx([0.677285, 0.677285, 0.203186, 0.203186], abs=1e-6)
    assert cosines(one, other)[0] == pytest.approx(1.0)


def test_antipodal_things_have_no_superposition() -> None:
    assert np.isnan(superposed(E[:1], -E[:1])).all()


def test_pairs_that_are_sums_are_told_from_pairs_that_are_not() -> None:
    rng = np.random.default_rng(0)
    gallery = rng.normal(size=(30, 40))
    first, second = gallery[:14], gallery[14:28]
    other_N = (np.arange(14) + rng.integers(1, 14, size=14)) % 14
    summed = superposition(first + second, first, second, gallery, other_N=other_N)
    assert summed.sum_N == pytest.approx(0.98, abs=0.06)
    assert summed.other_N.mean() < 0.5
    apart = superposition(rng.normal(size=(14, 40)), first, second, gallery, other_N=other_N)
    assert abs(apart.sum_N.mean()) < 0.15
    # A cone makes everything alike; around its mean the difference is there again.
    cloud = [one + 5 for one in (rng.normal(size=(14, 40)), first, second, gallery)]
    assert superposition(*cloud, other_N=other_N).sum_N.min() > 0.9
    assert abs(superposition(*cloud, other_N=other_N, is_centred=True).sum_N.mean()) < 0.15
    with pytest.raises(UnbagError, match="1 pairs"):
        superposition(first[:1], first[:1], second[:1], gallery, other_N=other_N)


def test_the_additive_fit_finds_its_own_numbers() -> None:
    rng = np.random.default_rng(1)
    x, y, a, b = (rng.normal(size=(9, 16)) for _ in range(4))
    found = fit_additive((0.8 * (x + y) + 0.3 * a + 0.1 * b) / 2, (x, y), (a, b))
    assert [found.shrink, found.first, found.second] == pytest.approx([0.2, 0.3, 0.1])
    assert found.explained == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("c", "n", "p", "ratio"),
    [(0.234, 0.226, 0.229, 0.625), (0.160, 0.134, 0.131, 1.115), (0.232, 0.220, 0.231, 0.083)],
)
def test_published_ratios_of_the_detector_test(c: float, n: float, p: float, ratio: float) -> None:
    assert detector_ratio(np.array([c - n]), np.array([c - p])) == pytest.approx(ratio, abs=5e-4)


def test_a_detector_and_a_model_that_understands() -> None:
    images = np.repeat(E[:1], 6, axis=0)
    true, other = images + 0.1 * E[1], E[2] + 0.5 * images
    detector = sensitivity(images, true, other, other)
    assert detector.detector_ratio == pytest.approx(1.0)
    assert detector.detector_auc == 0.5
    assert detector.selectivity == pytest.approx(0.0)
    knows = sensitivity(images, true, other, true)
    assert knows.detector_ratio == 0.0
    assert knows.detector_auc == 1.0
    assert knows.selectivity.min() > 0
    assert np.isnan(detector_ratio(np.zeros(2), np.ones(2)))
    assert np.isnan(detector_auc(np.array([]), np.ones(2)))
    assert detector_auc(np.array([2.0, 0.0]), np.array([1.0, 0.0])) == pytest.approx(0.625)


def test_conditions_hold_by_more_than_a_tie() -> None:
    found = larger(np.array([0.3, 0.2, 0.2, np.nan]), np.array([0.2, 0.3, 0.2, 0.1]))
    assert found.holds_N[:3].tolist() == [1.0, 0.0, 0.0]
    assert np.isnan(found.holds_N[3])
    assert found.margin_N[:2] == pytest.approx([0.1, -0.1])
    assert below_one(np.array([0.94, 0.96, 1.0])).holds_N.tolist() == [1.0, 0.0, 0.0]
    assert for_all(
        larger(np.array([1.0, 1.0, 0.0]), np.full(3, 0.5)), ["x", "y", "x"]
    ).tolist() == [
        0.0,
        1.0,
    ]
    with pytest.raises(UnbagError, match="1 cosines against 2"):
        larger(np.zeros(1), np.zeros(2))
    assert list(CONDITIONS) == sorted(CONDITIONS)
    assert len(CONDITIONS) == 12


def test_a_random_space_is_at_the_chance_of_the_table() -> None:
    rng = np.random.default_rng(0)
    vectors = unit(rng.normal(size=(4000, 64)))
    first, second, third = vectors[:1000], vectors[1000:2000], vectors[2000:3000]
    rate = larger(cosines(first, second), cosines(first, third)).holds_N.mean()
    assert rate == pytest.approx(CONDITIONS["1.1a"].chance, abs=0.05)
    assert below_one(cosines(first, second)).holds_N.mean() == CONDITIONS["2.3"].chance
