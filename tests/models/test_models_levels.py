"""Bytes that become numbers on the device are to the bit what the preparation gives."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Images
from PIL.Image import Image
from torch import Tensor

from unbag.models.batching import Levels, levels
from unbag.models.huggingface.dual import HfDual, ImagePreparation
from unbag.models.huggingface.loading import load

HfFolder = Callable[[str], Path]
SIZES = ((40, 30), (333, 517), (65, 31), (200, 20))


def images() -> list[Image]:
    noise = np.random.default_rng(4)
    return [Images.fromarray(noise.integers(0, 256, (h, w, 3), dtype=np.uint8)) for w, h in SIZES]


def as_bytes(image: Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def as_numbers(image: Image) -> Tensor:
    """Level v of channel c becomes 10 v + c."""
    return 10.0 * as_bytes(image) + torch.arange(3.0)[:, None, None]


def test_each_level_of_each_channel_has_its_number() -> None:
    byte_NCHW = torch.tensor([[[[0, 255]], [[7, 0]], [[1, 2]]]], dtype=torch.uint8)
    found = Levels(as_numbers)(byte_NCHW)
    assert found.tolist() == [[[[0, 2550]], [[71, 1]], [[12, 22]]]]


def test_a_preparation_that_ends_byte_by_byte_is_split() -> None:
    assert levels(as_numbers, as_bytes, as_numbers) is not None


@pytest.mark.parametrize(
    ("whole", "in_bytes"),
    [
        (lambda image: as_numbers(image) + image.width, as_bytes),
        (as_numbers, lambda image: as_bytes(image).float()),
        (as_numbers, lambda image: as_bytes(image)[:, 1:]),
    ],
    ids=["sees more than a byte", "gives no bytes", "gives another shape"],
)
def test_one_that_does_not_runs_whole(
    whole: Callable[[Image], Tensor], in_bytes: Callable[[Image], Tensor]
) -> None:
    assert levels(whole, in_bytes, as_numbers) is None


def test_one_that_cannot_leave_a_step_out_runs_whole() -> None:
    def refuses(image: Image) -> Tensor:
        raise TypeError("do_rescale is not known")

    assert levels(as_numbers, refuses, as_numbers) is None


@pytest.mark.parametrize("kind", ["clip", "siglip", "chinese_clip", "blip"])
def test_processors_of_transformers(kind: str, hf_folder: HfFolder) -> None:
    transformers: Any = pytest.importorskip("transformers")
    processor = transformers.AutoImageProcessor.from_pretrained(hf_folder(kind))
    plain, on_device = (ImagePreparation(processor, name=kind, device=d) for d in ("cpu", "cuda"))
    for image in images():
        expected, prepared = plain(image), on_device(image)
        assert (expected.dtype, prepared.dtype) == (torch.float32, torch.uint8)
        found = dict(on_device.inputs(prepared[None]))["pixel_values"][0]
        assert torch.equal(found, expected)
    assert on_device.said == plain.said


@pytest.mark.parametrize("kind", ["siglip2", "align"])
def test_packed_patches_and_other_processors_stay_numbers(kind: str, hf_folder: HfFolder) -> None:
    transformers: Any = pytest.importorskip("transformers")
    processor = transformers.AutoImageProcessor.from_pretrained(hf_folder(kind))
    plain, on_device = (ImagePreparation(processor, name=kind, device=d) for d in ("cpu", "cuda"))
    for image in images():
        assert torch.equal(on_device(image), plain(image))


def test_vectors_from_bytes_are_those_from_numbers(hf_folder: HfFolder) -> None:
    encoder = load(str(hf_folder("clip")))
    assert isinstance(encoder, HfDual)
    whole = torch.stack([encoder.prepare(image) for image in images()])
    expected = encoder.encode_images(whole)
    encoder.images = ImagePreparation(encoder.images.processor, name="clip", device="cuda")
    prepared = torch.stack([encoder.prepare(image) for image in images()])
    assert prepared.dtype == torch.uint8
    assert torch.equal(encoder.encode_images(prepared), expected)
    # Numbers are still taken as they are.
    assert torch.equal(encoder.encode_images(whole), expected)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"resize_mode": "squash", "interpolation": "bilinear", "mean": (0.5,) * 3},
        {"resize_mode": "longest"},
    ],
    ids=["crop", "squash", "pad"],
)
def test_transforms_of_open_clip(said: dict[str, Any]) -> None:
    pytest.importorskip("open_clip")
    from unbag.models.open_clip import encoder as preparation

    whole = preparation.make_transform(preparation.full_preparation(said, 32))
    found = preparation.in_bytes(whole)
    assert found is not None
    prepare, numbers = found
    for image in images():
        assert prepare(image).dtype == torch.uint8
        assert torch.equal(numbers(prepare(image)[None])[0], whole(image))


def test_another_preparation_for_open_clip_runs_whole() -> None:
    pytest.importorskip("open_clip")
    from unbag.models.open_clip import encoder as preparation

    assert preparation.in_bytes(as_numbers) is None
