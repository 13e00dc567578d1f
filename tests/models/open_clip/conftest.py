"""Real architectures of open_clip at tiny sizes, with random weights saved to disk."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

open_clip = pytest.importorskip("open_clip")

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "</s>", "a", "red", "dog", "cube", "left", "of", "on")
_VIT = {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 8}
_TEXT = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}
_OWN_WORDS = {"vocab_size": 16, "hf_tokenizer_name": "words", "context_length": 20}


def _config(vision: dict[str, Any], text: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "embed_dim": 24,
        "vision_cfg": {**_VIT, **vision},
        "text_cfg": {**_TEXT, **text},
        **more,
    }


_SIGLIP_TEXT = {**_OWN_WORDS, "no_causal_mask": True, "pool_type": "last", "proj_bias": True}
CONFIGS: dict[str, dict[str, Any]] = {
    "clip": _config({}, {}),
    "clip-quickgelu": _config({}, {}, quick_gelu=True),
    "deep": _config({"layers": 3}, {"layers": 3}),
    "short": _config({}, {"context_length": 16}),
    "custom": _config({"pool_type": "avg", "final_ln_after_pool": True}, {}, custom_text=True),
    "first": _config({}, {"pool_type": "first"}, custom_text=True),
    "last": _config({}, {"pool_type": "last"}, custom_text=True),
    "last-top": _config({}, {"pool_type": "last"}),
    "looking": _config({}, {"no_causal_mask": True}, custom_text=True),
    "bare": _config({}, {"proj_type": "none", "width": 24}, custom_text=True),
    "eos": _config({}, {**_OWN_WORDS, "pool_type": "eos", "eos_id": 4}),
    "other-eos": _config({}, {**_OWN_WORDS, "pool_type": "eos", "eos_id": 2}),
    "largest": _config({}, {**_OWN_WORDS, "pool_type": "argmax"}),
    "few-words": _config({}, {**_OWN_WORDS, "vocab_size": 8, "pool_type": "eos", "eos_id": 4}),
    "other-words": _config({}, {"vocab_size": 49500}),
    "siglip": {
        **_config({}, _SIGLIP_TEXT, custom_text=True, init_logit_bias=-10.0),
        "vision_cfg": {"image_size": 160, "timm_model_name": "test_vit", "timm_pool": "map",
                       "timm_proj": "none"},
        "embed_dim": 64,
    },
    "convnext": {
        **_config({}, {}, custom_text=True),
        "vision_cfg": {"image_size": 64, "timm_model_name": "test_convnext", "timm_pool": "avg",
                       "timm_proj": "linear"},
    },
    "vit-avg": {
        **_config({}, {}, custom_text=True),
        "vision_cfg": {"image_size": 160, "timm_model_name": "test_vit", "timm_pool": "avg",
                       "timm_proj": "linear"},
    },
    "vit-token": {
        **_config({}, {}, custom_text=True),
        "vision_cfg": {"image_size": 160, "timm_model_name": "test_vit", "timm_pool": "token",
                       "timm_proj": "mlp"},
    },
    "vit-own": {
        **_config({}, {}, custom_text=True),
        "vision_cfg": {"image_size": 160, "timm_model_name": "test_vit", "timm_pool": "token",
                       "timm_proj": ""},
    },
    "resnet": {
        **_config({}, {}),
        "vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "head_width": 32},
    },
    "coca": {
        **_config(
            {"attentional_pool": True, "attn_pooler_heads": 2, "attn_pooler_queries": 6,
             "output_tokens": True},
            {"context_length": 20, "embed_cls": True, "output_tokens": True},
            custom_text=True,
        ),
        "multimodal_cfg": {"context_length": 20, "vocab_size": 49408, "width": 32, "heads": 2,
                           "layers": 1, "attn_pooler_heads": 2},
    },
    "bert-mean": {
        **_config({}, {}),
        "text_cfg": {"hf_model_name": "bert", "hf_tokenizer_name": "words", "context_length": 20,
                     "hf_proj_type": "linear", "hf_pooler_type": "mean_pooler"},
    },
    "bert-cls": {
        **_config({}, {}),
        "text_cfg": {"hf_model_name": "bert", "hf_tokenizer_name": "words", "context_length": 20,
                     "hf_proj_type": "mlp", "hf_pooler_type": "cls_pooler"},
    },
}  # fmt: skip


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Configs, registered with open_clip under tiny-NAME; a tokenizer; a text encoder's config."""
    folder = tmp_path_factory.mktemp("architectures")
    _save_words(folder / "words")
    _save_bert(folder / "bert")
    for name, config in CONFIGS.items():
        config = deepcopy(config)
        for key in ("hf_tokenizer_name", "hf_model_name"):
            if key in config["text_cfg"]:
                config["text_cfg"][key] = str(folder / config["text_cfg"][key])
        (folder / f"tiny-{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder)
    return folder


def _save_words(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 4)]
    )
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", eos_token="</s>"
    ).save_pretrained(folder)


def _save_bert(folder: Path) -> None:
    from transformers import BertConfig

    BertConfig(
        vocab_size=16,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    ).save_pretrained(folder)


def random_state(name: str, seed: int = 0) -> dict[str, torch.Tensor]:
    """Weights large enough that every token matters to every other."""
    from unbag.models.open_clip.checkpoint import build
    from unbag.models.open_clip.library import architecture

    model = build(architecture(f"tiny-{name}"), has_bias=False)
    chance = torch.Generator().manual_seed(seed)
    state: dict[str, torch.Tensor] = model.state_dict()
    for key, value in state.items():
        if key.startswith("logit_") or not value.is_floating_point() or "running" in key:
            continue
        spread = 0.3 if value.ndim > 1 else 0.1
        noise = torch.randn(value.shape, generator=chance) * spread
        value.copy_(noise + (1.0 if value.ndim == 1 and key.endswith("weight") else 0.0))
    return state


@pytest.fixture(scope="session")
def saved(home: Path) -> Callable[[str], Path]:
    """NAME to a file with random weights of tiny-NAME, made once."""

    def save(name: str) -> Path:
        path = home / "files" / f"{name}.safetensors"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            save_file({k: v.contiguous() for k, v in random_state(name).items()}, path)
        return path

    return save


@pytest.fixture(scope="session")
def loaded(saved: Callable[[str], Path]) -> Callable[[str], Any]:
    """NAME to tiny-NAME with its random weights, loaded once; what it says is left aside."""
    known: dict[str, Any] = {}

    def load_once(name: str) -> Any:
        from unbag.models.open_clip.loading import load

        if name not in known:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                known[name] = load(f"tiny-{name}@{saved(name)}")
        return known[name]

    return load_once


@pytest.fixture(scope="session")
def plain(saved: Callable[[str], Path]) -> Callable[[str], Any]:
    """NAME to (model, transform, tokenizer) as plain open_clip code has them."""
    known: dict[str, Any] = {}

    def create(name: str) -> Any:
        if name not in known:
            model, _, transform = open_clip.create_model_and_transforms(
                f"tiny-{name}", pretrained=str(saved(name))
            )
            known[name] = model.eval(), transform, open_clip.get_tokenizer(f"tiny-{name}")
        return known[name]

    return create
