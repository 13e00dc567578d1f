"""Wrap two functions, one for images and one for texts, as a dual encoder.

Dimensions: N images or captions, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from unbag.errors import UnbagError
from unbag.models.batching import as_tensor

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

_UNLIMITED = 1 << 30
"""Context length of a model without a stated one."""
_ROUNDING = 1e-5
"""Tolerance of the norm of vectors that are already normalized."""
_TEST_TEXTS = (
    "a red star to the left of a small striped cup",
    "two crimson discs above a large dotted square, but no tree",
    "A man's dog -- 17 of them! -- isn't behind the fence (photo, café).",
    "the horse eats the grass",
)
"""Captions that the functions are tested on."""


def wrap(
    *,
    encode_image: Callable[[Tensor], object],
    encode_text: Callable[[list[str]], object],
    preprocess: Callable[[Image], object],
    name: str,
    fingerprint: str | None = None,
    device: str = "cpu",
    scale: float = 1.0,
    bias: float = 0.0,
    context: int | None = None,
    count_tokens: Callable[[list[str]], Sequence[int]] | None = None,
) -> WrappedEncoder:
    """Make a dual encoder of any two functions that embed images and texts in one space.

    The functions are tested once on two images and a few texts. They may return tensors on any
    device or NumPy arrays, of any norm and precision. No gradients are computed.

    Args:
        encode_image: Maps a stacked batch of preprocessed images [N, ...] to vectors [N, D].
        encode_text: Maps a list of N texts to vectors [N, D].
        preprocess: Maps a PIL image to a tensor or array. It runs in several threads.
        name: The model's name in tables.
        fingerprint: Identifies the weights in caches and run folders; change it with them. By
            default it is computed from the vectors of the test images and texts.
        device: Device of the batches for `encode_image`, such as "cuda".
        scale: Inverse temperature of the training loss.
        bias: Bias of a sigmoid loss.
        context: Maximum number of tokens; longer captions are reported as truncated.
        count_tokens: Number of tokens of each text; by default its words.

    Examples:
        >>> import numpy as np
        >>> import unbag as ub
        >>> model = ub.wrap(
        ...     encode_image=lambda pixels: pixels.mean(dim=(1, 2)),
        ...     encode_text=lambda texts: np.array([[t.count(c) for c in "rgb"] for t in texts]),
        ...     preprocess=lambda image: np.asarray(image.convert("RGB").resize((8, 8)), "float32"),
        ...     name="mean-colour",
        ... )
        >>> ub.score("horse.png", ["a red barn", "a bag"], model).shape
        (2,)
    """
    encoder = WrappedEncoder(
        name=name,
        fingerprint=fingerprint or "",
        device=device,
        scale=scale,
        bias=bias,
        context=_UNLIMITED if context is None else context,
        _encode_image=encode_image,
        _encode_text=encode_text,
        _preprocess=preprocess,
        _count_tokens=count_tokens,
    )
    digest = _test(encoder)
    return encoder if fingerprint else replace(encoder, fingerprint=f"wrapped-1:{name}:{digest}")


@dataclass(frozen=True, eq=False)
class WrappedEncoder:
    """A dual encoder of two functions, made by `wrap`."""

    name: str
    fingerprint: str
    device: str
    scale: float
    bias: float
    context: int
    _encode_image: Callable[[Tensor], object]
    _encode_text: Callable[[list[str]], object]
    _preprocess: Callable[[Image], object]
    _count_tokens: Callable[[list[str]], Sequence[int]] | None

    def prepare(self, image: Image) -> Tensor:
        """Preprocess an image."""
        return as_tensor(self._preprocess(image), model=self.name)

    def count_tokens(self, captions: Sequence[str]) -> list[int]:
        """Count the tokens of each caption, or its words by default."""
        if self._count_tokens is None:
            return [len(caption.split()) for caption in captions]
        return [int(count) for count in self._count_tokens(list(captions))]

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Embed preprocessed images."""
        import torch

        with torch.no_grad():
            return self._unit(self._encode_image(pixels.to(self.device)), len(pixels), "image")

    def encode_texts(self, captions: Sequence[str]) -> Tensor:
        """Embed captions."""
        import torch

        with torch.no_grad():
            return self._unit(self._encode_text(list(captions)), len(captions), "text")

    def _unit(self, returned: object, count: int, what: str) -> Tensor:
        """Return checked unit vectors, float32, on the CPU."""
        vector_ND = as_tensor(returned, model=self.name).detach().float().cpu()
        if vector_ND.ndim != 2 or len(vector_ND) != count:
            shape = list(vector_ND.shape)
            raise UnbagError(
                f"encode_{what} of {self.name!r} returned shape {shape} for {count} {what}s",
                expected=f"one vector per {what}: shape [{count}, D]",
                hint=f"return the pooled embeddings from encode_{what}, one row each",
            )
        norm_N1: Tensor = vector_ND.norm(dim=-1, keepdim=True).clamp(min=1e-12)
        # Vectors of unit norm are not changed by rounding.
        norm_N1[(norm_N1 - 1).abs() <= _ROUNDING] = 1
        return vector_ND.div(norm_N1)


def _test(encoder: WrappedEncoder) -> str:
    """Check both functions on test inputs and return a digest of their vectors."""
    import torch
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (2, 96, 64, 3), dtype=np.uint8)
    images = [Image.fromarray(noise[0]), Image.fromarray(noise[1].transpose(1, 0, 2).copy())]
    prepared = [encoder.prepare(image) for image in images]
    if prepared[0].shape != prepared[1].shape:
        raise UnbagError(
            f"preprocess of {encoder.name!r} gives images of shapes {list(prepared[0].shape)} and "
            f"{list(prepared[1].shape)}",
            expected="one shape for all images, so that they can be stacked to a batch",
            hint="resize and crop every image to the input size of the model",
        )
    image_ND = encoder.encode_images(torch.stack(prepared))
    text_ND = encoder.encode_texts(_TEST_TEXTS)
    if image_ND.shape[1] != text_ND.shape[1]:
        raise UnbagError(
            f"{encoder.name!r} gives {image_ND.shape[1]} numbers for an image and "
            f"{text_ND.shape[1]} for a text",
            expected="vectors of one width, so that they have a cosine",
            hint="apply the projections into the joint space in both functions",
        )
    counts = encoder.count_tokens(_TEST_TEXTS)
    if len(counts) != len(_TEST_TEXTS):
        raise UnbagError(
            f"count_tokens of {encoder.name!r} returned {len(counts)} numbers for "
            f"{len(_TEST_TEXTS)} texts",
            expected="one number per text",
        )
    digest = blake2b(digest_size=16)
    for vector_ND in (image_ND, text_ND):
        digest.update(vector_ND.contiguous().numpy().tobytes())
    return digest.hexdigest()
