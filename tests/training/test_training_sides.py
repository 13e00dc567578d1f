"""Nothing that could mirror images is trained with where captions speak of sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models import tiny
from unbag.training.data.checks import assert_no_flip, check_sides, speaks_of_sides

from .pair_files import Bytes

if TYPE_CHECKING:
    from PIL.Image import Image

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
            with pytest.raises(UnbagError, match=f"prepared with {name}, but captions speak"):
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
