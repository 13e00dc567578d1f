"""Published numbers beside ours as JSON: there, back and refused; inside and outside."""

import json

import pytest

from unbag.errors import UnbagError
from unbag.types import Estimate, Published, Reference
from unbag.types.json import from_json, to_json

OURS = Estimate(0.60, 0.55, 0.65, 100, chance=0.5)
THEIRS = Published(
    "NegCLIP", "accuracy", 0.612, "a paper, table 1", "macro7", "cosine", True, 1, "a note"
)
REFERENCE = Reference("sugarcrepe", "mine", THEIRS, OURS, True, False, ("a doubt",))


def test_there_and_back() -> None:
    text = json.dumps(to_json(REFERENCE), allow_nan=False)
    assert from_json(Reference, json.loads(text), "reference") == REFERENCE
    assert json.loads(text)["is_inside"] is True


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("benchmark", 3, "field reference.benchmark is 3"),
        ("is_same_model", 1, "field reference.is_same_model is 1"),
        ("is_comparable", None, "field reference.is_comparable is null"),
        ("doubts", "one", "field reference.doubts is 'one'"),
        ("published", [], "field reference.published is a list"),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object, message: str) -> None:
    with pytest.raises(UnbagError, match=message):
        from_json(Reference, {**to_json(REFERENCE), field: value}, "reference")


def test_a_missing_field_of_a_published_number_is_named() -> None:
    content = to_json(REFERENCE)
    content["published"] = {"model": "NegCLIP"}
    with pytest.raises(UnbagError, match=r"field reference\.published\.metric is missing"):
        from_json(Reference, content, "reference")


@pytest.mark.parametrize(
    ("value", "digits", "inside"),
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
def test_inside_takes_the_digits_of_the_printed_number_into_account(
    value: float, digits: int, inside: bool
) -> None:
    published = Published("m", "accuracy", value, "p", digits=digits)
    reference = Reference("b", "s", published, OURS, True)
    assert reference.is_inside is inside
    assert reference.difference == pytest.approx(0.60 - value)


def test_without_an_interval_nothing_is_inside_or_outside() -> None:
    nan = float("nan")
    reference = Reference("b", "s", THEIRS, Estimate(0.6, nan, nan, 3), True)
    assert reference.is_inside is None
