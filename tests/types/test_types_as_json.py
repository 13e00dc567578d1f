"""Plain JSON of results, records, comparisons and failures: there, back, and refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.errors import UnbagError
from unbag.types import Change, Comparison, Edit, Estimate, EvalProtocol, Failure, Result, RunRecord
from unbag.types.json import from_json, read_field, to_json

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
    assert from_json(Result, through_text(to_json(RESULT)), "result") == replace(RESULT, run=None)
    assert from_json(RunRecord, through_text(to_json(RECORD)), "record") == RECORD
    assert from_json(Comparison, through_text(to_json(COMPARISON)), "comparison") == COMPARISON
    assert from_json(Failure, through_text(to_json(FAILURE)), "failure") == FAILURE


def test_a_result_has_the_fields_of_a_results_file_and_fractions() -> None:
    written = to_json(RESULT)
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
    written = to_json(Estimate(NAN, NAN, math.inf, 0))
    assert written["value"] is None
    assert written["high"] is None
    back = from_json(Estimate, through_text(written), "estimate")
    assert math.isnan(back.value)
    assert back.chance is None


@given(
    value=st.floats(allow_nan=False, allow_infinity=False),
    n=st.integers(0, 10**9),
    chance=st.none() | st.floats(0, 1),
)
def test_any_estimate_comes_back(value: float, n: int, chance: float | None) -> None:
    estimate = Estimate(value, value, value, n, chance=chance)
    assert from_json(Estimate, through_text(to_json(estimate)), "estimate") == estimate


VALUES: list[tuple[type, object, str]] = [
    (Result, RESULT, "result"),
    (RunRecord, RECORD, "record"),
    (Comparison, COMPARISON, "comparison"),
    (Failure, FAILURE, "failure"),
    (Estimate, ESTIMATE, "estimate"),
]


@pytest.mark.parametrize(
    ("kind", "value", "where", "name"),
    [(kind, value, where, name) for kind, value, where in VALUES for name in to_json(value)],
)
def test_a_missing_field_is_named(kind: type, value: object, where: str, name: str) -> None:
    cut = {key: one for key, one in to_json(value).items() if key != name}
    with pytest.raises(UnbagError) as error:
        from_json(kind, cut, where)
    assert error.value.message == f"field {where}.{name} is missing"
    assert error.value.expected == f"an object with the field {name!r}"
    assert "written by another version" in error.value.hint


def test_an_unknown_field_is_passed_over_unless_all_must_be_known() -> None:
    more = {**to_json(ESTIMATE), "colour": "red"}
    assert from_json(Estimate, more, "estimate") == ESTIMATE
    with pytest.raises(UnbagError, match=r"field estimate cannot be read: .*colour"):
        from_json(Estimate, more, "estimate", is_closed=True)


@pytest.mark.parametrize(
    ("change", "found", "expected"),
    [
        ({"benchmark": 3}, "field result.benchmark is 3", "a text"),
        ({"is_blind": 1}, "field result.is_blind is 1", "true or false"),
        ({"overall": []}, "field result.overall is a list", "an object"),
        (
            {"overall": {"original": {**to_json(ESTIMATE), "n": True}}},
            "field result.overall.original.n is True",
            "a whole number",
        ),
        (
            {"by_tag": {"a=b": {"original": {**to_json(ESTIMATE), "low": "0.5"}}}},
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
    with pytest.raises(UnbagError) as error:
        from_json(Result, {**to_json(RESULT), **change}, "result")
    assert error.value.message == found
    assert error.value.expected == expected


def test_no_object_at_all_is_refused() -> None:
    with pytest.raises(UnbagError, match="field result is null"):
        from_json(Result, None, "result")


def test_entries_of_lists_are_named() -> None:
    with pytest.raises(UnbagError, match=r"field record\.damaged\[1\] is 5"):
        from_json(RunRecord, {**to_json(RECORD), "damaged": ["x", 5]}, "record")
    with pytest.raises(UnbagError, match=r"field record\.damaged is null"):
        from_json(RunRecord, {**to_json(RECORD), "damaged": None}, "record")


def test_a_text_is_no_list_of_letters() -> None:
    with pytest.raises(UnbagError, match=r"field record\.notes\.valse is 'odd'") as error:
        from_json(RunRecord, {**to_json(RECORD), "notes": {"valse": "odd"}}, "record")
    assert error.value.expected == "a list"


def test_a_value_that_no_such_object_may_have_is_refused() -> None:
    with pytest.raises(UnbagError, match=r"confidence 2.0"):
        from_json(EvalProtocol, {**to_json(PROTOCOL), "confidence": 2}, "protocol")


def test_values_of_plain_types() -> None:
    assert from_json(dict[str, tuple[float, ...]], {"a": [1, 0.5]}, "x") == {"a": (1.0, 0.5)}
    assert from_json(tuple[int, str], [1, "a"], "x") == (1, "a")
    with pytest.raises(UnbagError, match=r"field x\.a\[1\] is 'true'"):
        from_json(dict[str, list[int]], {"a": [1, "true"]}, "x")
    with pytest.raises(UnbagError, match="field x cannot be read"):
        from_json(tuple[int, str], [1], "x")
    edit = Edit("a red cup", "replace", False, changes=(Change(2, 6, "red"),))
    assert from_json(Edit, through_text(to_json(edit)), "edit") == edit
    assert to_json({"a": (1, NAN), "b": COMPARISON})["a"] == [1, None]


def test_one_field_of_a_foreign_object() -> None:
    assert read_field({"a": "x", "b": 3}, "a", str, "line 2") == "x"
    with pytest.raises(UnbagError, match=r"field line 2\.b is 3"):
        read_field({"a": "x", "b": 3}, "b", str, "line 2")
    with pytest.raises(UnbagError, match=r"field line 2\.c is missing"):
        read_field({"a": "x", "b": 3}, "c", int, "line 2")
    with pytest.raises(UnbagError, match=r"field line 2 is a list"):
        read_field([], "c", int, "line 2")


def test_matrices_of_a_failure_must_fit() -> None:
    with pytest.raises(UnbagError) as error:
        from_json(Failure, {**to_json(FAILURE), "scores": [[0.1]]}, "failure")
    assert error.value.message == "field failure.scores has rows of [1] entries"
    assert error.value.expected == "images x captions = 1 rows of 2"
