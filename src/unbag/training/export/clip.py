"""Convert CLIP between open_clip and transformers: config, image preparation, weights, tokenizer.

A model is converted only if the other library computes the same: a ViT with a class token and a
causal text encoder that is read at the end token. Otherwise the error names the difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import isclose
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unbag.errors import UnbagError
from unbag.models.open_clip.checkpoint import POSITIONS
from unbag.models.open_clip.library import library

if TYPE_CHECKING:
    from torch import Tensor


BIAS = "logit_bias"
"""Bias of the sigmoid loss; open_clip supports it in any model, transformers in SigLIP only."""
_TEXT_PREFIX = "text."
"""Prefix of the text encoder's weights in CustomTextCLIP, open_clip's second form of CLIP."""
_BLOCK: Mapping[str, str] = MappingProxyType(
    {
        "ln_1": "layer_norm1",
        "ln_2": "layer_norm2",
        "attn.out_proj": "self_attn.out_proj",
        "mlp.c_fc": "mlp.fc1",
        "mlp.c_proj": "mlp.fc2",
    }
)
_ENCODER_PREFIX: Mapping[str, str] = MappingProxyType(
    {"visual.transformer": "vision_model", "transformer": "text_model"}
)
_NORMS: Mapping[str, str] = MappingProxyType(
    {
        # The misspelling is that of transformers.
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
_TRANSPOSED: Mapping[str, str] = MappingProxyType(
    {"visual.proj": "visual_projection.weight", "text_projection": "text_projection.weight"}
)
_OPEN_CLIP_BLOCK = re.compile(
    r"(visual\.transformer|transformer)\.resblocks\.(\d+)\.(.+)\.(weight|bias)"
)
_OPEN_CLIP_ATTENTION = re.compile(
    r"(visual\.transformer|transformer)\.resblocks\.(\d+)\.attn\.in_proj_(weight|bias)"
)
_TRANSFORMERS_BLOCK = re.compile(
    r"(vision_model|text_model)\.encoder\.layers\.(\d+)\.(.+)\.(weight|bias)"
)


def to_transformers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the tensors of either form of open_clip's CLIP to those of `transformers.CLIPModel`.

    Both libraries hold the same numbers. open_clip holds query, key and value of a layer in one
    tensor, which is split, and its projections are transposed; nothing is rounded.

    CLIPModel has no `logit_bias`, so it is left out. UnbagError for a tensor that a plain CLIP does
    not have.
    """
    converted: dict[str, Tensor] = {}
    for name, tensor in state.items():
        short_name = name.removeprefix(_TEXT_PREFIX)
        if short_name != BIAS:
            converted |= _to_transformers(short_name, tensor, name)
    return converted


