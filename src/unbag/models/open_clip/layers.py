"""Patch vectors and layers of open_clip's image encoders.

With attention pooling, the last layer is the input of that attention, and the last pooled vector is
its output.

Dimensions: N images, P or L patches, W width of a layer, H heads, D joint space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from unbag.errors import UnbagError
from unbag.models.layers import flatten_maps, make_layers, record_blocks
from unbag.types import Layers

if TYPE_CHECKING:
    from torch import Tensor


def patches(visual: Any, pixels: Tensor) -> Tensor:
    """Return patch vectors [N, P, D], not normalized, row by row from the top left.

    A patch vector is the vector of an image with this patch alone: for a class token or a mean, by
    the same layer norm and projection; for attention, by its value path (which MaskCLIP, Zhou et
    al. 2022, uses for CLIP's ResNets).
    """
    if hasattr(visual, "trunk"):
        return _patches_of_trunk(visual, pixels)
    if hasattr(visual, "attnpool"):
        return _patches_of_resnet(visual, pixels)
    if hasattr(visual, "transformer") and hasattr(visual, "ln_post"):
        return _patches_of_transformer(visual, pixels)
    raise _unknown_patches_error(type(visual).__name__)


def _patches_of_transformer(visual: Any, pixels: Tensor) -> Tensor:
    hidden_NPW = visual.transformer(visual._embeds(pixels))[:, 1:]
    if visual.attn_pool is None:
        hidden_NPW = visual.ln_post(hidden_NPW)
    else:
        hidden_NPW = _pool_each_patch(hidden_NPW, lambda patch: visual._pool(patch)[0])
    vector_NPD: Tensor = hidden_NPW if visual.proj is None else hidden_NPW @ visual.proj
    return vector_NPD


def _patches_of_resnet(visual: Any, pixels: Tensor) -> Tensor:
    hidden = visual.stem(pixels)
    for layer in (visual.layer1, visual.layer2, visual.layer3, visual.layer4):
        hidden = layer(hidden)
    hidden_NPW = hidden.flatten(2).transpose(1, 2)
    pool = visual.attnpool
    hidden_NPW = hidden_NPW + pool.positional_embedding[1:].to(hidden_NPW.dtype)
    vector_NPD: Tensor = pool.c_proj(pool.v_proj(hidden_NPW))
    return vector_NPD


def _patches_of_trunk(visual: Any, pixels: Tensor) -> Tensor:
    trunk, kind = visual.trunk, type(visual.trunk).__name__
    hidden = trunk.forward_features(pixels)
    if hidden.ndim == 3:
        return _patches_of_tokens(visual, hidden)
    pooled_by = getattr(getattr(trunk, "head", None), "global_pool", None)
    if hidden.ndim != 4 or pooled_by is None or not _is_channels_first(trunk, hidden):
        raise _unknown_patches_error(kind)
    count, width, rows, columns = hidden.shape
    patch_maps = hidden.permute(0, 2, 3, 1).reshape(-1, width, 1, 1)
    vectors: Tensor = visual.head(trunk.forward_head(patch_maps))
    return vectors.reshape(count, rows * columns, -1)


def _patches_of_tokens(visual: Any, hidden_NLW: Tensor) -> Tensor:
    trunk = visual.trunk
    prefix = int(getattr(trunk, "num_prefix_tokens", 0))
    pool = getattr(trunk, "global_pool", None)
    if pool not in ("avg", "token", "map"):
        raise _unknown_patches_error(f"{type(trunk).__name__} with pooling {pool!r}")
    # The mean skips the prefix tokens, so each patch gets as many before it.
    before = prefix if pool == "avg" else 0

    def pooled(patch: Tensor) -> Tensor:
        padded = torch.cat([patch.new_zeros(len(patch), before, patch.shape[2]), patch], dim=1)
        vectors: Tensor = visual.head(trunk.forward_head(padded))
        return vectors

    return _pool_each_patch(hidden_NLW[:, prefix:], pooled)


def _pool_each_patch(hidden_NPW: Tensor, pool: Any) -> Tensor:
    """Pool each patch as if it were the whole image."""
    count, n_patches, width = hidden_NPW.shape
    pooled = pool(hidden_NPW.reshape(count * n_patches, 1, width))
    # CoCa's pooling uses the first of its queries.
    pooled = pooled[:, 0] if pooled.ndim == 3 else pooled
    vector_NPD: Tensor = pooled.reshape(count, n_patches, -1)
    return vector_NPD


def _unknown_patches_error(kind: str) -> UnbagError:
    """Return the error for an image encoder of an unknown kind."""
    return UnbagError(
        f"patch vectors of a {kind} are not known",
        expected="a vision transformer, a ResNet of CLIP, or a network of timm with known pooling",
        hint="use the image vector",
    )


def image_layers(visual: Any, pixels: Tensor) -> Layers:
    """Return the layers of an image encoder of any known kind."""
    if hasattr(visual, "trunk"):
        return _layers_of_trunk(visual.trunk, pixels)
    if hasattr(visual, "attnpool"):
        return _layers_of_resnet(visual, pixels)
    if hasattr(visual, "transformer") and hasattr(visual, "ln_post"):
        return _layers_of_transformer(visual, pixels)
    raise _unknown_layers_error(type(visual).__name__)


def _layers_of_transformer(visual: Any, pixels: Tensor) -> Layers:
    hidden = through(visual.transformer, visual._embeds(pixels))
    pooled_NW = visual._pool(hidden[-1])[0]
    if pooled_NW.ndim != 2:
        raise _unknown_layers_error(f"vision transformer with pooling {visual.pool_type!r}")
    is_attended = visual.attn_pool is not None
    is_normed = not is_attended or getattr(visual, "attn_pool_contrastive", None) is not None
    last_NLW = visual.ln_post(hidden[-1]) if is_normed else hidden[-1]
    has_class = not is_attended and visual.pool_type == "tok"
    pooled = [layer[:, 0] if has_class else None for layer in hidden]
    return make_layers([layer[:, 1:] for layer in (*hidden, last_NLW)], [*pooled, pooled_NW])


def _layers_of_resnet(visual: Any, pixels: Tensor) -> Layers:
    """Return the stem and four stages; the last layer includes the positions of the pooling."""
    maps = [visual.stem(pixels)]
    for stage in (visual.layer1, visual.layer2, visual.layer3, visual.layer4):
        maps.append(stage(maps[-1]))
    hidden = flatten_maps(maps)
    given_NLW, pooled_NW = _attention_pool(visual.attnpool, hidden[-1])
    return make_layers([*hidden, given_NLW], [*[None] * len(hidden), pooled_NW])


def _attention_pool(pool: Any, patch_NLW: Tensor) -> tuple[Tensor, Tensor]:
    """Return the keys of the attention pool of a ResNet, and its output before `c_proj`."""
    input_NLW = torch.cat([patch_NLW.mean(dim=1, keepdim=True), patch_NLW], dim=1)
    input_NLW = input_NLW + pool.positional_embedding.to(input_NLW.dtype)
    count, _, width = input_NLW.shape

    def by_head(vector_NLW: Tensor) -> Tensor:
        heads = pool.num_heads
        return vector_NLW.reshape(count, -1, heads, width // heads).transpose(1, 2)

    attended_NHLW = functional.scaled_dot_product_attention(
        by_head(pool.q_proj(input_NLW[:, :1])),
        by_head(pool.k_proj(input_NLW)),
        by_head(pool.v_proj(input_NLW)),
    )
    return input_NLW[:, 1:], attended_NHLW.transpose(1, 2).reshape(count, width)


def _layers_of_trunk(trunk: Any, pixels: Tensor) -> Layers:
    blocks = getattr(trunk, "blocks", None) or getattr(trunk, "stages", None)
    if not isinstance(blocks, torch.nn.Sequential | torch.nn.ModuleList):
        raise _unknown_layers_error(type(trunk).__name__)
    final, hidden = record_blocks(list(blocks), lambda: trunk.forward_features(pixels))
    shapes = {layer.ndim for layer in (*hidden, final)}
    if shapes == {3}:
        return _layers_of_tokens(trunk, hidden, final)
    if shapes == {4} and _is_channels_first(trunk, final):
        return _layers_of_stages(trunk, hidden, final)
    raise _unknown_layers_error(type(trunk).__name__)


def _layers_of_tokens(trunk: Any, hidden: list[Tensor], final_NLW: Tensor) -> Layers:
    pool, norm = getattr(trunk, "global_pool", None), getattr(trunk, "fc_norm", None)
    if pool not in ("avg", "token", "map") or norm is None:
        raise _unknown_layers_error(f"{type(trunk).__name__} with pooling {pool!r}")
    prefix = int(getattr(trunk, "num_prefix_tokens", 0))
    # With attention pooling this norm applies to the pooled vector only.
    last_NLW = final_NLW if pool == "map" else norm(final_NLW)
    pooled = [layer[:, 0] if pool == "token" else None for layer in hidden]
    pooled_NW = trunk.forward_head(final_NLW, pre_logits=True)
    return make_layers([layer[:, prefix:] for layer in (*hidden, last_NLW)], [*pooled, pooled_NW])


def _layers_of_stages(trunk: Any, hidden: list[Tensor], final: Tensor) -> Layers:
    if getattr(getattr(trunk, "head", None), "global_pool", None) is None:
        raise _unknown_layers_error(type(trunk).__name__)
    pooled_NW = trunk.forward_head(final, pre_logits=True)
    if pooled_NW.ndim != 2:
        raise _unknown_layers_error(f"{type(trunk).__name__} without pooling")
    count, width, rows, columns = final.shape
    patch_maps = final.permute(0, 2, 3, 1).reshape(-1, width, 1, 1)
    last_NLW = trunk.forward_head(patch_maps, pre_logits=True).reshape(count, rows * columns, -1)
    vectors = flatten_maps([*hidden, final])[:-1]
    return make_layers([*vectors, last_NLW], [*[None] * len(hidden), pooled_NW])


def _unknown_layers_error(kind: str) -> UnbagError:
    return UnbagError(
        f"layers of a {kind} are not known",
        expected="a vision transformer, a ResNet of CLIP, or a network of timm that has blocks "
        "and pools by token, mean or attention, or has stages and pools by mean",
        hint="use the image vector, or its patches",
    )


def _is_channels_first(trunk: Any, hidden: Tensor) -> bool:
    """Return whether channels come first; they come last in Swin."""
    return hidden.shape[1] == int(trunk.num_features)


def through(transformer: Any, hidden_NLW: Tensor, mask: Tensor | None = None) -> list[Tensor]:
    """Return the input of the first block and the output of each, [N, L, W].

    Runs block by block, since the whole transformer may be compiled and then ignores hooks.
    """
    hidden = [hidden_NLW if transformer.batch_first else hidden_NLW.transpose(0, 1)]
    for block in transformer.resblocks:
        hidden.append(block(hidden[-1], attn_mask=mask))
    return hidden if transformer.batch_first else [layer.transpose(0, 1) for layer in hidden]
