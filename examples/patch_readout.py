"""A kind of training of your own, as a task of the trainer: a linear read-out of patches.

    cd examples
    unbag train --model tiny:base --readout patch_readout:LINEAR --pairs world --out ../runs/linear
    unbag run --model tiny:base --scorer patch_readout:LINEAR@../runs/linear --bench world

A word scores by the patches that fit it, a caption by its words. The trainer makes checkpoints, the
log and runs that resume after a kill; `ReaderReadout` the features, the card and the scorer.
Dimensions: N pairs, P images, C captions, L patches, T words, B rows of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.models.features import LAST
from unbag.readouts.reader import Reader, Sizes, fill_matrix, negative_scores
from unbag.readouts.training import ReaderEffort, ReaderReadout, ReaderTask
from unbag.training.losses import info_nce
from unbag.training.settings import bounded
from unbag.types import TokenFeatures


@dataclass(frozen=True)
class LinearSettings(ReaderEffort):
    """What `--set` can change, besides what all readers share (steps, batch, learning_rate)."""

    width: int = bounded(128, low=1)
    sharpness: float = bounded(10.0, above=0)
    """At 0 a word would see the mean of all patches, at infinity only the one that fits it best."""
    others: float = bounded(0.1, low=0)
    """Weight of the contrast with the other captions of the batch."""


class LinearReader(Reader):
    """A matrix for patches, a matrix for words, and the mean fit of the words."""

    settings: LinearSettings
    name, view, scale = "linear", LAST, 20.0
    maps_show = "The cosine of each word with each patch, after the learned matrices."
    maps_are_signed = True

    def __init__(self, settings: LinearSettings, sizes: Sizes) -> None:
        """First weights are drawn from torch's generator."""
        super().__init__()
        self.settings = settings
        self.patches = nn.Linear(sizes.picture_width, settings.width, bias=False)
        self.words = nn.Linear(sizes.caption_width, settings.width, bias=False)

    def compare(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Row with row, [N]."""
        return self._score(self.word_maps(image, caption), image.mask_NL, caption.mask_NL)

    def compare_all(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Every image with every caption, [P, C], in bounded memory."""
        patch_PLD, word_CTD = _unit(self.patches, image), _unit(self.words, caption)

        def block(some: slice, others: slice) -> Tensor:
            fit_PCTL = torch.einsum("pld,ctd->pctl", patch_PLD[some], word_CTD[others])
            return self._score(fit_PCTL, image.mask_NL[some, None], caption.mask_NL[others])

        numbers = patch_PLD.shape[1] * word_CTD.shape[1]
        return fill_matrix(len(patch_PLD), len(word_CTD), numbers, block)

    def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """What `unbag diagnose` draws, [N, T, L]."""
        return _unit(self.words, caption) @ _unit(self.patches, image).transpose(1, 2)

    def _score(self, fit_TL: Tensor, is_patch_L: Tensor, is_word_T: Tensor) -> Tensor:
        logit_TL = (self.settings.sharpness * fit_TL).masked_fill(~is_patch_L[..., None, :], -1e4)
        word_T = (logit_TL.softmax(dim=-1) * fit_TL).sum(dim=-1).masked_fill(~is_word_T, 0)
        return word_T.sum(dim=-1) / is_word_T.sum(dim=-1)


def _unit(matrix: nn.Module, parts: TokenFeatures) -> Tensor:
    return functional.normalize(matrix(parts.vector_NLW.float()), dim=-1)


class LinearTask(ReaderTask):
    """Each image finds its caption among the hard negatives of that caption."""

    def loss(self, batch: Tensor, step: int) -> Tensor:
        """Of the rows of a step; `identity`, `learning_rate` and others can be changed as well."""
        settings = self.settings
        assert isinstance(settings, LinearSettings)
        rows = self.pool.batch(batch, device=self.device, with_negatives=settings.negatives)
        loss = settings.others * self.reader.loss(rows, contrast_size=settings.contrast_size)
        if rows.negative is not None:
            own_B = self.reader.scale * self.reader.compare(rows.image, rows.caption)
            negative_BK = self.reader.scale * negative_scores(self.reader, rows)
            first_B = torch.zeros_like(batch)  # The own caption is the first column.
            loss = loss + info_nce(own_B[:, None], first_B, negative_BK=negative_BK)
        return loss


LINEAR = ReaderReadout("linear", LinearSettings(), lambda settings: LAST, LinearReader, LinearTask)
