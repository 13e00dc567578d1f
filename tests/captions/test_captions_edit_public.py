"""The function for one caption: what it loads is kept, and what is no caption is refused."""

from __future__ import annotations

import pytest

import unbag
from unbag.captions.edit import keep_editor, keep_parser, make_editor
from unbag.captions.parse import Parser, find_parser
from unbag.captions.screen import MOST_LETTERS, why_not
from unbag.errors import UserError

CAPTION = "a cup on a plate on a table in a box under a window"


def test_what_was_loaded_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_parser.cache_clear()
    keep_editor.cache_clear()
    loaded: list[str] = []
    parser = find_parser()

    def find(choice: str) -> Parser:
        loaded.append(choice)
        return parser

    monkeypatch.setattr("unbag.captions.edit.find_parser", find)
    first = unbag.edit(CAPTION, ["swap_nouns"])
    assert unbag.edit(CAPTION, ["swap_nouns"]) == first
    assert len({unbag.edit(CAPTION, ["swap_nouns"], seed=seed)[0].text for seed in range(8)}) > 3
    assert len(unbag.edit(CAPTION, ["swap_nouns"], per_kind=2)) == 2
    assert [made.kind for made in unbag.edit(CAPTION, ["swap_phrases"])] == ["swap_phrases"]
    assert loaded == ["auto"]
    assert make_editor(["swap_nouns"], seed=3).seed == 3
    assert loaded == ["auto", "auto"]
    keep_parser.cache_clear()
    keep_editor.cache_clear()


def test_a_word_has_so_many_letters_at_most() -> None:
    assert why_not("a dog on a " + "r" * MOST_LETTERS) == ""
    reason = "a word of more than 60 letters"
    assert why_not("a dog on a " + "r" * (MOST_LETTERS + 1)) == reason
    with pytest.raises(UserError, match=f"cannot be edited: {reason}"):
        unbag.edit("a dog on a " + "r" * 5000, ["swap_nouns"])
