"""What a reader is given of pictures or captions: vectors of their parts, and the pooled one.

Dimensions: N pictures or captions, L patches or words, W width, C rows that were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbag.errors import UserError
from unbag.types import DualEncoder, LayerEncoder, TokenEncoder, Tokens

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class Parts:
    """N pictures or captions."""

    part_NLW: Tensor
    """Patches, rows from the top left, or words; zeros where there is none."""
    mask_NL: Tensor
    """True where there is one."""
    pooled_NW: Tensor
    """What the model itself reads out (CLS, end token, mean), in the same space."""
    mark_NL: Tensor | None = None
    """Numbers that a reader's own view puts on parts, such as which word stands there."""

    def __len__(self) -> int:
        """Pictures or captions."""
        return len(self.part_NLW)

    @property
    def device(self) -> torch.device:
        """Where they lie."""
        return self.part_NLW.device

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        every = (self.part_NLW, self.mask_NL, self.pooled_NW, self.mark_NL)
        return sum(one.nbytes for one in every if one is not None)

    def rows(self, at: Tensor | slice) -> Parts:
        """Some of them, in the order asked for."""
        mark_NL = None if self.mark_NL is None else self.mark_NL[at]
        return Parts(self.part_NLW[at], self.mask_NL[at], self.pooled_NW[at], mark_NL)

    def to(self, device: str, dtype: torch.dtype | None = None) -> Parts:
        """On a device; vectors in `dtype` if one is named."""
        mark_NL = None if self.mark_NL is None else self.mark_NL.to(device)
        return Parts(
            self.part_NLW.to(device=device, dtype=dtype),
            self.mask_NL.to(device),
            self.pooled_NW.to(device=device, dtype=dtype),
            mark_NL,
        )


@dataclass(frozen=True)
class View:
    """How a reader looks at a frozen encoder; equal names of two views mean equal features."""

    name: str
    """Part of the name of what is kept: letters, digits and dashes."""
    look: Callable[[DualEncoder, Tensor], Parts]
    """Prepared pictures to parts."""
    read: Callable[[DualEncoder, Sequence[str]], Parts]
    """Captions to parts."""


def stacked(every: Sequence[Parts]) -> Parts:
    """One after the other, padded to the most parts."""
    import torch
    from torch.nn import functional

    longest = max(one.part_NLW.shape[1] for one in every)

    def padded(tensor: Tensor) -> Tensor:
        rest = longest - tensor.shape[1]
        width = (0, 0) * (tensor.ndim - 2)
        return functional.pad(tensor, (*width, 0, rest)) if rest else tensor

    marks = [one.mark_NL for one in every]
    return Parts(
        torch.cat([padded(one.part_NLW) for one in every]),
        torch.cat([padded(one.mask_NL) for one in every]),
        torch.cat([one.pooled_NW for one in every]),
        torch.cat([padded(m) for m in marks if m is not None]) if marks[0] is not None else None,
    )


def joint_pictures(encoder: DualEncoder, pixels: Tensor) -> Parts:
    """Patches in the joint space, at unit norm."""
    found = _token_encoder(encoder).encode_patches(pixels)
    return _joint(found, lambda: encoder.encode_pictures(pixels))


def joint_captions(encoder: DualEncoder, captions: Sequence[str]) -> Parts:
    """Words in the joint space, at unit norm, special ones included where the model has them."""
    found = _token_encoder(encoder).encode_tokens(captions)
    return _joint(found, lambda: encoder.encode_captions(captions))


def last_pictures(encoder: DualEncoder, pixels: Tensor) -> Parts:
    """Patches as the projection into the joint space is given them, not at unit norm."""
    layers = _layer_encoder(encoder).picture_layers(pixels)
    return _last(layers.vector_NLW[-1], layers.mask_NL, layers.pooled_NW[-1], encoder)


def last_captions(encoder: DualEncoder, captions: Sequence[str]) -> Parts:
    """Words likewise."""
    layers = _layer_encoder(encoder).caption_layers(captions)
    return _last(layers.vector_NLW[-1], layers.mask_NL, layers.pooled_NW[-1], encoder)


def pooled_pictures(encoder: DualEncoder, pixels: Tensor) -> Parts:
    """What the projection is given of the read-out alone: no patch."""
    return _without_parts(last_pictures(encoder, pixels))


def pooled_captions(encoder: DualEncoder, captions: Sequence[str]) -> Parts:
    """Likewise: no word."""
    return _without_parts(last_captions(encoder, captions))


JOINT = View("joint", joint_pictures, joint_captions)
LAST = View("last", last_pictures, last_captions)
LAST_AND_JOINT = View("last-joint", last_pictures, joint_captions)
"""Pictures before the projection, captions after it."""
POOLED_ONLY = View("last-pooled", pooled_pictures, pooled_captions)
"""One vector each, before the projection; a fiftieth of the size of the others."""


def _without_parts(parts: Parts) -> Parts:
    # A clone, since a view of nothing would keep all of it in memory.
    return Parts(parts.part_NLW[:, :0].clone(), parts.mask_NL[:, :0].clone(), parts.pooled_NW)


def _joint(found: Tokens, pooled: Callable[[], Tensor]) -> Parts:
    # One pass is enough for a model that shows its read-out beside its parts.
    pooled_ND = found.pooled_ND if found.pooled_ND is not None else pooled()
    vector_NLD = found.vector_NLD.float().masked_fill(~found.mask_NL[..., None], 0)
    return Parts(vector_NLD, found.mask_NL, pooled_ND.float())


def _last(
    vector_NLW: Tensor, mask_NL: Tensor, pooled_NW: Tensor | None, encoder: DualEncoder
) -> Parts:
    vector_NLW = vector_NLW.float().cpu()
    mask_NL = mask_NL.cpu()
    vector_NLW = vector_NLW.masked_fill(~mask_NL[..., None], 0)
    if pooled_NW is None:
        raise UserError(
            f"{encoder.name} has no read-out before its projection",
            expected="a model that reads out at one place or by a mean",
            way_out="a reader of the joint space, such as dcsm_fixed",
        )
    return Parts(vector_NLW, mask_NL, pooled_NW.float().cpu())


def _token_encoder(encoder: DualEncoder) -> TokenEncoder:
    if not isinstance(encoder, TokenEncoder):
        raise _no_parts(encoder)
    return encoder


def _layer_encoder(encoder: DualEncoder) -> LayerEncoder:
    if not isinstance(encoder, LayerEncoder):
        raise _no_parts(encoder)
    return encoder


def _no_parts(encoder: DualEncoder) -> UserError:
    return UserError(
        f"{encoder.name} shows one vector for a picture and one for a caption, and no parts",
        expected="a model with patches and words: tiny:, open_clip:, hf: or photo:",
        way_out="give your model encode_patches and encode_tokens, picture_layers and "
        "caption_layers (docs/extending.md), or score it by cosine",
    )
