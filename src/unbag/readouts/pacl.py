"""PACL: a reader that pools patches by how they fit the caption, and compares the sum with it.

The image's vector depends on the caption it is compared with (methods.md 7.2, 7.3). What the
released code does has the name `pacl`; where that trains another score than it tests, ours has
another name, `pacl_fixed`.

A sum over patches forgets where they were; one over turned patches does not (`rope`): channels 2k
and 2k + 1 are a plane, in which the patch at place p is turned by p x 10000^(-2k/W).

Dimensions: N pairs, P images, C captions, B rows of a batch, K negatives of a caption (in `_turn`
planes), L patches, W width of the encoder, D width of the learned space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.errors import UnbagError
from unbag.models.features import View, last_images
from unbag.readouts.reader import (
    FILE,
    Reader,
    ReaderBatch,
    Sizes,
    crowds,
    filled,
    load_reader,
    read_head,
)
from unbag.readouts.scorer import ReaderScorer
from unbag.readouts.training import ReaderEffort, ReaderReadout, encoder_of
from unbag.training.losses import block_info_nce
from unbag.training.settings import bounded
from unbag.types import DualEncoder, Scorer, TokenFeatures

if TYPE_CHECKING:
    from unbag.models.loading import Model

BASE = 10_000.0
Rope: TypeAlias = Literal["none", "1d", "2d"]
"""Not at all; by the number of the patch, row after row; half by its row and half by its column."""
Form: TypeAlias = Literal["concatenated", "interleaved"]
"""Where the turned pairs lie: all first channels before all second ones (as released), or in the
places they came from. One is a permutation of the other, which a linear layer undoes."""


def whole_captions(encoder: DualEncoder, captions: Sequence[str]) -> TokenFeatures:
    """One part: the caption's vector in the joint space."""
    pooled_ND = encoder.encode_texts(captions).float()
    mask_NL = torch.ones((len(captions), 1), dtype=torch.bool)
    # Copied, since tensors that share memory cannot be written to one file.
    return TokenFeatures(pooled_ND[:, None].clone(), mask_NL, pooled_ND)


PATCHES = View("last-whole", last_images, whole_captions)
"""Patches before the projection, without CLS; captions as the one vector of the joint space."""


@dataclass(frozen=True)
class PaclSettings(ReaderEffort):
    """What decides the reader, besides its weights."""

    contrast_size: int = bounded(256, low=1)
    """A cell costs little, so that the whole batch is contrasted, as released."""
    pool: Literal["text", "uniform"] = "text"
    """How patches are weighted when a pair is scored; uniform is what the released code tests."""
    taught: Literal["own", "each", "uniform"] = "own"
    """How they are weighted in training: an image by its own caption whatever it is compared with
    (as released), each cell by its own caption (as at test), or not at all."""
    rope: Rope = "none"
    form: Form = "concatenated"
    rope_at: Literal["input", "weights"] = "input"
    """Turn what enters the projection, or what leaves it and then only for the weights."""
    width: int = bounded(0, low=0)
    """Of the learned space; 0 is that of the caption vector, as released."""
    dropout: float = bounded(0.1, low=0, below=1)
    temperature: float = bounded(0.1, above=0)
    """Fixed, as released."""
    sharpness: float = 10.0
    """Of the sigmoid that makes weights of cosines."""