def to_open_clip(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the tensors of `transformers.CLIPModel` to those of open_clip's first form of CLIP.

    A `logit_bias` that was trained with it is included: open_clip supports it.
    """
    open_clip_name = {theirs: ours for ours, theirs in _renamed_tensors().items()}
    transposed = {theirs: ours for ours, theirs in _TRANSPOSED.items()}
    converted: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name in open_clip_name or name == BIAS:
            converted[open_clip_name.get(name, name)] = tensor
        elif name in transposed:
            converted[transposed[name]] = tensor.T.contiguous()
        elif (match := _TRANSFORMERS_BLOCK.fullmatch(name)) is not None:
            converted |= _block_to_open_clip(match, tensor, state)
        elif not name.endswith(POSITIONS):
            raise _unknown(name, "transformers.CLIPModel")
    return converted


def _to_transformers(short_name: str, tensor: Tensor, name: str) -> dict[str, Tensor]:
    renamed = _renamed_tensors()
    if short_name in renamed:
        # In some models of open_clip, the scale is a vector of one number.
        return {renamed[short_name]: tensor.reshape(()) if short_name == "logit_scale" else tensor}
    if short_name in _TRANSPOSED:
        return {_TRANSPOSED[short_name]: tensor.T.contiguous()}
    if (match := _OPEN_CLIP_ATTENTION.fullmatch(short_name)) is not None:
        encoder, layer, suffix = match.groups()
        prefix = f"{_ENCODER_PREFIX[encoder]}.encoder.layers.{layer}.self_attn"
        parts = tensor.chunk(3)
        return {
            f"{prefix}.{letter}_proj.{suffix}": part.contiguous()
            for letter, part in zip("qkv", parts, strict=True)
        }
    if (match := _OPEN_CLIP_BLOCK.fullmatch(short_name)) is not None and match[3] in _BLOCK:
        encoder, layer, part, suffix = match.groups()
        return {
            f"{_ENCODER_PREFIX[encoder]}.encoder.layers.{layer}.{_BLOCK[part]}.{suffix}": tensor
        }
    raise _unknown(name, "open_clip's CLIP")


def _block_to_open_clip(
    match: re.Match[str], tensor: Tensor, state: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    import torch

    encoder, layer, part, suffix = match.groups()
    prefix = f"{_key_of(_ENCODER_PREFIX, encoder)}.resblocks.{layer}"
    if part in ("self_attn.k_proj", "self_attn.v_proj"):
        return {}
    if part == "self_attn.q_proj":
        names = [match[0].replace("q_proj", f"{letter}_proj") for letter in "qkv"]
        missing = [name for name in names if name not in state]
        if missing:
            raise _unknown(match[0], f"an attention with {missing[0]}")
        return {f"{prefix}.attn.in_proj_{suffix}": torch.cat([state[name] for name in names])}
    if part not in _BLOCK.values():
        raise _unknown(match[0], "transformers.CLIPModel")
    return {f"{prefix}.{_key_of(_BLOCK, part)}.{suffix}": tensor}


def _renamed_tensors() -> dict[str, str]:
    """Return both names of the tensors outside the blocks that differ in name only."""
    names = dict(_SINGLE)
    for open_clip_name, transformers_name in _NORMS.items():
        names |= {
            f"{open_clip_name}.{suffix}": f"{transformers_name}.{suffix}"
            for suffix in ("weight", "bias")
        }
    return names


def _key_of(names: Mapping[str, str], value: str) -> str:
    return next(key for key, other in names.items() if other == value)


def _unknown(name: str, of: str) -> UnbagError:
    return UnbagError(
        f"the tensor {name!r} has no name in the other library",
        expected=f"only tensors of {of}",
        hint="merge adapters (LoRA) into the weights first; other encoders have one form only",
    )


ROWS = 49_408
"""Size of the vocabulary of OpenAI's CLIP and nearly all later ones."""
ORDINARY = (
    "a red cube",
    "",
    "A Dog, eating the horse's hay!",
    "the horse eats the grass; the grass doesn't eat the horse",
    "two dogs, 3 cats & 1,000 birds (left of a 50% grey wall)",
    "café au lait, naïve, über, 日本 😀",
    "several   spaces\tand\nlines",
    "a small brown dog sleeps to the left of a large white cat " * 9,
)
"""Captions on which tokenizers are compared; the last is longer than any context."""
ODD = ("Tom &amp; Jerry", "“curly quotes”", "a ﬁne ligature", "schÃ¶n broken letters")
"""Texts that open_clip cleans before tokenizing and transformers does not."""
_SPECIAL = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}


def clip_tokenizer(context: int) -> Any:
    """Make CLIP's tokenizer for transformers from the file in the package open_clip."""
    from transformers import CLIPTokenizer

    inner = library().tokenizer.SimpleTokenizer(context_length=context)
    ranks: Any = inner.bpe_ranks
    return CLIPTokenizer(
        vocab={_SPECIAL.get(piece, piece): number for piece, number in inner.encoder.items()},
        merges=sorted(ranks, key=ranks.__getitem__),
        model_max_length=context,
    )


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Save a tokenizer in the files of every version of transformers."""
    tokenizer.save_pretrained(folder)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and type(tokenizer).__name__.startswith("CLIPTokenizer"):
        # Version 5 writes one file; version 4 without fast tokenizers reads these two.
        backend.model.save(str(folder))


def differing(simple: Any, tokenizer: Any, captions: Sequence[str], *, context: int) -> list[str]:
    """Return the captions for which open_clip's and a transformers tokenizer return other ids."""

    def ids(caption: str) -> list[int]:
        ids: list[int] = tokenizer(caption, truncation=True, max_length=context)["input_ids"]
        return ids

    def simple_ids(caption: str) -> list[int]:
        # Without the zeros after the end token, which is the largest id.
        row = simple([caption])[0]
        ids: list[int] = row[: int(row.argmax()) + 1].tolist()
        return ids

    return [caption for caption in captions if simple_ids(caption) != ids(caption)]


