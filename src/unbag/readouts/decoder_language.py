"""A name, or sizes from scratch, come in; a language model with its words goes out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unbag.errors import UserError
from unbag.models.caption_likelihood import read_causal
from unbag.models.hf_source import Source, read_weights
from unbag.readouts.decoder_settings import DecoderSettings
from unbag.readouts.decoder_words import Pretrained, Words


@dataclass(frozen=True, eq=False)
class Language:
    """A causal language model of transformers, in float32, with its tokenizer."""

    model: Any
    words: Pretrained


def read_language(place: str, *, asks: bool) -> Language:
    """A folder, a .gguf file or a name on the hub; raises UserError if it cannot be taught."""
    model, tokenizer = read_causal(place)
    size = int(model.config.vocab_size)
    words = Pretrained(tokenizer, place, size, asks)
    _check_head(model, place)
    return Language(_unmarked(model).requires_grad_(True), words)


def _unmarked(model: Any) -> Any:
    """What came from a GGUF file is marked as quantised, which transformers refuses to save."""
    if getattr(model.config, "quantization_config", None) is None:
        return model
    config = type(model.config)(**model.config.to_diff_dict())
    del config.quantization_config
    plain = type(model)(config)
    plain.load_state_dict(model.state_dict())
    return plain.eval()


def scratch_language(settings: DecoderSettings, words: Words, *, places: int) -> Any:
    """A small Llama, its weights drawn from torch's generator."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=words.size,
        hidden_size=settings.width,
        intermediate_size=3 * settings.width,
        num_hidden_layers=settings.depth,
        num_attention_heads=settings.heads,
        max_position_embeddings=places + settings.context,
        pad_token_id=words.pad,
        eos_token_id=words.end,
        bos_token_id=None,
        tie_word_embeddings=True,
        # The usual 0.02 is for large widths: so narrow a model begins with attention that is the
        # same everywhere, and patches were not looked at in thousands of steps.
        initializer_range=settings.width**-0.5,
    )
    return LlamaForCausalLM(config)  # type: ignore[no-untyped-call]


def saved_language(folder: Path) -> Any:
    """Weights alone, as transformers saved them."""
    from transformers import AutoModelForCausalLM

    return read_weights(Source(str(folder)), AutoModelForCausalLM).float()


def add_lora(language: Any, rank: int) -> None:
    """Freeze a language model and put small matrices beside its linear layers, but its head."""
    try:
        peft = import_module("peft")
    except ImportError as error:
        raise UserError(
            f"lora needs the package 'peft' ({error})", way_out="pip install 'unbag[train]'"
        ) from error
    head = language.get_output_embeddings()
    targets = [
        name
        for name, one in language.named_modules()
        if isinstance(one, nn.Linear) and one is not head
    ]
    config = peft.LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="|".join(map(re.escape, targets)), bias="none"
    )
    peft.inject_adapter_in_model(config, language)


@torch.no_grad()
def _check_head(language: Any, name: str) -> None:
    """Some models squeeze or scale their logits; tried, not believed."""
    token_BT = torch.zeros((1, 2), dtype=torch.long)
    hidden = language.base_model(input_ids=token_BT, use_cache=False).last_hidden_state
    plain = language.get_output_embeddings()(hidden)
    if not torch.allclose(plain, language(input_ids=token_BT).logits, atol=1e-4):
        raise UserError(
            f"the language model {name} changes its logits after its last layer",
            expected="logits that are the last layer times a matrix, as Llama has them",
            way_out="take another language model",
        )
