"""Tiny language models with random weights and real tokenizers, saved to disk."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch

_TEXT = """
a an the red blue green small dog cat horse sheep bear elephant man woman boy girl sofa bed table
sits stands runs is are sitting on under next to in and with car bus train two dogs cats ball
"""
WORDS = _TEXT.split()
PIECES = ("##s", "##ing", "##ed", "x", "un")
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz.,'")


def save_masked(folder: Path, *, seed: int = 0, has_head: bool = True) -> Path:
    """A BERT of two layers with a vocabulary of words and pieces."""
    from tokenizers import BertWordPieceTokenizer

    tf: Any = import_module("transformers")

    folder.mkdir(parents=True)
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    tokens = dict.fromkeys([*special, *WORDS, *PIECES, *LETTERS, *(f"##{x}" for x in LETTERS)])
    (folder / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    pieces: Any = BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=True)
    pieces.save(str(folder / "tokenizer.json"))
    tf.BertTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), model_max_length=24
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = tf.BertConfig(
        vocab_size=len(tokens), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=24, initializer_range=0.7,
    )  # fmt: skip
    kind = tf.BertForMaskedLM if has_head else tf.BertModel
    kind(config).save_pretrained(folder)
    return folder


def save_causal(
    folder: Path, *, seed: int = 0, template: str | None = None, context: int = 300
) -> Path:
    """A GPT-2 of two layers with a token for every byte, so that it can score any text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tf: Any = import_module("transformers")

    vocabulary = {token: i for i, token in enumerate(["<s>", "</s>", *_bytes()])}
    letters = Tokenizer(models.BPE(vocabulary, []))
    letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters.decoder = decoders.ByteLevel()
    tokenizer = tf.PreTrainedTokenizerFast(
        tokenizer_object=letters, bos_token="<s>", eos_token="</s>"
    )
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = tf.GPT2Config(
        vocab_size=len(vocabulary), n_positions=context, n_embd=16, n_layer=2, n_head=2,
        bos_token_id=0, eos_token_id=1, initializer_range=0.7,
    )  # fmt: skip
    tf.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def _bytes() -> list[str]:
    from tokenizers import pre_tokenizers

    return sorted(pre_tokenizers.ByteLevel.alphabet())
