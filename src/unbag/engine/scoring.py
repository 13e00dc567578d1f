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
_NUMBERS = 20_000_000
"""Numbers gathered at once when vectors are compared: cells times dimensions."""
_WIDE = 64
"""Captions from which on a product of matrices beats gathering vectors cell by cell."""
_LARGEST_CROSS = 1_000_000
_LARGEST_KEPT = 50_000_000


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
    most = _NUMBERS // max(1, embeddings.caption_ND.shape[1])
    for chunk in _by_cells(items, rows, most):
        first = chunk[0][0]
        if _is_large(first):
            yield [_rank_by_vectors(scorer, *chunk[0], pictures, captions, tie_eps)]
        elif len(first.captions) >= _WIDE:
            yield _wide(scorer, chunk, pictures, captions)
        else:
            picture_M = np.concatenate([np.repeat(r.picture_P, len(r.caption_C)) for _, r in chunk])
            caption_M = np.concatenate([np.tile(r.caption_C, len(r.picture_P)) for _, r in chunk])
            value_M = scorer.compare(pictures[picture_M], captions[caption_M]).double().numpy()
            yield _split(value_M, [item for item, _ in chunk])


def _wide(
    scorer: EmbeddingScorer, chunk: Sequence[tuple[Item, Rows]], pictures: Tensor, captions: Tensor
) -> list[Scores]:
    """Items that share many captions, as classes do: one product of matrices."""
    picture_M = np.concatenate([rows.picture_P for _, rows in chunk])
    score_MC = scorer.compare_all(pictures[picture_M], captions[chunk[0][1].caption_C])
    return _split(score_MC.double().numpy().ravel(), [item for item, _ in chunk])


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
    if _is_large(one[0]) or _is_large(other[0]):
        return False
    is_wide = len(one[0].captions) >= _WIDE or len(other[0].captions) >= _WIDE
    return not is_wide or one[1].caption_C is other[1].caption_C


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
            return self._rank_by_matrix(scorer, item)
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

    def _rank_by_matrix(self, scorer: MatrixScorer, item: Item) -> Scores:
        """Ranking asks for every block twice; the model is asked once while memory allows."""
        known: dict[tuple[int, int], FloatArray] = {}
        keeps = len(item.pictures) * len(item.captions) <= _LARGEST_KEPT

        def block(start: int, stop: int) -> FloatArray:
            if (start, stop) in known:
                return known[start, stop]
            found = self._rows(scorer, item, start, stop)
            if keeps:
                known[start, stop] = found
            return found

        return _ranked(item, block, self.tie_eps)

    def _rows(self, scorer: MatrixScorer, item: Item, start: int, stop: int) -> FloatArray:
        pictures = item.pictures[start:stop]
        try:
            return _as_float(scorer, scorer.score_matrix(pictures, item.captions))
        except (OSError, ValueError):
            reasons = [_why_damaged(picture) for picture in pictures]
            if not any(reasons):
                raise
        score_BC = np.full((len(pictures), len(item.captions)), np.nan)
        for i, (picture, reason) in enumerate(zip(pictures, reasons, strict=True)):
            if reason:
                self.damaged[picture.name] = reason
            else:
                score_BC[i] = _as_float(scorer, scorer.score_matrix([picture], item.captions))[0]
        return score_BC


def _as_float(scorer: Scorer, numbers: object) -> FloatArray:
    """Numbers of any library and precision as float64."""
    if hasattr(numbers, "detach"):
        numbers = numbers.detach().cpu().double()
    try:
        found = np.asarray(numbers)
        if found.dtype.kind not in "fiub":
            raise TypeError(f"values of type {found.dtype}")
    except (TypeError, ValueError) as error:
        raise UserError(
            f"scorer {scorer.name!r} returned {type(numbers).__name__}: {error}",
            expected="numbers: a list, an array or a tensor",
            way_out="mend the score method of this scorer",
        ) from error
    return found.astype(np.float64)


def queries_of(item: Item) -> list[Query]:
    """Every picture with every caption, row by row."""
    return [Query(p, c, item.question) for p in item.pictures for c in item.captions]


def checked_numbers(scorer: Scorer, numbers: object, expected: int) -> FloatArray:
    """As float64, if there are as many as were asked for; NaN passes, and is counted later."""
    value_M = _as_float(scorer, numbers)
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
