"""Encode the unique images and captions of a run once each, with a cache on disk.

Dimensions: N inputs, D joint space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unbag.evaluation.plan import Plan
from unbag.models.features import (
    batches_of,
    cache_name,
    extract_images,
    extract_texts,
    image_vectors,
    text_key,
    text_vectors,
)
from unbag.runs.cache import VECTOR, TensorCache, Vectors
from unbag.runs.distributed import ALONE, Distributed
from unbag.runs.progress import Progress
from unbag.types import DualEncoder, Ensemble

if TYPE_CHECKING:
    from torch import Tensor

BatchPlan = list[list[str]]
"""Batches of cache keys. They are planned once per run and saved in its folder, so that a resumed
run computes the same batches and gets the same bits."""
_CAPTIONS_ON_GPU = 4
"""Captions per image in a GPU batch: a caption of 15 tokens is little work, and a batch of 256
finishes before the next one is ready."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of a plan, in the plan's order."""

    image_ND: Vectors
    """Rows are NaN for images that could not be opened."""
    caption_ND: Vectors
    damaged: Mapping[str, str]
    """Images that could not be opened: name -> reason."""
    truncated: int
    """Prompts longer than the model's context."""


def embed(
    encoder: DualEncoder,
    plan: Plan,
    *,
    cache: Path | None,
    batch_size: int,
    progress: Progress,
    batch_plans: dict[str, BatchPlan] | None = None,
    save_batch_plans: Callable[[], None] = lambda: None,
    team: Distributed = ALONE,
    compare: Callable[[Tensor, Tensor], object] | None = None,
) -> Embeddings:
    """Encode what the cache lacks; `batch_plans` is filled on the first run and followed later.

    Several processes split the batches; then each reads all vectors from the cache. `compare` is
    called with an image of each batch, so that incompatible vectors raise an error early.
    """
    batch_plans = {} if batch_plans is None else batch_plans
    tokens = dict(zip(plan.prompts, encoder.count_tokens(plan.prompts), strict=True))
    # Sorted by length, so that a batch runs at its real length instead of the longest caption's.
    prompts = sorted(plan.prompts, key=lambda prompt: (tokens[prompt], prompt))
    prompt_of = {text_key(prompt): prompt for prompt in prompts}
    image_of = dict(zip(plan.image_keys, plan.images, strict=True))
    inputs: dict[str, Mapping[str, object]] = {"captions": prompt_of, "pictures": image_of}

    def open_cache(kind: str) -> TensorCache:
        folder = None if cache is None else cache / cache_name(encoder) / kind
        return TensorCache(folder, progress=progress)

    caches = {kind: open_cache(kind) for kind in inputs}
    for kind, keys in inputs.items():
        size = caption_batch(encoder.device, batch_size) if kind == "captions" else batch_size
        unknown = [key for key in keys if key not in caches[kind]]
        batch_plans.setdefault(f"{cache_name(encoder)}/{kind}", batches_of(unknown, size))
    if team.is_leader:
        save_batch_plans()
    batch_plans.update(team.gather(batch_plans)[0])
    to_encode = {
        kind: team.mine(
            _batches_to_encode(batch_plans[f"{cache_name(encoder)}/{kind}"], keys, caches[kind])
        )
        for kind, keys in inputs.items()
    }
    # Barrier: no process writes to the cache before every process has chosen its share.
    team.wait()
    extract_texts(
        encoder,
        prompt_of,
        to_encode["captions"],
        partial(text_vectors, encoder),
        lambda keys, vector_ND: caches["captions"].put(keys, {VECTOR: vector_ND}),
        label=f"{encoder.name}: captions",
        progress=progress,
    )
    first = next((key for key in prompt_of if key in caches["captions"]), None)
    caption_1D = None if first is None else caches["captions"].get([first])[VECTOR]

    def put_images(keys: Sequence[str], vector_ND: Tensor) -> None:
        if compare is not None and caption_1D is not None:
            compare(vector_ND[:1], caption_1D)
        caches["pictures"].put(keys, {VECTOR: vector_ND})

    damaged_parts = extract_images(
        encoder,
        image_of,
        to_encode["pictures"],
        partial(image_vectors, encoder),
        put_images,
        label=f"{encoder.name}: images",
        progress=progress,
    )
    damaged = {key: why for part in team.gather(damaged_parts) for key, why in part.items()}
    if team.size > 1:
        caches = {kind: open_cache(kind) for kind in inputs}
    caption_ND = _vectors_in_order(caches["captions"], list(prompt_of))
    vector_of = dict(zip(prompt_of.values(), caption_ND, strict=True))
    rows = [_caption_vector(caption, vector_of) for caption in plan.captions]
    return Embeddings(
        image_ND=_vectors_in_order(caches["pictures"], plan.image_keys, damaged),
        caption_ND=np.stack(rows) if rows else np.zeros((0, 0), np.float32),
        damaged={image_of[key].name: reason for key, reason in damaged.items()},
        truncated=sum(count > encoder.context for count in tokens.values()),
    )


def caption_batch(device: str, batch_size: int) -> int:
    """Captions per batch, for a batch size in images."""
    return batch_size * (_CAPTIONS_ON_GPU if device.startswith("cuda") else 1)


def _batches_to_encode(plan: BatchPlan, known: Iterable[str], cache: TensorCache) -> BatchPlan:
    """Planned batches with missing or damaged vectors, and new batches for unplanned keys.

    A planned batch is computed again as a whole if any of its vectors is missing; see BatchPlan.
    """
    known = dict.fromkeys(known)
    missing = dict.fromkeys(cache.missing(known))
    planned = {key for batch in plan for key in batch}
    batches = [batch for batch in plan if any(key in missing for key in batch)]
    batches = [[key for key in batch if key in known] for batch in batches]
    unplanned = [key for key in missing if key not in planned]
    size = max((len(batch) for batch in plan), default=256)
    return batches + batches_of(unplanned, size)


def _vectors_in_order(
    cache: TensorCache, keys: Sequence[str], damaged: Mapping[str, str] | None = None
) -> Vectors:
    """Vectors in the order of the keys; NaN for damaged images."""
    damaged = damaged or {}
    # Check the vectors that other processes wrote.
    cache.missing(keys)
    intact = [key for key in keys if key not in damaged]
    if len(intact) == len(keys) > 0:
        return cache.get(keys)[VECTOR].numpy()
    vector_ND = cache.get(intact)[VECTOR].numpy() if intact else np.zeros((0, min(1, len(keys))))
    all_ND = np.full((len(keys), vector_ND.shape[1]), np.nan, dtype=np.float32)
    all_ND[[key not in damaged for key in keys]] = vector_ND
    return all_ND


def _caption_vector(caption: str | Ensemble, vector_of: Mapping[str, Vectors]) -> Vectors:
    if isinstance(caption, str):
        return vector_of[caption]
    mean: Vectors = np.mean([vector_of[prompt] for prompt in caption.prompts], axis=0)
    return mean / np.linalg.norm(mean)
