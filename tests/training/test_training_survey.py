"""What is said and refused before training: shares of edits, neighbours, tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbag.data.readers import open_pairs
from unbag.errors import UnbagError
from unbag.training.data.checks import ready_batches, survey
from unbag.training.recipes import Slot

from .pair_files import SWAP, Bytes, image, lines, negative, numbered, recipe


def test_what_a_collection_offers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = open_pairs(str(numbered(tmp_path, 8)))
    found = survey(
        pairs, recipe(negatives=(SWAP, Slot("colour", ("replace_colour",)))), reads=Bytes()
    )
    assert (found.images, found.captions, found.sampled) == (8, 16, 8)
    assert found.shares == {"swap": 1.0, "colour": 0.0}
    assert (found.has_negative, found.has_positive, found.has_nearest) == (1.0, 0.0, 0.0)
    assert 12 <= found.tokens <= 15
    assert found.lines() == [
        f"8 images, 16 captions of {found.tokens:.1f} tokens on average",
        "swap: an edit for 100.0% of captions",
        "colour: an edit for 0.0% of captions, so the model learns nothing from these edits",
    ]
    monkeypatch.setattr("unbag.training.data.checks.SAMPLED", 3)
    part = survey(pairs, recipe(), reads=Bytes())
    assert (part.sampled, part.captions, part.is_estimated) == (3, 16, True)
    assert part.lines()[0].startswith("8 images, about 16 captions")


def test_captions_without_any_edit(tmp_path: Path) -> None:
    image(tmp_path / "x.png", 1)
    path = lines(
        tmp_path / "p.jsonl",
        {"image": "x.png", "caption": "a dog", "edits": [negative("a cat", "replace_noun")]},
    )
    said = recipe(batch_size=1)
    with pytest.raises(UnbagError) as caught:
        ready_batches(open_pairs(str(path)), said, Bytes(), seed=0)
    assert caught.value.message == (
        "the recipe test trains on negatives, but of 1 captions (almost) none has one: swap 0.0%"
    )
    assert caught.value.expected == "edits of the kinds swap_nouns"
    assert caught.value.hint == "make them with `unbag edit --kinds swap_nouns`"
    both = recipe(batch_size=1, negatives=(SWAP, Slot("noun", ("replace_noun",))))
    _, found = ready_batches(open_pairs(str(path)), both, Bytes(), seed=0)
    assert found.shares == {"swap": 0.0, "noun": 1.0}, "one type may be missing everywhere"
    positive = recipe(batch_size=1, negatives=(), positives=(Slot("p", ("article",)),))
    with pytest.raises(UnbagError, match="the recipe test trains on positives"):
        ready_batches(open_pairs(str(path)), positive, Bytes(), seed=0)


def test_hard_images_need_neighbours(tmp_path: Path) -> None:
    pairs = open_pairs(str(numbered(tmp_path, 4)))
    with pytest.raises(UnbagError, match="but no pair has nearest neighbours") as caught:
        ready_batches(pairs, recipe(hard_images=True), Bytes(), seed=0)
    assert "--neighbours" in caught.value.hint
    assert "--set hard_images=false" in caught.value.hint


def test_no_edits_are_made_where_no_recipe_wants_them(tmp_path: Path) -> None:
    image(tmp_path / "x.png", 1)
    path = lines(tmp_path / "p.jsonl", {"image": "x.png", "caption": "a dog"})
    said = recipe(batch_size=1, negatives=())
    batches, found = ready_batches(open_pairs(str(path)), said, Bytes(), seed=0)
    assert batches.online_edits is None
    assert not found.shares
    assert batches[0].negative_BK.shape == (1, 0)
