"""JSON of results, records, comparisons, failures and references: round trips and bad input."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.errors import UnbagError
from unbag.types import (
    Change,
    Comparison,
    Edit,
    Estimate,
    EvalProtocol,
    Failure,
    Published,
    Reference,
    Result,
    RunRecord,
)
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
OURS = Estimate(0.60, 0.55, 0.65, 100, chance=0.5)
PUBLISHED = Published(
    "NegCLIP", "accuracy", 0.612, "a paper, table 1", "macro7", "cosine", True, 1, "a note"
)
REFERENCE = Reference("sugarcrepe", "mine", PUBLISHED, OURS, True, False, ("a doubt",))
VALUES: dict[str, object] = {
    "result": RESULT,
    "record": RECORD,
    "comparison": COMPARISON,
    "failure": FAILURE,
    "estimate": ESTIMATE,
    "reference": REFERENCE,
}
DERIVED = {"is_inside"}
"""Fields that are written for other programs and not read."""


def through_text(value: object) -> object:
    """Return what a file would give back; NaN and infinity would fail here."""
    return json.loads(json.dumps(value, allow_nan=False))


@pytest.mark.parametrize("name", VALUES)
def test_round_trip(name: str) -> None:
    value = VALUES[name]
    # The record is saved once per run, not with every result.
    expected = replace(RESULT, run=None) if value is RESULT else value
    assert from_json(type(value), through_text(to_json(value)), name) == expected


def test_fields_of_a_result_and_a_reference() -> None:
    record = to_json(RESULT)
    assert list(record) == [
        "benchmark", "scorer", "protocol", "aggregate", "headline", "about", "is_blind",
        "overall", "by_tag",
    ]  # fmt: skip
    assert record["overall"] == {
        "original": {
            "value": 0.75, "low": 0.5, "high": 0.875, "n": 8, "ties": 1, "invalid": 2,
            "unparsed": 3, "chance": 0.5, "chance_independent": 0.25,
            "interval": "clustered bootstrap", "is_rate": True,
        }
    }  # fmt: skip
    assert to_json(REFERENCE)["is_inside"] is True


def test_nan_and_infinity_are_null_and_read_as_nan() -> None:
    record = to_json(Estimate(NAN, NAN, math.inf, 0))
    assert (record["value"], record["high"]) == (None, None)
    estimate = from_json(Estimate, through_text(record), "estimate")
    assert math.isnan(estimate.value)
    assert estimate.chance is None


@given(
    value=st.floats(allow_nan=False, allow_infinity=False),
    n=st.integers(0, 10**9),
    chance=st.none() | st.floats(0, 1),
)
def test_round_trip_of_any_estimate(value: float, n: int, chance: float | None) -> None:
    estimate = Estimate(value, value, value, n, chance=chance)
    assert from_json(Estimate, through_text(to_json(estimate)), "estimate") == estimate


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (name, field)
        for name, value in VALUES.items()
        for field in to_json(value)
        if field not in DERIVED
    ],
)
def test_missing_field(name: str, field: str) -> None:
    record = to_json(VALUES[name])
    del record[field]
    with pytest.raises(UnbagError) as error:
        from_json(type(VALUES[name]), record, name)
    assert error.value.message == f"field {name}.{field} is missing"
    assert error.value.expected == f"an object with the field {field!r}"
    assert "written by another version" in error.value.hint


def test_unknown_field_is_ignored_unless_closed() -> None:
    record = {**to_json(ESTIMATE), "colour": "red"}
    assert from_json(Estimate, record, "estimate") == ESTIMATE
    with pytest.raises(UnbagError, match=r"field estimate cannot be read: .*colour"):
        from_json(Estimate, record, "estimate", is_closed=True)


@pytest.mark.parametrize(
    ("name", "change", "message", "expected"),
    [
        ("result", None, "field result is null", "an object"),
        ("result", {"benchmark": 3}, "field result.benchmark is 3", "a string"),
        ("result", {"is_blind": 1}, "field result.is_blind is 1", "true or false"),
        ("result", {"overall": []}, "field result.overall is a list", "an object"),
        (
            "result",
            {"overall": {"original": {**to_json(ESTIMATE), "n": True}}},
            "field result.overall.original.n is True",
            "a whole number",
        ),
        (
            "result",
            {"by_tag": {"a=b": {"original": {**to_json(ESTIMATE), "low": "0.5"}}}},
            "field result.by_tag.a=b.original.low is '0.5'",
            "a number or null",
        ),
        (
            "result",
            {"protocol": {**PROTOCOL.__dict__, "ties": "coin"}},
            "field result.protocol.ties is 'coin'",
            "one of wrong, half, right, argmax_first, argmax_last",
        ),
        ("record", {"damaged": ["x", 5]}, "field record.damaged[1] is 5", "a string"),
        ("record", {"damaged": None}, "field record.damaged is null", "a list"),
        ("record", {"notes": {"valse": "odd"}}, "field record.notes.valse is 'odd'", "a list"),
        ("reference", {"is_same_model": 1}, "field reference.is_same_model is 1", "true or false"),
        ("reference", {"published": []}, "field reference.published is a list", "an object"),
        (
            "reference",
            {"published": {"model": "NegCLIP"}},
            "field reference.published.metric is missing",
            "an object with the field 'metric'",
        ),
        (
            "failure",
            {"scores": [[0.1]]},
            "field failure.scores has rows of [1] entries",
            "images x captions = 1 rows of 2",
        ),
    ],
)
def test_wrong_value(
    name: str, change: dict[str, object] | None, message: str, expected: str
) -> None:
    record = None if change is None else {**to_json(VALUES[name]), **change}
    with pytest.raises(UnbagError) as error:
        from_json(type(VALUES[name]), record, name)
    assert (error.value.message, error.value.expected) == (message, expected)


def test_checks_of_a_class_apply() -> None:
    with pytest.raises(UnbagError, match=r"confidence 2.0"):
        from_json(EvalProtocol, {**to_json(PROTOCOL), "confidence": 2}, "protocol")


def test_plain_types() -> None:
    assert from_json(dict[str, tuple[float, ...]], {"a": [1, 0.5]}, "x") == {"a": (1.0, 0.5)}
    assert from_json(tuple[int, str], [1, "a"], "x") == (1, "a")
    with pytest.raises(UnbagError, match=r"field x\.a\[1\] is 'true'"):
        from_json(dict[str, list[int]], {"a": [1, "true"]}, "x")
    with pytest.raises(UnbagError, match="field x cannot be read"):
        from_json(tuple[int, str], [1], "x")
    edit = Edit("a red cup", "replace", False, changes=(Change(2, 6, "red"),))
    assert from_json(Edit, through_text(to_json(edit)), "edit") == edit
    assert to_json({"a": (1, NAN), "b": COMPARISON})["a"] == [1, None]


def test_read_field() -> None:
    assert read_field({"a": "x", "b": 3}, "a", str, "line 2") == "x"
    for record, name, kind, message in (
        ({"a": "x", "b": 3}, "b", str, r"field line 2\.b is 3"),
        ({"a": "x", "b": 3}, "c", int, r"field line 2\.c is missing"),
        ([], "c", int, "field line 2 is a list"),
    ):
        with pytest.raises(UnbagError, match=message):
            read_field(record, name, kind, "line 2")


@pytest.mark.parametrize(
    ("value", "digits", "is_inside"),
    [
        (0.60, 1, True),
        (0.55, 1, True),
        # 65.05 and 54.95 are printed as 65.1 (or 65.0) and 54.9: they touch our ends.
        (0.6505, 1, True),
        (0.6506, 1, False),
        (0.5495, 1, True),
        (0.5494, 1, False),
        # Whole percents are known to half a point only.
        (0.655, 0, True),
        (0.656, 0, False),
    ],
)
def test_is_inside_considers_the_printed_digits(value: float, digits: int, is_inside: bool) -> None:
    published = Published("m", "accuracy", value, "p", digits=digits)
    reference = Reference("b", "s", published, OURS, True)
    assert reference.is_inside is is_inside
    assert reference.difference == pytest.approx(0.60 - value)


def test_is_inside_needs_an_interval() -> None:
    assert Reference("b", "s", PUBLISHED, Estimate(0.6, NAN, NAN, 3), True).is_inside is None
