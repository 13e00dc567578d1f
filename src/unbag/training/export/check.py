"""Read a written folder with its plain library, and check that it agrees with the model.

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
"""Largest difference of a number of two unit vectors that both libraries may have by rounding."""
LIMIT_ON_DEVICE = 1e-4
"""On a GPU, which picks its kernels, and with them the rounding, by the shape of a product."""


def agreement(
    encoder: DualEncoder,
    again: Again,
    *,
    own: Again,
    what: str,
    captions: Sequence[str] = ORDINARY,
) -> Agreement:
    """Compare, or raise; `own` is the form that prepares images as the model does."""
    images = drawn(side=int(encoder.prepare(_image((64, 64))).shape[-1]))
    mine_ND = encoder.encode_images(torch.stack([encoder.prepare(one) for one in images]))
    prepared = torch.stack([own.prepare(one) for one in images])
    apart = max(
        _apart(again.encode_images(prepared), mine_ND),
        _apart(again.encode_texts(captions), encoder.encode_texts(captions)),
    )
    limit = LIMIT if encoder.device == "cpu" else LIMIT_ON_DEVICE
    if not apart < limit:
        raise UnbagError(
            f"the form of {encoder.name} for {what} gives other vectors: a number differs by "
            f"{apart:.1e}",
            expected=f"less than {limit:.0e}; nothing was written",
            hint="this is a fault of unbag or of a library's version: please report it",
        )
    if again is own:
        return Agreement(apart)
    pixels = torch.stack([again.prepare(one) for one in images])
    cosine_N = (again.encode_images(pixels) * mine_ND).sum(dim=-1)
    assert isinstance(again, PlainForm)
    # In levels of 255, by the spread that both libraries divide by.
    spread = torch.tensor(again.std)[:, None, None]
    levels = float(((pixels - prepared) * spread).abs().max()) * 255
    return Agreement(apart, levels, float(cosine_N.min().clamp(max=1)))


def drawn(*, side: int) -> list[Image]:
    """Images wider, higher and smaller than an encoder takes, with edges and gradients.

    The last is cut by three columns: open_clip takes two of them from the left, transformers one.
    """
    sizes = ((640, 480), (431, 577), (90, 60), (336, 336), (2 * side + 6, 2 * side))
    return [_image(size) for size in sizes]


def _image(size: tuple[int, int]) -> Image:
    from PIL import Image as Images
    from PIL import ImageDraw

    wide, high = size
    grey = Images.linear_gradient("L").resize(size)
    image = Images.merge("RGB", (grey, grey.transpose(Images.Transpose.ROTATE_180), grey))
    pen = ImageDraw.Draw(image)
    pen.rectangle((wide // 8, high // 5, wide // 2, high // 2), fill=(210, 40, 30))
    pen.ellipse((wide // 3, high // 3, wide - 9, high - 5), fill=(30, 70, 220))
    return image


def _apart(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


class Again(Protocol):
    """A model as its library reads it from disk."""

    def prepare(self, image: Image, /) -> Tensor:
        """Pixels, as the library prepares them."""

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Unit vectors [N, D]."""

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Unit vectors [N, D]."""


def read_open_clip(folder: Path, *, device: str) -> Again:
    """`open_clip.create_model_and_transforms` on the folder."""
    name = f"local-dir:{folder}"
    try:
        with catch_warnings():
            simplefilter("ignore")
            model, _, transform = library().create_model_and_transforms(name, device=device)
            tokenize = library().get_tokenizer(name)
    except Exception as error:
        # Old versions take the name for that of an architecture; new ones raise many kinds.
        raise _unreadable("open_clip", said_by(error)) from error
    return PlainForm(
        transform,
        lambda pixels: model.encode_image(pixels.to(device)),
        lambda captions: model.encode_text(tokenize(captions).to(device)),
        model.eval().visual.preprocess_cfg["std"],
    )


@dataclass(frozen=True, eq=False)
class PlainForm:
    """As anybody loads it, captions at full length."""

    prepare: Callable[[Image], Tensor]
    image_features: Callable[[Tensor], Any]
    text_features: Callable[[list[str]], Any]
    std: Sequence[float]
    """By which prepared images are divided."""

    @torch.inference_mode()
    def encode_images(self, pixels: Tensor) -> Tensor:
        """Unit vectors [N, D]."""
        return _unit(self.image_features(pixels))

    @torch.inference_mode()
    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Unit vectors [N, D]."""
        return _unit(self.text_features(list(captions)))


def read_transformers(folder: Path, *, device: str, is_clip: bool) -> Again:
    """`transformers.CLIPModel.from_pretrained`; other kinds as `hf:` reads them."""
    from transformers import AutoTokenizer, CLIPModel

    from unbag.models.huggingface import loading as hf

    try:
        with quietly():
            if not is_clip:
                found = hf.load(str(folder), device=device)
                assert isinstance(found, DualEncoder)
                return found
            model: Any = CLIPModel.from_pretrained(folder)
            processor = read_image_processor(HfSource(str(folder)))
            tokenizer = AutoTokenizer.from_pretrained(folder)
    except Exception as error:
        # Readers of transformers raise anything.
        raise _unreadable("transformers", said_by(error)) from error
    model = model.to(device).eval()

    def text_features(captions: list[str]) -> Any:
        inputs = tokenizer(captions, padding="max_length", truncation=True, return_tensors="pt")
        return model.get_text_features(**inputs.to(device))

    return PlainForm(
        lambda image: processor(images=image, return_tensors="pt")["pixel_values"][0],
        lambda pixels: model.get_image_features(pixel_values=pixels.to(device)),
        text_features,
        processor.image_std,
    )


def _unit(found: Any) -> Tensor:
    """Version 4 of transformers gives the vectors, 5 an output that holds them."""
    vector: Tensor = found if isinstance(found, torch.Tensor) else found.pooler_output
    return unit_vectors(vector)


def _unreadable(name: str, why: str) -> UnbagError:
    return UnbagError(
        f"{name} cannot read what was written for it: {why}",
        expected="open_clip_torch 3 or later, transformers 4.50 or later; nothing was written",
        hint="install a newer version of it",
    )
