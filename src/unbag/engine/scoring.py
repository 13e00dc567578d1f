"""From stored vectors and items to Scores; no model is called.

Dimensions: P pictures, C captions of an item, M cells of many items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unbag.engine.embed import Embeddings
from unbag.engine.plan import Rows
from unbag.metrics.ranking import rank_blocks
from unbag.types import (
    EmbeddingScorer,
    FloatArray,
    Item,
    Scores,
    Sparse,
)

if TYPE_CHECKING:
    from torch import Tensor

_NUMBERS = 20_000_000
"""Numbers gathered at once when vectors are compared: cells times dimensions."""
_WIDE = 64
"""Captions from which on a product of matrices beats gathering vectors cell by cell."""


def score_by_vectors(
    scorer: EmbeddingScorer,
    items: Sequence[Item],
    rows: Sequence[Rows],
    embeddings: Embeddings,
    *,
    tie_eps: float = 0.0,
    compares_captions: bool = False,
) -> Iterator[list[Scores]]:
    """Compare stored vectors; no model is called. Yields a chunk at a time."""
    import torch

    pictures = torch.from_numpy(embeddings.picture_ND)
    captions = torch.from_numpy(embeddings.caption_ND)
    most = _NUMBERS // max(1, embeddings.caption_ND.shape[1])
    for chunk in _by_cells(items, rows, most):
        first = chunk[0][0]
        if is_large(first):
            yield [_rank_by_vectors(scorer, *chunk[0], pictures, captions, tie_eps)]
        elif len(first.captions) >= _WIDE:
            yield _wide(scorer, chunk, pictures, captions)
        else:
            picture_M = np.concatenate([np.repeat(r.picture_P, len(r.caption_C)) for _, r in chunk])
            caption_M = np.concatenate([np.tile(r.caption_C, len(r.picture_P)) for _, r in chunk])
            value_M = scorer.compare(pictures[picture_M], captions[caption_M]).double().numpy()
            found = split(value_M, [item for item, _ in chunk])
            if compares_captions:
                found = [
                    replace(scores, caption_CC=_cosines(captions[row.caption_C]))
                    for scores, (_, row) in zip(found, chunk, strict=True)
                ]
            yield found


def _cosines(caption_CD: Tensor) -> FloatArray:
    """Of captions with each other; summed pair by pair, so that equal vectors tie exactly."""
    vector_CD = caption_CD.double()
    return (vector_CD[:, None] * vector_CD[None]).sum(dim=-1).numpy()


def _wide(
    scorer: EmbeddingScorer, chunk: Sequence[tuple[Item, Rows]], pictures: Tensor, captions: Tensor
) -> list[Scores]:
    """Items that share many captions, as classes do: one product of matrices."""
    picture_M = np.concatenate([rows.picture_P for _, rows in chunk])
    score_MC = scorer.compare_all(pictures[picture_M], captions[chunk[0][1].caption_C])
    return split(score_MC.double().numpy().ravel(), [item for item, _ in chunk])


def _by_cells(
    items: Sequence[Item], rows: Sequence[Rows], most: int
) -> Iterator[list[tuple[Item, Rows]]]:
    """Consecutive items, a limited number of cells together; wide ones only with their like."""
    chunk: list[tuple[Item, Rows]] = []
    cells = 0
    for item, row in zip(items, rows, strict=True):
        size = len(item.pictures) * len(item.captions)
        if chunk and (cells + size > most or not _go_together(chunk[-1], (item, row))):
            yield chunk
            chunk, cells = [], 0
        chunk.append((item, row))
        cells += size
    if chunk:
        yield chunk


def _go_together(one: tuple[Item, Rows], other: tuple[Item, Rows]) -> bool:
    if is_large(one[0]) or is_large(other[0]):
        return False
    is_wide = len(one[0].captions) >= _WIDE or len(other[0].captions) >= _WIDE
    return not is_wide or one[1].caption_C is other[1].caption_C


def is_large(item: Item) -> bool:
    """Only ranks of it are kept."""
    return isinstance(item.truth, Sparse)


def _rank_by_vectors(
    scorer: EmbeddingScorer,
    item: Item,
    rows: Rows,
    pictures: Tensor,
    captions: Tensor,
    tie_eps: float,
) -> Scores:
    gallery = captions[rows.caption_C]

    def block(start: int, stop: int) -> FloatArray:
        return scorer.compare_all(pictures[rows.picture_P[start:stop]], gallery).double().numpy()

    return ranked(item, block, tie_eps)


def ranked(item: Item, block: Callable[[int, int], FloatArray], tie_eps: float) -> Scores:
    """Ranks of a large item, from blocks of its matrix."""
    text_to_image, image_to_text = rank_blocks(block, item.truth, tie_eps=tie_eps)
    return Scores(item.id, None, text_to_image=text_to_image, image_to_text=image_to_text)


def split(value_M: FloatArray, items: Sequence[Item]) -> list[Scores]:
    """Numbers of many items, cell after cell, as the matrix of each."""
    shapes = [(len(item.pictures), len(item.captions)) for item in items]
    ends = np.cumsum([p * c for p, c in shapes])[:-1]
    parts = np.split(value_M, ends)
    return [
        Scores(item.id, part.reshape(shape))
        for item, part, shape in zip(items, parts, shapes, strict=True)
    ]
