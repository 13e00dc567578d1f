"""Edits of a job come in; how often a caption-only model tells them from originals goes out."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from hashlib import blake2b

from unbag.captions.leak import Leak, Pair, leak_of
from unbag.types import Edited

SAMPLE = 1000
"""Edits of each kind that are looked at: enough for three points either way."""


def sampled(edited: Iterable[Edited], size: int = SAMPLE) -> list[Pair]:
    """So many edits of each kind, drawn by the ids of their captions, whatever their order."""
    heaps: dict[str, list[tuple[int, Pair]]] = {}
    for one in edited:
        for at, made in enumerate(one.edits):
            digest = blake2b(f"{one.id}\0{made.kind}\0{at}".encode(), digest_size=8).digest()
            # Of a heap the smallest goes first, so the smallest hashes are kept as the largest.
            entry = (-int.from_bytes(digest, "big"), Pair(one.text, made.text, made.kind))
            heap = heaps.setdefault(made.kind, [])
            if len(heap) < size:
                heapq.heappush(heap, entry)
            else:
                heapq.heappushpop(heap, entry)
    return [pair for kind in sorted(heaps) for _, pair in sorted(heaps[kind], reverse=True)]


def leaks(edited: Iterable[Edited], model: str, *, device: str = "auto") -> dict[str, Leak]:
    """By kind. The model is a causal language model: a folder, a .gguf file or a hub name."""
    from unbag.models.caption_likelihood import load_likelihood
    from unbag.models.device import choose_device

    likelihood = load_likelihood(model, device=choose_device(device))
    return leak_of(sampled(edited), likelihood.of)
