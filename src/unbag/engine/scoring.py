"""From a scorer and items to Scores: by vectors where the scorer has them, else query by query.

Dimensions: P pictures, C captions of an item, M cells of many items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from unbag.engine.embed import Embeddings
from unbag.engine.plan import Rows
from unbag.errors import UserError
from unbag.metrics.ranking import rank, rank_blocks
from unbag.types import (
    EmbeddingScorer,
    FloatArray,
    Item,
    MatrixScorer,
    Picture,
    Query,
    Scorer,
    Scores,
    Sparse,
)

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 64
"""Items scored and saved together; a continued run does whole chunks again."""
_CELLS = 200_000
_LARGEST_CROSS = 1_000_000


def score_by_vectors(
    scorer: EmbeddingScorer,
    items: Sequence[Item],
    rows: Sequence[Rows],
    embeddings: Embeddings,
    *,
    tie_eps: float = 0.0,
) -> Iterator[list[Scores]]:
    """Compare stored vectors; no model is called. Yields a chunk at a time."""
    import torch

    pictures = torch.from_numpy(embeddings.picture_ND)
    captions = torch.from_numpy(embeddings.caption_ND)
    for chunk in _by_cells(items, rows):
        dense = [(i, r) for i, r in chunk if not isinstance(i.truth, Sparse)]
        done = [
            _rank_by_vectors(scorer, i, r, pictures, captions, tie_eps)
            for i, r in chunk
            if _is_large(i)
        ]
        if dense:
            picture_M = np.concatenate([np.repeat(r.picture_P, len(r.caption_C)) for _, r in dense])
            caption_M = np.concatenate([np.tile(r.caption_C, len(r.picture_P)) for _, r in dense])
            value_M = scorer.compare(pictures[picture_M], captions[caption_M]).double().numpy()
            done += _split(value_M, [item for item, _ in dense])
        yield done


def _by_cells(items: Sequence[Item], rows: Sequence[Rows]) -> Iterator[list[tuple[Item, Rows]]]:
    """Consecutive items, a limited number of cells together; a large item comes alone."""
    chunk: list[tuple[Item, Rows]] = []
    cells = 0
    for item, row in zip(items, rows, strict=True):
        size = len(item.pictures) * len(item.captions)
        if chunk and cells + size > _CELLS:
            yield chunk
            chunk, cells = [], 0
        chunk.append((item, row))
        cells += size
    if chunk:
        yield chunk


def _is_large(item: Item) -> bool:
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

    return _ranked(item, block, tie_eps)


def _ranked(item: Item, block: Callable[[int, int], FloatArray], tie_eps: float) -> Scores:
    text_to_image, image_to_text = rank_blocks(block, item.truth, tie_eps=tie_eps)
    return Scores(item.id, None, text_to_image=text_to_image, image_to_text=image_to_text)


@dataclass
class QueryScoring:
    """Scores items by asking the scorer, a chunk of items at a time."""

    scorer: Scorer
    tie_eps: float = 0.0
    """Ranks fix their ties when they are made; other scores are compared later."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Name of each picture that could not be opened, with the reason."""

    def chunk(self, items: Sequence[Item]) -> list[Scores]:
        """Scores of a few items; equal queries are asked once."""
        done = [self._rank(item) for item in items if _is_large(item)]
        dense = [item for item in items if not _is_large(item)]
        place: dict[tuple[int, object, object], int] = {}
        queries: list[Query] = []
        cell_of: list[int] = []
        for query in (q for item in dense for q in queries_of(item)):
            # Loaders share picture objects, so identity finds the repeats without hashing pixels.
            key = (id(query.picture), query.caption, query.question)
            if key not in place:
                place[key] = len(queries)
                queries.append(query)
            cell_of.append(place[key])
        if queries:
            done += _split(self.ask(queries)[cell_of], dense)
        return done

    def ask(self, queries: Sequence[Query]) -> FloatArray:
        """One number a query; NaN where the picture is damaged."""
        try:
            return checked_numbers(self.scorer, self.scorer.score(queries), len(queries))
        except (OSError, ValueError) as error:
            return self._ask_by_picture(queries, error)

    def _ask_by_picture(self, queries: Sequence[Query], error: Exception) -> FloatArray:
        """Find the damaged picture among many; a scorer that fails on whole ones is a bug."""
        value_M = np.full(len(queries), np.nan)
        places: dict[int, list[int]] = {}
        for i, query in enumerate(queries):
            places.setdefault(id(query.picture), []).append(i)
        found = False
        for at in places.values():
            reason = _why_damaged(queries[at[0]].picture)
            if reason:
                found = True
                self.damaged[queries[at[0]].picture.name] = reason
                continue
            part = [queries[i] for i in at]
            value_M[at] = checked_numbers(self.scorer, self.scorer.score(part), len(part))
        if not found:
            raise error
        return value_M

    def _rank(self, item: Item) -> Scores:
        scorer = self.scorer
        cells = len(item.pictures) * len(item.captions)
        if isinstance(scorer, MatrixScorer):
            matrix = scorer

            def block(start: int, stop: int) -> FloatArray:
                rows = matrix.score_matrix(item.pictures[start:stop], item.captions)
                return np.asarray(rows, dtype=np.float64)

            return _ranked(item, block, self.tie_eps)
        if cells > _LARGEST_CROSS:
            raise UserError(
                f"{scorer.name} scores pairs one by one, and {item.id!r} has "
                f"{len(item.pictures)} x {len(item.captions)} of them",
                expected=f"at most {_LARGEST_CROSS} pairs, or a scorer with score_matrix",
                way_out="leave the retrieval benchmarks out for this model",
            )
        score_PC = np.concatenate(
            [self.ask([Query(p, c, item.question) for c in item.captions]) for p in item.pictures]
        ).reshape(len(item.pictures), len(item.captions))
        text_to_image, image_to_text = rank(score_PC, item.truth, tie_eps=self.tie_eps)
        return Scores(item.id, None, text_to_image=text_to_image, image_to_text=image_to_text)


def queries_of(item: Item) -> list[Query]:
    """Every picture with every caption, row by row."""
    return [Query(p, c, item.question) for p in item.pictures for c in item.captions]


def checked_numbers(scorer: Scorer, numbers: object, expected: int) -> FloatArray:
    """As float64, if there are as many as were asked for; NaN passes, and is counted later."""
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu()
    value_M = np.asarray(numbers, dtype=np.float64)
    if value_M.shape != (expected,):
        kind = "few" if value_M.size < expected else "many"
        raise UserError(
            f"scorer {scorer.name!r} returned too {kind} numbers: "
            f"shape {value_M.shape} for {expected} queries",
            expected=f"one number for each query, shape ({expected},)",
            way_out="mend the score method of this scorer",
        )
    return value_M


def _why_damaged(picture: Picture) -> str:
    try:
        picture.open()
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _split(value_M: FloatArray, items: Sequence[Item]) -> list[Scores]:
    shapes = [(len(item.pictures), len(item.captions)) for item in items]
    ends = np.cumsum([p * c for p, c in shapes])[:-1]
    parts = np.split(value_M, ends)
    return [
        Scores(item.id, part.reshape(shape))
        for item, part, shape in zip(items, parts, shapes, strict=True)
    ]
