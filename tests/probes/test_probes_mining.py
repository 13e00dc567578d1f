"""Pairs that one encoder merges and another keeps apart, among images and among vectors."""

from __future__ import annotations

import numpy as np
import pytest

from unbag.errors import UnbagError
from unbag.probes.agreement import MinedPair, mine, mine_pairs
from unbag.probes.reference_spaces import bag_of_words_space, perfect_space
from unbag.probes.space import unit
from unbag.world.benchmarks import PAIRS_A


def test_pairs_are_mined_with_any_two_encoders() -> None:
    images = [image for item in PAIRS_A.load(None)[:20] for image in item.images[:2]]
    found = mine(bag_of_words_space(), perfect_space(), [*images, images[0]])
    places = {(pair.first, pair.second) for pair in found}
    assert {(2 * i, 2 * i + 1) for i in range(20)} <= places
    assert (0, 40) not in places
    assert (1, 40) in places
    assert all(pair.merged > 0.95 and pair.apart < 0.6 for pair in found)
    with pytest.raises(UnbagError, match="1 images to find pairs among"):
        mine(bag_of_words_space(), perfect_space(), images[:1])


def test_images_without_a_direction_are_in_no_mined_pair() -> None:
    nan, inf = float("nan"), float("inf")
    merging = np.array([[1.0, 0.0], [1.0, 0.1], [nan, 0.0], [1.0, 0.2], [0.0, 0.0]])
    parting = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [inf, 0.0], [0.0, 1.0]])
    found = mine_pairs(merging, parting, above=-2.0)
    assert [(pair.first, pair.second) for pair in found] == [(0, 1)]
    assert mine_pairs(merging, parting, max_pairs=0) == []
    assert mine_pairs(np.empty((0, 2)), np.empty((0, 2))) == []


def test_mining_where_everything_is_merged() -> None:
    rng = np.random.default_rng(0)
    merging = 1 + 0.1 * rng.normal(size=(1_300, 8))
    parting = rng.normal(size=(1_300, 6))
    first, second = (unit(one) @ unit(one).T for one in (merging, parting))
    i, j = np.nonzero(np.triu(first > 0.95, 1) & (second < 0.6))
    best = np.argsort(-first[i, j])[:50]
    assert len(i) > 500_000
    found = mine_pairs(merging, parting, max_pairs=50, block=700)
    assert isinstance(found[0], MinedPair)
    assert [pair.merged for pair in found] == pytest.approx(first[i[best], j[best]], abs=1e-6)
    wanted = set(zip(i[best].tolist(), j[best].tolist(), strict=True))
    # Single precision may turn the last few round.
    assert len(wanted & {(pair.first, pair.second) for pair in found}) >= 45
