"""Attention with one weight for query, key and value comes in; two linear layers go out, and back.

Dimensions: N inputs, L tokens or patches, W width, H heads, E width of a head.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class SplitAttention(nn.Module):
    """`nn.MultiheadAttention` of queries with themselves, as layers that peft can wrap."""

    def __init__(self, whole: nn.MultiheadAttention) -> None:
        """Takes its very weights; nothing is copied."""
        super().__init__()
        self.shape = (whole.num_heads, whole.dropout, whole.batch_first)
        has_bias = whole.in_proj_bias is not None
        width = whole.embed_dim
        self.in_proj = nn.Linear(width, 3 * width, bias=has_bias, device="meta")
        self.in_proj.weight = whole.in_proj_weight
        if has_bias:
            self.in_proj.bias = whole.in_proj_bias
        self.out_proj = nn.Linear(width, width, bias=has_bias, device="meta")
        self.out_proj.weight = whole.out_proj.weight
        if has_bias:
            self.out_proj.bias = whole.out_proj.bias
        self.train(whole.training)

    @staticmethod
    def can_hold(module: nn.Module) -> bool:
        """Plain self-attention: one width, no extra keys."""
        return (
            type(module) is nn.MultiheadAttention
            and module.in_proj_weight is not None
            and module.bias_k is None
            and not module.add_zero_attn
        )

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """As the whole one, for what open_clip asks of it."""
        assert query is key
        assert key is value
        assert not need_weights
        heads, dropout, is_batch_first = self.shape
        hidden_NLW = query if is_batch_first else query.transpose(0, 1)
        n, length, width = hidden_NLW.shape
        part_NL3HE = self.in_proj(hidden_NLW).view(n, length, 3, heads, width // heads)
        q, k, v = part_NL3HE.permute(2, 0, 3, 1, 4).unbind(0)
        if attn_mask is not None and attn_mask.ndim == 3:
            attn_mask = attn_mask.view(n, heads, length, length)
        seen_NHLE = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=attn_mask, dropout_p=dropout if self.training else 0.0
        )
        out_NLW = self.out_proj(seen_NHLE.transpose(1, 2).reshape(n, length, width))
        return (out_NLW if is_batch_first else out_NLW.transpose(0, 1)), None

    def whole(self) -> nn.MultiheadAttention:
        """Back, with the weights as they are now."""
        heads, dropout, is_batch_first = self.shape
        has_bias = self.in_proj.bias is not None
        found = nn.MultiheadAttention(
            self.out_proj.out_features,
            heads,
            dropout=dropout,
            bias=has_bias,
            batch_first=is_batch_first,
            device="meta",
        )
        weight = self.in_proj.weight
        assert isinstance(weight, nn.Parameter)
        found.in_proj_weight = weight
        found.out_proj.weight = self.out_proj.weight
        if has_bias:
            found.in_proj_bias = self.in_proj.bias
            found.out_proj.bias = self.out_proj.bias
        return found.train(self.training)
