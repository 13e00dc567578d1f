"""Changes: applied, told apart, and mended where English asks for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbag.edits.kinds import (
    apply,
    difference,
    finished,
    normalised,
    starts_with_vowel,
)
from unbag.edits.parsing import Parser, find_parser
from unbag.types import Change


@pytest.fixture(scope="module")
def parser() -> Parser:
    return find_parser()


def test_apply_from_left_to_right() -> None:
    changes = (Change(2, 5, "cat"), Change(5, 5, " and"), Change(6, 9, ""))
    assert apply("a dog ran", changes) == "a cat and "


def test_overlap_is_an_error() -> None:
    with pytest.raises(ValueError, match="overlap or are out of order"):
        apply("a dog ran", (Change(2, 5, "cat"), Change(4, 6, "x")))


@given(st.text(alphabet="ab .,'", max_size=20), st.text(alphabet="ab .,'", max_size=20))
def test_the_difference_leads_from_one_to_the_other(before: str, after: str) -> None:
    assert apply(before, difference(before, after)) == after


def test_the_difference_is_in_whole_words() -> None:
    assert difference("a red car", "a blue car") == (Change(2, 6, "blue "),)
    assert difference("same", "same") == ()


def test_normalised_leaves_case_and_punctuation_out() -> None:
    assert normalised("A  Dog, runs .") == normalised("a dog runs")
    assert normalised("dog's") != normalised("dogs")


@pytest.mark.parametrize(
    "word",
    [
        "umbrella",
        "elephant",
        "hour",
        "old",
        "uncle",
        "orange",
        "onion",
        "initial",
        "SUV",
        "RV",
        "8",
        "18",
    ],
)
def test_an(word: str) -> None:
    assert starts_with_vowel(word)
    assert starts_with_vowel(word)


@pytest.mark.parametrize(
    "word",
    [
        "dog",
        "unicorn",
        "one-way",
        "horse",
        "uniform",
        "used",
        "European",
        "yak",
        "unit",
        "urinal",
        "UPS",
        "118",
    ],
)
def test_a(word: str) -> None:
    assert not starts_with_vowel(word)


def changed(parser: Parser, caption: str, *changes: Change) -> str:
    [parsed] = parser([caption])
    return apply(caption, finished(parsed, changes))


def test_articles_follow_the_new_word(parser: Parser) -> None:
    assert changed(parser, "a dog runs", Change(2, 5, "owl")) == "an owl runs"
    assert changed(parser, "An old dog", Change(3, 6, "new")) == "A new dog"
    assert changed(parser, "An old dog", Change(3, 7, "")) == "A dog"
    assert changed(parser, "a dog", Change(2, 2, "angry ")) == "an angry dog"
    assert changed(parser, "a owl sits", Change(6, 10, "runs")) == "a owl runs"


def test_the_first_capital_stays_at_the_start(parser: Parser) -> None:
    caption = "Dogs chase cats."
    assert changed(parser, caption, Change(0, 4, "cats"), Change(11, 15, "Dogs")) == (
        "Cats chase dogs."
    )
    assert changed(parser, "The dog runs", Change(0, 4, "")) == "Dog runs"


def test_capitals_stay_capitals(parser: Parser) -> None:
    assert changed(parser, "A DOG RUNS", Change(2, 5, "owl")) == "AN OWL RUNS"
    assert changed(parser, "A DOG RUNS", Change(2, 5, "MAN")) == "A MAN RUNS"


def test_a_change_that_changes_nothing_is_left_out(parser: Parser) -> None:
    [parsed] = parser(["a dog"])
    assert finished(parsed, (Change(2, 5, "dog"),)) == ()
