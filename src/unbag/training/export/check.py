"""Load an exported folder with its library, and check that it agrees with the model.

Dimensions: N images or captions, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from warnings import catch_warnings, simplefilter

import torch

from unbag.errors import UnbagError, said_by
from unbag.models.huggingface.loading import HfSource, quietly, read_image_processor
from unbag.models.layers import unit_vectors
from unbag.models.open_clip.library import library
from unbag.reports.cards import Agreement
from unbag.training.export.clip import ORDINARY
from unbag.types import DualEncoder

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor


LIMIT = 1e-5
"""Largest difference between unit vectors of both libraries that rounding explains."""
LIMIT_ON_DEVICE = 1e-4
"""The same on a GPU, where kernels and so the rounding depend on the shape of a product."""


def agreement(
    encoder: DualEncoder,
    reloaded: ReloadedModel,
    *,
    own: ReloadedModel,
    what: str,
    captions: Sequence[str] = ORDINARY,
) -> Agreement:
    """Compare an encoder with its reloaded form; UnbagError if their vectors differ.

    `own` is the form that prepares images as the encoder does; `what` names the form in errors.
    """
    images = test_images(side=int(encoder.prepare(_image((64, 64))).shape[-1]))
    expected_ND = encoder.encode_images(torch.stack([encoder.prepare(image) for image in images]))
    prepared = torch.stack([own.prepare(image) for image in images])
    difference = max(
        _max_difference(reloaded.encode_images(prepared), expected_ND),
        _max_difference(reloaded.encode_texts(captions), encoder.encode_texts(captions)),
    )
    limit = LIMIT if encoder.device == "cpu" else LIMIT_ON_DEVICE
    if not difference < limit:
        raise UnbagError(
            f"the form of {encoder.name} for {what} computes different vectors: a number differs "
            f"by {difference:.1e}",
            expected=f"less than {limit:.0e}; nothing was written",
            hint="this is a bug of unbag or of a library's version: please report it",
        )
    if reloaded is own:
        return Agreement(difference)
    pixels = torch.stack([reloaded.prepare(image) for image in images])
    cosine_N = (reloaded.encode_images(pixels) * expected_ND).sum(dim=-1)
    assert isinstance(reloaded, LibraryModel)
    # In units of 1/255, by the standard deviation that both libraries divide by.
    spread = torch.tensor(reloaded.std)[:, None, None]
    levels = float(((pixels - prepared) * spread).abs().max()) * 255
    return Agreement(difference, levels, float(cosine_N.min().clamp(max=1)))


def test_images(*, side: int) -> list[Image]:
    """Draw images with edges and gradients: wider, higher and smaller than an encoder takes.

    The last is cropped by three columns: open_clip removes two on the left, transformers one.
    """
    sizes = ((640, 480), (431, 577), (90, 60), (336, 336), (2 * side + 6, 2 * side))
    return [_image(size) for size in sizes]


def _image(size: tuple[int, int]) -> Image:
    from PIL import Image as Images
    from PIL import ImageDraw

    width, height = size
    grey = Images.linear_gradient("L").resize(size)
    image = Images.merge("RGB", (grey, grey.transpose(Images.Transpose.ROTATE_180), grey))
    pen = ImageDraw.Draw(image)
    pen.rectangle((width // 8, height // 5, width // 2, height // 2), fill=(210, 40, 30))
    pen.ellipse((width // 3, height // 3, width - 9, height - 5), fill=(30, 70, 220))
    return image


def _max_difference(first: Tensor, second: Tensor) -> float:
    return float((first - second).abs().max())


class ReloadedModel(Protocol):
    """A model as its library loads it from disk."""

    def prepare(self, image: Image, /) -> Tensor:
        """Prepare the pixels of an image as the library does."""

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return unit vectors [N, D]."""

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Return unit vectors [N, D]."""


def read_open_clip(folder: Path, *, device: str) -> ReloadedModel:
    """Load the folder with `open_clip.create_model_and_transforms`."""
    name = f"local-dir:{folder}"
    try:
        with catch_warnings():
            simplefilter("ignore")
            model, _, transform = library().create_model_and_transforms(name, device=device)
            tokenize = library().get_tokenizer(name)
    except Exception as error:
        # Old versions mistake the name for an architecture; new ones raise many kinds of errors.
        raise _unreadable("open_clip", said_by(error)) from error
    return LibraryModel(
        transform,
        lambda pixels: model.encode_image(pixels.to(device)),
        lambda captions: model.encode_text(tokenize(captions).to(device)),
        model.eval().visual.preprocess_cfg["std"],
    )


@dataclass(frozen=True, eq=False)
class LibraryModel:
    """A model as any user of its library loads it, with captions at full length."""

    prepare: Callable[[Image], Tensor]
    image_features: Callable[[Tensor], Any]
    text_features: Callable[[list[str]], Any]
    std: Sequence[float]
    """Standard deviation that prepared images are divided by."""

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return unit vectors [N, D]."""
        return _unit_vectors(self.image_features(pixels))

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Return unit vectors [N, D]."""
        return _unit_vectors(self.text_features(list(captions)))


def read_transformers(folder: Path, *, device: str, is_clip: bool) -> ReloadedModel:
    """Load the folder with `transformers.CLIPModel`, or another kind of model as `hf:` does."""
    from transformers import AutoTokenizer, CLIPModel

    from unbag.models.huggingface import loading as hf

    try:
        with quietly():
            if not is_clip:
                encoder = hf.load(str(folder), device=device)
                assert isinstance(encoder, DualEncoder)
                return encoder
            model: Any = CLIPModel.from_pretrained(folder)
            processor = read_image_processor(HfSource(str(folder)))
            tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception as error:
        # transformers raises any kind of error.
        raise _unreadable("transformers", said_by(error)) from error
    model = model.to(device).eval()

    def text_features(captions: list[str]) -> Any:
        inputs = tokenizer(captions, padding="max_length", truncation=True, return_tensors="pt")
        return model.get_text_features(**inputs.to(device))

    return LibraryModel(
        lambda image: processor(images=image, return_tensors="pt")["pixel_values"][0],
        lambda pixels: model.get_image_features(pixel_values=pixels.to(device)),
        text_features,
        processor.image_std,
    )


def _unit_vectors(output: Any) -> Tensor:
    """Normalize the output of a model: transformers 4 returns vectors, 5 an object with them."""
    vector: Tensor = output if isinstance(output, torch.Tensor) else output.pooler_output
    return unit_vectors(vector)


def _unreadable(name: str, reason: str) -> UnbagError:
    return UnbagError(
        f"{name} cannot load what was written for it: {reason}",
        expected="open_clip_torch 3 or later, transformers 4.50 or later; nothing was written",
        hint="install a newer version of it",
    )
