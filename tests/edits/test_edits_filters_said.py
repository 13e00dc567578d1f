"""What other captions of the image say: by hand, and found once for all edits of a batch."""

from __future__ import annotations

import pytest

from unbag.edits import filters
from unbag.edits.filters import NotSaidOfImage, Proposal
from unbag.edits.kinds import Kind, by_rule, normalised
from unbag.edits.parsed import Parsed
from unbag.types import Edit

CAPTION = "a dog with a ball"


def proposal(text: str, *others: str, is_positive: bool = False) -> Proposal:
    kind = Kind("own", is_positive, "own", "ours", by_rule(lambda parsed: ()))
    edit = Edit(text, "own", is_positive, (0, 0), ())
    return Proposal(Parsed(CAPTION, (), ()), edit, kind, others)


def test_what_another_caption_says_is_no_negative() -> None:
    cases = [
        (proposal("a dog with a cat"), True),
        (proposal("a dog with a cat", "a cat and a dog"), False),
        (proposal("a dog with a cup", "a cat and a dog"), True),
        (proposal("a dog with a red cup", "A cup.", "something RED"), False),
        (proposal("a ball with a dog", "A ball with a dog!"), False),
        (proposal("a ball with a dog", "a dog"), True),
        (proposal("a dog with a cat", "a cat", is_positive=True), True),
    ]
    assert NotSaidOfImage()([one for one, _ in cases]) == [stays for _, stays in cases]


def test_captions_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(text: str) -> str:
        asked.append(text)
        return normalised(text)

    monkeypatch.setattr(filters, "normalised", counted)
    others = ("a cat", "a cup")
    NotSaidOfImage()([proposal("a dog with a hat", *others) for _ in range(9)])
    assert [asked.count(one) for one in others] == [1, 1]
