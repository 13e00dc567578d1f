"""The leak by hand: who is preferred, ties, and texts that cannot be judged."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import pytest

from unbag.edits.quality import EditPair, Leak, leak_of
from unbag.metrics.intervals import wilson
from unbag.types.json import to_json


def by_length(texts: Sequence[str]) -> list[float]:
    return [nan if text == "unknown" else -float(len(text)) for text in texts]


def test_the_share_of_preferred_originals_by_kind() -> None:
    pairs = [
        EditPair("a dog", "a horse", "longer"),
        EditPair("a dog", "a cat", "same"),
        EditPair("a dog", "a cow", "same"),
        EditPair("a horse", "a dog", "longer"),
        EditPair("a dog", "a donkey", "longer"),
        EditPair("a dog", "unknown", "longer"),
        EditPair("a dog", "unknown", "odd"),
    ]
    found = leak_of(pairs, by_length)
    assert list(found) == ["longer", "same"]
    assert found["longer"] == Leak(3, 2 / 3, *wilson(2, 3)[:2])
    assert found["same"] == Leak(2, 0.5, *wilson(1, 2)[:2])


def test_the_interval_is_wilsons() -> None:
    pairs = [EditPair("a", "ab", "k")] * 3 + [EditPair("ab", "a", "k")]
    found = leak_of(pairs, by_length)["k"]
    # By hand with z = 1.96: centre (.75 + .4802) / 1.9604, half 1.96 / 1.9604 * sqrt(.0469 + .06).
    assert found.preferred == 0.75
    assert found.low == pytest.approx(0.301, abs=1e-3)
    assert found.high == pytest.approx(0.954, abs=1e-3)
    assert to_json(found) == {
        "pairs": 4,
        "preferred": 0.75,
        "low": found.low,
        "high": found.high,
    }


def test_without_pairs_there_is_no_leak() -> None:
    assert leak_of([], by_length) == {}
