"""SPARC: a reader in which each word gathers the patches that fit it, which are compared with it.

The released form, as methods.md 7.4 describes it, has the name `sparc`; it counts padding as words
and gives a word that fits all patches alike no patch at all. Ours, `sparc_fixed`, does neither.

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
from unbag.readouts.reader import Reader, ReaderBatch, Sizes, contrast, crowds, filled
from unbag.readouts.training import ReaderEffort, ReaderReadout
from unbag.training.losses import block_info_nce, word_patch_loss
from unbag.training.settings import bounded
from unbag.types import DualEncoder, LayerEncoder, TokenFeatures

EPS = 1e-8
ALIKE = 1e-6
"""Fits that differ by less than this share of the largest are rounding."""
PAIRS_CROWD = 32
"""Maximum number of pairs that are contrasted; each costs words x patches."""


@dataclass(frozen=True)
class SparcSettings(ReaderEffort):
    """What decides the reader, besides its weights."""

    contrast_size: int = bounded(256, low=1)
    """Whole vectors are compared, so that the whole batch is contrasted, as released."""
    padding: bool = True
    """Count the empty places behind a caption as words of its means, as released."""
    fallback: bool = False
    """Even weights for a word that fits all patches alike; else it gathers nothing, as released."""
    whole: float = 0.5
    """Weight of the loss of mean patches and mean words."""
    local: float = 1.0
    """Weight of the loss of words and what they gathered."""
    pairs: float = 0.0
    """Weight of a loss of the score that is tested, which no published term trains."""
    rope: Rope = "none"
    form: Form = "concatenated"
    width: int = bounded(0, low=0)
    """Of the learned space; 0 is that of the encoder's words, as released."""
    dropout: float = bounded(0.1, low=0, below=1)
    temperature: float = bounded(0.1, above=0)
    """Fixed, as released."""


