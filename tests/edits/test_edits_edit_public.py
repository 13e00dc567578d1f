"""The function for one caption: what it loads is kept, and what is no caption is refused."""

from __future__ import annotations

from typing import Any

import pytest

import unbag
from unbag.edits.editor import MAX_LETTERS, cached_editor, cached_parser, make_editor, skip_reason
from unbag.edits.kinds import find_kinds
from unbag.edits.parsing import Parser, find_parser
from unbag.errors import UnbagError

CAPTION = "a cup on a plate on a table in a box under a window"


def test_what_was_loaded_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cached_parser.cache_clear()
    cached_editor.cache_clear()
    loaded: list[str] = []
    parser = find_parser()

    def find(choice: str) -> Parser:
        loaded.append(choice)
        return parser

    monkeypatch.setattr("unbag.edits.editor.find_parser", find)
    first = unbag.edit(CAPTION, ["swap_nouns"])
    assert unbag.edit(CAPTION, ["swap_nouns"]) == first
    assert len({unbag.edit(CAPTION, ["swap_nouns"], seed=seed)[0].text for seed in range(8)}) > 3
    assert len(unbag.edit(CAPTION, ["swap_nouns"], per_kind=2)) == 2
    assert [made.kind for made in unbag.edit(CAPTION, ["swap_phrases"])] == ["swap_phrases"]
    assert loaded == ["auto"]
    assert make_editor(["swap_nouns"], seed=3).seed == 3
    assert loaded == ["auto", "auto"]
    cached_parser.cache_clear()
    cached_editor.cache_clear()


def test_one_kind_may_be_a_plain_text() -> None:
    assert unbag.edit(CAPTION, "swap_nouns") == unbag.edit(CAPTION, ["swap_nouns"])
    assert [kind.name for kind in find_kinds("swap_nouns")] == ["swap_nouns"]
    assert find_kinds("negatives") == find_kinds(["negatives"])
    with pytest.raises(UnbagError, match="unknown kind of edit 'swap_noun'"):
        unbag.edit(CAPTION, "swap_noun")


@pytest.mark.parametrize("several", [[CAPTION, CAPTION], (CAPTION,), None])
def test_many_captions_are_refused_with_where_to_go(several: Any) -> None:
    with pytest.raises(UnbagError) as caught:
        unbag.edit(several)
    assert caught.value.message == f"the caption to edit is a {type(several).__name__}"
    assert caught.value.expected == "one caption, a string"
    assert "`unbag edit --captions`" in caught.value.hint


def test_a_word_has_so_many_letters_at_most() -> None:
    assert skip_reason("a dog on a " + "r" * MAX_LETTERS) == ""
    reason = "a word of more than 60 letters"
    assert skip_reason("a dog on a " + "r" * (MAX_LETTERS + 1)) == reason
    with pytest.raises(UnbagError, match=f"cannot be edited: {reason}"):
        unbag.edit("a dog on a " + "r" * 5000, ["swap_nouns"])
