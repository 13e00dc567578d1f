"""PACL: a reader that pools patches by their similarity to the caption it is compared with.

So the vector of an image depends on the caption (methods.md 7.2, 7.3). `pacl` follows the released
code, which trains another score than it tests; `pacl_fixed` trains the score that is tested.

A sum over patches loses their positions. `rope` keeps them: channels 2k and 2k + 1 are a plane, in
which the patch at position p is rotated by p x 10000^(-2k/W).

Dimensions: N pairs, P images, C captions, B rows of a batch, K negatives of a caption (in `_rotate`
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
    contrast_blocks,
    fill_matrix,
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
"""No rotation; by patch index, row after row; or half by the row and half by the column."""
Form: TypeAlias = Literal["concatenated", "interleaved"]
"""Order of the rotated channels: all first channels of planes before all second ones (as released),
or their original places. A linear layer can undo the difference, a permutation."""


def whole_captions(encoder: DualEncoder, captions: Sequence[str]) -> TokenFeatures:
    """Return the caption's vector in the joint space as its only token."""
    pooled_ND = encoder.encode_texts(captions).float()
    mask_NL = torch.ones((len(captions), 1), dtype=torch.bool)
    # Copied, since tensors that share memory cannot be saved in one file.
    return TokenFeatures(pooled_ND[:, None].clone(), mask_NL, pooled_ND)


PATCHES = View("last-whole", last_images, whole_captions)
"""Patches before the projection, without CLS; captions as one vector of the joint space."""


