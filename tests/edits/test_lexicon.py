"""The word lists: every entry is used, and no word excludes or repeats itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbag.edits import lexicon
from unbag.edits.lexicon import REPLACED_COLOURS, is_near, word_lists

FOLDER = Path(lexicon.__file__).parent
FILES = sorted(path.stem for path in FOLDER.glob("*.toml"))
LINES = {"set_pairs", "opposites", "expressions"}
"""Entries of lines without a separator, in which words may recur."""


def test_every_entry_is_used() -> None:
    source = "".join(path.read_text() for path in FOLDER.parent.rglob("*.py"))
    for name in FILES:
        assert f'word_lists("{name}")' in source
        assert [key for key in word_lists(name).texts if f'"{key}"' not in source] == []


@pytest.mark.parametrize("name", FILES)
def test_words_are_in_lower_case_and_unique(name: str) -> None:
    for key, text in word_lists(name).texts.items():
        assert text == text.lower(), key
        words = text.split()
        assert words, key
        if key not in LINES and not {":", "=", ">", "|"} & {*text}:
            assert len({*words}) == len(words), key


@pytest.mark.parametrize(
    ("name", "key"),
    [
        *(("attributes", key) for key in ("colours", "materials", "fabrics", "pavings", "sizes")),
        *(("attributes", key) for key in ("states", "ages", "ages_of_things")),
        *(("actions", key) for key in ("without_object", "of_animals", "along_way")),
        ("relations", "verbs"),
        ("nouns", "genders"),
    ],
)
def test_no_word_replaces_itself(name: str, key: str) -> None:
    for word, others in word_lists(name).table(key).items():
        assert others
        assert word not in others
        assert len(set(others)) == len(others)


@pytest.mark.parametrize(
    ("colour", "near"),
    [
        ("red", "orange maroon pink"),
        ("orange", "red yellow gold brown"),
        ("white", "gray grey silver beige"),
        ("blue", "navy teal turquoise purple"),
        ("brown", "tan beige orange"),
    ],
)
def test_near_colours_do_not_replace_each_other(colour: str, near: str) -> None:
    for other in near.split():
        assert other not in REPLACED_COLOURS[colour]
        assert colour not in REPLACED_COLOURS[other]


def test_actions_name_classes_that_exist() -> None:
    classes = {"person", "animal", *word_lists("actions").table("objects")}
    for key, others in word_lists("actions").table("with_object").items():
        verb, slash, object_class = key.partition("/")
        assert slash
        assert object_class in classes
        assert verb not in others


def test_near_nouns() -> None:
    pairs = [("sofa", "couch"), ("person", "man"), ("man", "woman"), ("dog", "sofa")]
    assert [is_near(*pair) for pair in pairs] == [True, True, False, False]


def test_continued_lines_and_words_on_several_lines() -> None:
    lists = lexicon.WordLists({"some": "\na b: c\n    d\nb: e\n"})
    assert lists.lines("some") == ("a b: c d", "b: e")
    assert lists.table("some") == {"a": ("c", "d"), "b": ("c", "d", "e")}
    assert ("e", "b") in lists.pairs("some")
