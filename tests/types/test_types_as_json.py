"""Plain JSON of results, records, comparisons and failures: there, back, and refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.errors import UserError
from unbag.types import Comparison, Estimate, EvalProtocol, Failure, Result, RunRecord
from unbag.types.json import (
    comparison_from_json,
    comparison_to_json,
    estimate_from_json,
    estimate_to_json,
    failure_from_json,
    failure_to_json,
    record_from_json,
    record_to_json,
    result_from_json,
    result_to_json,
)

NAN = float("nan")
ESTIMATE = Estimate(0.75, 0.5, 0.875, 8, 1, 2, 3, 0.5, 0.25, "clustered bootstrap")
RECORD = RunRecord(
    "unbag run", "2026-01-02T03:04:05Z", 7, "cpu", {"unbag": "0.1"}, {"tiny": "ab"}, ("x.png",),
    {"tiny": 2}, {"valse": 3}, {"valse": ("odd",)}, {"valse": ("half",)},
    {"tiny": ("COCO train2014",)},
)  # fmt: skip
PROTOCOL = EvalProtocol("half", 1e-6, "letters", "Is it?", "pillow", 0.9, 100)
RESULT = Result(
    "world-swap", "tiny:base", PROTOCOL, "micro", "original", {"original": ESTIMATE},
    {"colour=red": {"original": ESTIMATE}}, is_blind=True, run=RECORD,
)  # fmt: skip
COMPARISON = Comparison(
    "world-swap", "original", "a", "b", 0.25, 0.1, 0.4, 8, 0.04, None, "mcnemar", "macro(kind)"
)
FAILURE = Failure(
    "world-swap", "tiny:base", "7", "original", ("data:image/png;base64,AA==",),
    ("a", "b"), ("original", "swap"), ((True, False),), ((0.25, 0.5),), {"colour": "red"},
)  # fmt: skip


def through_text(value: object) -> object:
    """What a file would give back; NaN and infinity are not JSON and would fail here."""
    return json.loads(json.dumps(value, allow_nan=False))


def test_everything_comes_back_as_it_was() -> None:
    assert result_from_json(through_text(result_to_json(RESULT)), run=RECORD) == RESULT
    assert record_from_json(through_text(record_to_json(RECORD))) == RECORD
    assert comparison_from_json(through_text(comparison_to_json(COMPARISON))) == COMPARISON
    assert failure_from_json(through_text(failure_to_json(FAILURE))) == FAILURE


def test_a_result_has_the_fields_of_a_results_file_and_fractions() -> None:
    written = result_to_json(RESULT)
    assert list(written) == [
        "benchmark", "scorer", "protocol", "aggregate", "headline", "about", "is_blind",
        "overall", "by_tag",
    ]  # fmt: skip
    assert written["overall"] == {
        "original": {
            "value": 0.75, "low": 0.5, "high": 0.875, "n": 8, "ties": 1, "invalid": 2,
            "unparsed": 3, "chance": 0.5, "chance_independent": 0.25,
            "interval": "clustered bootstrap", "is_rate": True,
        }
    }  # fmt: skip


def test_what_was_not_measured_is_null_and_comes_back_as_nan() -> None:
    written = estimate_to_json(Estimate(NAN, NAN, math.inf, 0))
    assert written["value"] is None
    assert written["high"] is None
    back = estimate_from_json(through_text(written))
    assert math.isnan(back.value)
    assert back.chance is None


@given(
    value=st.floats(allow_nan=False, allow_infinity=False),
    n=st.integers(0, 10**9),
    chance=st.none() | st.floats(0, 1),
)
def test_any_estimate_comes_back(value: float, n: int, chance: float | None) -> None:
    estimate = Estimate(value, value, value, n, chance=chance)
    assert estimate_from_json(through_text(estimate_to_json(estimate))) == estimate


READERS: list[tuple[Callable[[object], object], dict[str, object]]] = [
    (result_from_json, result_to_json(RESULT)),
    (record_from_json, record_to_json(RECORD)),
    (comparison_from_json, comparison_to_json(COMPARISON)),
    (failure_from_json, failure_to_json(FAILURE)),
    (estimate_from_json, estimate_to_json(ESTIMATE)),
]


@pytest.mark.parametrize(
    ("read", "written", "name"),
    [(read, written, name) for read, written in READERS for name in written],
)
def test_a_missing_field_is_named(
    read: Callable[[object], object], written: dict[str, object], name: str
) -> None:
    cut = {key: value for key, value in written.items() if key != name}
    with pytest.raises(UserError, match=rf"field \w+\.{name} is missing") as error:
        read(cut)
    assert error.value.expected == f"an object with the field {name!r}"
    assert "written by another version" in error.value.way_out


@pytest.mark.parametrize(
    ("change", "found", "expected"),
    [
        ({"benchmark": 3}, "field result.benchmark is 3", "a text"),
        ({"is_blind": 1}, "field result.is_blind is 1", "true or false"),
        ({"overall": []}, "field result.overall is a list", "an object"),
        (
            {"overall": {"original": {**estimate_to_json(ESTIMATE), "n": True}}},
            "field result.overall.original.n is True",
            "a whole number",
        ),
        (
            {"by_tag": {"a=b": {"original": {**estimate_to_json(ESTIMATE), "low": "0.5"}}}},
            "field result.by_tag.a=b.original.low is '0.5'",
            "a number or null",
        ),
        (
            {"protocol": {**PROTOCOL.__dict__, "ties": "coin"}},
            "field result.protocol.ties is 'coin'",
            "one of wrong, half, right, argmax_first, argmax_last",
        ),
    ],
)
def test_a_wrong_type_is_named(change: dict[str, object], found: str, expected: str) -> None:
    with pytest.raises(UserError) as error:
        result_from_json({**result_to_json(RESULT), **change})
    assert error.value.found == found
    assert error.value.expected == expected


def test_no_object_at_all_is_refused() -> None:
    with pytest.raises(UserError, match="field result is null"):
        result_from_json(None)


def test_entries_of_lists_are_named() -> None:
    with pytest.raises(UserError, match=r"field record\.damaged\[1\] is 5"):
        record_from_json({**record_to_json(RECORD), "damaged": ["x", 5]})
    with pytest.raises(UserError, match=r"field record\.damaged is null"):
        record_from_json({**record_to_json(RECORD), "damaged": None})


def test_matrices_of_a_failure_must_fit() -> None:
    with pytest.raises(UserError) as error:
        failure_from_json({**failure_to_json(FAILURE), "scores": [[0.1]]})
    assert error.value.found == "field failure.scores has rows of [1] entries"
    assert error.value.expected == "pictures x captions = 1 rows of 2"
