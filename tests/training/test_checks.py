"""Checks before training: edits, neighbours, and preparation that keeps left and right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unbag.data.readers import open_pairs
from unbag.errors import UnbagError
from unbag.models import tiny
from unbag.training.data.checks import (
    assert_no_flip,
    check_sides,
    ready_batches,
    speaks_of_sides,
    survey,
)
from unbag.training.recipes import Slot

from .pair_files import SWAP, Bytes, image, lines, negative, numbered, recipe

if TYPE_CHECKING:
    from PIL.Image import Image


def test_what_a_collection_offers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = open_pairs(str(numbered(tmp_path, 8)))
    surveyed = survey(
        pairs, recipe(negatives=(SWAP, Slot("colour", ("replace_colour",)))), reads=Bytes()
    )
    assert (surveyed.images, surveyed.captions, surveyed.sampled) == (8, 16, 8)
    assert surveyed.shares == {"swap": 1.0, "colour": 0.0}
    assert (surveyed.has_negative, surveyed.has_positive, surveyed.has_nearest) == (1.0, 0.0, 0.0)
    assert 12 <= surveyed.tokens <= 15
    assert surveyed.lines() == [
        f"8 images, 16 captions of {surveyed.tokens:.1f} tokens on average",
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
    config = recipe(batch_size=1)
    with pytest.raises(UnbagError) as caught:
        ready_batches(open_pairs(str(path)), config, Bytes(), seed=0)
    assert caught.value.message == (
        "the recipe test trains on negatives, but of 1 captions (almost) none has one: swap 0.0%"
    )
    assert caught.value.expected == "edits of the kinds swap_nouns"
    assert caught.value.hint == "make them with `unbag edit --kinds swap_nouns`"
    both = recipe(batch_size=1, negatives=(SWAP, Slot("noun", ("replace_noun",))))
    _, surveyed = ready_batches(open_pairs(str(path)), both, Bytes(), seed=0)
    assert surveyed.shares == {"swap": 0.0, "noun": 1.0}, "one type may be missing everywhere"
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
    config = recipe(batch_size=1, negatives=())
    batches, surveyed = ready_batches(open_pairs(str(path)), config, Bytes(), seed=0)
    assert batches.online_edits is None
    assert not surveyed.shares
    assert batches[0].negative_BK.shape == (1, 0)


SIDES = ("a dog to the Left of a cat",)


@dataclass(frozen=True)
class Prepared(Bytes):
    """Prepares images with a function."""

    transform: Callable[[Any], Tensor] = field(default=lambda image: image)

    def prepare(self, image: Image) -> Tensor:
        """By that function."""
        return self.transform(image)


def as_pixels(image: Image) -> Tensor:
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float()


def mirrored(image: Image) -> Tensor:
    return as_pixels(image).flip(2)


def upside_down(image: Image) -> Tensor:
    return as_pixels(image).flip(1)


@dataclass
class Wavering:
    """Another shade each time."""

    times: int = 0

    def __call__(self, image: Image) -> Tensor:
        self.times += 1
        return as_pixels(image) + self.times


def test_words_of_sides() -> None:
    assert speaks_of_sides(("a dog", "its right ear"))
    assert not speaks_of_sides(("leftovers on a plate", "a bright cat"))


def test_random_transforms_are_found_however_deep() -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    for name, random in (
        ("RandomHorizontalFlip", transforms.RandomHorizontalFlip()),
        ("RandomResizedCrop", transforms.RandomResizedCrop(8)),
        ("RandAugment", transforms.RandAugment()),
    ):
        inner = transforms.Compose([transforms.Resize(8), transforms.Compose([random])])
        for held in (inner, partial(inner), inner.__call__, Prepared(transform=inner), [inner]):
            with pytest.raises(UnbagError, match=f"prepared with {name}, but captions mention"):
                assert_no_flip(held, SIDES)
        assert_no_flip(inner, ("a dog",))
    assert_no_flip(transforms.Compose([transforms.RandomHorizontalFlip(0.0)]), SIDES)
    assert_no_flip(transforms.Compose([transforms.Resize(8), transforms.CenterCrop(8)]), SIDES)


def test_preparation_is_tried_on_an_image_with_four_different_quarters() -> None:
    check_sides(Prepared(transform=as_pixels), SIDES)
    for turned in (mirrored, upside_down):
        with pytest.raises(UnbagError, match="turns or mirrors them, but captions mention left"):
            check_sides(Prepared(transform=turned), SIDES)
        check_sides(Prepared(transform=turned), ("a dog",))
    with pytest.raises(UnbagError, match="differs from time to time"):
        check_sides(Prepared(transform=Wavering()), SIDES)


def test_the_tiny_model_leaves_sides_alone() -> None:
    check_sides(Prepared(transform=tiny.load("random").prepare), SIDES)