class Pacl(Reader):
    """Weights w = sigmoid(10 cos(patch, caption)); the score is cos(sum of w x patch, caption)."""

    settings: PaclSettings
    view = PATCHES
    maps_show = (
        "The weight, from 0 to 1, with which each patch enters the image's vector. PACL reads a "
        "caption as one vector, so a word is shown as if it were the whole caption."
    )
    maps_are_signed = False

    def __init__(self, settings: PaclSettings, sizes: Sizes, *, name: str = "pacl") -> None:
        """Refuses positions that rotation cannot encode."""
        super().__init__()
        width = settings.width or sizes.caption_width
        rotated = sizes.picture_width if settings.rope_at == "input" else width
        check_rotary(settings.rope, count=sizes.patches, width=rotated)
        self.name, self.settings, self.scale = name, settings, 1 / settings.temperature
        self.patches = PatchProjection(sizes.picture_width, width, dropout=settings.dropout)
        self.captions = CaptionProjection(sizes.caption_width, width, dropout=settings.dropout)

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Row with row, [N]; each image pooled for its caption."""
        patch_NLD, looked_NLD = self.projected(image)
        caption_ND = self.said(caption)
        weight_NL = self._weights(looked_NLD, caption_ND, image.mask_NL)
        return (pool(weight_NL[:, None], patch_NLD)[:, 0] * caption_ND).sum(dim=-1)

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """[P, C]; each cell pooled for its caption, in bounded memory."""
        patch_PLD, looked_PLD = self.projected(image)
        caption_CD = self.said(caption)
        is_even = self.settings.pool == "uniform"
        return self._cells(patch_PLD, looked_PLD, image.mask_NL, caption_CD, is_even=is_even)

    def weights(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """How much each patch counts for the caption, [N, L]; zeros where there is no patch."""
        return self._weights(self.projected(image)[1], self.said(caption), image.mask_NL)

    def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """The weights for the caption, which is one part, [N, 1, L]."""
        return self.weights(image, caption)[:, None]

    def loss(self, batch: ReaderBatch, *, contrast_size: int) -> Tensor:
        """CLIP's loss at the fixed temperature, with images pooled as `taught` says."""
        patch_BLD, looked_BLD = self.projected(batch.image)
        caption_BD, mask_BL = self.said(batch.caption), batch.image.mask_NL
        if self.settings.taught == "own":
            weight_BL = attention(looked_BLD, caption_BD, mask_BL, self.settings.sharpness)
            pooled_BD = pool(weight_BL[:, None], patch_BLD)[:, 0]
            patch_BLD, looked_BLD = pooled_BD[:, None], pooled_BD[:, None]
            mask_BL = mask_BL[:, :1]
        # One vector that is already pooled stays what it is under even weights.
        is_even = self.settings.taught != "each"

        def blocks() -> Iterator[tuple[slice, Tensor]]:
            for part in crowds(len(caption_BD), contrast_size):
                own = patch_BLD[part], looked_BLD[part], mask_BL[part], caption_BD[part]
                yield part, (self.scale * self._cells(*own, is_even=is_even))[None]

        negative_BK = self._negatives(batch, patch_BLD, looked_BLD, mask_BL, is_even=is_even)
        return block_info_nce(blocks(), batch.also_true_BB, negative_BK=negative_BK)

    def projected(self, image: TokenFeatures) -> tuple[Tensor, Tensor]:
        """Patches that are summed, and patches as weights see them, [N, L, D] each."""
        settings = self.settings
        rope_in: Rope = settings.rope if settings.rope_at == "input" else "none"
        patch_NLD = self.patches(turned(image.vector_NLW.float(), rope_in, settings.form))
        if settings.rope_at == "input":
            return patch_NLD, patch_NLD
        return patch_NLD, turned(patch_NLD, settings.rope, settings.form)

    def said(self, caption: TokenFeatures) -> Tensor:
        """Captions in the learned space, at unit norm."""
        return functional.normalize(self.captions(caption.pooled), dim=-1)

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


def _view(settings: PaclSettings) -> View:
    return PATCHES


def _named(name: str, settings: PaclSettings) -> ReaderReadout:
    return ReaderReadout(name, settings, _view, partial(Pacl, name=name))


@dataclass(frozen=True)
class UniformReadout(ReaderReadout):
    """Scores without weights whatever PACL was trained: the other of two numbers to report."""

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """One, from a folder of its own or of any PACL."""
        if folder is None:
            return super().scorers(model, folder)
        encoder = encoder_of(model, self.name)
        head, _ = read_head(folder if folder.is_file() else folder / FILE)
        known = head.readout if head.readout in NAMES else self.name
        reader, _ = load_reader(
            folder, encoder, readout=known, settings=PaclSettings, build=self._evenly
        )
        return [ReaderScorer(encoder, reader, name=f"{encoder.name}+{self.name}")]

    def _evenly(self, settings: PaclSettings, sizes: Sizes) -> Pacl:
        return Pacl(replace(settings, pool="uniform"), sizes, name=self.name)


