"""An image comes in; the numbers that a picture tower of transformers was trained on go out.

Dimensions: N pictures, L patches, F numbers of a patch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from unbag.errors import UserError
from unbag.models.levels import Levels, levels

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

_PLAIN = ("pixel_values",)
_PACKED = ("pixel_values", "pixel_attention_mask", "spatial_shapes")
"""SigLIP 2 NaFlex: patches of any grid, padded to a fixed number, with mask and grid."""


class Pictures:
    """An image processor that prepares one picture at a time, always to the same shape."""

    def __init__(self, processor: Any, *, name: str, device: str = "cpu") -> None:
        """Try two shapes of picture: batches need one shape of pixels."""
        from PIL import Image

        self.processor = processor
        self._levels: Levels | None = None
        names = set(processor(images=Image.new("RGB", (4, 4)), return_tensors="pt"))
        if names not in (set(_PLAIN), set(_PACKED)):
            raise UserError(
                f"{name}: its image processor gives {', '.join(sorted(names))}",
                expected=f"pixel_values alone, or what SigLIP 2 takes: {', '.join(_PACKED)}",
                way_out="this kind of model is not supported; docs/extending.md: bring your own",
            )
        self.is_packed = names == set(_PACKED)
        shapes = [tuple(self(Image.new("RGB", size)).shape) for size in ((40, 30), (30, 40))]
        if shapes[0] != shapes[1]:
            raise UserError(
                f"{name}: its image processor gives pixels of shape {shapes[0]} for a wide picture "
                f"and {shapes[1]} for a high one",
                expected="one shape, so that pictures can be run together",
                way_out="set a fixed size, or do_center_crop, in preprocessor_config.json",
            )
        if device != "cpu" and not self.is_packed:
            self._levels = levels(self._whole, self._in_bytes, self._last)

    def __call__(self, image: Image) -> Tensor:
        """[channels, height, width], in bytes for a device where that is exact.

        Or [L, F + 3], each patch with its mask and the grid.
        """
        if self._levels:
            return self._in_bytes(image)
        if not self.is_packed:
            return self._whole(image)
        found = self.processor(images=image, return_tensors="pt")
        value_LF, mask_L, grid = (found[name][0] for name in _PACKED)
        last_L3 = torch.cat([mask_L[:, None], grid.expand(len(mask_L), 2)], dim=1)
        return torch.cat([value_LF, last_L3.to(value_LF.dtype)], dim=1)

    def _whole(self, image: Image) -> Tensor:
        found: Tensor = self.processor(images=image, return_tensors="pt")["pixel_values"][0]
        return found

    def _in_bytes(self, image: Image) -> Tensor:
        found: Tensor = self.processor(
            images=image, return_tensors="pt", do_rescale=False, do_normalize=False
        )["pixel_values"][0]
        return found

    def _last(self, image: Image) -> Tensor:
        found: Tensor = self.processor(
            images=image, return_tensors="pt", do_resize=False, do_center_crop=False
        )["pixel_values"][0]
        return found

    def inputs(self, pixels: Tensor) -> Iterable[tuple[str, Tensor]]:
        """Arguments of the picture tower by name, from stacked prepared pictures."""
        if self._levels and pixels.dtype == torch.uint8:
            pixels = self._levels(pixels)
        if not self.is_packed:
            return [("pixel_values", pixels)]
        return [
            ("pixel_values", pixels[..., :-3]),
            ("pixel_attention_mask", pixels[..., -3].long()),
            ("spatial_shapes", pixels[:, 0, -2:].long()),
        ]

    def example(self) -> Tensor:
        """A prepared picture, to try a model on."""
        from PIL import Image

        return self(Image.new("RGB", (40, 30), (90, 120, 150)))

    @property
    def said(self) -> str:
        """All that decides a pixel, for the fingerprint."""
        return f"{type(self.processor).__name__} {self.processor.to_json_string()}"
