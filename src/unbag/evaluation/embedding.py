"""Encode the unique images and captions of a run, each once, with a cache on disk.

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
"""Batches of cache keys. Made once for a run and kept in its folder, so that a continued run
computes whole batches of the same make-up and gets the same bits."""
_CAPTIONS_ON_GPU = 4
"""Caption batches in image batches: a caption of 15 tokens is little work, and a batch of 256
ends on a GPU before the next has been asked for."""


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of a plan, in its order."""

    image_ND: Vectors
    """NaN rows for images that could not be opened."""
    caption_ND: Vectors
    damaged: Mapping[str, str]
    """Name of each image that could not be opened, with the reason."""
    truncated: int
    """Prompts longer than the model's context."""


def embed(
    encoder: DualEncoder,
    plan: Plan,
    *,
    cache: Path | None,
    batch_size: int,
    progress: Progress,
    grids: dict[str, BatchPlan] | None = None,
    save_grids: Callable[[], None] = lambda: None,
    team: Distributed = ALONE,
    compare: Callable[[Tensor, Tensor], object] | None = None,
) -> Embeddings:
    """Encode what the cache does not hold; `grids` is filled on the first run, obeyed later.

    Without `grids` nothing is continued: the batches are planned anew.

    A team shares the batches out; then each process has the vectors of all, from the cache.
    `compare` is tried on an image of each batch, so that vectors which do not go together are told
    of before the rest is encoded.
    """
    grids = {} if grids is None else grids
    tokens = dict(zip(plan.prompts, encoder.count_tokens(plan.prompts), strict=True))
    # Sorted by length, so that a batch runs at its real length instead of the longest caption's.
    prompts = sorted(plan.prompts, key=lambda prompt: (tokens[prompt], prompt))
    prompt_of = {text_key(prompt): prompt for prompt in prompts}
    image_of = dict(zip(plan.image_keys, plan.images, strict=True))
    known: dict[str, Mapping[str, object]] = {"captions": prompt_of, "pictures": image_of}

    def opened(kind: str) -> TensorCache:
        folder = None if cache is None else cache / cache_name(encoder) / kind
        return TensorCache(folder, progress=progress)

    caches = {kind: opened(kind) for kind in known}
    for kind, keys in known.items():
        size = caption_batch(encoder.device, batch_size) if kind == "captions" else batch_size
        unknown = [key for key in keys if key not in caches[kind]]
        grids.setdefault(f"{cache_name(encoder)}/{kind}", batches_of(unknown, size))
    if team.is_leader:
        save_grids()
    grids.update(team.gather(grids)[0])
    todo = {
        kind: team.mine(_todo(grids[f"{cache_name(encoder)}/{kind}"], keys, caches[kind]))
        for kind, keys in known.items()
    }
    # Barrier: no process writes to the cache before every process has chosen its share.
    team.wait()
    extract_texts(
        encoder,
        prompt_of,
        todo["captions"],
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

    found = extract_images(
        encoder,
        image_of,
        todo["pictures"],
        partial(image_vectors, encoder),
        put_images,
        label=f"{encoder.name}: images",
        progress=progress,
    )
    damaged = {key: why for one in team.gather(found) for key, why in one.items()}
    if team.size > 1:
        caches = {kind: opened(kind) for kind in known}
    caption_ND = _rows(caches["captions"], list(prompt_of))
    vector_of = dict(zip(prompt_of.values(), caption_ND, strict=True))
    rows = [_caption_vector(caption, vector_of) for caption in plan.captions]
    return Embeddings(
        image_ND=_rows(caches["pictures"], plan.image_keys, damaged),
        caption_ND=np.stack(rows) if rows else np.zeros((0, 0), np.float32),
        damaged={image_of[key].name: reason for key, reason in damaged.items()},
        truncated=sum(count > encoder.context for count in tokens.values()),
    )


def caption_batch(device: str, batch_size: int) -> int:
    """Captions encoded together where `batch` images are."""
    return batch_size * (_CAPTIONS_ON_GPU if device.startswith("cuda") else 1)


def _todo(grid: BatchPlan, known: Iterable[str], cache: TensorCache) -> BatchPlan:
    """Batches with a vector that is missing or was found damaged, and batches for the unplanned.

    A planned batch is done again whole if any of it is missing; see Grid.
    """
    known = dict.fromkeys(known)
    missing = dict.fromkeys(cache.missing(known))
    planned = {key for batch in grid for key in batch}
    todo = [batch for batch in grid if any(key in missing for key in batch)]
    todo = [[key for key in batch if key in known] for batch in todo]
    stray = [key for key in missing if key not in planned]
    size = max((len(batch) for batch in grid), default=256)
    return todo + batches_of(stray, size)


def _rows(
    cache: TensorCache, keys: Sequence[str], damaged: Mapping[str, str] | None = None
) -> Vectors:
    """Vectors in the order of the keys; NaN for those that could not be opened."""
    damaged = damaged or {}
    # What another process wrote was not checked yet.
    cache.missing(keys)
    whole = [key for key in keys if key not in damaged]
    if len(whole) == len(keys) > 0:
        return cache.get(keys)[VECTOR].numpy()
    vector_ND = cache.get(whole)[VECTOR].numpy() if whole else np.zeros((0, min(1, len(keys))))
    every_ND = np.full((len(keys), vector_ND.shape[1]), np.nan, dtype=np.float32)
    every_ND[[key not in damaged for key in keys]] = vector_ND
    return every_ND


def _caption_vector(caption: str | Ensemble, vector_of: Mapping[str, Vectors]) -> Vectors:
    if isinstance(caption, str):
        return vector_of[caption]
    mean: Vectors = np.mean([vector_of[prompt] for prompt in caption.prompts], axis=0)
    return mean / np.linalg.norm(mean)
