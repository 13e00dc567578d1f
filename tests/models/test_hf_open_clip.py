"""A CLIP of transformers and the same weights in plain OpenCLIP give the same vectors."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Images
from torch import Tensor

from unbag.models.huggingface.dual import HfDual
from unbag.models.huggingface.loading import load

pytest.importorskip("transformers")
open_clip: Any = pytest.importorskip("open_clip.model")
HfFolder = Callable[[str], Path]
CAPTIONS = ("a red cube", "a dog eats a horse", "a", "a blue ball is left of a red cube")
BLOCK = {
    "ln_1": "layer_norm1", "ln_2": "layer_norm2", "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2",
}  # fmt: skip


def blocks(state: Mapping[str, Tensor], source: str, target: str) -> dict[str, Tensor]:
    found = {}
    for layer in range(2):
        theirs, ours = f"{source}.encoder.layers.{layer}", f"{target}.resblocks.{layer}"
        for end in ("weight", "bias"):
            for name, other in BLOCK.items():
                found[f"{ours}.{name}.{end}"] = state[f"{theirs}.{other}.{end}"]
            found[f"{ours}.attn.in_proj_{end}"] = torch.cat(
                [state[f"{theirs}.self_attn.{one}_proj.{end}"] for one in "qkv"]
            )
    return found


def converted(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    eyes, text = "vision_model", "text_model"
    found = blocks(state, eyes, "visual.transformer") | blocks(state, text, "transformer")
    for end in ("weight", "bias"):
        found[f"visual.ln_pre.{end}"] = state[f"{eyes}.pre_layrnorm.{end}"]
        found[f"visual.ln_post.{end}"] = state[f"{eyes}.post_layernorm.{end}"]
        found[f"ln_final.{end}"] = state[f"{text}.final_layer_norm.{end}"]
    return found | {
        "visual.class_embedding": state[f"{eyes}.embeddings.class_embedding"],
        "visual.positional_embedding": state[f"{eyes}.embeddings.position_embedding.weight"],
        "visual.conv1.weight": state[f"{eyes}.embeddings.patch_embedding.weight"],
        "visual.proj": state["visual_projection.weight"].T,
        "token_embedding.weight": state[f"{text}.embeddings.token_embedding.weight"],
        "positional_embedding": state[f"{text}.embeddings.position_embedding.weight"],
        "text_projection": state["text_projection.weight"].T,
        "logit_scale": state["logit_scale"],
    }


@pytest.mark.parametrize("kind", ["clip", "clip-legacy"])
def test_same_weights_in_open_clip(kind: str, hf_folder: HfFolder) -> None:
    encoder = load(str(hf_folder(kind)))
    assert isinstance(encoder, HfDual)
    state = encoder.model.state_dict()
    shape: dict[str, Any] = {"layers": 2, "width": 16, "mlp_ratio": 2.0}
    plain = open_clip.CLIP(
        embed_dim=12,
        vision_cfg=shape | {"image_size": 32, "patch_size": 8, "head_width": 8},
        text_cfg=shape
        | {"context_length": 30, "vocab_size": encoder.captions.vocabulary, "heads": 2},
        quick_gelu=True,
    ).eval()
    assert set(plain.load_state_dict(converted(state), strict=False).missing_keys) <= {"attn_mask"}
    noise = np.random.default_rng(0).integers(0, 256, (3, 40, 30, 3), dtype=np.uint8)
    pixels = torch.stack([encoder.prepare(Images.fromarray(one)) for one in noise])
    tokens = encoder.captions.padded()(CAPTIONS)["input_ids"]
    with torch.no_grad():
        images = plain.encode_image(pixels, normalize=True)
        captions = plain.encode_text(tokens, normalize=True)
    torch.testing.assert_close(encoder.encode_images(pixels), images, atol=1e-6, rtol=0)
    torch.testing.assert_close(encoder.encode_texts(CAPTIONS), captions, atol=1e-6, rtol=0)
    assert encoder.scale == pytest.approx(plain.logit_scale.exp().item())
