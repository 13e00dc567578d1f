"""Frozen parts of many pictures and captions come in; batches for a reader go out by row number.

A pool is computed once and lies in memory, on the device if it fits there: a step then costs no
encoder, no disk and no Python but the drawing of row numbers.

Dimensions: N rows, M some of them, K negatives of a caption, B rows of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from unbag.errors import UserError
from unbag.metrics.resample import generator
from unbag.readouts.parts import Parts
from unbag.readouts.reader import ReaderBatch
from unbag.train.batch import FindTruth


@dataclass(frozen=True, eq=False)
class Pool:
    """What a reader is trained on."""

    picture: Parts
    """Of the different pictures."""
    caption: Parts
    """Of the different strings: captions and negatives alike."""
    picture_N: Tensor
    """Which of the pictures each row is about."""
    caption_N: Tensor
    """Which of the strings is its caption."""
    negative_NK: Tensor
    """Likewise its negatives; -1 where there is none."""
    code: Mapping[str, Tensor] = field(default_factory=dict)
    """Integers by row, from which the truth of a batch follows."""
    find_truth: FindTruth | None = None
    group: int = 1
    """Rows that always come together: 2 where each row is followed by its opposite."""
    about: str = ""
    fingerprint: str = ""

    def __len__(self) -> int:
        """Rows: a picture with one caption each."""
        return len(self.caption_N)

    def to(self, device: str, dtype: torch.dtype | None = None) -> Pool:
        """On a device, features in `dtype`."""
        return replace(
            self,
            picture=self.picture.to(device, dtype),
            caption=self.caption.to(device, dtype),
            picture_N=self.picture_N.to(device),
            caption_N=self.caption_N.to(device),
            negative_NK=self.negative_NK.to(device),
            code={name: value.to(device) for name, value in self.code.items()},
        )

    @property
    def nbytes(self) -> int:
        """Of the features."""
        return self.picture.nbytes + self.caption.nbytes

    def near(self, device: str) -> Pool:
        """On the device where half of its free memory is enough, else where it is.

        A batch is then copied at every step, which is slower and gives the same.
        """
        if device.startswith("cuda") and self.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
            return self
        return self.to(device)

    def rows(self, start: int, stop: int) -> Pool:
        """Some of the rows, with all pictures and strings; a view that costs no memory."""
        return self._picked(slice(start, stop))

    def only(self, place: int) -> Pool:
        """Rows that have a negative in this place, and of their negatives this one alone."""
        at_M = (self.negative_NK[:, place] >= 0).nonzero().flatten()
        found = self._picked(at_M)
        return replace(found, negative_NK=found.negative_NK[:, place : place + 1])

    def _picked(self, at: slice | Tensor) -> Pool:
        return replace(
            self,
            picture_N=self.picture_N[at],
            caption_N=self.caption_N[at],
            negative_NK=self.negative_NK[at],
            code={name: value[at] for name, value in self.code.items()},
        )

    def batch(self, row_B: Tensor, *, device: str, with_negatives: bool = True) -> ReaderBatch:
        """The rows asked for, in float32 on the device."""
        row_B = row_B.to(self.caption_N.device)
        negative_BK = self.negative_NK[row_B]
        if not with_negatives:
            negative_BK = negative_BK[:, :0]
        mask_BK = negative_BK >= 0
        negative = None
        if negative_BK.shape[1]:
            negative = self.caption.rows(negative_BK.clamp(min=0).flatten()).to(
                device, torch.float32
            )
        return ReaderBatch(
            picture=self.picture.rows(self.picture_N[row_B]).to(device, torch.float32),
            caption=self.caption.rows(self.caption_N[row_B]).to(device, torch.float32),
            negative=negative,
            negative_mask_BK=mask_BK.to(device),
            also_true_BB=self._also_true(row_B).to(device),
        )

    def _also_true(self, row_B: Tensor) -> Tensor:
        if self.find_truth is None:
            return torch.zeros((len(row_B), len(row_B)), dtype=torch.bool, device=row_B.device)
        truth = self.find_truth({name: value[row_B] for name, value in self.code.items()})
        also_BB = truth.also_true_BB.clone()
        also_BB.fill_diagonal_(False)
        return also_BB


def kept(parts: Parts, device: str, dtype: torch.dtype) -> Parts:
    """As a pool keeps them; raises UserError for features that `dtype` cannot hold."""
    found = parts.to(device, dtype)
    if not (found.part_NLW.isfinite().all() and found.pooled_NW.isfinite().all()):
        largest = max(
            float(one.abs().max()) for one in (parts.part_NLW, parts.pooled_NW) if one.numel()
        )
        raise UserError(
            f"features of up to {largest:g}",
            expected=f"finite numbers of at most {torch.finfo(dtype).max:g}, as pools keep them",
            way_out="a reader of the joint space, such as dcsm_fixed; or mend the model",
        )
    return found


class Order:
    """Which rows a step sees: every group once an epoch, in an order of (seed, epoch) alone."""

    def __init__(self, pool: Pool, *, batch: int, seed: int) -> None:
        self._groups, self._each = len(pool) // pool.group, pool.group
        self._batch = max(1, min(batch // pool.group, self._groups))
        self._seed = seed
        # Where the pool is, so that a step copies no row numbers.
        self._device = pool.caption_N.device
        self._epoch, self._order = -1, torch.zeros(0, dtype=torch.int64)

    @property
    def per_epoch(self) -> int:
        """Whole batches of an epoch."""
        return self._groups // self._batch

    def __call__(self, step: int) -> Tensor:
        """Rows [B] of a step."""
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            rng = generator(self._seed, "order of a pool", str(epoch))
            drawn = torch.from_numpy(rng.permutation(self._groups))
            self._epoch, self._order = epoch, drawn.to(self._device)
        some = self._order[place * self._batch : (place + 1) * self._batch]
        within = torch.arange(self._each, device=self._device)
        return (some[:, None] * self._each + within).flatten()
