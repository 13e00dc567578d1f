"""PACL: patches and a caption vector come in; patches pooled by how they fit the caption score it.

The picture's vector depends on the caption it is compared with (methods.md 7.2, 7.3). What the
released code does has the name `pacl`; where that trains another score than it tests, ours has
another name, `pacl_fixed`.

Dimensions: N pairs, P pictures, C captions, B rows of a batch, K negatives of a caption, M = B x K,
L patches, W width of the encoder, D width of the learned space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from unbag.readouts.cells import filled, find_own_in_crowds
from unbag.readouts.fit import Effort
from unbag.readouts.head import Sizes
from unbag.readouts.parts import Parts, View, last_pictures
from unbag.readouts.projections import CaptionProjection, PatchProjection, check_space
from unbag.readouts.reader import Reader, ReaderBatch
from unbag.readouts.rotary import Form, Rope, check_rotary, turned
from unbag.types import DualEncoder


def whole_captions(encoder: DualEncoder, captions: Sequence[str]) -> Parts:
    """One part: the caption's vector in the joint space."""
    pooled_ND = encoder.encode_captions(captions).float()
    mask_NL = torch.ones((len(captions), 1), dtype=torch.bool)
    # Copied, since tensors that share memory cannot be written to one file.
    return Parts(pooled_ND[:, None].clone(), mask_NL, pooled_ND)


PATCHES = View("last-whole", last_pictures, whole_captions)
"""Patches before the projection, without CLS; captions as the one vector of the joint space."""


@dataclass(frozen=True)
class PaclSettings(Effort):
    """What decides the reader, besides its weights."""

    crowd: int = 256
    """A cell costs little, so that the whole batch is told apart, as released."""
    pool: Literal["text", "uniform"] = "text"
    """How patches are weighted when a pair is scored; uniform is what the released code tests."""
    taught: Literal["own", "each", "uniform"] = "own"
    """How they are weighted in training: a picture by its own caption whatever it is compared with
    (as released), each cell by its own caption (as at test), or not at all."""
    rope: Rope = "none"
    form: Form = "concatenated"
    rope_at: Literal["input", "weights"] = "input"
    """Turn what enters the projection, or what leaves it and then only for the weights."""
    width: int = 0
    """Of the learned space; 0 is that of the caption vector, as released."""
    dropout: float = 0.1
    temperature: float = 0.1
    """Fixed, as released."""
    sharpness: float = 10.0
    """Of the sigmoid that makes weights of cosines."""

    def __post_init__(self) -> None:
        """Refuses what nothing can be learned with."""
        check_space(width=self.width, dropout=self.dropout, temperature=self.temperature)