def simple_tokenizer(context: int) -> Any:
    """Return open_clip's own tokenizer."""
    return library().tokenizer.SimpleTokenizer(context_length=context)


TOP = frozenset(
    {"embed_dim", "vision_cfg", "text_cfg", "quick_gelu", "custom_text"}
    | {"init_logit_scale", "init_logit_bias", "nonscalar_logit_scale"}
)
"""Keys of open_clip's config that a plain CLIP may have."""
EPSILON = 1e-5
"""Default of layer norms in both libraries."""
_SHAPE = frozenset({"layers", "width", "mlp_ratio", "norm_kwargs"})
_VISION = _SHAPE | {"head_width", "patch_size", "image_size", "patch_dropout"}
_TEXT = _SHAPE | {"heads", "context_length", "vocab_size", "pool_type", "pad_id", "eos_id"}
_TOKENIZER = frozenset({"hf_tokenizer_name", "tokenizer_mode", "tokenizer_kwargs"})
_RESAMPLE: Mapping[str, int] = {"bilinear": 2, "bicubic": 3}
"""Names of resampling filters and PIL's numbers for them."""


class NoOtherFormError(Exception):
    """The other library has no such model; the message says why."""


def to_transformers_config(config: Mapping[str, Any], *, end: int) -> dict[str, Any]:
    """Return arguments of `transformers.CLIPConfig`; `end` is the tokenizer's end token."""
    vision, text = _open_clip_encoders(config)
    activation = "quick_gelu" if config.get("quick_gelu") else "gelu"
    shared = {"hidden_act": activation, "projection_dim": int(config["embed_dim"])}
    return {
        "projection_dim": int(config["embed_dim"]),
        "vision_config": shared
        | _shape(vision, "image")
        | {
            "num_attention_heads": int(vision.width) // int(vision.head_width),
            "image_size": _square(vision.image_size, "image_size"),
            "patch_size": _square(vision.patch_size, "patch_size"),
        },
        "text_config": shared
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
    """Return `model_cfg` of open_clip; `end` and `largest` are token ids of the tokenizer."""
    vision, text = config.vision_config, config.text_config
    activations = {vision.hidden_act, text.hidden_act}
    if len(activations) > 1 or not activations <= {"gelu", "quick_gelu"}:
        raise NoOtherFormError(f"its activation is {' and '.join(sorted(activations))}")
    # By default open_clip reads at the largest id, as OpenAI's code does.
    pooling = {} if end == largest else {"pool_type": "eos", "eos_id": end}
    return {
        "embed_dim": int(config.projection_dim),
        "quick_gelu": activations == {"quick_gelu"},
        "vision_cfg": _layers(vision)
        | {
            "head_width": int(vision.hidden_size) // int(vision.num_attention_heads),
            "image_size": _square(vision.image_size, "image_size"),
            "patch_size": _square(vision.patch_size, "patch_size"),
        },
        "text_cfg": _layers(text)
        | {
            "heads": int(text.num_attention_heads),
            "context_length": int(text.max_position_embeddings),
            "vocab_size": int(text.vocab_size),
        }
        | pooling,
    }


def to_processor(preparation: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `transformers.CLIPImageProcessor` for open_clip's preparation."""
    side = _square(preparation["size"], "size")
    resize_mode, resample = preparation["resize_mode"], _RESAMPLE.get(preparation["interpolation"])
    if resize_mode not in ("shortest", "squash") or resample is None:
        settings = f"{resize_mode}, {preparation['interpolation']}"
        raise NoOtherFormError(
            f"its resizing of images is not supported by transformers ({settings})"
        )
    square = {"height": side, "width": side}
    return {
        "size": {"shortest_edge": side} if resize_mode == "shortest" else square,
        "do_center_crop": resize_mode == "shortest",
        "crop_size": square,
        "resample": resample,
        "image_mean": list(preparation["mean"]),
        "image_std": list(preparation["std"]),
    }


def to_preparation(processor: Any, *, side: int) -> dict[str, Any]:
    """Return `preprocess_cfg` of open_clip for an image processor and an image size."""
    settings = json.loads(processor.to_json_string())
    kind = str(settings.get("image_processor_type", type(processor).__name__))
    does_all_steps = all(
        settings.get(f"do_{step}", False) for step in ("resize", "rescale", "normalize")
    )
    is_bytes = isclose(settings.get("rescale_factor", 0.0), 1 / 255, rel_tol=1e-6)
    name_of_filter = {number: name for name, number in _RESAMPLE.items()}
    resize_mode = _resize_mode(settings, side)
    if not (kind.startswith("CLIPImageProcessor") and does_all_steps and is_bytes and resize_mode):
        raise NoOtherFormError("its preparation of images is not supported by open_clip")
    if settings["resample"] not in name_of_filter:
        resample = settings["resample"]
        raise NoOtherFormError(f"its images are resampled by PIL's filter {resample}")
    return {
        "size": side,
        "mode": "RGB",
        "mean": settings["image_mean"],
        "std": settings["image_std"],
        "interpolation": name_of_filter[settings["resample"]],
        "resize_mode": resize_mode,
    }


def _resize_mode(settings: Mapping[str, Any], side: int) -> str:
    square = {"height": side, "width": side}
    size = {key: value for key, value in settings["size"].items() if value is not None}
    crops, crop = settings.get("do_center_crop", False), settings.get("crop_size")
    if size == {"shortest_edge": side} and crops and crop == square:
        return "shortest"
    return "squash" if size == square and (not crops or crop == square) else ""


def _open_clip_encoders(config: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return both configs of a plain CLIP of open_clip; NoOtherFormError for other models."""
    from open_clip.model import (  # type: ignore[import-untyped, unused-ignore]
        CLIPTextCfg,
        CLIPVisionCfg,
    )

    if "multimodal_cfg" in config:
        raise NoOtherFormError("it is a CoCa, with a decoder")
    unknown_keys = sorted(set(config) - TOP)
    if unknown_keys:
        raise NoOtherFormError(f"its config has {', '.join(unknown_keys)}")
    vision, text = CLIPVisionCfg(**config["vision_cfg"]), CLIPTextCfg(**config["text_cfg"])
    if vision.timm_model_name:
        raise NoOtherFormError(f"its image encoder is of timm ({vision.timm_model_name})")
    if isinstance(vision.layers, list | tuple):
        raise NoOtherFormError("its image encoder is a ResNet")
    if text.hf_model_name:
        raise NoOtherFormError(f"its text encoder is of another kind ({text.hf_model_name})")
    _check_plain(vision, "image", _VISION, ignored_prefixes=("timm_",))
    _check_plain(text, "text", _TEXT | _TOKENIZER, ignored_prefixes=("hf_",))
    if text.pool_type not in ("argmax", "eos"):
        raise NoOtherFormError(f"its text encoder has pool_type {text.pool_type!r}")
    return vision, text


def _check_plain(
    encoder: Any, which: str, sizes: frozenset[str], *, ignored_prefixes: tuple[str, ...]
) -> None:
    """Check that all options but sizes have their default, including new options of open_clip."""
    default = type(encoder)()
    for name in (f.name for f in fields(encoder)):
        value = getattr(encoder, name)
        is_default = value == getattr(default, name) or not (value or getattr(default, name))
        if name not in sizes and not name.startswith(ignored_prefixes) and not is_default:
            raise NoOtherFormError(f"its {which} encoder has {name} {value!r}")


def _shape(encoder: Any, which: str) -> dict[str, Any]:
    norm = dict(encoder.norm_kwargs or {})
    epsilon = norm.pop("eps", EPSILON)
    if norm:
        raise NoOtherFormError(f"its {which} encoder has norm_kwargs {norm!r}")
    return {
        "hidden_size": int(encoder.width),
        "intermediate_size": int(encoder.width * encoder.mlp_ratio),
        "num_hidden_layers": int(encoder.layers),
        "layer_norm_eps": float(epsilon),
    }


def _layers(encoder: Any) -> dict[str, Any]:
    width, mlp_width = int(encoder.hidden_size), int(encoder.intermediate_size)
    if int(width * (mlp_width / width)) != mlp_width:
        raise NoOtherFormError(f"{mlp_width} / {width} is not exact as a float")
    config = {
        "layers": int(encoder.num_hidden_layers),
        "width": width,
        "mlp_ratio": mlp_width / width,
    }
    epsilon = float(encoder.layer_norm_eps)
    return config if epsilon == EPSILON else config | {"norm_kwargs": {"eps": epsilon}}


def _square(size: Any, what: str) -> int:
    sides = list(size) if isinstance(size, list | tuple) else [size]
    if len({int(side) for side in sides}) != 1:
        raise NoOtherFormError(f"its {what} is {sides!r}, not square")
    return int(sides[0])
