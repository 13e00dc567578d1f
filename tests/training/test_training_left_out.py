"""Images that cannot be read are named with the reason, the first of them, and counted."""

from __future__ import annotations

from unbag.training.data.loader import MAX_NAMES, left_out_lines, add_names


def test_the_first_are_named_and_the_others_counted() -> None:
    assert left_out_lines({}) == []
    assert left_out_lines({"a.png": "it is empty"}) == [
        "1 image cannot be read and is left out",
        "  left out: a.png: it is empty",
    ]
    seven = {f"{n}.png": "no image" for n in range(7)}
    head, *named, last = left_out_lines(seven)
    assert head == "7 images cannot be read and are left out"
    assert named == [f"  left out: {n}.png: no image" for n in range(5)]
    assert last == "  and 2 more"
    assert left_out_lines(seven, is_all=False)[-1] == "  and at least 2 more"
    assert left_out_lines(seven, is_all=False)[0].startswith("at least 7 images")


def test_an_image_is_kept_once_and_no_more_than_a_hundred_are() -> None:
    found = add_names({"a": "first"}, {"a": "again", "b": "first"})
    assert list(found) == ["a", "b"]
    many = add_names(found, {str(n): "" for n in range(2 * MAX_NAMES)})
    assert len(many) == MAX_NAMES
    assert list(many)[:2] == ["a", "b"]
    assert add_names(many, {"c": ""}) == many