@dataclass(frozen=True)
class PaclSettings(ReaderEffort):
    """Settings of the reader."""

    contrast_size: int = bounded(256, low=1)
    """A pair costs little, so the whole batch is contrasted, as released."""
    pool: Literal["text", "uniform"] = "text"
    """Weights of patches at test time; the released code tests uniform ones."""
    taught: Literal["own", "each", "uniform"] = "own"
    """Weights of patches in training: by the image's own caption, whichever caption it is compared
    with (as released), by the caption of each pair (as at test time), or uniform."""
    rope: Rope = "none"
    form: Form = "concatenated"
    rope_at: Literal["input", "weights"] = "input"
    """Rotate the input of the projection, or its output, and then only for the weights."""
    width: int = bounded(0, low=0)
    """Width of the learned space; 0 is that of the caption vector, as released."""
    dropout: float = bounded(0.1, low=0, below=1)
    temperature: float = bounded(0.1, above=0)
    """Fixed, as released."""
    sharpness: float = 10.0
    """Factor of cosines in the sigmoid that makes weights of them."""


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
        """Raise UnbagError for patch positions that rotation cannot encode."""
        super().__init__()
        width = settings.width or sizes.caption_width
        rotated_width = sizes.picture_width if settings.rope_at == "input" else width
        check_rotary(settings.rope, count=sizes.patches, width=rotated_width)
        self.name, self.settings, self.scale = name, settings, 1 / settings.temperature
        self.patches = PatchProjection(sizes.picture_width, width, dropout=settings.dropout)
        self.captions = CaptionProjection(sizes.caption_width, width, dropout=settings.dropout)

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Score pairs row by row, [N]; each image is pooled for its caption."""
        patch_NLD, matched_NLD = self.projected(image)
        caption_ND = self.caption_vectors(caption)
        weight_NL = self._weights(matched_NLD, caption_ND, image.mask_NL)
        return (pool(weight_NL[:, None], patch_NLD)[:, 0] * caption_ND).sum(dim=-1)

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Score every image with every caption, [P, C], pooled for each pair, in bounded memory."""
        patch_PLD, matched_PLD = self.projected(image)
        caption_CD = self.caption_vectors(caption)
        is_uniform = self.settings.pool == "uniform"
        return self._cells(patch_PLD, matched_PLD, image.mask_NL, caption_CD, is_uniform=is_uniform)

    def weights(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Return the weight of each patch for the caption, [N, L]; zeros for padding."""
        return self._weights(self.projected(image)[1], self.caption_vectors(caption), image.mask_NL)

    def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Return the weights for the caption, which is one part, [N, 1, L]."""
        return self.weights(image, caption)[:, None]

    def loss(self, batch: ReaderBatch, *, contrast_size: int) -> Tensor:
        """Return CLIP's loss at the fixed temperature, with images pooled as `taught` says."""
        patch_BLD, matched_BLD = self.projected(batch.image)
        caption_BD, mask_BL = self.caption_vectors(batch.caption), batch.image.mask_NL
        if self.settings.taught == "own":
            weight_BL = attention(matched_BLD, caption_BD, mask_BL, self.settings.sharpness)
            pooled_BD = pool(weight_BL[:, None], patch_BLD)[:, 0]
            patch_BLD, matched_BLD = pooled_BD[:, None], pooled_BD[:, None]
            mask_BL = mask_BL[:, :1]
        # Equal weights do not change a vector that is already pooled.
        is_uniform = self.settings.taught != "each"

        def blocks() -> Iterator[tuple[slice, Tensor]]:
            for part in contrast_blocks(len(caption_BD), contrast_size):
                own = patch_BLD[part], matched_BLD[part], mask_BL[part], caption_BD[part]
                yield part, (self.scale * self._cells(*own, is_uniform=is_uniform))[None]

        negative_BK = self._negatives(batch, patch_BLD, matched_BLD, mask_BL, is_uniform=is_uniform)
        return block_info_nce(blocks(), batch.also_true_BB, negative_BK=negative_BK)

    def projected(self, image: TokenFeatures) -> tuple[Tensor, Tensor]:
        """Return patches to sum, and patches to compute weights from, [N, L, D] each."""
        settings = self.settings
        rope_in: Rope = settings.rope if settings.rope_at == "input" else "none"
        patch_NLD = self.patches(turned(image.vector_NLW.float(), rope_in, settings.form))
        if settings.rope_at == "input":
            return patch_NLD, patch_NLD
        return patch_NLD, turned(patch_NLD, settings.rope, settings.form)

    def caption_vectors(self, caption: TokenFeatures) -> Tensor:
        """Return captions in the learned space, at unit norm."""
        return functional.normalize(self.captions(caption.pooled), dim=-1)

    def _weights(self, matched_NLD: Tensor, caption_ND: Tensor, mask_NL: Tensor) -> Tensor:
        if self.settings.pool == "uniform":
            return mask_NL.to(matched_NLD.dtype)
        return attention(matched_NLD, caption_ND, mask_NL, self.settings.sharpness)

    def _cells(
        self,
        patch_PLD: Tensor,
        matched_PLD: Tensor,
        mask_PL: Tensor,
        caption_CD: Tensor,
        *,
        is_uniform: bool,
    ) -> Tensor:
        if is_uniform:
            return pool(mask_PL[:, None].to(patch_PLD.dtype), patch_PLD)[:, 0] @ caption_CD.T
        unit_PLD = functional.normalize(matched_PLD, dim=-1)

        def block(image_rows: slice, caption_rows: slice) -> Tensor:
            weight_PCL = _sigmoid_weights(
                torch.einsum("pld,cd->pcl", unit_PLD[image_rows], caption_CD[caption_rows]),
                mask_PL[image_rows, None],
                self.settings.sharpness,
            )
            return torch.einsum(
                "pcd,cd->pc", pool(weight_PCL, patch_PLD[image_rows]), caption_CD[caption_rows]
            )

        return fill_matrix(len(patch_PLD), len(caption_CD), sum(patch_PLD.shape[1:]), block)

    def _negatives(
        self,
        batch: ReaderBatch,
        patch_BLD: Tensor,
        matched_BLD: Tensor,
        mask_BL: Tensor,
        *,
        is_uniform: bool,
    ) -> Tensor | None:
        if batch.negative is None:
            return None
        size, negatives = batch.negative_mask_BK.shape
        negative_BKD = self.caption_vectors(batch.negative).view(size, negatives, -1)
        if is_uniform:
            weight_BKL = mask_BL[:, None].expand(-1, negatives, -1).to(patch_BLD.dtype)
        else:
            cosine_BKL = negative_BKD @ functional.normalize(matched_BLD, dim=-1).transpose(1, 2)
            weight_BKL = _sigmoid_weights(cosine_BKL, mask_BL[:, None], self.settings.sharpness)
        score_BK = (pool(weight_BKL, patch_BLD) * negative_BKD).sum(dim=-1)
        return (self.scale * score_BK).masked_fill(~batch.negative_mask_BK, -torch.inf)


def attention(patch_NLD: Tensor, caption_ND: Tensor, mask_NL: Tensor, sharpness: float) -> Tensor:
    """Return the sigmoid of scaled cosines row by row, [N, L]; 0 for padding."""
    unit_NLD = functional.normalize(patch_NLD.float(), dim=-1)
    unit_ND = functional.normalize(caption_ND.float(), dim=-1)
    return _sigmoid_weights(torch.einsum("nld,nd->nl", unit_NLD, unit_ND), mask_NL, sharpness)


def pool(weight_NCL: Tensor, patch_NLD: Tensor) -> Tensor:
    """Return weighted sums of unnormalised patches, at unit norm, [N, C, D].

    Computed in float32 even inside autocast: a sum of hundreds of patches overflows half precision.
    """
    with torch.autocast(patch_NLD.device.type, enabled=False):
        return functional.normalize(torch.bmm(weight_NCL.float(), patch_NLD.float()), dim=-1)


def _sigmoid_weights(cosine: Tensor, mask: Tensor, sharpness: float) -> Tensor:
    return torch.sigmoid(sharpness * cosine.float()).masked_fill(~mask, 0)


def _view(settings: PaclSettings) -> View:
    return PATCHES


def _readout(name: str, settings: PaclSettings) -> ReaderReadout:
    return ReaderReadout(name, settings, _view, partial(Pacl, name=name))


@dataclass(frozen=True)
class UniformReadout(ReaderReadout):
    """Scores any trained PACL with uniform weights: the second number to report."""

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """Return the scorer of a folder of this read-out or of any PACL."""
        if folder is None:
            return super().scorers(model, folder)
        encoder = encoder_of(model, self.name)
        head, _ = read_head(folder if folder.is_file() else folder / FILE)
        readout = head.readout if head.readout in NAMES else self.name
        reader, _ = load_reader(
            folder, encoder, readout=readout, settings=PaclSettings, build=self._build_uniform
        )
        return [ReaderScorer(encoder, reader, name=f"{encoder.name}+{self.name}")]

    def _build_uniform(self, settings: PaclSettings, sizes: Sizes) -> Pacl:
        return Pacl(replace(settings, pool="uniform"), sizes, name=self.name)


PACL = _readout("pacl", PaclSettings())
PACL_UNIFORM = UniformReadout(
    "pacl_uniform", PaclSettings(pool="uniform"), _view, partial(Pacl, name="pacl_uniform")
)
PACL_FIXED = _readout("pacl_fixed", PaclSettings(taught="each"))
PACL_ROTARY = _readout("pacl_rotary", PaclSettings(rope="1d"))
NAMES = tuple(readout.name for readout in (PACL, PACL_UNIFORM, PACL_FIXED, PACL_ROTARY))


class CaptionProjection(nn.Module):
    """Layer norm, dropout and a linear layer. The norm removes the length of the input."""

    def __init__(self, width: int, into: int, *, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.straight = nn.Linear(width, into)

    def forward(self, vector_W: Tensor) -> Tensor:
        """Map [..., W] to [..., D] in float32, whatever the precision of the input."""
        return cast("Tensor", self.straight(self.dropout(self.norm(vector_W.float()))).float())


class PatchProjection(CaptionProjection):
    """A `CaptionProjection` plus two layers with a GELU."""

    def __init__(self, width: int, into: int, *, dropout: float) -> None:
        super().__init__(width, into, dropout=dropout)
        self.bent = nn.Sequential(nn.Linear(width, into), nn.GELU(), nn.Linear(into, into))

    def forward(self, part_W: Tensor) -> Tensor:
        """Map [..., W] to [..., D] in float32, whatever the precision of the input."""
        hidden_W = self.dropout(self.norm(part_W.float()))
        return cast("Tensor", (self.straight(hidden_W) + self.bent(hidden_W)).float())


def turned(vector_NLW: Tensor, rope: Rope, form: Form = "concatenated") -> Tensor:
    """Rotate patches by their position, in rows from the top left; norms do not change."""
    count, width = vector_NLW.shape[-2:]
    if rope == "none":
        return vector_NLW
    check_rotary(rope, count=count, width=width)
    position_L = torch.arange(count, device=vector_NLW.device)
    if rope == "1d":
        return _rotate(vector_NLW, position_L, form)
    side = isqrt(count)
    by_row, by_column = vector_NLW.chunk(2, dim=-1)
    row_L = position_L.div(side, rounding_mode="floor")
    return torch.cat(
        [_rotate(by_row, row_L, form), _rotate(by_column, position_L % side, form)], dim=-1
    )


def check_rotary(rope: Rope, *, count: int, width: int) -> None:
    """Raise UnbagError for a width that planes do not divide, or 2-D positions without a square."""
    planes = {"none": 1, "1d": 2, "2d": 4}[rope]
    if width % planes:
        raise UnbagError(
            f"vectors of width {width} cannot be rotated with rope={rope}",
            expected=f"a width divisible by {planes}",
            hint="rope=none, or another model",
        )
    if rope == "2d" and isqrt(count) ** 2 != count:
        raise UnbagError(
            f"{count} patches do not form a square",
            expected="a square grid of patches for rope=2d",
            hint="rope=1d, which counts patches row by row",
        )


def _rotate(vector_NLW: Tensor, position_L: Tensor, form: Form) -> Tensor:
    width = vector_NLW.shape[-1]
    # In float64: a float32 angle of hundreds of radians is off in its sixth decimal.
    exponent_K = torch.arange(0, width, 2, device=vector_NLW.device, dtype=torch.float64) / width
    angle_LK = position_L[:, None] * BASE**-exponent_K
    cos_LK, sin_LK = (f(angle_LK).to(vector_NLW.dtype) for f in (torch.cos, torch.sin))
    first, second = vector_NLW[..., 0::2], vector_NLW[..., 1::2]
    rotated = (first * cos_LK - second * sin_LK, first * sin_LK + second * cos_LK)
    if form == "concatenated":
        return torch.cat(rotated, dim=-1)
    return torch.stack(rotated, dim=-1).flatten(-2)
