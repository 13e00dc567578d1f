"""A kind of training of your own, as a task of the trainer: a linear read-out of patches.

    cd examples
    unbag train --model tiny:base --recipe patch_readout:LINEAR --pairs world --out ../runs/linear
    unbag run --model tiny:base --scorer patch_readout:LINEAR@../runs/linear --bench world

Patches and words of a frozen model each go through one matrix. A word scores by the patches that
fit it, a caption by its words. A task says what is trained; the trainer makes checkpoints, the log
and a run that resumes after a kill, and `ReaderReadout` makes the features, the file, the card and
the scorer. The package knows nothing of this file.

Dimensions: N pairs, L patches, T words, W width of the model, D joint width, B rows of a batch, K
hard negatives of a caption.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.models.features import LAST, View
from unbag.readouts.reader import Reader, Sizes
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
    """Weight of the usual contrast with the other captions of the batch."""


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

    def compare(self, picture: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """Row with row, [N]; what is masked takes no part."""
        fit_NTL = self.word_maps(picture, caption)
        logit_NTL = self.settings.sharpness * fit_NTL
        share_NTL = logit_NTL.masked_fill(~picture.mask_NL[:, None], -torch.inf).softmax(dim=-1)
        word_NT = (share_NTL * fit_NTL).sum(dim=-1).masked_fill(~caption.mask_NL, 0)
        return word_NT.sum(dim=-1) / caption.mask_NL.sum(dim=-1)

    def word_maps(self, picture: TokenFeatures, caption: TokenFeatures) -> Tensor:
        """What `unbag diagnose` draws, [N, T, L]."""
        patch_NLD = functional.normalize(self.patches(picture.vector_NLW.float()), dim=-1)
        word_NTD = functional.normalize(self.words(caption.vector_NLW.float()), dim=-1)
        return word_NTD @ patch_NLD.transpose(1, 2)


class LinearTask(ReaderTask):
    """Each picture finds its caption among the hard negatives of that caption."""

    def loss(self, batch: Tensor, step: int) -> Tensor:
        """Of the rows of a step; `identity`, `learning_rate` and others can be changed as well."""
        settings = self.settings
        assert isinstance(settings, LinearSettings)
        rows = self.pool.batch(batch, device=self.device, with_negatives=settings.negatives)
        contrast = self.reader.loss(rows, crowd=settings.crowd)
        if rows.negative is None:
            return contrast
        size, each = rows.negative_mask_BK.shape
        own_B = self.reader.compare(rows.picture, rows.caption)
        again = torch.arange(size, device=own_B.device).repeat_interleave(each)
        other_BK = self.reader.compare(rows.picture.rows(again), rows.negative).view(size, each)
        other_BK = other_BK.masked_fill(~rows.negative_mask_BK, -torch.inf)
        both_BC = self.reader.scale * torch.cat([own_B[:, None], other_BK], dim=1)
        return info_nce(both_BC, torch.zeros_like(again[:size])) + settings.others * contrast


def look(settings: LinearSettings) -> View:
    """Patches and words as the last block leaves them, before the projection."""
    return LAST


LINEAR = ReaderReadout("linear", LinearSettings(), look, LinearReader, LinearTask)
