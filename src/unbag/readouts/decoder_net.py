"""Frozen features of pictures and tokens come in; what a language model makes of both goes out.

The picture stands first, one token a patch, then the text. Attention is causal and rows are padded
on the right while training, so that no mask is needed there.

Dimensions: B rows, L patches, V width of the picture tower, W width of the language model, T tokens
of text, A tokens of an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unbag.errors import UserError
from unbag.readouts.decoder_lessons import NOTHING, LessonBatch
from unbag.readouts.decoder_settings import DecoderSettings
from unbag.readouts.parts import Parts


@dataclass(frozen=True, eq=False)
class Read:
    """What the protocols of chat models look at."""

    logits: Tensor
    past_key_values: Any


class DecoderNet(nn.Module):
    """A connector and a language model; the picture tower is a function that it does not own."""

    def __init__(
        self,
        language: Any,
        *,
        width: int,
        look: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """`width` is that of the features; `look` makes features of pixels, where it is asked."""
        super().__init__()
        self.language = language
        inner = int(language.config.hidden_size)
        self.connector = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, inner))
        self.look = look
        self.picture_token = int(language.config.vocab_size)
        """Stands for one patch; no tokenizer gives it."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return next(self.connector.parameters()).dtype

    def hidden(self, seen_BLV: Tensor | None, token_BT: Tensor) -> Tensor:
        """The last layer at each token of the text, [B, T, W]; None removes the picture."""
        text_BTW = self.language.get_input_embeddings()(token_BT)
        inputs = text_BTW
        if seen_BLV is not None:
            seen_BLW = self.connector(seen_BLV.to(self.dtype)).to(text_BTW.dtype)
            inputs = torch.cat([seen_BLW, text_BTW], dim=1)
        found = self.language.base_model(inputs_embeds=inputs, use_cache=False)
        hidden_BTW: Tensor = found.last_hidden_state[:, -token_BT.shape[1] :]
        return hidden_BTW

    def answered(self, seen_BLV: Tensor | None, batch: LessonBatch) -> Tensor:
        """Logits of each token of the answers, [B, A, vocabulary]."""
        hidden_BTW = self.hidden(seen_BLV, batch.token_BT)
        at_BAW = batch.at_BA[..., None].expand(-1, -1, hidden_BTW.shape[-1])
        logit: Tensor = self.language.get_output_embeddings()(hidden_BTW.gather(1, at_BAW))
        return logit

    def loss(self, seen_BLV: Tensor | None, batch: LessonBatch) -> Tensor:
        """Mean over rows of the mean over an answer's tokens: no kind counts more by its length."""
        logit_BAV = self.answered(seen_BLV, batch).float()
        lost_BA = functional.cross_entropy(
            logit_BAV.transpose(1, 2), batch.target_BA, ignore_index=NOTHING, reduction="none"
        )
        return (lost_BA.sum(dim=1) / (batch.target_BA != NOTHING).sum(dim=1)).mean()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        past_key_values: Any = None,
        use_cache: bool = False,
        logits_to_keep: int = 1,
        pixels: Tensor | None = None,
        return_dict: bool = True,
    ) -> Read:
        """As chat models of transformers are run; rows are padded on the left."""
        found = self.base_model(
            input_ids, attention_mask, position_ids, past_key_values, use_cache, pixels
        )
        last = found.last_hidden_state[:, -logits_to_keep:]
        return Read(self.language.get_output_embeddings()(last), found.past_key_values)

    def base_model(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
        past_key_values: Any = None,
        use_cache: bool = False,
        pixels: Tensor | None = None,
        return_dict: bool = True,
    ) -> Any:
        """The same up to the last layer, without logits."""
        return self.language.base_model(
            inputs_embeds=self._embedded(input_ids, pixels),
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            use_cache=use_cache,
            return_dict=return_dict,
        )

    def _embedded(self, token_BT: Tensor, pixels: Tensor | None) -> Tensor:
        is_picture_BT = token_BT == self.picture_token
        text_BTW: Tensor = self.language.get_input_embeddings()(
            token_BT.masked_fill(is_picture_BT, 0)
        )
        if pixels is None or self.look is None:
            return text_BTW
        seen_BLW = self.connector(self.look(pixels).to(text_BTW))
        return text_BTW.masked_scatter(is_picture_BT[..., None], seen_BLW)


def picture_tokens(parts: Parts, settings: DecoderSettings) -> Tensor | None:
    """What stands for a picture, [N, L, V]: its patches, the one vector it is pooled to, or none.

    Raises UserError if half precision cannot hold it.
    """
    if settings.sees == "nothing":
        return None
    found = parts.part_NLW if settings.sees == "patches" else parts.pooled_NW[:, None]
    if settings.keeps == "float32":
        return found.float()
    half = found.half()
    if not bool(half.isfinite().all()):
        raise UserError(
            f"features up to {float(found.abs().max()):,.0f} do not fit into float16",
            expected="numbers below 65,504",
            way_out="--set keeps=float32",
        )
    return half
