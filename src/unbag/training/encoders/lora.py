"""Add LoRA matrices to the trainable blocks of a model, and merge them into its weights again.

peft adds two narrow matrices to each linear layer of the blocks. Attention in open_clip holds
query, key and value in one bare weight, which peft would add to and subtract from at every pass,
rounding the frozen weight each time. So it is first rewritten as two linear layers; merging
restores the original module.

Dimensions: N inputs, L tokens or patches, W width, H heads, E width of a head.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from importlib import import_module
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn import functional

from unbag.errors import UnbagError
from unbag.training.encoders.base import Trainable, modules_of, trainable_summary
from unbag.training.recipes import Lora

Model = TypeVar("Model", bound=nn.Module)


def add_lora(trainable: Trainable, lora: Lora) -> str:
    """Freeze all but temperature and connector, and add LoRA matrices to the trainable blocks.

    Called after `apply_freeze`; frozen layers get no matrices. Returns a summary.
    """
    _peft()  # Raise before anything is changed.
    for name, module in list(_trainable_modules(trainable)):
        if SplitAttention.can_hold(module):
            assert isinstance(module, nn.MultiheadAttention)
            _replace(trainable.module, name, SplitAttention(module))
    targets = [
        name for name, module in _trainable_modules(trainable) if isinstance(module, nn.Linear)
    ]
    if not targets:
        raise UnbagError(
            f"{trainable.name} has no linear layer in a trainable block",
            expected="attention or MLP layers to add small matrices to",
            hint="freeze fewer layers, or train without lora",
        )
    # All of the connector of a joined model must be trained: it was never trained before.
    exempt = (*trainable.temperature, *getattr(trainable, "always_trainable", ()))
    unfrozen = [weight for weight in exempt if weight.requires_grad]
    device = next(trainable.module.parameters()).device
    inject_lora(
        trainable.module,
        targets,
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
    )
    trainable.module.to(device)
    for weight in unfrozen:
        weight.requires_grad_(True)
    return (
        f"lora of rank {lora.rank} in {len(targets)} linear layers; {trainable_summary(trainable)}"
    )


def inject_lora(
    module: nn.Module, targets: Sequence[str], *, hint: str = "", **options: object
) -> None:
    """Add LoRA matrices to the linear layers of these names; `options` are peft's LoraConfig."""
    peft = _peft(hint)
    # A pattern: with a list, peft also takes every name that ends in one, so of both encoders.
    pattern = "|".join(map(re.escape, targets))
    config = peft.LoraConfig(target_modules=pattern, bias="none", **options)
    peft.inject_adapter_in_model(config, module)


def merged(module: Model) -> Model:
    """Return a copy with LoRA merged into weights under their original names."""
    merged_module = deepcopy(module)
    for name, part in list(merged_module.named_modules()):
        if hasattr(part, "lora_A") and hasattr(part, "base_layer"):
            part.merge()
            _replace(merged_module, name, part.get_base_layer())
    for name, part in list(merged_module.named_modules()):
        if isinstance(part, SplitAttention):
            _replace(merged_module, name, part.whole())
    return merged_module


class SplitAttention(nn.Module):
    """`nn.MultiheadAttention` for self-attention, as linear layers that peft can wrap."""

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        """Use the weights of `attention` without copying them."""
        super().__init__()
        self.shape = (attention.num_heads, attention.dropout, attention.batch_first)
        has_bias = attention.in_proj_bias is not None
        width = attention.embed_dim
        self.in_proj = nn.Linear(width, 3 * width, bias=has_bias, device="meta")
        self.in_proj.weight = attention.in_proj_weight
        if has_bias:
            self.in_proj.bias = attention.in_proj_bias
        self.out_proj = nn.Linear(width, width, bias=has_bias, device="meta")
        self.out_proj.weight = attention.out_proj.weight
        if has_bias:
            self.out_proj.bias = attention.out_proj.bias
        self.train(attention.training)

    @staticmethod
    def can_hold(module: nn.Module) -> bool:
        """Return whether a module is plain self-attention: one width, no extra keys."""
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
        """Compute self-attention with the arguments that open_clip uses."""
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
        """Return the original kind of module with the current weights."""
        heads, dropout, is_batch_first = self.shape
        has_bias = self.in_proj.bias is not None
        attention = nn.MultiheadAttention(
            self.out_proj.out_features,
            heads,
            dropout=dropout,
            bias=has_bias,
            batch_first=is_batch_first,
            device="meta",
        )
        weight = self.in_proj.weight
        assert isinstance(weight, nn.Parameter)
        attention.in_proj_weight = weight
        attention.out_proj.weight = self.out_proj.weight
        if has_bias:
            attention.in_proj_bias = self.in_proj.bias
            attention.out_proj.bias = self.out_proj.bias
        return attention.train(self.training)


def _trainable_modules(trainable: Trainable) -> Iterator[tuple[str, nn.Module]]:
    """Yield name and module of those modules in blocks that have trainable weights."""
    layers = (*trainable.image_layers[1:-1], *trainable.text_layers[1:-1])
    inside = {id(part) for block in modules_of(layers) for part in block.modules()}
    for name, module in trainable.module.named_modules():
        trainable_weights = [
            weight for weight in module.parameters(recurse=False) if weight.requires_grad
        ]
        if id(module) in inside and trainable_weights:
            yield name, module


def _replace(module: nn.Module, name: str, part: nn.Module) -> None:
    owner, _, last = name.rpartition(".")
    setattr(module.get_submodule(owner), last, part)


def _peft(hint: str = "") -> Any:
    try:
        return import_module("peft")
    except ImportError as error:
        raise UnbagError(
            f"lora needs the package 'peft' ({error})",
            hint=f"pip install 'unbag[train]'{hint}",
        ) from error
