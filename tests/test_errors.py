"""Errors print the problem, what was expected and how to fix it."""

import pytest

from unbag.errors import UnbagError, said_by, unknown_name


def test_all_parts_are_printed_one_a_line() -> None:
    error = UnbagError("found 3", expected="4", hint="add one")
    assert str(error) == "found 3\n  expected: 4\n  hint:     add one"
    assert str(UnbagError("just this")) == "just this"


def test_an_unknown_name_offers_the_nearest() -> None:
    error = str(unknown_name("benchmark", "world-swop", ["world-swap", "world-order", "mmvp"]))
    assert error.startswith("unknown benchmark 'world-swop'\n  expected: did you mean 'world-swap'")
    assert "`unbag list` shows every name" in error


def test_an_unknown_name_without_neighbours_lists_all() -> None:
    assert "one of a, b" in str(unknown_name("loss", "zzz", ["b", "a"]))
    assert "(none registered)" in str(unknown_name("loss", "zzz", []))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("No such file", "No such file"),
        ("\x1b[1mNo\x1b[0m such\n  file", "No such file"),
        ("", "ValueError"),
        ("One. Two. Three is long", "One. Two."),
        ("one two three four", "one two ..."),
        ("a" * 20, "a" * 12 + " ..."),
    ],
)
def test_the_words_of_a_library_end_with_a_sentence(text: str, said: str) -> None:
    assert said_by(ValueError(text), most=12) == said
