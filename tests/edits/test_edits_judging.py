"""Judging edits: blind order, precision and agreement worked by hand."""

from __future__ import annotations

from math import isnan

import pytest

from unbag.edits.quality import EditVerdict, is_right, kappa, make_cases, precision_of
from unbag.errors import UnbagError
from unbag.types import Change, Edit


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
