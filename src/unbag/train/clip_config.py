"""Config and picture preparation of a CLIP in one library come in; the other's go out, or why not.

A model is converted only if the other library computes the same: a ViT with a class token and a
causal text tower that is read at the end token. Whatever differs from that is named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from math import isclose
from typing import Any

TOP = frozenset(
    {"embed_dim", "vision_cfg", "text_cfg", "quick_gelu", "custom_text"}
    | {"init_logit_scale", "init_logit_bias", "nonscalar_logit_scale"}
)
"""Keys of open_clip's config that a plain CLIP may have."""
EPSILON = 1e-5
"""Of layer norms, in both libraries, where nothing is said."""
_SHAPE = frozenset({"layers", "width", "mlp_ratio", "norm_kwargs"})
_EYES = _SHAPE | {"head_width", "patch_size", "image_size", "patch_dropout"}
_TEXT = _SHAPE | {"heads", "context_length", "vocab_size", "pool_type", "pad_id", "eos_id"}
_TOKENIZER = frozenset({"hf_tokenizer_name", "tokenizer_mode", "tokenizer_kwargs"})
# As PIL numbers them.
_RESAMPLE: Mapping[str, int] = {"bilinear": 2, "bicubic": 3}


class NoOtherFormError(Exception):
    """The other library has no such model; the text says why, to follow "left out: "."""


def to_transformers_config(config: Mapping[str, Any], *, end: int) -> dict[str, Any]:
    """Arguments of `transformers.CLIPConfig`; `end` is the end token of the tokenizer."""
    eyes, text = _open_clip_towers(config)
    act = "quick_gelu" if config.get("quick_gelu") else "gelu"
    both = {"hidden_act": act, "projection_dim": int(config["embed_dim"])}
    return {
        "projection_dim": int(config["embed_dim"]),
        "vision_config": both
        | _shape(eyes, "picture")
        | {
            "num_attention_heads": int(eyes.width) // int(eyes.head_width),
            "image_size": _square(eyes.image_size, "image_size"),
            "patch_size": _square(eyes.patch_size, "patch_size"),
        },
        "text_config": both
        | _shape(text, "text")
        | {
            "num_attention_heads": int(text.heads),
            "max_position_embeddings": int(text.context_length),
            "vocab_size": int(text.vocab_size),
            "bos_token_id": end - 1,
            "eos_token_id": end,
            "pad_token_id": end,
        },
    }


def to_open_clip_config(config: Any, *, end: int, largest: int) -> dict[str, Any]:
    """`model_cfg` of open_clip from a `CLIPConfig`; end token and largest id of the tokenizer."""
    eyes, text = config.vision_config, config.text_config
    acts = {eyes.hidden_act, text.hidden_act}
    if len(acts) > 1 or not acts <= {"gelu", "quick_gelu"}:
        raise NoOtherFormError(f"its activation is {' and '.join(sorted(acts))}")
    # Read at the largest id, as OpenAI's code does, wherever that is the end token.
    pooled = {} if end == largest else {"pool_type": "eos", "eos_id": end}
    return {
        "embed_dim": int(config.projection_dim),
        "quick_gelu": acts == {"quick_gelu"},
        "vision_cfg": _layers(eyes)
        | {
            "head_width": int(eyes.hidden_size) // int(eyes.num_attention_heads),
            "image_size": _square(eyes.image_size, "image_size"),
            "patch_size": _square(eyes.patch_size, "patch_size"),
        },
        "text_cfg": _layers(text)
        | {
            "heads": int(text.num_attention_heads),
            "context_length": int(text.max_position_embeddings),
            "vocab_size": int(text.vocab_size),
        }
        | pooled,
    }


