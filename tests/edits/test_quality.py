"""Precision, agreement and leak, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan

import pytest

from unbag.edits.quality import (
    EditPair,
    EditVerdict,
    Leak,
    is_right,
    kappa,
    leak_of,
    make_cases,
    precision_of,
    sampled,
)
from unbag.errors import UnbagError
from unbag.metrics.intervals import wilson
from unbag.types import Change, Edit, Edited
from unbag.types.json import to_json


def edit(kind: str, text: str, *, keeps: bool = False) -> Edit:
    return Edit(text, kind, keeps, (0, 1), (Change(0, 1, text[:1]),))


CASES = make_cases(
    [(str(n), "a caption", edit("one" if n % 2 else "two", f"text {n}")) for n in range(8)], seed=0
)


def test_the_order_mixes_kinds_and_the_id_says_nothing() -> None:
    kinds = [case.edit.kind for case in CASES]
    assert kinds != sorted(kinds)
    assert kinds != sorted(kinds, reverse=True)
    assert all("one" not in case.id and "two" not in case.id for case in CASES)
    assert [case.id for case in CASES] == sorted(case.id for case in CASES)


def test_right_is_what_the_kind_promises_in_good_english() -> None:
    assert is_right(False, EditVerdict("false", True))
    assert is_right(True, EditVerdict("true", True))
    assert not is_right(False, EditVerdict("unclear", True))
    assert not is_right(True, EditVerdict("unclear", True))
    assert not is_right(False, EditVerdict("false", False))
    assert not is_right(False, EditVerdict("true", True))


def test_precision_by_hand() -> None:
    own = [case for case in CASES if case.edit.kind == "one"]
    first = {case.id: EditVerdict("false", True) for case in own}
    second = dict(first)
    second[own[0].id] = EditVerdict("unclear", True)
    second[own[1].id] = EditVerdict("false", False)
    found = precision_of("one", CASES, (first, second))
    assert found.n == 4
    assert found.right == pytest.approx(6 / 8)
    assert found.meaning == pytest.approx(7 / 8)
    assert found.grammar == pytest.approx(7 / 8)
    assert found.agreement == pytest.approx(2 / 4)
    # Wilson's interval for 3 of 4.
    assert (found.low, found.high) == pytest.approx((0.3006, 0.9544), abs=1e-4)


def test_a_missing_verdict_is_an_error() -> None:
    with pytest.raises(UnbagError, match="one: 4 cases, 8 verdicts missing"):
        precision_of("one", CASES, ({}, {}))
    with pytest.raises(UnbagError, match="three: 0 cases"):
        precision_of("three", CASES, ({}, {}))


def test_kappa_by_hand() -> None:
    # Observed 3/4; expected by chance 1/2.
    assert kappa([True, True, False, False], [True, True, False, True]) == pytest.approx(0.5)
    assert kappa([True, False], [True, False]) == 1.0
    assert isnan(kappa([True, True], [True, True]))


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
    assert leak_of([], by_length) == {}


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


def test_the_sample_depends_on_ids_only() -> None:
    edited = [
        Edited(str(i), f"text {i}", (edit("one", f"a {i}"), edit("two", f"b {i}")))
        for i in range(20)
    ]
    pairs = sampled(edited, 5)
    assert [pair.kind for pair in pairs] == ["one"] * 5 + ["two"] * 5
    assert sampled(reversed(edited), 5) == pairs
    assert sampled(edited[:1], 5)[0].original == "text 0"
