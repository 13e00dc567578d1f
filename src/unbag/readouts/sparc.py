"""SPARC: a reader in which each word gathers the patches that fit it and is compared with them.

`sparc` follows the released code (methods.md 7.4): it counts padding as words, and a word that fits
all patches equally gathers no patch. `sparc_fixed` does neither.

Dimensions: N pairs, P images (Q of them), C captions, B rows of a batch, K negatives of a
caption, L patches, T words, W width of the encoder, D width of the learned space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from unbag.models.features import LAST, View, last_images, last_texts
from unbag.readouts.pacl import (
    CaptionProjection,
    Form,
    PatchProjection,
    Rope,
    check_rotary,
    turned,
)
from unbag.readouts.reader import Reader, ReaderBatch, Sizes, contrast, contrast_blocks, fill_matrix
from unbag.readouts.training import ReaderEffort, ReaderReadout
from unbag.training.losses import block_info_nce, word_patch_loss
from unbag.training.settings import bounded
from unbag.types import DualEncoder, LayerEncoder, TokenFeatures

EPS = 1e-8
ALIKE = 1e-6
"""Similarities that differ by less than this share of the largest count as equal."""
PAIRS_CROWD = 32
"""Maximum number of rows that the pair loss contrasts; a pair costs words x patches."""


@dataclass(frozen=True)
class SparcSettings(ReaderEffort):
    """Settings of the reader."""

    contrast_size: int = bounded(256, low=1)
    """Whole vectors are compared, so the whole batch is contrasted, as released."""
    padding: bool = True
    """Count padding after a caption as words of its mean, as released."""
    fallback: bool = False
    """Weight patches equally if a word fits all equally; else it gathers none, as released."""
    whole: float = 0.5
    """Weight of the loss on mean patches and mean words."""
    local: float = 1.0
    """Weight of the loss on words and the patches they gathered."""
    pairs: float = 0.0
    """Weight of a loss on the test score, which no published term trains."""
    rope: Rope = "none"
    form: Form = "concatenated"
    width: int = bounded(0, low=0)
    """Width of the learned space; 0 is that of the encoder's words, as released."""
    dropout: float = bounded(0.1, low=0, below=1)
    temperature: float = bounded(0.1, above=0)
    """Fixed, as released."""


