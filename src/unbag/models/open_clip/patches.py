"""Prepared pictures come in; vectors of their places in the joint space go out.

A place's vector is what the picture's vector would be if the pooling saw this place alone: for a
class token or a mean, the same layer norm and projection; for attention, its value path (which
MaskCLIP, Zhou et al. 2022, reads from CLIP's ResNets).

Dimensions: N pictures, P places, W tower width, D joint space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from unbag.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


def patches(visual: Any, pixels: Tensor) -> Tensor:
    """[N, P, D], not normalised, row by row from the top left."""
    if hasattr(visual, "trunk"):
        return _of_trunk(visual, pixels)
    if hasattr(visual, "attnpool"):
        return _of_resnet(visual, pixels)
    if hasattr(visual, "transformer") and hasattr(visual, "ln_post"):
        return _of_transformer(visual, pixels)
    raise unknown(type(visual).__name__)


def unknown(kind: str) -> UserError:
    """The error for a picture tower without places."""
    return UserError(
        f"patch vectors of a {kind} are not known",
        expected="a vision transformer, a ResNet of CLIP, or a network of timm with known pooling",
        way_out="use the picture vector",
    )


def _of_transformer(visual: Any, pixels: Tensor) -> Tensor:
    hidden_NPW = visual.transformer(visual._embeds(pixels))[:, 1:]
    if visual.attn_pool is None:
        hidden_NPW = visual.ln_post(hidden_NPW)
    else:
        hidden_NPW = _alone(hidden_NPW, lambda one: visual._pool(one)[0])
    found: Tensor = hidden_NPW if visual.proj is None else hidden_NPW @ visual.proj
    return found


def _alone(hidden_NPW: Tensor, pool: Any) -> Tensor:
    """Every place as if it were the whole picture."""
    count, places, width = hidden_NPW.shape
    pooled = pool(hidden_NPW.reshape(count * places, 1, width))
    # CoCa's class token pooling takes the first of its queries.
    pooled = pooled[:, 0] if pooled.ndim == 3 else pooled
    found: Tensor = pooled.reshape(count, places, -1)
    return found


def _of_resnet(visual: Any, pixels: Tensor) -> Tensor:
    hidden = visual.stem(pixels)
    for layer in (visual.layer1, visual.layer2, visual.layer3, visual.layer4):
        hidden = layer(hidden)
    hidden_NPW = hidden.flatten(2).transpose(1, 2)
    pool = visual.attnpool
    hidden_NPW = hidden_NPW + pool.positional_embedding[1:].to(hidden_NPW.dtype)
    found: Tensor = pool.c_proj(pool.v_proj(hidden_NPW))
    return found


def _of_trunk(visual: Any, pixels: Tensor) -> Tensor:
    trunk, kind = visual.trunk, type(visual.trunk).__name__
    hidden = trunk.forward_features(pixels)
    if hidden.ndim == 3:
        return _of_tokens(visual, hidden)
    pooled_by = getattr(getattr(trunk, "head", None), "global_pool", None)
    if hidden.ndim != 4 or pooled_by is None or not is_channels_first(trunk, hidden):
        raise unknown(kind)
    count, width, rows, columns = hidden.shape
    one = hidden.permute(0, 2, 3, 1).reshape(-1, width, 1, 1)
    found: Tensor = visual.head(trunk.forward_head(one))
    return found.reshape(count, rows * columns, -1)


def is_channels_first(trunk: Any, hidden: Tensor) -> bool:
    """Swin and its kin keep channels last."""
    return hidden.shape[1] == int(trunk.num_features)


def _of_tokens(visual: Any, hidden_NLW: Tensor) -> Tensor:
    trunk = visual.trunk
    prefix = int(getattr(trunk, "num_prefix_tokens", 0))
    pool = getattr(trunk, "global_pool", None)
    if pool not in ("avg", "token", "map"):
        raise unknown(f"{type(trunk).__name__} with pooling {pool!r}")
    # The mean skips the prefix tokens, so a place needs some before it to be skipped.
    before = prefix if pool == "avg" else 0

    def pooled(one: Tensor) -> Tensor:
        padded = torch.cat([one.new_zeros(len(one), before, one.shape[2]), one], dim=1)
        found: Tensor = visual.head(trunk.forward_head(padded))
        return found

    return _alone(hidden_NLW[:, prefix:], pooled)