class Pacl(Reader):
    """Weights w = sigmoid(10 cos(patch, caption)); the score is cos(sum of w x patch, caption)."""

    settings: PaclSettings
    view = PATCHES
    maps_show = (
        "The weight, from 0 to 1, with which each patch enters the picture's vector. PACL reads a "
        "caption as one vector, so a word is shown as if it were the whole caption."
    )
    maps_are_signed = False

    def __init__(self, settings: PaclSettings, sizes: Sizes, *, name: str = "pacl") -> None:
        """Refuses places that cannot be told by turning."""
        super().__init__()
        width = settings.width or sizes.caption_width
        rotated = sizes.picture_width if settings.rope_at == "input" else width
        check_rotary(settings.rope, count=sizes.patches, width=rotated)
        self.name, self.settings, self.scale = name, settings, 1 / settings.temperature
        self.patches = PatchProjection(sizes.picture_width, width, dropout=settings.dropout)
        self.captions = CaptionProjection(sizes.caption_width, width, dropout=settings.dropout)

    def compare(self, picture: Parts, caption: Parts) -> Tensor:
        """Row with row, [N]; each picture pooled for its caption."""
        patch_NLD, looked_NLD = self.projected(picture)
        caption_ND = self.said(caption)
        weight_NL = self._weights(looked_NLD, caption_ND, picture.mask_NL)
        return (pool(weight_NL[:, None], patch_NLD)[:, 0] * caption_ND).sum(dim=-1)

    def compare_all(self, picture: Parts, caption: Parts) -> Tensor:
        """[P, C]; each cell pooled for its caption, in bounded memory."""
        patch_PLD, looked_PLD = self.projected(picture)
        caption_CD = self.said(caption)
        is_even = self.settings.pool == "uniform"
        return self._cells(patch_PLD, looked_PLD, picture.mask_NL, caption_CD, is_even=is_even)

    def weights(self, picture: Parts, caption: Parts) -> Tensor:
        """How much each patch counts for the caption, [N, L]; zeros where there is no patch."""
        return self._weights(self.projected(picture)[1], self.said(caption), picture.mask_NL)

    def word_maps(self, picture: Parts, caption: Parts) -> Tensor:
        """The weights for the caption, which is one part, [N, 1, L]."""
        return self.weights(picture, caption)[:, None]

    def loss(self, batch: ReaderBatch, *, crowd: int) -> Tensor:
        """CLIP's loss at the fixed temperature, with pictures pooled as `taught` says."""
        patch_BLD, looked_BLD = self.projected(batch.picture)
        caption_BD, mask_BL = self.said(batch.caption), batch.picture.mask_NL
        if self.settings.taught == "own":
            weight_BL = attention(looked_BLD, caption_BD, mask_BL, self.settings.sharpness)
            pooled_BD = pool(weight_BL[:, None], patch_BLD)[:, 0]
            patch_BLD, looked_BLD = pooled_BD[:, None], pooled_BD[:, None]
            mask_BL = mask_BL[:, :1]
        # One vector that is already pooled stays what it is under even weights.
        is_even = self.settings.taught != "each"

        def cells(part: slice) -> Tensor:
            return self.scale * self._cells(
                patch_BLD[part], looked_BLD[part], mask_BL[part], caption_BD[part], is_even=is_even
            )

        negative_BK = self._negatives(batch, patch_BLD, looked_BLD, mask_BL, is_even=is_even)
        return find_own_in_crowds(cells, negative_BK, batch.also_true_BB, crowd=crowd)

    def projected(self, picture: Parts) -> tuple[Tensor, Tensor]:
        """Patches that are summed, and patches as weights see them, [N, L, D] each."""
        settings = self.settings
        rope_in: Rope = settings.rope if settings.rope_at == "input" else "none"
        patch_NLD = self.patches(turned(picture.part_NLW.float(), rope_in, settings.form))
        if settings.rope_at == "input":
            return patch_NLD, patch_NLD
        return patch_NLD, turned(patch_NLD, settings.rope, settings.form)

    def said(self, caption: Parts) -> Tensor:
        """Captions in the learned space, at unit norm."""
        return functional.normalize(self.captions(caption.pooled_NW), dim=-1)

    def _weights(self, looked_NLD: Tensor, caption_ND: Tensor, mask_NL: Tensor) -> Tensor:
        if self.settings.pool == "uniform":
            return mask_NL.to(looked_NLD.dtype)
        return attention(looked_NLD, caption_ND, mask_NL, self.settings.sharpness)

    def _cells(
        self,
        patch_PLD: Tensor,
        looked_PLD: Tensor,
        mask_PL: Tensor,
        caption_CD: Tensor,
        *,
        is_even: bool,
    ) -> Tensor:
        if is_even:
            return pool(mask_PL[:, None].to(patch_PLD.dtype), patch_PLD)[:, 0] @ caption_CD.T
        unit_PLD = functional.normalize(looked_PLD, dim=-1)

        def block(some: slice, others: slice) -> Tensor:
            weight_PCL = _sharpened(
                torch.einsum("pld,cd->pcl", unit_PLD[some], caption_CD[others]),
                mask_PL[some, None],
                self.settings.sharpness,
            )
            return torch.einsum("pcd,cd->pc", pool(weight_PCL, patch_PLD[some]), caption_CD[others])

        return filled(len(patch_PLD), len(caption_CD), sum(patch_PLD.shape[1:]), block)

    def _negatives(
        self,
        batch: ReaderBatch,
        patch_BLD: Tensor,
        looked_BLD: Tensor,
        mask_BL: Tensor,
        *,
        is_even: bool,
    ) -> Tensor | None:
        if batch.negative is None:
            return None
        size, each = batch.negative_mask_BK.shape
        negative_BKD = self.said(batch.negative).view(size, each, -1)
        if is_even:
            weight_BKL = mask_BL[:, None].expand(-1, each, -1).to(patch_BLD.dtype)
        else:
            cosine_BKL = negative_BKD @ functional.normalize(looked_BLD, dim=-1).transpose(1, 2)
            weight_BKL = _sharpened(cosine_BKL, mask_BL[:, None], self.settings.sharpness)
        score_BK = (pool(weight_BKL, patch_BLD) * negative_BKD).sum(dim=-1)
        return (self.scale * score_BK).masked_fill(~batch.negative_mask_BK, -torch.inf)


def attention(patch_NLD: Tensor, caption_ND: Tensor, mask_NL: Tensor, sharpness: float) -> Tensor:
    """Row with row: the sigmoid of sharpened cosines, [N, L]; 0 where there is no patch."""
    unit_NLD = functional.normalize(patch_NLD.float(), dim=-1)
    unit_ND = functional.normalize(caption_ND.float(), dim=-1)
    return _sharpened(torch.einsum("nld,nd->nl", unit_NLD, unit_ND), mask_NL, sharpness)


def pool(weight_NCL: Tensor, patch_NLD: Tensor) -> Tensor:
    """Weighted sums of patches as long as they are, at unit norm: [N, C, D].

    In float32 even inside autocast: a sum of hundreds of patches overflows half precision.
    """
    with torch.autocast(patch_NLD.device.type, enabled=False):
        return functional.normalize(torch.bmm(weight_NCL.float(), patch_NLD.float()), dim=-1)


def _sharpened(cosine: Tensor, mask: Tensor, sharpness: float) -> Tensor:
    return torch.sigmoid(sharpness * cosine.float()).masked_fill(~mask, 0)
