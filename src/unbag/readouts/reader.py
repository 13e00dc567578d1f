"""A small network that scores parts of pictures against parts of captions, and how it is taught.

Dimensions: N pairs, P pictures, C captions, B rows of a batch, K negatives of a caption,
G rows that are told apart (a crowd).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.readouts.parts import Parts, View

PAIRS_AT_ONCE = 2_048
"""Pairs that are compared together where a reader has no quicker way to fill a matrix."""


@dataclass(frozen=True, eq=False)
class ReaderBatch:
    """What a reader is taught with: frozen parts, on the reader's device."""

    picture: Parts
    caption: Parts
    negative: Parts | None
    """B x K, row by row; rows that are masked mean nothing."""
    negative_mask_BK: Tensor
    also_true_BB: Tensor
    """Caption j fits picture i although i != j: no negative."""


class Reader(nn.Module):
    """Scores pairs. Settings are a frozen dataclass that can be written as JSON."""

    name: str
    settings: object
    view: View
    scale: float = 1.0
    """Scores times this are the logits of the loss."""
    most_tokens: int | None = None
    """Tokens of a caption that it looks at, special ones included; None is all."""

    @property
    def depends_on_call(self) -> bool:
        """Whether a score depends on what else is compared in the same call."""
        return False

    def compare(self, picture: Parts, caption: Parts) -> Tensor:
        """Row with row, [N]; must not depend on the other rows unless the reader says so."""
        raise NotImplementedError

    def compare_all(self, picture: Parts, caption: Parts) -> Tensor:
        """Every picture with every caption, [P, C]."""
        pictures, captions = len(picture), len(caption)
        device = picture.part_NLW.device
        found = []
        for start in range(0, pictures * captions, PAIRS_AT_ONCE):
            at = torch.arange(start, min(start + PAIRS_AT_ONCE, pictures * captions), device=device)
            found.append(
                self.compare(
                    picture.rows(at.div(captions, rounding_mode="floor")),
                    caption.rows(at % captions),
                )
            )
        return torch.cat(found).view(pictures, captions)

    def loss(self, batch: ReaderBatch, *, crowd: int) -> Tensor:
        """One number to be made small; `crowd` rows are told apart at a time."""
        return contrast(self, batch, crowd=crowd)


def contrast(reader: Reader, batch: ReaderBatch, *, crowd: int) -> Tensor:
    """Picture finds caption among those of its crowd and its own negatives, caption finds picture.

    The mean of both cross-entropies. Captions that fit a picture too are left out.
    """
    size = len(batch.picture)
    if batch.negative is None:
        negative_BK = torch.zeros((size, 0), device=batch.negative_mask_BK.device)
    else:
        each = batch.negative_mask_BK.shape[1]
        row_M = torch.arange(size, device=batch.negative_mask_BK.device).repeat_interleave(each)
        negative_BK = reader.compare(batch.picture.rows(row_M), batch.negative).view(size, each)
    negative_BK = (reader.scale * negative_BK).masked_fill(~batch.negative_mask_BK, -torch.inf)
    rows, columns = [], []
    for start in range(0, size, crowd):
        part = slice(start, min(start + crowd, size))
        score_GG = reader.scale * reader.compare_all(
            batch.picture.rows(part), batch.caption.rows(part)
        )
        score_GG = score_GG.masked_fill(batch.also_true_BB[part, part], -torch.inf)
        own_G = torch.arange(len(score_GG), device=score_GG.device)
        rows.append(_lost(torch.cat([score_GG, negative_BK[part]], dim=1), own_G))
        columns.append(_lost(score_GG.T, own_G))
    return (torch.cat(rows).mean() + torch.cat(columns).mean()) / 2


def _lost(logit_GM: Tensor, own_G: Tensor) -> Tensor:
    return functional.cross_entropy(logit_GM.float(), own_G, reduction="none")


@torch.inference_mode()
def told_apart(reader: Reader, batch: ReaderBatch) -> Tensor:
    """Whether the caption is above each of its own negatives, [B]; a tie is a miss."""
    if batch.negative is None:
        raise ValueError("a batch without negatives tells nothing apart")
    size, each = batch.negative_mask_BK.shape
    row_M = torch.arange(size, device=batch.negative_mask_BK.device).repeat_interleave(each)
    own_B = reader.compare(batch.picture, batch.caption)
    other_BK = reader.compare(batch.picture.rows(row_M), batch.negative).view(size, each)
    other_BK = other_BK.masked_fill(~batch.negative_mask_BK, -torch.inf)
    return own_B > other_BK.amax(dim=1)