class Sparc(Reader):
    """The score is the cosine of the mean word and the mean of the gathered patches."""

    settings: SparcSettings
    maps_show = (
        "The share of each patch in what a word gathers. All shares of a word sum to 1, and the "
        "patches that fit it least have none."
    )
    maps_are_signed = False

    def __init__(self, settings: SparcSettings, sizes: Sizes, *, name: str = "sparc") -> None:
        """Raise UnbagError for patch positions that rotation cannot encode."""
        super().__init__()
        check_rotary(settings.rope, count=sizes.patches, width=sizes.picture_width)
        width = settings.width or sizes.caption_width
        self.view = _view(settings)
        self.name, self.settings, self.scale = name, settings, 1 / settings.temperature
        self.patches = PatchProjection(sizes.picture_width, width, dropout=settings.dropout)
        self.words = CaptionProjection(sizes.caption_width, width, dropout=settings.dropout)

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Score pairs row by row, [N]."""
        patch_NLD, (word_NTD, is_counted_NT) = self.patch_vectors(image), self.word_vectors(caption)
        gathered_NTD = self._gather(word_NTD, patch_NLD, image.mask_NL)
        mean_ND = mean_direction(gathered_NTD, is_counted_NT)
        return (mean_ND * mean_direction(word_NTD, is_counted_NT)).sum(dim=-1)

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Score every image with every caption, [P, C], in bounded memory."""
        patch_PLD, (word_CTD, is_counted_CT) = self.patch_vectors(image), self.word_vectors(caption)
        caption_CD = mean_direction(word_CTD, is_counted_CT)
        words, width = word_CTD.shape[1:]

        def block(image_rows: slice, caption_rows: slice) -> Tensor:
            patch_QLD, word_1TD = (
                patch_PLD[image_rows],
                word_CTD[caption_rows].reshape(1, -1, width),
            )
            gathered = self._gather(
                word_1TD.expand(len(patch_QLD), -1, -1), patch_QLD, image.mask_NL[image_rows]
            )
            mean_QCD = mean_direction(
                gathered.view(len(patch_QLD), -1, words, width), is_counted_CT[caption_rows]
            )
            return torch.einsum("qcd,cd->qc", mean_QCD, caption_CD[caption_rows])

        return fill_matrix(len(patch_PLD), len(word_CTD), words * sum(patch_PLD.shape[1:]), block)

    def weights(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Return the weight of each patch for each word, [N, T, L]; zeros for padding."""
        word_NTD, _ = self.word_vectors(caption)
        weight_NTL = self._patch_weights(word_NTD, self.patch_vectors(image), image.mask_NL)
        return weight_NTL.masked_fill(~caption.mask_NL[..., None], 0)

    def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Return `weights`, [N, T, L]."""
        return self.weights(image, caption)

    def loss(self, batch: ReaderBatch, *, contrast_size: int) -> Tensor:
        """Return the weighted sum of the losses on whole vectors, on words, and on pairs."""
        patch_BLD, (word_BTD, is_counted_BT) = (
            self.patch_vectors(batch.image),
            self.word_vectors(batch.caption),
        )
        total = self.settings.whole * self._whole_loss(
            batch, patch_BLD, word_BTD, is_counted_BT, contrast_size
        )
        gathered_BTD = self._gather(word_BTD, patch_BLD, batch.image.mask_NL)
        total = total + self.settings.local * word_patch_loss(
            gathered_BTD, word_BTD, batch.caption.mask_NL, scale=self.scale
        )
        if self.settings.pairs:
            total = total + self.settings.pairs * contrast(
                self, batch, contrast_size=min(contrast_size, PAIRS_CROWD)
            )
        return total

    def patch_vectors(self, image: TokenFeatures) -> Tensor:
        """Return patches in the learned space, not normalised, [N, L, D]."""
        vector_NLW = turned(image.vector_NLW.float(), self.settings.rope, self.settings.form)
        patch_NLD: Tensor = self.patches(vector_NLW)
        return patch_NLD.masked_fill(~image.mask_NL[..., None], 0)

    def word_vectors(self, caption: TokenFeatures) -> tuple[Tensor, Tensor]:
        """Return words in the learned space [N, T, D], and which of them count in a mean [N, T]."""
        is_counted_NT = caption.mask_NL
        if self.settings.padding:
            is_counted_NT = torch.ones_like(is_counted_NT)
        return self.words(caption.vector_NLW), is_counted_NT

    def _patch_weights(self, word_PTD: Tensor, patch_PLD: Tensor, mask_PL: Tensor) -> Tensor:
        fit_PTL = word_PTD @ patch_PLD.transpose(1, 2)
        return patch_weights(fit_PTL, mask_PL[:, None], fallback=self.settings.fallback)

    def _gather(self, word_PTD: Tensor, patch_PLD: Tensor, mask_PL: Tensor) -> Tensor:
        return self._patch_weights(word_PTD, patch_PLD, mask_PL) @ patch_PLD

    def _whole_loss(
        self,
        batch: ReaderBatch,
        patch_BLD: Tensor,
        word_BTD: Tensor,
        is_counted_BT: Tensor,
        contrast_size: int,
    ) -> Tensor:
        mask_BL = batch.image.mask_NL
        mean_BD = patch_BLD.sum(dim=1) / mask_BL.sum(dim=1, keepdim=True)
        image_BD = functional.normalize(mean_BD, dim=-1)
        caption_BD = mean_direction(word_BTD, is_counted_BT)
        negative_BK = None
        if batch.negative is not None:
            mask_BK = batch.negative_mask_BK
            negative_BKD = mean_direction(*self.word_vectors(batch.negative)).view(
                *mask_BK.shape, -1
            )
            score_BK = torch.einsum("bd,bkd->bk", image_BD, negative_BKD)
            negative_BK = (self.scale * score_BK).masked_fill(~mask_BK, -torch.inf)

        blocks = (
            (part, (self.scale * image_BD[part] @ caption_BD[part].T)[None])
            for part in contrast_blocks(len(caption_BD), contrast_size)
        )
        return block_info_nce(blocks, batch.also_true_BB, negative_BK=negative_BK)


def _view(settings: SparcSettings) -> View:
    return PADDED if settings.padding else LAST


def _named(name: str, settings: SparcSettings) -> ReaderReadout:
    return ReaderReadout(name, settings, _view, partial(Sparc, name=name))


SPARC = _named("sparc", SparcSettings())
SPARC_FIXED = _named("sparc_fixed", SparcSettings(padding=False, fallback=True))


def patch_weights(fit_NTL: Tensor, mask_NTL: Tensor, *, fallback: bool) -> Tensor:
    """Scale similarities to 0..1 over the patches, drop those below 1/L, and normalise to sum 1.

    If all are equal, none is left: the weights are 0, or equal with the fallback.
    """
    fit_NTL = fit_NTL.float()
    mask_NTL = mask_NTL.expand_as(fit_NTL)
    min_NT1 = fit_NTL.masked_fill(~mask_NTL, torch.inf).amin(dim=-1, keepdim=True)
    max_NT1 = fit_NTL.masked_fill(~mask_NTL, -torch.inf).amax(dim=-1, keepdim=True)
    scaled_NTL = (fit_NTL - min_NT1) / (max_NT1 - min_NT1 + EPS)
    even_NTL = mask_NTL / mask_NTL.sum(dim=-1, keepdim=True)
    above_NTL = scaled_NTL.masked_fill((scaled_NTL < even_NTL) | ~mask_NTL, 0)
    weight_NTL = above_NTL / (above_NTL.sum(dim=-1, keepdim=True) + EPS)
    if not fallback:
        return weight_NTL
    # Products of equal patches may differ in their last bit.
    size_NT1 = torch.maximum(max_NT1.abs(), min_NT1.abs())
    return torch.where(max_NT1 - min_NT1 > ALIKE * size_NT1, weight_NTL, even_NTL)


def mean_direction(vector_TD: Tensor, is_counted_T: Tensor) -> Tensor:
    """Return the mean of the counted unit vectors, at unit norm; T is the second to last axis."""
    unit_TD = functional.normalize(vector_TD.float(), dim=-1)
    return functional.normalize((unit_TD * is_counted_T[..., None]).sum(dim=-2), dim=-1)


def padded_captions(encoder: DualEncoder, captions: Sequence[str]) -> TokenFeatures:
    """Return vectors of words and of the padding after them, up to the encoder's context.

    Encoders pad captions to the longest of a batch, so one of full length is added to the batch.
    """
    if not isinstance(encoder, LayerEncoder):
        return last_texts(encoder, captions)  # Raises an error that names the missing method.
    layers = encoder.text_layers([*captions, " ".join(["a"] * encoder.context)])
    count, pooled_NW = len(captions), layers.pooled_NW[-1]
    word_NLW = layers.vector_NLW[-1][:count].float().cpu()
    pooled_NW = word_NLW.mean(dim=1) if pooled_NW is None else pooled_NW[:count].float().cpu()
    return TokenFeatures(word_NLW, layers.mask_NL[:count].cpu(), pooled_NW)


PADDED = View("last-padded", last_images, padded_captions)
