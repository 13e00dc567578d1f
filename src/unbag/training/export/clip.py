"""Convert CLIP between open_clip and transformers: config, image preparation, weights, tokenizer.

A model is converted only if the other library computes the same: a ViT with a class token and a
causal text encoder that is read at the end token. Whatever differs from that is named.
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
"""Of the sigmoid loss; open_clip gives it to any model, transformers to SigLIP only."""
_BELOW = "text."
"""Before the names of the text encoder in open_clip's second form, CustomTextCLIP."""
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


def to_transformers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `transformers.CLIPModel`, from either form of open_clip's CLIP.

    Both libraries hold the same numbers. open_clip keeps query, key and value of a layer in one
    tensor and multiplies by its projections from the left, so they are split and turned; nothing
    is rounded.

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
        elif not name.endswith(POSITIONS):
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
        encoder, layer, end = match.groups()
        start = f"{_ENCODER_PREFIX[encoder]}.encoder.layers.{layer}.self_attn"
        parts = tensor.chunk(3)
        return {
            f"{start}.{one}_proj.{end}": part.contiguous()
            for one, part in zip("qkv", parts, strict=True)
        }
    if (match := _OURS.fullmatch(plain)) is not None and match[3] in _BLOCK:
        encoder, layer, part, end = match.groups()
        return {f"{_ENCODER_PREFIX[encoder]}.encoder.layers.{layer}.{_BLOCK[part]}.{end}": tensor}
    raise _unknown(name, "open_clip's CLIP")