PACL = _named("pacl", PaclSettings())
PACL_UNIFORM = UniformReadout(
    "pacl_uniform", PaclSettings(pool="uniform"), _view, partial(Pacl, name="pacl_uniform")
)
PACL_FIXED = _named("pacl_fixed", PaclSettings(taught="each"))
PACL_ROTARY = _named("pacl_rotary", PaclSettings(rope="1d"))
NAMES = tuple(one.name for one in (PACL, PACL_UNIFORM, PACL_FIXED, PACL_ROTARY))


class CaptionProjection(nn.Module):
    """A norm, dropout, a linear layer. The norm makes the length of what comes in irrelevant."""

    def __init__(self, width: int, into: int, *, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.straight = nn.Linear(width, into)

    def forward(self, vector_W: Tensor) -> Tensor:
        """[..., W] to [..., D], float32 whatever comes in."""
        return cast("Tensor", self.straight(self.dropout(self.norm(vector_W.float()))).float())


class PatchProjection(CaptionProjection):
    """The same, and two layers with a GELU added to it."""

    def __init__(self, width: int, into: int, *, dropout: float) -> None:
        super().__init__(width, into, dropout=dropout)
        self.bent = nn.Sequential(nn.Linear(width, into), nn.GELU(), nn.Linear(into, into))

    def forward(self, part_W: Tensor) -> Tensor:
        """[..., W] to [..., D], float32 whatever comes in."""
        hidden_W = self.dropout(self.norm(part_W.float()))
        return cast("Tensor", (self.straight(hidden_W) + self.bent(hidden_W)).float())


def turned(vector_NLW: Tensor, rope: Rope, form: Form = "concatenated") -> Tensor:
    """Patches in rows from the top left; norms stay as they are."""
    count, width = vector_NLW.shape[-2:]
    if rope == "none":
        return vector_NLW
    check_rotary(rope, count=count, width=width)
    place_L = torch.arange(count, device=vector_NLW.device)
    if rope == "1d":
        return _turn(vector_NLW, place_L, form)
    side = isqrt(count)
    by_row, by_column = vector_NLW.chunk(2, dim=-1)
    row_L = place_L.div(side, rounding_mode="floor")
    return torch.cat([_turn(by_row, row_L, form), _turn(by_column, place_L % side, form)], dim=-1)


def check_rotary(rope: Rope, *, count: int, width: int) -> None:
    """Refuses widths that are no whole number of planes, and 2-D places without a square."""
    planes = {"none": 1, "1d": 2, "2d": 4}[rope]
    if width % planes:
        raise UnbagError(
            f"vectors of width {width} cannot be turned with rope={rope}",
            expected=f"a width that {planes} divides",
            hint="rope=none, or another model",
        )
    if rope == "2d" and isqrt(count) ** 2 != count:
        raise UnbagError(
            f"{count} patches make no square",
            expected="as many rows as columns for rope=2d",
            hint="rope=1d, which counts patches row by row",
        )


def _turn(vector_NLW: Tensor, place_L: Tensor, form: Form) -> Tensor:
    width = vector_NLW.shape[-1]
    # In float64: a float32 angle of hundreds of radians is off in its sixth decimal.
    exponent_K = torch.arange(0, width, 2, device=vector_NLW.device, dtype=torch.float64) / width
    angle_LK = place_L[:, None] * BASE**-exponent_K
    cos_LK, sin_LK = (f(angle_LK).to(vector_NLW.dtype) for f in (torch.cos, torch.sin))
    first, second = vector_NLW[..., 0::2], vector_NLW[..., 1::2]
    pair = (first * cos_LK - second * sin_LK, first * sin_LK + second * cos_LK)
    if form == "concatenated":
        return torch.cat(pair, dim=-1)
    return torch.stack(pair, dim=-1).flatten(-2)
