"""Add LoRA matrices to the trainable blocks of a model, and merge them into its weights again.

peft puts two narrow matrices beside each linear layer of the blocks. Attention of open_clip keeps
query, key and value in one bare weight, which peft would add to and subtract from at every pass,
rounding the frozen weight each time. So it is first written as two linear layers; merging writes
it back under its own names.

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
from unbag.training.encoders.base import Trainable, modules_of, open_share
from unbag.training.recipes import Lora

Model = TypeVar("Model", bound=nn.Module)


def add_lora(trainable: Trainable, lora: Lora) -> str:
    """Freeze all but temperature and connector, and add matrices to the blocks that were open.

    Called after `apply_freeze`: what is frozen gets none. Gives a summary in words.
    """
    _peft()  # Before anything is changed.
    for name, module in list(_open_blocks(trainable)):
        if SplitAttention.can_hold(module):
            assert isinstance(module, nn.MultiheadAttention)
            _put(trainable.module, name, SplitAttention(module))
    targets = [name for name, module in _open_blocks(trainable) if isinstance(module, nn.Linear)]
    if not targets:
        raise UnbagError(
            f"{trainable.name} has no linear layer in a block that is open",
            expected="attention or MLP layers to put small matrices beside",
            hint="freeze fewer layers, or train without lora",
        )
    # The connector of a joined model has to be trained whole: it starts from nothing.
    apart = (*trainable.temperature, *getattr(trainable, "always_open", ()))
    kept_open = [weight for weight in apart if weight.requires_grad]
    device = next(trainable.module.parameters()).device
    inject_lora(
        trainable.module,
        targets,
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
    )
    trainable.module.to(device)
    for weight in kept_open:
        weight.requires_grad_(True)
    return f"lora of rank {lora.rank} beside {len(targets)} linear layers; {open_share(trainable)}"


def inject_lora(
    module: nn.Module, targets: Sequence[str], *, hint: str = "", **options: object
) -> None:
    """Put small matrices beside the linear layers of these names; options of peft's LoraConfig."""
    peft = _peft(hint)
    # As a pattern: of a list, peft takes every name that ends in one, so of both encoders.
    pattern = "|".join(map(re.escape, targets))
    config = peft.LoraConfig(target_modules=pattern, bias="none", **options)
    peft.inject_adapter_in_model(config, module)


def merged(module: Model) -> Model:
    """A copy with plain weights under their own names; a plain copy if nothing was added."""
    found = deepcopy(module)
    for name, part in list(found.named_modules()):
        if hasattr(part, "lora_A") and hasattr(part, "base_layer"):
            part.merge()
            _put(found, name, part.get_base_layer())
    for name, part in list(found.named_modules()):
        if isinstance(part, SplitAttention):
            _put(found, name, part.whole())
    return found


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


def _open_blocks(trainable: Trainable) -> Iterator[tuple[str, nn.Module]]:
    """Modules of the blocks, by their names in the model, whose own weights are open."""
    layers = (*trainable.image_layers[1:-1], *trainable.text_layers[1:-1])
    inside = {id(part) for block in modules_of(layers) for part in block.modules()}
    for name, module in trainable.module.named_modules():
        own = [weight for weight in module.parameters(recurse=False) if weight.requires_grad]
        if id(module) in inside and own:
            yield name, module


def _put(module: nn.Module, name: str, part: nn.Module) -> None:
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
