"""Weights and all else that decides a number come in; a text that changes with any goes out."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def fingerprint(kind: str, state: Mapping[str, Tensor], *said: str) -> str:
    """Hash of all tensors, by name, and of texts such as a config, a dtype and a code version."""
    import torch

    digest = blake2b(digest_size=12)
    for text in said:
        digest.update(text.encode() + b"\0")
    for name, tensor in sorted(state.items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}\0".encode())
        # As bytes: numpy knows no bfloat16.
        digest.update(plain.flatten().view(torch.uint8).numpy().data if plain.numel() else b"")
    return f"{kind}-{digest.hexdigest()}"
