"""Errors say what was found, what was expected and the way out."""

from unbag.errors import UserError, unknown_name


def test_all_parts_are_printed_one_a_line() -> None:
    error = UserError("found 3", expected="4", way_out="add one")
    assert str(error) == "found 3\n  expected: 4\n  way out:  add one"
    assert str(UserError("just this")) == "just this"


def test_an_unknown_name_offers_the_nearest() -> None:
    error = str(unknown_name("benchmark", "world-swop", ["world-swap", "world-order", "mmvp"]))
    assert error.startswith("unknown benchmark 'world-swop'\n  expected: did you mean 'world-swap'")
    assert "`unbag list` shows every name" in error


def test_an_unknown_name_without_neighbours_lists_all() -> None:
    assert "one of a, b" in str(unknown_name("loss", "zzz", ["b", "a"]))
    assert "(none registered)" in str(unknown_name("loss", "zzz", []))
