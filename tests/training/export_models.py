"""Tiny CLIPs of both libraries with random weights, saved to disk as their libraries save them."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

SIDE = 32
EYES = {"image_size": SIDE, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8}
TEXT = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2}


def open_clip_config(
    *, vision: dict[str, Any] | None = None, text: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "embed_dim": 24,
        "vision_cfg": EYES | (vision or {}),
        "text_cfg": TEXT | (text or {}),
        **more,
    }


def scatter(state: dict[str, Tensor], seed: int = 0) -> None:
    """Weights large enough that every token and activation matters."""
    chance = torch.Generator().manual_seed(seed)
    for key, value in sorted(state.items()):
        if key.startswith("logit_") or not value.is_floating_point() or "running" in key:
            continue
        noise = torch.randn(value.shape, generator=chance) * (0.3 if value.ndim > 1 else 0.1)
        is_norm = value.ndim == 1 and key.endswith("weight")
        value.copy_(noise + (1.0 if is_norm else 0.0))


def save_open_clip(folder: Path, config: dict[str, Any], **preparation: Any) -> str:
    """The name under which unbag loads it."""
    from unbag.models.open_clip.checkpoint import build

    model = build(config, has_bias=False)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    scatter(state)
    folder.mkdir(parents=True)
    said = {"model_cfg": config, "preprocess_cfg": preparation}
    (folder / "open_clip_config.json").write_text(json.dumps(said))
    save_file(state, folder / "open_clip_model.safetensors")
    return f"open_clip:local-dir:{folder}"


def save_clip(folder: Path, *, act: str = "quick_gelu", **text: Any) -> str:
    """A CLIPModel with CLIP's own tokenizer."""
    from unbag.training.export.clip import clip_tokenizer

    tf: Any = import_module("transformers")
    shape = {"intermediate_size": 48, "num_hidden_layers": 2, "hidden_act": act}
    config = tf.CLIPConfig(
        text_config={"hidden_size": 16, "num_attention_heads": 2} | shape | text,
        vision_config={"hidden_size": 32, "num_attention_heads": 4, "image_size": SIDE}
        | {"patch_size": 8}
        | shape,
        projection_dim=24,
    )
    tf.utils.logging.disable_progress_bar()
    model = tf.CLIPModel(config)
    scatter(model.state_dict(), seed=1)
    model.save_pretrained(folder)
    tf.utils.logging.enable_progress_bar()
    clip_tokenizer(77).save_pretrained(folder)
    side = {"height": SIDE, "width": SIDE}
    tf.CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size=side).save_pretrained(folder)
    return f"hf:{folder}"
