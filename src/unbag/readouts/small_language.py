"""The folder of a small Llama comes in; the same network without transformers goes out.

A core installation has no transformers, and to import it takes longer than to score a few hundred
pictures with a small head.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from unbag.errors import UserError, said_by
from unbag.readouts.decoder_language import saved_language
from unbag.readouts.small_net import SmallConfig, SmallLanguage

_PLAIN = {
    "model_type": "llama", "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
    "tie_word_embeddings": True,
}  # fmt: skip
"""What `scratch_language` makes; every other kind is left to transformers."""


def small_language(folder: Path) -> Any:
    """As the folder has it: computed here if it is a plain small Llama, else by transformers."""
    try:
        said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = _config(said)
        if config is None:
            return saved_language(folder)
        state = load_file(folder / "model.safetensors")
        made = SmallLanguage(config)
        # The head is the embedding again, and is not written twice.
        state.setdefault("lm_head.weight", state["model.embed_tokens.weight"])
        made.load_state_dict({name: value.float() for name, value in state.items()})
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{folder} is not a language model: {said_by(error)}",
            expected="config.json and model.safetensors as transformers writes them for a Llama",
            way_out="take the folder as training wrote it",
        ) from error
    return made.eval().requires_grad_(False)


@contextmanager
def lean(net: Any) -> Iterator[None]:
    """Inside, the language model of a decoder is computed here, with the very same weights.

    That of transformers makes a mask while a GPU records and none before, and takes more, smaller
    kernels. One that is no plain Llama stays.
    """
    whole = net.language
    config = _config(whole.config.to_dict()) if hasattr(whole.config, "to_dict") else None
    if config is not None:
        with torch.device("meta"):
            made = SmallLanguage(config)
        for name, weight in whole.named_parameters():
            place, _, last = name.rpartition(".")
            setattr(made.get_submodule(place), last, weight)
        made.lm_head.weight = made.model.embed_tokens.weight
        net.language = made.train(whole.training)
    try:
        yield
    finally:
        net.language = whole


def _config(said: dict[str, Any]) -> SmallConfig | None:
    """None where it is anything but a plain Llama."""
    rope = said.get("rope_parameters") or {}
    heads = int(said.get("num_attention_heads", 1))
    if (
        any(said.get(name) != value for name, value in _PLAIN.items())
        or said.get("num_key_value_heads") != heads
        or rope.get("rope_type", "default") != "default"
        or said.get("head_dim", said["hidden_size"] // heads) * heads != said["hidden_size"]
    ):
        return None
    return SmallConfig(
        vocab_size=int(said["vocab_size"]),
        hidden_size=int(said["hidden_size"]),
        intermediate_size=int(said["intermediate_size"]),
        num_hidden_layers=int(said["num_hidden_layers"]),
        num_attention_heads=heads,
        rms_norm_eps=float(said["rms_norm_eps"]),
        theta=float(rope.get("rope_theta", said.get("rope_theta", 10_000.0))),
    )
