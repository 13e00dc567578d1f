"""Batches that shrink until they fit, results of user models, and bytes converted on the device."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Images
from PIL.Image import Image
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.batching import (
    Fitting,
    Levels,
    as_tensor,
    is_out_of_memory,
    levels,
    of_one_size,
)
from unbag.models.huggingface.dual import HfDual, ImagePreparation
from unbag.models.huggingface.loading import load

HfFolder = Callable[[str], Path]
SIZES = ((40, 30), (333, 517), (65, 31), (200, 20))


class SmallDevice:
    """Encodes at most `room` inputs at once."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.sizes: list[int] = []

    def __call__(self, inputs: Tensor) -> Tensor:
        if len(inputs) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        self.sizes.append(len(inputs))
        return inputs * 2


def test_batch_is_halved_until_it_fits_and_stays_small() -> None:
    messages: list[str] = []
    fitting, device = Fitting("m", messages.append), SmallDevice(3)
    inputs = torch.arange(10.0)
    assert fitting(device, inputs).tolist() == (inputs * 2).tolist()
    assert device.sizes == [2, 2, 2, 2, 2]
    assert messages == [
        "m: out of memory with 10 inputs at once, going on with 5",
        "m: out of memory with 5 inputs at once, going on with 2",
    ]
    fitting(device, inputs[:3])
    assert device.sizes[5:] == [2, 1]
    assert len(messages) == 2


def test_one_input_that_does_not_fit() -> None:
    with pytest.raises(UnbagError, match="m does not fit into memory with one input") as error:
        Fitting("m", lambda text: None)(SmallDevice(0), torch.zeros(2))
    assert "--dtype bfloat16" in error.value.hint


def test_other_errors_pass() -> None:
    def broken(inputs: Tensor) -> Tensor:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        Fitting("m", lambda text: None)(broken, torch.zeros(2))
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"))


def test_arrays_become_tensors() -> None:
    array = np.arange(6.0).reshape(2, 3)
    assert as_tensor(array[::-1], model="m").tolist() == [[3, 4, 5], [0, 1, 2]]
    array.flags.writeable = False
    assert as_tensor(array, model="m").dtype == torch.float64
    tensor = torch.zeros(2)
    assert as_tensor(tensor, model="m") is tensor
    fitting = Fitting("m", lambda text: None, most=2)

    def encode(inputs: Tensor) -> Any:
        return inputs.numpy() * 2

    assert fitting(encode, torch.arange(5.0)).tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("returned", "kind"),
    [([[1.0]], "a list"), (None, "a NoneType"), (np.array(["a"]), "an array of <U1")],
)
def test_other_types_are_errors(returned: object, kind: str) -> None:
    with pytest.raises(UnbagError) as error:
        as_tensor(returned, model="m")
    assert error.value.message == f"model 'm' returned {kind}"
    assert "encode_texts of this model" in error.value.hint


def test_prepared_images_have_one_shape() -> None:
    prepared = [torch.zeros(3, 4, 4), torch.zeros(3, 4, 4), torch.zeros(3, 4, 6)]
    assert len(of_one_size(prepared[:2], model="m")) == 2
    with pytest.raises(UnbagError, match=r"different sizes: \(3, 4, 4\) and \(3, 4, 6\)"):
        of_one_size(prepared, model="m")
    # Flat tensors may differ in length.
    assert [len(one) for one in of_one_size([torch.zeros(3), np.zeros(5)], model="m")] == [3, 5]


def images() -> list[Image]:
    noise = np.random.default_rng(4)
    return [Images.fromarray(noise.integers(0, 256, (h, w, 3), dtype=np.uint8)) for w, h in SIZES]


def as_bytes(image: Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def as_numbers(image: Image) -> Tensor:
    """Level v of channel c becomes 10 v + c."""
    return 10.0 * as_bytes(image) + torch.arange(3.0)[:, None, None]


def as_error(image: Image) -> Tensor:
    raise TypeError("do_rescale is not known")


def test_levels_by_hand() -> None:
    byte_NCHW = torch.tensor([[[[0, 255]], [[7, 0]], [[1, 2]]]], dtype=torch.uint8)
    assert Levels(as_numbers)(byte_NCHW).tolist() == [[[[0, 2550]], [[71, 1]], [[12, 22]]]]
    assert levels(as_numbers, as_bytes, as_numbers) is not None


@pytest.mark.parametrize(
    ("whole", "in_bytes"),
    [
        (lambda image: as_numbers(image) + image.width, as_bytes),
        (as_numbers, lambda image: as_bytes(image).float()),
        (as_numbers, lambda image: as_bytes(image)[:, 1:]),
        (as_numbers, as_error),
    ],
    ids=["depends on the size", "gives no bytes", "gives another shape", "needs all steps"],
)
def test_other_preparations_have_no_levels(
    whole: Callable[[Image], Tensor], in_bytes: Callable[[Image], Tensor]
) -> None:
    assert levels(whole, in_bytes, as_numbers) is None


@pytest.mark.parametrize("kind", ["clip", "siglip", "chinese_clip", "blip", "siglip2", "align"])
def test_processors_of_transformers(kind: str, hf_folder: HfFolder) -> None:
    transformers: Any = pytest.importorskip("transformers")
    processor = transformers.AutoImageProcessor.from_pretrained(hf_folder(kind))
    plain, on_device = (ImagePreparation(processor, name=kind, device=d) for d in ("cpu", "cuda"))
    has_levels = kind not in ("siglip2", "align")
    for image in images():
        expected, prepared = plain(image), on_device(image)
        assert prepared.dtype == (torch.uint8 if has_levels else expected.dtype)
        if has_levels:
            prepared = dict(on_device.inputs(prepared[None]))["pixel_values"][0]
        assert torch.equal(prepared, expected)
    assert on_device.settings == plain.settings


def test_vectors_from_bytes_equal_those_from_numbers(hf_folder: HfFolder) -> None:
    encoder = load(str(hf_folder("clip")))
    assert isinstance(encoder, HfDual)
    numbers = torch.stack([encoder.prepare(image) for image in images()])
    expected = encoder.encode_images(numbers)
    encoder.images = ImagePreparation(encoder.images.processor, name="clip", device="cuda")
    prepared = torch.stack([encoder.prepare(image) for image in images()])
    assert prepared.dtype == torch.uint8
    assert torch.equal(encoder.encode_images(prepared), expected)
    assert torch.equal(encoder.encode_images(numbers), expected)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"resize_mode": "squash", "interpolation": "bilinear", "mean": (0.5,) * 3},
        {"resize_mode": "longest"},
    ],
    ids=["crop", "squash", "pad"],
)
def test_transforms_of_open_clip(settings: dict[str, Any]) -> None:
    pytest.importorskip("open_clip")
    from unbag.models.open_clip import encoder

    transform = encoder.make_transform(encoder.full_preparation(settings, 32))
    split = encoder.in_bytes(transform)
    assert split is not None
    prepare, numbers = split
    for image in images():
        assert prepare(image).dtype == torch.uint8
        assert torch.equal(numbers(prepare(image)[None])[0], transform(image))
    assert encoder.in_bytes(as_numbers) is None
