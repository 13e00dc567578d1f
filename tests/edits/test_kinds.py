"""Kinds by name and group, and changes applied to captions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from unbag.edits.kinds import (
    apply,
    difference,
    find_kinds,
    finished,
    normalised,
    starts_with_vowel,
)
from unbag.edits.parsing import Parser
from unbag.errors import UnbagError
from unbag.types import Change


def names(*kinds: str) -> list[str]:
    return [kind.name for kind in find_kinds(kinds)]


def test_groups(snapshot: SnapshotAssertion) -> None:
    groups = (
        "default negatives positives all neg_clip neg_clip_fixed svlc_fixed crepe_fixed spatial "
        "ce_clip_fixed fills rewrites"
    )
    assert {group: " ".join(names(group)) for group in groups.split()} == snapshot
    assert not any(kind.is_default for kind in find_kinds(["fills", "rewrites"]))
    assert names("swap_nouns", "swap_nouns") == ["swap_nouns"]
    # A string is one name, not a sequence of letters.
    assert find_kinds("negatives") == find_kinds(["negatives"])


@pytest.mark.parametrize(
    ("kinds", "message", "expected"),
    [
        ([], "no kinds of edits were named", "default"),
        (["swap_noun"], "unknown kind of edit 'swap_noun'", "swap_nouns"),
        ("swap_noun", "unknown kind of edit 'swap_noun'", "swap_nouns"),
        (
            ["unbag.edits.negatives.swaps:swap_nouns"],
            "'unbag.edits.negatives.swaps:swap_nouns' is a function",
            "a Kind",
        ),
    ],
)
def test_unknown_kinds(kinds: list[str], message: str, expected: str) -> None:
    with pytest.raises(UnbagError, match=message) as error:
        find_kinds(kinds)
    assert expected in error.value.expected


def test_apply_from_left_to_right() -> None:
    changes = (Change(2, 5, "cat"), Change(5, 5, " and"), Change(6, 9, ""))
    assert apply("a dog ran", changes) == "a cat and "
    with pytest.raises(ValueError, match="overlap or are out of order"):
        apply("a dog ran", (Change(2, 5, "cat"), Change(4, 6, "x")))


@given(st.text(alphabet="ab .,'", max_size=20), st.text(alphabet="ab .,'", max_size=20))
def test_the_difference_turns_one_text_into_the_other(before: str, after: str) -> None:
    assert apply(before, difference(before, after)) == after


def test_the_difference_is_in_whole_words() -> None:
    assert difference("a red car", "a blue car") == (Change(2, 6, "blue "),)
    assert difference("same", "same") == ()


def test_normalised_ignores_case_and_punctuation() -> None:
    assert normalised("A  Dog, runs .") == normalised("a dog runs")
    assert normalised("dog's") != normalised("dogs")


AN = "umbrella elephant hour old uncle orange onion initial SUV RV 8 18"
A = "dog unicorn one-way horse uniform used European yak unit urinal UPS 118"


@pytest.mark.parametrize(
    ("word", "is_an"), [*((w, True) for w in AN.split()), *((w, False) for w in A.split())]
)
def test_the_article_follows_the_sound(word: str, is_an: bool) -> None:
    assert starts_with_vowel(word) is is_an


@pytest.mark.parametrize(
    ("caption", "changes", "text"),
    [
        ("a dog runs", [(2, 5, "owl")], "an owl runs"),
        ("An old dog", [(3, 6, "new")], "A new dog"),
        ("An old dog", [(3, 7, "")], "A dog"),
        ("a dog", [(2, 2, "angry ")], "an angry dog"),
        ("a owl sits", [(6, 10, "runs")], "a owl runs"),
        ("Dogs chase cats.", [(0, 4, "cats"), (11, 15, "Dogs")], "Cats chase dogs."),
        ("The dog runs", [(0, 4, "")], "Dog runs"),
        ("A DOG RUNS", [(2, 5, "owl")], "AN OWL RUNS"),
        ("A DOG RUNS", [(2, 5, "MAN")], "A MAN RUNS"),
    ],
)
def test_articles_and_capitals_are_corrected(
    parser: Parser, caption: str, changes: list[tuple[int, int, str]], text: str
) -> None:
    [parsed] = parser([caption])
    assert apply(caption, finished(parsed, [Change(*change) for change in changes])) == text


def test_a_change_without_effect_is_dropped(parser: Parser) -> None:
    [parsed] = parser(["a dog"])
    assert finished(parsed, (Change(2, 5, "dog"),)) == ()
