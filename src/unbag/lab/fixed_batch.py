"""Batches of any shape come in; the same ones, always in the same place and shape, go out.

A recorded step reads its inputs where they lay when it was recorded (`unbag.training.optim`). So
strings stand in one group, padded to a round length and a round number: few rooms hold all batches.
What is padded is never looked at, since text towers are causal and no row points there.

Dimensions: B batch, K negatives, P positives of a caption, U strings, L tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from unbag.lab.repair_arms import View
from unbag.training.data.batch import Batch, Group

"""Batches of any shape come in; the same ones, always in the same place and shape, go out.

A recorded step reads its inputs where they lay when it was recorded (`unbag.training.optim`). So
strings stand in one group, padded to a round length and a round number: few rooms hold all batches.
What is padded is never looked at, since text towers are causal and no row points there.

Dimensions: B batch, K negatives, P positives of a caption, U strings, L tokens.
"""


_TOKENS, _ENDS = "token_NL", "end_N"
"""What `unbag.training.towers.adapters` calls the inputs of its text tower."""
_ROUND_STRINGS, _ROUND_TOKENS = 256, 8
"""A room more is a recording more of every arm; room that is not used is time in every step."""


class FixedBatch:
    """Tensors that stay where they are."""

    def __init__(self, like: Batch, *, strings: int, tokens: int) -> None:
        """Room for batches of as many pictures, negatives and positives, and so many strings."""
        assert isinstance(like.pixels, torch.Tensor)
        device = like.pixels.device
        inputs = {
            _TOKENS: torch.zeros((strings, tokens), dtype=torch.int64, device=device),
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
    """What arms are shown, each view and size in a place of its own."""

    def __init__(self, context: int) -> None:
        """Tokens of the longest caption that a tower takes."""
        self._context = context
        self._rooms: dict[tuple[View, int, int], FixedBatch] = {}

    def fill(self, views: Mapping[View, Batch]) -> dict[View, Batch]:
        """The batches of the next step; of one size always the same objects."""
        found: dict[View, Batch] = {}
        for view, batch in views.items():
            room = self._room(view, batch)
            room.fill(batch)
            found[view] = room.batch
        return found

    def _room(self, view: View, batch: Batch) -> FixedBatch:
        lengths = [group.inputs[_TOKENS].shape[1] for group in batch.groups]
        strings = _rounded(len(batch.place_U), _ROUND_STRINGS)
        tokens = min(_rounded(max(lengths), _ROUND_TOKENS), self._context)
        key = (view, strings, tokens)
        if key not in self._rooms:
            self._rooms[key] = FixedBatch(batch, strings=strings, tokens=tokens)
        return self._rooms[key]


def _rounded(count: int, step: int) -> int:
    """Up to the next multiple."""
    return -(-count // step) * step
