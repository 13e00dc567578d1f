"""Weights of a CLIP by the names of open_clip or of transformers come in; the other names go out.

Both libraries hold the same numbers. open_clip keeps query, key and value of a layer in one tensor
and multiplies by its projections from the left, so they are split and turned; nothing is rounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from unbag.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

BIAS = "logit_bias"
"""Of the sigmoid loss; open_clip gives it to any model, transformers to SigLIP only."""
_BELOW = "text."
"""Before the names of the text tower in open_clip's second form, CustomTextCLIP."""
_BLOCK: Mapping[str, str] = MappingProxyType(
    {
        "ln_1": "layer_norm1",
        "ln_2": "layer_norm2",
        "attn.out_proj": "self_attn.out_proj",
        "mlp.c_fc": "mlp.fc1",
        "mlp.c_proj": "mlp.fc2",
    }
)
_TOWERS: Mapping[str, str] = MappingProxyType(
    {"visual.transformer": "vision_model", "transformer": "text_model"}
)
_NORMS: Mapping[str, str] = MappingProxyType(
    {
        # The missing letter is in the names of transformers.
        "visual.ln_pre": "vision_model.pre_layrnorm",
        "visual.ln_post": "vision_model.post_layernorm",
        "ln_final": "text_model.final_layer_norm",
    }
)
_SINGLE: Mapping[str, str] = MappingProxyType(
    {
        "visual.class_embedding": "vision_model.embeddings.class_embedding",
        "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
        "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
        "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
        "positional_embedding": "text_model.embeddings.position_embedding.weight",
        "logit_scale": "logit_scale",
    }
)
_TURNED: Mapping[str, str] = MappingProxyType(
    {"visual.proj": "visual_projection.weight", "text_projection": "text_projection.weight"}
)
_OURS = re.compile(r"(visual\.transformer|transformer)\.resblocks\.(\d+)\.(.+)\.(weight|bias)")
_FUSED = re.compile(
    r"(visual\.transformer|transformer)\.resblocks\.(\d+)\.attn\.in_proj_(weight|bias)"
)
_THEIRS = re.compile(r"(vision_model|text_model)\.encoder\.layers\.(\d+)\.(.+)\.(weight|bias)")
# Kept among the weights by older versions; they are only 0, 1, 2 ...
_POSITIONS = ".embeddings.position_ids"


def to_transformers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `transformers.CLIPModel`, from either form of open_clip's CLIP.

    `logit_bias` has no place there and is left out. A name that is not of a plain CLIP raises.
    """
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        plain = name.removeprefix(_BELOW)
        if plain != BIAS:
            found |= _to_transformers(plain, tensor, name)
    return found


def to_open_clip(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of open_clip's first form of CLIP, from `transformers.CLIPModel`.

    A `logit_bias` that was trained beside it is kept: open_clip has a place for it.
    """
    ours = {theirs: mine for mine, theirs in _singles().items()}
    turned = {theirs: mine for mine, theirs in _TURNED.items()}
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name in ours or name == BIAS:
            found[ours.get(name, name)] = tensor
        elif name in turned:
            found[turned[name]] = tensor.T.contiguous()
        elif (match := _THEIRS.fullmatch(name)) is not None:
            found |= _block_to_open_clip(match, tensor, state)
        elif not name.endswith(_POSITIONS):
            raise _unknown(name, "transformers.CLIPModel")
    return found


def _to_transformers(plain: str, tensor: Tensor, name: str) -> dict[str, Tensor]:
    singles = _singles()
    if plain in singles:
        # Some models of open_clip hold the scale as a vector of one number.
        return {singles[plain]: tensor.reshape(()) if plain == "logit_scale" else tensor}
    if plain in _TURNED:
        return {_TURNED[plain]: tensor.T.contiguous()}
    if (match := _FUSED.fullmatch(plain)) is not None:
        tower, layer, end = match.groups()
        start = f"{_TOWERS[tower]}.encoder.layers.{layer}.self_attn"
        parts = tensor.chunk(3)
        return {
            f"{start}.{one}_proj.{end}": part.contiguous()
            for one, part in zip("qkv", parts, strict=True)
        }
    if (match := _OURS.fullmatch(plain)) is not None and match[3] in _BLOCK:
        tower, layer, part, end = match.groups()
        return {f"{_TOWERS[tower]}.encoder.layers.{layer}.{_BLOCK[part]}.{end}": tensor}
    raise _unknown(name, "open_clip's CLIP")


def _block_to_open_clip(
    match: re.Match[str], tensor: Tensor, state: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    import torch

    tower, layer, part, end = match.groups()
    start = f"{_key_of(_TOWERS, tower)}.resblocks.{layer}"
    if part in ("self_attn.k_proj", "self_attn.v_proj"):
        return {}
    if part == "self_attn.q_proj":
        names = [match[0].replace("q_proj", f"{one}_proj") for one in "qkv"]
        missing = [name for name in names if name not in state]
        if missing:
            raise _unknown(match[0], f"an attention with {missing[0]}")
        return {f"{start}.attn.in_proj_{end}": torch.cat([state[name] for name in names])}
    if part not in _BLOCK.values():
        raise _unknown(match[0], "transformers.CLIPModel")
    return {f"{start}.{_key_of(_BLOCK, part)}.{end}": tensor}


def _singles() -> dict[str, str]:
    """Tensors that only change their name, outside the blocks."""
    found = dict(_SINGLE)
    for mine, theirs in _NORMS.items():
        found |= {f"{mine}.{end}": f"{theirs}.{end}" for end in ("weight", "bias")}
    return found


def _key_of(names: Mapping[str, str], wanted: str) -> str:
    return next(mine for mine, theirs in names.items() if theirs == wanted)


def _unknown(name: str, of: str) -> UserError:
    return UserError(
        f"the tensor {name!r} has no name in the other library",
        expected=f"only tensors of {of}",
        way_out="merge adapters (LoRA) into the weights first; other towers have one form only",
    )