class Sparc(Reader):
    """The score is the cosine of the mean word and the mean of what words gathered."""

    settings: SparcSettings
    maps_show = (
        "The share of each patch in what a word gathers. All shares of a word sum to 1, and the "
        "patches that fit it least have none."
    )
    maps_are_signed = False

    def __init__(self, settings: SparcSettings, sizes: Sizes, *, name: str = "sparc") -> None:
        """Refuses positions that rotation cannot encode."""
        super().__init__()
        check_rotary(settings.rope, count=sizes.patches, width=sizes.picture_width)
        width = settings.width or sizes.caption_width
        self.view = _view(settings)
        self.name, self.settings, self.scale = name, settings, 1 / settings.temperature
        self.patches = PatchProjection(sizes.picture_width, width, dropout=settings.dropout)
        self.words = CaptionProjection(sizes.caption_width, width, dropout=settings.dropout)

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Row with row, [N]."""
        patch_NLD, (word_NTD, is_counted_NT) = self.looked(image), self.said(caption)
        gathered_NTD = self._gathered(word_NTD, patch_NLD, image.mask_NL)
        mean_ND = mean_direction(gathered_NTD, is_counted_NT)
        return (mean_ND * mean_direction(word_NTD, is_counted_NT)).sum(dim=-1)

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """[P, C], in bounded memory."""
        patch_PLD, (word_CTD, is_counted_CT) = self.looked(image), self.said(caption)
        caption_CD = mean_direction(word_CTD, is_counted_CT)
        words, width = word_CTD.shape[1:]

        def block(some: slice, others: slice) -> Tensor:
            patch_QLD, flat = patch_PLD[some], word_CTD[others].reshape(1, -1, width)
            gathered = self._gathered(
                flat.expand(len(patch_QLD), -1, -1), patch_QLD, image.mask_NL[some]
            )
            mean_QCD = mean_direction(
                gathered.view(len(patch_QLD), -1, words, width), is_counted_CT[others]
            )
            return torch.einsum("qcd,cd->qc", mean_QCD, caption_CD[others])

        return filled(len(patch_PLD), len(word_CTD), words * sum(patch_PLD.shape[1:]), block)

    def weights(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """How much each patch counts for each word, [N, T, L]; zeros where there is no word."""
        word_NTD, _ = self.said(caption)
        weight_NTL = self._weighted(word_NTD, self.looked(image), image.mask_NL)
        return weight_NTL.masked_fill(~caption.mask_NL[..., None], 0)

    def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """The weights, [N, T, L]."""
        return self.weights(image, caption)

    def loss(self, batch: ReaderBatch, *, contrast_size: int) -> Tensor:
        """Half that of the whole, that of the words, and that of pairs if it is asked for."""
        patch_BLD, (word_BTD, is_counted_BT) = self.looked(batch.image), self.said(batch.caption)
        found = self.settings.whole * self._whole(
            batch, patch_BLD, word_BTD, is_counted_BT, contrast_size
        )
        gathered_BTD = self._gathered(word_BTD, patch_BLD, batch.image.mask_NL)
        found = found + self.settings.local * word_patch_loss(
            gathered_BTD, word_BTD, batch.caption.mask_NL, scale=self.scale
        )
        if self.settings.pairs:
            found = found + self.settings.pairs * contrast(
                self, batch, contrast_size=min(contrast_size, PAIRS_CROWD)
            )
        return found

    def looked(self, image: TokenFeatures) -> Tensor:
        """Patches in the learned space, as long as they come, [N, L, D]."""
        vector_NLW = turned(image.vector_NLW.float(), self.settings.rope, self.settings.form)
        patch_NLD: Tensor = self.patches(vector_NLW)
        return patch_NLD.masked_fill(~image.mask_NL[..., None], 0)

    def said(self, caption: TokenFeatures) -> tuple[Tensor, Tensor]:
        """Words in the learned space [N, T, D], and which count in a mean [N, T]."""
        is_counted_NT = caption.mask_NL
        if self.settings.padding:
            is_counted_NT = torch.ones_like(is_counted_NT)
        return self.words(caption.vector_NLW), is_counted_NT

    def _weighted(self, word_PTD: Tensor, patch_PLD: Tensor, mask_PL: Tensor) -> Tensor:
        fit_PTL = word_PTD @ patch_PLD.transpose(1, 2)
        return patch_weights(fit_PTL, mask_PL[:, None], fallback=self.settings.fallback)

    def _gathered(self, word_PTD: Tensor, patch_PLD: Tensor, mask_PL: Tensor) -> Tensor:
        return self._weighted(word_PTD, patch_PLD, mask_PL) @ patch_PLD

    def _whole(
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
            negative_BKD = mean_direction(*self.said(batch.negative)).view(*mask_BK.shape, -1)
            score_BK = torch.einsum("bd,bkd->bk", image_BD, negative_BKD)
            negative_BK = (self.scale * score_BK).masked_fill(~mask_BK, -torch.inf)

        blocks = (
            (part, (self.scale * image_BD[part] @ caption_BD[part].T)[None])
            for part in crowds(len(caption_BD), contrast_size)
        )
        return block_info_nce(blocks, batch.also_true_BB, negative_BK=negative_BK)


def _view(settings: SparcSettings) -> View:
    return PADDED if settings.padding else LAST


def _named(name: str, settings: SparcSettings) -> ReaderReadout:
    return ReaderReadout(name, settings, _view, partial(Sparc, name=name))


SPARC = _named("sparc", SparcSettings())
SPARC_FIXED = _named("sparc_fixed", SparcSettings(padding=False, fallback=True))


def patch_weights(fit_NTL: Tensor, mask_NTL: Tensor, *, fallback: bool) -> Tensor:
    """Scaled to 0..1 over the patches of a word, those below 1/L dropped, the rest at sum 1.

    Where all are alike nothing is left: zeros, or even weights with the fallback.
    """
    fit_NTL = fit_NTL.float()
    mask_NTL = mask_NTL.expand_as(fit_NTL)
    least_NT1 = fit_NTL.masked_fill(~mask_NTL, torch.inf).amin(dim=-1, keepdim=True)
    most_NT1 = fit_NTL.masked_fill(~mask_NTL, -torch.inf).amax(dim=-1, keepdim=True)
    scaled_NTL = (fit_NTL - least_NT1) / (most_NT1 - least_NT1 + EPS)
    even_NTL = mask_NTL / mask_NTL.sum(dim=-1, keepdim=True)
    kept_NTL = scaled_NTL.masked_fill((scaled_NTL < even_NTL) | ~mask_NTL, 0)
    weight_NTL = kept_NTL / (kept_NTL.sum(dim=-1, keepdim=True) + EPS)
    if not fallback:
        return weight_NTL
    # Equal patches may differ in their last bit once they were multiplied.
    size_NT1 = torch.maximum(most_NT1.abs(), least_NT1.abs())
    return torch.where(most_NT1 - least_NT1 > ALIKE * size_NT1, weight_NTL, even_NTL)


def mean_direction(vector_TD: Tensor, is_counted_T: Tensor) -> Tensor:
    """The mean of those unit vectors that count, at unit norm; T is the last but one dimension."""
    unit_TD = functional.normalize(vector_TD.float(), dim=-1)
    return functional.normalize((unit_TD * is_counted_T[..., None]).sum(dim=-2), dim=-1)


def padded_captions(encoder: DualEncoder, captions: Sequence[str]) -> TokenFeatures:
    """Words, and what the encoder made of the empty places behind them, up to its context.

    Encoders run captions no longer than the longest at hand, so a longest one is put beside them.
    """
    if not isinstance(encoder, LayerEncoder):
        return last_texts(encoder, captions)  # Says what is missing.
    layers = encoder.text_layers([*captions, " ".join(["a"] * encoder.context)])
    count, pooled_NW = len(captions), layers.pooled_NW[-1]
    word_NLW = layers.vector_NLW[-1][:count].float().cpu()
    pooled_NW = word_NLW.mean(dim=1) if pooled_NW is None else pooled_NW[:count].float().cpu()
    return TokenFeatures(word_NLW, layers.mask_NL[:count].cpu(), pooled_NW)


PADDED = View("last-padded", last_images, padded_captions)
