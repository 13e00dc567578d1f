"""Patch vectors and layers of open_clip's image encoders.

Where attention pools, the last layer of the places is what that attention is given, and the last
pooled vector is what it gives.

Dimensions: N images, P or L places, W width of a layer, H heads, D joint space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from unbag.errors import UnbagError
from unbag.models.layers import laid_out, of_maps, recorded
from unbag.types import Layers

if TYPE_CHECKING:
    from torch import Tensor


def patches(visual: Any, pixels: Tensor) -> Tensor:
    """[N, P, D], not normalised, row by row from the top left.

    A place's vector is what the image's vector would be if the pooling saw this place alone: for
    a class token or a mean, the same layer norm and projection; for attention, its value path
    (which MaskCLIP, Zhou et al. 2022, reads from CLIP's ResNets).
    """
    if hasattr(visual, "trunk"):
        return _patches_of_trunk(visual, pixels)
    if hasattr(visual, "attnpool"):
        return _patches_of_resnet(visual, pixels)
    if hasattr(visual, "transformer") and hasattr(visual, "ln_post"):
        return _patches_of_transformer(visual, pixels)
    raise _unknown_patches(type(visual).__name__)


def _patches_of_transformer(visual: Any, pixels: Tensor) -> Tensor:
    hidden_NPW = visual.transformer(visual._embeds(pixels))[:, 1:]
    if visual.attn_pool is None:
        hidden_NPW = visual.ln_post(hidden_NPW)
    else:
        hidden_NPW = _each_alone(hidden_NPW, lambda one: visual._pool(one)[0])
    found: Tensor = hidden_NPW if visual.proj is None else hidden_NPW @ visual.proj
    return found


def _patches_of_resnet(visual: Any, pixels: Tensor) -> Tensor:
    hidden = visual.stem(pixels)
    for layer in (visual.layer1, visual.layer2, visual.layer3, visual.layer4):
        hidden = layer(hidden)
    hidden_NPW = hidden.flatten(2).transpose(1, 2)
    pool = visual.attnpool
    hidden_NPW = hidden_NPW + pool.positional_embedding[1:].to(hidden_NPW.dtype)
    found: Tensor = pool.c_proj(pool.v_proj(hidden_NPW))
    return found


def _patches_of_trunk(visual: Any, pixels: Tensor) -> Tensor:
    trunk, kind = visual.trunk, type(visual.trunk).__name__
    hidden = trunk.forward_features(pixels)
    if hidden.ndim == 3:
        return _patches_of_tokens(visual, hidden)
    pooled_by = getattr(getattr(trunk, "head", None), "global_pool", None)
    if hidden.ndim != 4 or pooled_by is None or not _is_channels_first(trunk, hidden):
        raise _unknown_patches(kind)
    count, width, rows, columns = hidden.shape
    one = hidden.permute(0, 2, 3, 1).reshape(-1, width, 1, 1)
    found: Tensor = visual.head(trunk.forward_head(one))
    return found.reshape(count, rows * columns, -1)


def _patches_of_tokens(visual: Any, hidden_NLW: Tensor) -> Tensor:
    trunk = visual.trunk
    prefix = int(getattr(trunk, "num_prefix_tokens", 0))
    pool = getattr(trunk, "global_pool", None)
    if pool not in ("avg", "token", "map"):
        raise _unknown_patches(f"{type(trunk).__name__} with pooling {pool!r}")
    # The mean skips the prefix tokens, so a place needs some before it to be skipped.
    before = prefix if pool == "avg" else 0

    def pooled(one: Tensor) -> Tensor:
        padded = torch.cat([one.new_zeros(len(one), before, one.shape[2]), one], dim=1)
        found: Tensor = visual.head(trunk.forward_head(padded))
        return found

    return _each_alone(hidden_NLW[:, prefix:], pooled)


def _each_alone(hidden_NPW: Tensor, pool: Any) -> Tensor:
    """Every place as if it were the whole image."""
    count, places, width = hidden_NPW.shape
    pooled = pool(hidden_NPW.reshape(count * places, 1, width))
    # CoCa's class token pooling takes the first of its queries.
    pooled = pooled[:, 0] if pooled.ndim == 3 else pooled
    found: Tensor = pooled.reshape(count, places, -1)
    return found


def _unknown_patches(kind: str) -> UnbagError:
    """The error for an image encoder without places."""
    return UnbagError(
        f"patch vectors of a {kind} are not known",
        expected="a vision transformer, a ResNet of CLIP, or a network of timm with known pooling",
        hint="use the image vector",
    )


def image_layers(visual: Any, pixels: Tensor) -> Layers:
    """For an image encoder of any kind whose parts are known."""
    if hasattr(visual, "trunk"):
        return _layers_of_trunk(visual.trunk, pixels)
    if hasattr(visual, "attnpool"):
        return _layers_of_resnet(visual, pixels)
    if hasattr(visual, "transformer") and hasattr(visual, "ln_post"):
        return _layers_of_transformer(visual, pixels)
    raise _unknown_layers(type(visual).__name__)


def _layers_of_transformer(visual: Any, pixels: Tensor) -> Layers:
    hidden = through(visual.transformer, visual._embeds(pixels))
    pooled_NW = visual._pool(hidden[-1])[0]
    if pooled_NW.ndim != 2:
        raise _unknown_layers(f"vision transformer with pooling {visual.pool_type!r}")
    is_attended = visual.attn_pool is not None
    is_normed = not is_attended or getattr(visual, "attn_pool_contrastive", None) is not None
    last_NLW = visual.ln_post(hidden[-1]) if is_normed else hidden[-1]
    has_class = not is_attended and visual.pool_type == "tok"
    read = [one[:, 0] if has_class else None for one in hidden]
    return laid_out([one[:, 1:] for one in (*hidden, last_NLW)], [*read, pooled_NW])


def _layers_of_resnet(visual: Any, pixels: Tensor) -> Layers:
    """The stem and its four stages; the last layer has the positions of the pooling."""
    maps = [visual.stem(pixels)]
    for stage in (visual.layer1, visual.layer2, visual.layer3, visual.layer4):
        maps.append(stage(maps[-1]))
    hidden = of_maps(maps)
    given_NLW, pooled_NW = _attended(visual.attnpool, hidden[-1])
    return laid_out([*hidden, given_NLW], [*[None] * len(hidden), pooled_NW])


def _attended(pool: Any, place_NLW: Tensor) -> tuple[Tensor, Tensor]:
    """What a ResNet's attention looks at, and what it sees before `c_proj`."""
    every_NLW = torch.cat([place_NLW.mean(dim=1, keepdim=True), place_NLW], dim=1)
    every_NLW = every_NLW + pool.positional_embedding.to(every_NLW.dtype)
    count, _, width = every_NLW.shape

    def by_head(vector_NLW: Tensor) -> Tensor:
        heads = pool.num_heads
        return vector_NLW.reshape(count, -1, heads, width // heads).transpose(1, 2)

    seen_NHLW = functional.scaled_dot_product_attention(
        by_head(pool.q_proj(every_NLW[:, :1])),
        by_head(pool.k_proj(every_NLW)),
        by_head(pool.v_proj(every_NLW)),
    )
    return every_NLW[:, 1:], seen_NHLW.transpose(1, 2).reshape(count, width)


def _layers_of_trunk(trunk: Any, pixels: Tensor) -> Layers:
    blocks = getattr(trunk, "blocks", None) or getattr(trunk, "stages", None)
    if not isinstance(blocks, torch.nn.Sequential | torch.nn.ModuleList):
        raise _unknown_layers(type(trunk).__name__)
    final, hidden = recorded(list(blocks), lambda: trunk.forward_features(pixels))
    shapes = {one.ndim for one in (*hidden, final)}
    if shapes == {3}:
        return _layers_of_tokens(trunk, hidden, final)
    if shapes == {4} and _is_channels_first(trunk, final):
        return _layers_of_stages(trunk, hidden, final)
    raise _unknown_layers(type(trunk).__name__)


def _layers_of_tokens(trunk: Any, hidden: list[Tensor], final_NLW: Tensor) -> Layers:
    pool, norm = getattr(trunk, "global_pool", None), getattr(trunk, "fc_norm", None)
    if pool not in ("avg", "token", "map") or norm is None:
        raise _unknown_layers(f"{type(trunk).__name__} with pooling {pool!r}")
    prefix = int(getattr(trunk, "num_prefix_tokens", 0))
    # Behind attention this norm is one of the pooled vector alone.
    last_NLW = final_NLW if pool == "map" else norm(final_NLW)
    read = [one[:, 0] if pool == "token" else None for one in hidden]
    pooled_NW = trunk.forward_head(final_NLW, pre_logits=True)
    return laid_out([one[:, prefix:] for one in (*hidden, last_NLW)], [*read, pooled_NW])


def _layers_of_stages(trunk: Any, hidden: list[Tensor], final: Tensor) -> Layers:
    if getattr(getattr(trunk, "head", None), "global_pool", None) is None:
        raise _unknown_layers(type(trunk).__name__)
    pooled_NW = trunk.forward_head(final, pre_logits=True)
    if pooled_NW.ndim != 2:
        raise _unknown_layers(f"{type(trunk).__name__} without pooling")
    count, width, rows, columns = final.shape
    one = final.permute(0, 2, 3, 1).reshape(-1, width, 1, 1)
    last_NLW = trunk.forward_head(one, pre_logits=True).reshape(count, rows * columns, -1)
    vectors = of_maps([*hidden, final])[:-1]
    return laid_out([*vectors, last_NLW], [*[None] * len(hidden), pooled_NW])


def _unknown_layers(kind: str) -> UnbagError:
    return UnbagError(
        f"layers of a {kind} are not known",
        expected="a vision transformer, a ResNet of CLIP, or a network of timm that has blocks "
        "and pools by token, mean or attention, or has stages and pools by mean",
        hint="use the image vector, or its patches",
    )


def _is_channels_first(trunk: Any, hidden: Tensor) -> bool:
    """Swin and its kin keep channels last."""
    return hidden.shape[1] == int(trunk.num_features)


def through(transformer: Any, hidden_NLW: Tensor, mask: Tensor | None = None) -> list[Tensor]:
    """What enters the first block and what leaves each, [N, L, W].

    Block by block: the transformer as a whole may be compiled, and then shows nothing.
    """
    found = [hidden_NLW if transformer.batch_first else hidden_NLW.transpose(0, 1)]
    for block in transformer.resblocks:
        found.append(block(found[-1], attn_mask=mask))
    return found if transformer.batch_first else [one.transpose(0, 1) for one in found]