def _block_to_open_clip(
    match: re.Match[str], tensor: Tensor, state: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    import torch

    encoder, layer, part, end = match.groups()
    start = f"{_key_of(_ENCODER_PREFIX, encoder)}.resblocks.{layer}"
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


def _unknown(name: str, of: str) -> UnbagError:
    return UnbagError(
        f"the tensor {name!r} has no name in the other library",
        expected=f"only tensors of {of}",
        hint="merge adapters (LoRA) into the weights first; other encoders have one form only",
    )


ROWS = 49_408
"""Of the vocabulary that OpenAI's CLIP and nearly all later ones have."""
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
"""Captions on which two tokenizers must give the same ids; the last is longer than any context."""
ODD = ("Tom &amp; Jerry", "“curly quotes”", "a ﬁne ligature", "schÃ¶n broken letters")
"""Texts that open_clip mends before it splits them and transformers does not."""
_SPECIAL = {"<start_of_text>": "<|startoftext|>", "<end_of_text>": "<|endoftext|>"}


def clip_tokenizer(context: int) -> Any:
    """CLIP's tokenizer for transformers, from the file that open_clip ships."""
    from transformers import CLIPTokenizer

    inner = library().tokenizer.SimpleTokenizer(context_length=context)
    ranks: Any = inner.bpe_ranks
    return CLIPTokenizer(
        vocab={_SPECIAL.get(piece, piece): number for piece, number in inner.encoder.items()},
        merges=sorted(ranks, key=ranks.__getitem__),
        model_max_length=context,
    )


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Every file that some version of transformers looks for."""
    tokenizer.save_pretrained(folder)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and type(tokenizer).__name__.startswith("CLIPTokenizer"):
        # Version 5 writes one file; version 4 without the fast tokenizers reads these two.
        backend.model.save(str(folder))


def differing(simple: Any, tokenizer: Any, captions: Sequence[str], *, context: int) -> list[str]:
    """Captions of which open_clip's tokenizer and one of transformers make other ids."""

    def ids(caption: str) -> list[int]:
        found: list[int] = tokenizer(caption, truncation=True, max_length=context)["input_ids"]
        return found

    def simple_ids(caption: str) -> list[int]:
        # Without the zeros after the end token, which is the largest id.
        row = simple([caption])[0]
        found: list[int] = row[: int(row.argmax()) + 1].tolist()
        return found

    return [caption for caption in captions if simple_ids(caption) != ids(caption)]


def simple_tokenizer(context: int) -> Any:
    """open_clip's own."""
    return library().tokenizer.SimpleTokenizer(context_length=context)


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
_RESAMPLE: Mapping[str, int] = {"bilinear": 2, "bicubic": 3}
"""As PIL numbers them."""


class NoOtherFormError(Exception):
    """The other library has no such model; the text says why, to follow "left out: "."""


def to_transformers_config(config: Mapping[str, Any], *, end: int) -> dict[str, Any]:
    """Arguments of `transformers.CLIPConfig`; `end` is the end token of the tokenizer."""
    eyes, text = _open_clip_encoders(config)
    act = "quick_gelu" if config.get("quick_gelu") else "gelu"
    both = {"hidden_act": act, "projection_dim": int(config["embed_dim"])}
    return {
        "projection_dim": int(config["embed_dim"]),
        "vision_config": both
        | _shape(eyes, "image")
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
        raise NoOtherFormError(f"its images are resized in a way transformers has not ({said})")
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
    """`preprocess_cfg` of open_clip from an image processor, for an encoder of this size."""
    said = json.loads(processor.to_json_string())
    kind = str(said.get("image_processor_type", type(processor).__name__))
    does = all(said.get(f"do_{step}", False) for step in ("resize", "rescale", "normalize"))
    is_bytes = isclose(said.get("rescale_factor", 0.0), 1 / 255, rel_tol=1e-6)
    names = {number: name for name, number in _RESAMPLE.items()}
    how = _resized(said, side)
    if not (kind.startswith("CLIPImageProcessor") and does and is_bytes and how):
        raise NoOtherFormError("its images are prepared in a way open_clip has not")
    if said["resample"] not in names:
        raise NoOtherFormError(f"its images are resampled in way {said['resample']} of PIL")
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


def _open_clip_encoders(config: Mapping[str, Any]) -> tuple[Any, Any]:
    """Both encoders as open_clip's records, if they are a plain CLIP's."""
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
        raise NoOtherFormError(f"its image encoder is of timm ({eyes.timm_model_name})")
    if isinstance(eyes.layers, list | tuple):
        raise NoOtherFormError("its image encoder is a ResNet")
    if text.hf_model_name:
        raise NoOtherFormError(f"its text encoder is of another kind ({text.hf_model_name})")
    _check_plain(eyes, "image", _EYES, starts=("timm_",))
    _check_plain(text, "text", _TEXT | _TOKENIZER, starts=("hf_",))
    if text.pool_type not in ("argmax", "eos"):
        raise NoOtherFormError(f"its text encoder has pool_type {text.pool_type!r}")
    return eyes, text


def _check_plain(
    encoder: Any, which: str, free: frozenset[str], *, starts: tuple[str, ...]
) -> None:
    """Every option that is not a size has its default: new ones of open_clip are caught too."""
    plain = type(encoder)()
    for name in (f.name for f in fields(encoder)):
        value = getattr(encoder, name)
        is_default = value == getattr(plain, name) or not (value or getattr(plain, name))
        if name not in free and not name.startswith(starts) and not is_default:
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
    width, inner = int(encoder.hidden_size), int(encoder.intermediate_size)
    if int(width * (inner / width)) != inner:
        raise NoOtherFormError(f"{inner} is no multiple of {width} that a float can say")
    said = {"layers": int(encoder.num_hidden_layers), "width": width, "mlp_ratio": inner / width}
    epsilon = float(encoder.layer_norm_eps)
    return said if epsilon == EPSILON else said | {"norm_kwargs": {"eps": epsilon}}


def _square(size: Any, what: str) -> int:
    sides = list(size) if isinstance(size, list | tuple) else [size]
    if len({int(side) for side in sides}) != 1:
        raise NoOtherFormError(f"its {what} is {sides!r}, not square")
    return int(sides[0])
