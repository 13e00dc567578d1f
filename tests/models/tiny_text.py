"""Text models of random weights with real tokenizers, saved to disk as transformers saves them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from unbag.models.tiny import TinyConfig

_TEXT = "a an the red blue green cube ball dog cat left right of on and is no big"
WORDS = tuple(_TEXT.split())
SMALL = TinyConfig(
    pixels=32, patch=16, picture_width=8, picture_depth=1, caption_width=8, caption_depth=1,
    joint=12, heads=2, context=16, words=WORDS,
)  # fmt: skip


def _library() -> Any:
    return import_module("transformers")


def save_words(folder: Path, **special: str) -> int:
    """A tokenizer of words; gives how many tokens it knows."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: i for i, word in enumerate(["<unk>", "<s>", "</s>", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    _library().PreTrainedTokenizerFast(
        tokenizer_object=words, model_max_length=24, **special
    ).save_pretrained(folder)
    return len(vocabulary)


def save_llama(folder: Path, *, seed: int = 0, tokens: int | None = None, **special: str) -> Path:
    """A decoder of two layers, without a padding token as most have none."""
    known = save_words(folder, **({"eos_token": "</s>"} | special))
    tf = _library()
    torch.manual_seed(seed)
    config = tf.LlamaConfig(
        vocab_size=tokens or known, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=24,
        initializer_range=0.5,
    )  # fmt: skip
    tf.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def save_bert(folder: Path, *, seed: int = 0) -> Path:
    """An encoder of two layers."""
    known = save_words(folder, pad_token="<unk>")
    tf = _library()
    torch.manual_seed(seed)
    config = tf.BertConfig(
        vocab_size=known, hidden_size=20, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=24, initializer_range=0.5,
    )  # fmt: skip
    tf.BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def save_t5(folder: Path) -> Path:
    """An encoder and a decoder; the encoder is what reads."""
    known = save_words(folder, pad_token="<unk>", eos_token="</s>")
    tf = _library()
    torch.manual_seed(0)
    config = tf.T5Config(
        vocab_size=known, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    tf.T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def save_tiny(path: Path, *, seed: int = 0) -> str:
    """A tiny image model; gives the name that loads it."""
    from unbag.models.tiny import untrained, write

    write(untrained(SMALL, seed=seed), path, dtype=torch.float32)
    return f"tiny:{path}"
