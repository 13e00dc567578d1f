"""Functional words and their columns: own tokens, word numbers, what is cut and what is absent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pytest
import torch

from unbag.errors import UnbagError
from unbag.models.features import Placed, ends, joint_texts, placed_words
from unbag.models.tiny import load
from unbag.readouts.dcsm import END, FUNCTIONAL, Align, MapCaptions, marks
from unbag.types import DualEncoder


@dataclass
class Pieces:
    """Counts as CLIP's tokenizer does, with pieces of three letters and signs by themselves."""

    special: int = 2
    odd: bool = False

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        return [self._count(caption) for caption in captions]

    def _count(self, caption: str) -> int:
        words = caption.replace(",", " , ").split()
        pieces = sum(-(-len(word) // 3) for word in words)
        return self.special + pieces + (1 if self.odd and len(words) > 2 else 0)


def like_clip(special: int = 2, *, odd: bool = False) -> DualEncoder:
    return cast(DualEncoder, Pieces(special, odd))


def found(encoder: DualEncoder, caption: str, align: Align, length: int = 12) -> dict[int, str]:
    """Column to word, without the end."""
    mark_L = marks(encoder, [caption], align=align, length=length).mark_NL[0] % END
    return {at: FUNCTIONAL[mark - 1] for at, mark in enumerate(mark_L.tolist()) if mark}


def test_the_columns_of_a_word_are_those_of_its_own_pieces() -> None:
    # start | a | mug | lef t | of | a | cup | end: "left" has two pieces.
    assert found(like_clip(), "a mug left of a cup", "token") == {3: "left", 4: "left"}
    assert found(like_clip(special=1), "a mug left of a cup", "token") == {2: "left", 3: "left"}
    # The comma is a piece of its own, and capitals are the same word.
    assert found(like_clip(), "a mug Not, a cup", "token") == {3: "not"}


def test_word_index_is_off_by_the_start_token_and_by_split_words() -> None:
    """13.8: the released rule marks column k for word k; column 0 is the start token."""
    assert found(like_clip(), "a mug not a cup", "token") == {3: "not"}
    assert found(like_clip(), "a mug not a cup", "word_index") == {2: "not"}
    # "bottle" has two pieces: the released column stays where it was, the right one moves.
    assert found(like_clip(), "a bottle not a cup", "token") == {4: "not"}
    assert found(like_clip(), "a bottle not a cup", "word_index") == {2: "not"}
    # Without a start token and with whole words both are the same.
    tiny = load("base")
    for align in ("token", "word_index"):
        assert found(tiny, "a star left of a cup", align) == {2: "left"}


def test_only_the_first_occurrence_is_marked() -> None:
    caption = "no cup but no big mug"
    expected = {0: "no", 2: "but", 4: "big"}
    assert found(like_clip(), caption, "word_index") == expected
    assert found(like_clip(special=0), caption, "token") == expected


def test_the_released_rule_takes_words_as_they_are_written() -> None:
    assert found(like_clip(), "a cup Left, left a", "word_index") == {3: "left"}
    # Single spaces: an empty word counts.
    assert found(like_clip(), "a  not", "word_index") == {2: "not"}


def test_what_is_beyond_the_last_column_is_not_marked() -> None:
    given = like_clip()
    every = marks(given, ["a a a a not", "a not", "a cup"], align="token", length=5)
    assert (every.cut, every.plain, every.unplaced) == (1, 2, 0)
    assert (every.mark_NL % END).tolist() == [[0] * 5, [0, 0, 7, 0, 0], [0] * 5]
    # The end: cut at the last column, else at the last token.
    assert (every.mark_NL >= END).nonzero()[1].tolist() == [4, 3, 3]
    # Where "not" would have stood is the end now, which must not be replaced by a word.
    fixed, released = (
        marks(given, ["a a a not a a"], align=align, length=5).mark_NL[0].tolist()
        for align in ("token", "word_index")
    )
    assert fixed == [0, 0, 0, 0, END]
    assert released == [0, 0, 0, 7, END]


def test_pieces_that_do_not_add_up_mark_nothing_and_are_counted() -> None:
    odd = marks(like_clip(odd=True), ["a cup not", "a mug cup"], align="token", length=8)
    assert (odd.unplaced, odd.plain) == (1, 1)
    assert not (odd.mark_NL % END).any()


def test_words_are_placed_with_signs_apart_or_together() -> None:
    placed = placed_words(like_clip(), ["mug, cup", ""])
    assert placed[0] == (Placed("mug", 1, 2), Placed(",", 2, 3), Placed("cup", 3, 4))
    assert placed[1] is None
    # The tiny model drops signs: they have no pieces.
    assert placed_words(load("base"), ["star, cup"])[0] == (
        Placed("star", 0, 1),
        Placed(",", 1, 1),
        Placed("cup", 1, 2),
    )


def test_ends_need_one_number_of_special_pieces() -> None:
    assert ends(5, [3, 3, 3], [4, 4, 4]) == [(1, 2), (2, 3), (3, 4)]
    assert ends(6, [3, 3, 3], [4, 4, 4]) is None
    assert ends(5, [3, 4, 3], [4, 4, 4]) is None


def test_the_view_keeps_what_the_encoder_makes_of_padding() -> None:
    tiny = load("base")
    kept = MapCaptions("token", 12, "kept")
    zero = MapCaptions("token", 12, "zero")
    captions = ["a star left of a cup", "a red cup"]
    padded, plain = kept(tiny, captions), zero(tiny, captions)
    joint = joint_texts(tiny, captions)
    assert padded.vector_NLW.shape == plain.vector_NLW.shape == (2, 12, 128)
    for row, count in enumerate(tiny.count_tokens(captions)):
        for parts in (padded, plain):
            torch.testing.assert_close(
                parts.vector_NLW[row, :count], joint.vector_NLW[row, :count], atol=1e-6, rtol=0
            )
        assert not plain.vector_NLW[row, count:].any()
        # Padding is read by itself, and does not depend on the other captions.
        norm = padded.vector_NLW[row, count:].norm(dim=-1)
        torch.testing.assert_close(norm, torch.ones(12 - count))
    alone = kept(tiny, captions[1:])
    torch.testing.assert_close(alone.vector_NLW[0], padded.vector_NLW[1], atol=1e-6, rtol=0)
    assert padded.mask_NL.all()
    assert plain.mask_NL.sum(dim=1).tolist() == tiny.count_tokens(captions)
    assert (kept.view.name, zero.view.name) == ("dcsm-token-12-kept", "dcsm-token-12-zero")


def test_captions_beyond_the_map_are_cut_counted_and_said_once() -> None:
    tiny = load("base")
    view = MapCaptions("word_index", 4, "kept")
    with pytest.warns(
        UserWarning, match="tiny:base with more than 4 tokens are truncated: a map has 4"
    ):
        found = view(tiny, ["a red cup and a star", "a cup"])
    view(tiny, ["a cup and a star"])
    every = ["a red cup and a star", "a cup", "a cup and a star"]
    counted = marks(tiny, every, align="word_index", length=4)
    assert (counted.cut, counted.plain) == (2, 3)
    # The end token stays, as a tokenizer that cuts at 4 has it.
    short = tiny.encode_padded(["a red cup"], length=4)
    torch.testing.assert_close(found.vector_NLW[0], short.vector_NLW[0], atol=1e-6, rtol=0)
    # The caption's own vector is that of all of it.
    torch.testing.assert_close(found.pooled[:1], tiny.encode_texts(["a red cup and a star"]))


def test_more_columns_than_an_encoder_has_places_are_zero() -> None:
    tiny = load("base")
    found = MapCaptions("token", 40, "kept")(tiny, ["a red cup"])
    assert found.vector_NLW.shape[1] == 40
    assert found.vector_NLW[0, :32].norm(dim=-1).min() > 0.99
    assert not found.vector_NLW[0, 32:].any()
    assert found.mask_NL[0].tolist() == [True] * 32 + [False] * 8


def test_a_model_that_hides_its_padding_is_told() -> None:
    class Hides:
        name = "a model"

        def __init__(self) -> None:
            self.inner = load("base")
            for shown in ("count_tokens", "encode_texts", "encode_tokens", "encode_patches"):
                setattr(self, shown, getattr(self.inner, shown))
            self.fingerprint = self.device = ""
            self.scale = self.bias = self.context = 1
            self.prepare = self.encode_images = self.inner.encode_images

    view = MapCaptions("token", 8, "kept")
    with pytest.warns(UserWarning, match="a model returns no vectors of padding"):
        found = view(cast(DualEncoder, Hides()), ["a red cup"])
    assert found.mask_NL.sum() == 4


def test_a_model_without_parts_is_refused() -> None:
    class OneVector:
        name = "one vector"

        def count_tokens(self, captions: Sequence[str]) -> list[int]:
            return [3 for _ in captions]

    with pytest.raises(UnbagError, match="one vector shows one vector for an image") as error:
        MapCaptions("token", 8, "kept")(cast(DualEncoder, OneVector()), ["a cup"])
    assert error.value.expected.startswith("a model with patches and words")
