"""Vectors of tokens come in; what a small Llama makes of them, without transformers, goes out.

Numbers are those of transformers to rounding (tested).

Dimensions: N rows, L tokens, A of them that are asked for, W width, H heads, E width of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

Keep: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Keys and values of the tokens that are being read in, those to look at out."""


@dataclass(frozen=True)
class SmallConfig:
    """Sizes, under the names of transformers."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    rms_norm_eps: float
    theta: float


@dataclass(frozen=True, eq=False)
class Hidden:
    """What a run comes to, and what was kept of it for tokens that follow, if that was asked."""

    last_hidden_state: Tensor
    past_key_values: KeysKept | None = None


class KeysKept:
    """Keys and values of the tokens read so far, of each layer, [N, H, L, E]."""

    def __init__(self, layers: int) -> None:
        self._layers: list[tuple[Tensor, Tensor] | None] = [None] * layers

    @property
    def length(self) -> int:
        """Tokens read so far, padding included."""
        return 0 if self._layers[0] is None else self._layers[0][0].shape[2]

    def batch_select_indices(self, place_N: Tensor) -> None:
        """Go on with these rows, under the name that transformers has for it."""
        self._layers = [both and (both[0][place_N], both[1][place_N]) for both in self._layers]

    def with_new(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """All of a layer, with those of the tokens that are being read."""
        before = self._layers[layer]
        if before is not None:
            key, value = torch.cat([before[0], key], dim=2), torch.cat([before[1], value], dim=2)
        self._layers[layer] = key, value
        return key, value


class SmallLanguage(nn.Module):
    """Weights under the names of transformers."""

    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.config = config
        self.model = _Body(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.lm_head.weight = self.model.embed_tokens.weight

    @property
    def base_model(self) -> nn.Module:
        """All but the head."""
        return self.model

    def get_input_embeddings(self) -> nn.Module:
        """Tokens to vectors."""
        return self.model.embed_tokens

    def get_output_embeddings(self) -> nn.Module:
        """Vectors to logits."""
        return self.lm_head


class _Body(nn.Module):
    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self,
        inputs_embeds: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: KeysKept | None = None,
        use_cache: bool = False,
        return_dict: bool = True,
        at_NA: Tensor | None = None,
    ) -> Hidden:
        """From first to last token, or on from what was kept; a row may be padded on either side.

        The mask is about all tokens, those that were kept too. Where only some places are asked for
        the last layer, of which no other reads, is computed there alone; rows then begin at their
        first token.
        """
        kept = past_key_values
        if kept is None and use_cache:
            kept = KeysKept(len(self.layers))
        before = kept.length if kept else 0
        count, device = inputs_embeds.shape[1], inputs_embeds.device
        if position_ids is None:
            position_ids = torch.arange(before, before + count, device=device)[None]
        is_whole = attention_mask is None or bool(attention_mask.all())
        allowed = None
        if before or not is_whole:
            causal_LT = torch.ones(count, before + count, dtype=torch.bool, device=device)
            causal_LT = causal_LT.tril(diagonal=before)
            allowed = causal_LT[None, None]
            if attention_mask is not None:
                # Padding looks at itself: a row that may look at nothing would be NaN.
                own_LT = causal_LT & ~causal_LT.tril(diagonal=before - 1)
                allowed = ((causal_LT & attention_mask.bool()[:, None]) | own_LT)[:, None]
        turn = _turn(position_ids, self.config)
        x_NLW = inputs_embeds
        for number, layer in enumerate(self.layers):
            keep = partial(kept.with_new, number) if kept else _as_they_are
            if at_NA is not None and number == len(self.layers) - 1:
                allowed = (torch.arange(count, device=device) <= at_NA[..., None])[:, None]
                x_NLW = layer(x_NLW, turn, allowed, keep, at_NA)
            else:
                x_NLW = layer(x_NLW, turn, allowed, keep)
        return Hidden(self.norm(x_NLW), kept)


class _Layer(nn.Module):
    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.self_attn = _Attention(config)
        self.mlp = _Mlp(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self,
        x_NLW: Tensor,
        turn: tuple[Tensor, Tensor],
        allowed: Tensor | None,
        keep: Keep,
        at_NA: Tensor | None = None,
    ) -> Tensor:
        read_NLW = self.input_layernorm(x_NLW)
        x_NLW = rows_at(x_NLW, at_NA)
        x_NLW = x_NLW + self.self_attn(read_NLW, turn, allowed, keep, at_NA)
        found: Tensor = x_NLW + self.mlp(self.post_attention_layernorm(x_NLW))
        return found


class _Attention(nn.Module):
    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        width, self.heads = config.hidden_size, config.num_attention_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(
        self,
        x_NLW: Tensor,
        turn: tuple[Tensor, Tensor],
        allowed: Tensor | None,
        keep: Keep,
        at_NA: Tensor | None = None,
    ) -> Tensor:
        parts = (self.q_proj(rows_at(x_NLW, at_NA)), self.k_proj(x_NLW), self.v_proj(x_NLW))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        k, v = keep(_turned(k, turn), v)
        own = turn if at_NA is None else _at(turn, at_NA)
        seen_NHLE = functional.scaled_dot_product_attention(
            _turned(q, own), k, v, attn_mask=allowed, is_causal=allowed is None
        )
        found: Tensor = self.o_proj(seen_NHLE.transpose(1, 2).flatten(2))
        return found


class _Mlp(nn.Module):
    def __init__(self, config: SmallConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x_NLW: Tensor) -> Tensor:
        found: Tensor = self.down_proj(functional.silu(self.gate_proj(x_NLW)) * self.up_proj(x_NLW))
        return found


def rows_at(x_NLW: Tensor, at_NA: Tensor | None) -> Tensor:
    """Of each row the places asked for, [N, A, W]; all if none are named."""
    if at_NA is None:
        return x_NLW
    return x_NLW.gather(1, at_NA[..., None].expand(-1, -1, x_NLW.shape[-1]))


def _as_they_are(key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    return key, value


def _turn(position_NL: Tensor, config: SmallConfig) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each position's angles, [N, 1, L, E]."""
    width = config.hidden_size // config.num_attention_heads
    half = torch.arange(0, width, 2, device=position_NL.device, dtype=torch.float32)
    angle_NLE = position_NL[..., None].float() * (1.0 / config.theta ** (half / width))
    both = torch.cat([angle_NLE, angle_NLE], dim=-1)[:, None]
    return both.cos(), both.sin()


def _at(turn: tuple[Tensor, Tensor], at_NA: Tensor) -> tuple[Tensor, Tensor]:
    """Of places, where all rows have the same positions, [N, 1, A, E]."""
    cosine, sine = (one[0, 0][at_NA][:, None] for one in turn)
    return cosine, sine


def _turned(x_NHLE: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    first, second = x_NHLE.chunk(2, dim=-1)
    return x_NHLE * turn[0] + torch.cat([-second, first], dim=-1) * turn[1]
