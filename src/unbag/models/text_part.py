"""What reads captions for a joined model: a text model of transformers, pooled to one vector.

Dimensions: N captions, L tokens, E width of the text model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol, Self

import torch

from unbag.errors import UserError
from unbag.models.layers import blocks_of, laid_out, recorded
from unbag.models.word_pooling import Pool, pool_words
from unbag.types import Layers

if TYPE_CHECKING:
    from torch import Tensor, nn

    from unbag.models.hf_captions import Captions

Inputs = Mapping[str, "Tensor"]


class CaptionReads(Protocol):
    """Captions to tensors, without weights; it can be sent to another process."""

    @property
    def context(self) -> int:
        """Tokens a caption can have."""

    def count(self, captions: Sequence[str]) -> list[int]:
        """Tokens before cutting, special ones included."""

    def __call__(self, captions: Sequence[str]) -> dict[str, Tensor]:
        """What `pooled` is given."""

    def fresh(self) -> CaptionReads:
        """The same without what it remembers."""


class TextPart(Protocol):
    """A source of text vectors; its weights are in `module`, if it has any."""

    @property
    def name(self) -> str:
        """As it is written after the +."""

    @property
    def fingerprint(self) -> str:
        """Of weights as they were read, tokenizer and pooling."""

    @property
    def width(self) -> int:
        """E."""

    @property
    def module(self) -> nn.Module:
        """All weights."""

    @property
    def reads(self) -> CaptionReads:
        """How captions become inputs."""

    def pooled(self, inputs: Inputs) -> Tensor:
        """[N, E] in float32 on the device of the module, with gradient where it is open."""

    def words(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """[N, L, E] and the mask [N, L]; an error where there are only whole captions."""

    def layers(self, inputs: Inputs) -> Layers:
        """What stands after each layer."""

    def holding(self, module: nn.Module) -> Self:
        """The same part with other weights."""


@dataclass(frozen=True, eq=False)
class TransformerText:
    """An encoder or a decoder of transformers."""

    name: str
    module: Any
    reads: Captions
    pool: Pool
    fingerprint: str
    width: int
    is_causal: bool = False
    """Tokens see what stands before them only, as in a decoder."""
    is_bidirectional: bool = False
    """A decoder whose tokens are let see all, as LLM2Vec has it."""

    @cached_property
    def _takes_positions(self) -> bool:
        return self.is_causal and "position_ids" in signature(self.module.forward).parameters

    def pooled(self, inputs: Inputs) -> Tensor:
        """Token ids and mask, padded on either side, to [N, E]."""
        hidden_NLE, mask_NL = self.words(inputs)
        return pool_words(hidden_NLE, mask_NL, self.pool)

    def words(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """The last hidden state and the mask."""
        mask_NL = inputs["attention_mask"]
        hidden_NLE: Tensor = self.module(**self.arguments(inputs)).last_hidden_state
        return hidden_NLE, mask_NL

    def layers(self, inputs: Inputs) -> Layers:
        """Embedding, blocks and last hidden state, each pooled as the last is."""
        blocks = blocks_of(self.module)
        if not blocks:
            raise UserError(
                f"layers of {self.name}, a {self.module.config.model_type!r}, are not known",
                expected="a text model whose blocks are called layers, layer or block",
                way_out="use the caption vector",
            )
        found, hidden = recorded(blocks, lambda: self.module(**self.arguments(inputs)))
        mask_NL = inputs["attention_mask"]
        hidden = [*hidden, found.last_hidden_state]
        return laid_out(hidden, [pool_words(one, mask_NL, self.pool) for one in hidden], mask_NL)

    def holding(self, module: nn.Module) -> TransformerText:
        """The same tokenizer and rules over other weights."""
        return replace(self, module=module)

    def arguments(self, inputs: Inputs) -> dict[str, Tensor]:
        """What the module is called with."""
        mask_NL = inputs["attention_mask"]
        found = {"input_ids": inputs["input_ids"], "attention_mask": mask_NL}
        if self._takes_positions:
            # Counted from the first real token, so that padding on the left moves nothing.
            found["position_ids"] = (mask_NL.cumsum(dim=1) - 1).clamp(min=0)
        if self.is_bidirectional:
            # A mask of four dimensions is taken as it is by the decoders of transformers.
            kind = self.module.dtype
            hidden_NL = (1 - mask_NL).to(kind) * torch.finfo(kind).min
            size = mask_NL.shape[1]
            found["attention_mask"] = hidden_NL[:, None, None, :].expand(-1, 1, size, -1)
        return found
