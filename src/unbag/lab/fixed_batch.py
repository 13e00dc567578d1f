"""Batches of any shape come in; the same ones, always in the same place and shape, go out.

A recorded step reads its inputs where they lay when it was recorded (`unbag.readouts.recorded`). So
strings are padded to the longest that a tower takes, in one group, and to as many as a batch can
have; what is padded is never looked at, since text towers are causal and no row points there.

Dimensions: B batch, K negatives, P positives of a caption, U strings, L tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from unbag.lab.repair_arms import View
from unbag.train.batch import Batch, Group

_TOKENS, _ENDS = "token_NL", "end_N"
"""What `unbag.train.tiny_trainable` calls the inputs of its text tower."""


class FixedBatch:
    """Tensors that stay where they are."""

    def __init__(self, like: Batch, *, context: int) -> None:
        """Room for every batch of as many pictures, negatives and positives."""
        assert isinstance(like.pixels, torch.Tensor)
        device = like.pixels.device
        rows, negatives = like.negative_BK.shape
        strings = rows * (1 + negatives + like.positive_BP.shape[1])
        inputs = {
            _TOKENS: torch.zeros((strings, context), dtype=torch.int64, device=device),
            _ENDS: torch.zeros(strings, dtype=torch.int64, device=device),
        }
        self.batch = Batch(
            pixels=torch.empty(like.pixels.shape, dtype=torch.float32, device=device),
            caption_B=torch.empty_like(like.caption_B),
            negative_BK=torch.empty_like(like.negative_BK),
            positive_BP=torch.empty_like(like.positive_BP),
            groups=(Group(torch.arange(strings), inputs),),
            place_U=torch.zeros(strings, dtype=torch.int64, device=device),
            code={name: torch.empty_like(value) for name, value in like.code.items()},
        )

    def fill(self, batch: Batch) -> None:
        """Copy another batch here; nothing is asked of the device."""
        own, inputs = self.batch, self.batch.groups[0].inputs
        assert isinstance(own.pixels, torch.Tensor)
        assert isinstance(batch.pixels, torch.Tensor)
        is_bytes = batch.pixels.dtype == torch.uint8
        own.pixels.copy_(batch.pixels)
        if is_bytes:
            # As towers take them: looking levels up copies a table, which cannot be recorded.
            own.pixels.div_(127.5).sub_(1.0)
        end = 0
        for group in batch.groups:
            token_GL = group.inputs[_TOKENS]
            start, end = end, end + len(token_GL)
            inputs[_TOKENS][start:end, : token_GL.shape[1]].copy_(token_GL)
            inputs[_ENDS][start:end].copy_(group.inputs[_ENDS])
        own.place_U[:end].copy_(batch.place_U)
        for name in ("caption_B", "negative_BK", "positive_BP"):
            getattr(own, name).copy_(getattr(batch, name))
        for name, value in own.code.items():
            value.copy_(batch.code[name])


class FixedViews:
    """What arms are shown, each view in a place of its own."""

    def __init__(self, context: int) -> None:
        """Tokens of the longest caption."""
        self._context = context
        self._batches: dict[View, FixedBatch] = {}

    def fill(self, views: Mapping[View, Batch]) -> None:
        """With the batches of the next step."""
        for view, batch in views.items():
            if view not in self._batches:
                self._batches[view] = FixedBatch(batch, context=self._context)
            self._batches[view].fill(batch)

    @property
    def views(self) -> dict[View, Batch]:
        """The same objects at every step."""
        return {view: one.batch for view, one in self._batches.items()}