def to_processor(preparation: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `transformers.CLIPImageProcessor` from open_clip's preparation."""
    side = _square(preparation["size"], "size")
    how, resample = preparation["resize_mode"], _RESAMPLE.get(preparation["interpolation"])
    if how not in ("shortest", "squash") or resample is None:
        said = f"{how}, {preparation['interpolation']}"
        raise NoOtherFormError(f"its pictures are resized in a way transformers has not ({said})")
    whole = {"height": side, "width": side}
    return {
        "size": {"shortest_edge": side} if how == "shortest" else whole,
        "do_center_crop": how == "shortest",
        "crop_size": whole,
        "resample": resample,
        "image_mean": list(preparation["mean"]),
        "image_std": list(preparation["std"]),
    }


def to_preparation(processor: Any, *, side: int) -> dict[str, Any]:
    """`preprocess_cfg` of open_clip from an image processor, for a tower of this size."""
    said = json.loads(processor.to_json_string())
    kind = str(said.get("image_processor_type", type(processor).__name__))
    does = all(said.get(f"do_{step}", False) for step in ("resize", "rescale", "normalize"))
    is_bytes = isclose(said.get("rescale_factor", 0.0), 1 / 255, rel_tol=1e-6)
    names = {number: name for name, number in _RESAMPLE.items()}
    how = _resized(said, side)
    if not (kind.startswith("CLIPImageProcessor") and does and is_bytes and how):
        raise NoOtherFormError("its pictures are prepared in a way open_clip has not")
    if said["resample"] not in names:
        raise NoOtherFormError(f"its pictures are resampled in way {said['resample']} of PIL")
    return {
        "size": side,
        "mode": "RGB",
        "mean": said["image_mean"],
        "std": said["image_std"],
        "interpolation": names[said["resample"]],
        "resize_mode": how,
    }


def _resized(said: Mapping[str, Any], side: int) -> str:
    whole = {"height": side, "width": side}
    size = {key: value for key, value in said["size"].items() if value is not None}
    crops, crop = said.get("do_center_crop", False), said.get("crop_size")
    if size == {"shortest_edge": side} and crops and crop == whole:
        return "shortest"
    return "squash" if size == whole and (not crops or crop == whole) else ""


def _open_clip_towers(config: Mapping[str, Any]) -> tuple[Any, Any]:
    """Both towers as open_clip's records, if they are a plain CLIP's."""
    from open_clip.model import (  # type: ignore[import-untyped, unused-ignore]
        CLIPTextCfg,
        CLIPVisionCfg,
    )

    if "multimodal_cfg" in config:
        raise NoOtherFormError("it is a CoCa, with a decoder")
    strange = sorted(set(config) - TOP)
    if strange:
        raise NoOtherFormError(f"its config has {', '.join(strange)}")
    eyes, text = CLIPVisionCfg(**config["vision_cfg"]), CLIPTextCfg(**config["text_cfg"])
    if eyes.timm_model_name:
        raise NoOtherFormError(f"its picture tower is of timm ({eyes.timm_model_name})")
    if isinstance(eyes.layers, list | tuple):
        raise NoOtherFormError("its picture tower is a ResNet")
    if text.hf_model_name:
        raise NoOtherFormError(f"its text tower is of another kind ({text.hf_model_name})")
    _check_plain(eyes, "picture", _EYES, starts=("timm_",))
    _check_plain(text, "text", _TEXT | _TOKENIZER, starts=("hf_",))
    if text.pool_type not in ("argmax", "eos"):
        raise NoOtherFormError(f"its text tower has pool_type {text.pool_type!r}")
    return eyes, text


def _check_plain(tower: Any, which: str, free: frozenset[str], *, starts: tuple[str, ...]) -> None:
    """Every option that is not a size has its default: new ones of open_clip are caught too."""
    plain = type(tower)()
    for name in (f.name for f in fields(tower)):
        value = getattr(tower, name)
        is_default = value == getattr(plain, name) or not (value or getattr(plain, name))
        if name not in free and not name.startswith(starts) and not is_default:
            raise NoOtherFormError(f"its {which} tower has {name} {value!r}")


def _shape(tower: Any, which: str) -> dict[str, Any]:
    norm = dict(tower.norm_kwargs or {})
    epsilon = norm.pop("eps", EPSILON)
    if norm:
        raise NoOtherFormError(f"its {which} tower has norm_kwargs {norm!r}")
    return {
        "hidden_size": int(tower.width),
        "intermediate_size": int(tower.width * tower.mlp_ratio),
        "num_hidden_layers": int(tower.layers),
        "layer_norm_eps": float(epsilon),
    }


def _layers(tower: Any) -> dict[str, Any]:
    width, inner = int(tower.hidden_size), int(tower.intermediate_size)
    if int(width * (inner / width)) != inner:
        raise NoOtherFormError(f"{inner} is no multiple of {width} that a float can say")
    said = {"layers": int(tower.num_hidden_layers), "width": width, "mlp_ratio": inner / width}
    epsilon = float(tower.layer_norm_eps)
    return said if epsilon == EPSILON else said | {"norm_kwargs": {"eps": epsilon}}


def _square(size: Any, what: str) -> int:
    sides = list(size) if isinstance(size, list | tuple) else [size]
    if len({int(side) for side in sides}) != 1:
        raise NoOtherFormError(f"its {what} is {sides!r}, not square")
    return int(sides[0])
