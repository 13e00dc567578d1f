"""Items of benchmarks come in; rows, pairs of pictures and a gallery for probes go out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from unbag.metrics.cases import true_cells
from unbag.metrics.pairs import Pairs
from unbag.probes.material import Gallery, Material, PicturePair, Row
from unbag.registry import find, names
from unbag.types import Benchmark, BoolArray, Item, Picture, Sparse

MOST_CAPTIONS = 16
"""Items with more captions are galleries, or lists of classes: nobody edited these."""
MOST_PICTURES = 1_000
"""Of the gallery: more make retrieval harder, not the finding another."""


def world_material() -> Material:
    """Everything that the world's benchmarks show."""
    every = [find("benchmark", name) for name in names("benchmark") if name.startswith("world-")]
    found = [one for one in every if isinstance(one, Benchmark)]
    items = {one.name: one.load(None) for one in found}
    return items_material(found, items, about="the world's benchmarks", is_world=True)


def items_material(
    benchmarks: Sequence[Benchmark],
    items: Mapping[str, Sequence[Item]],
    *,
    about: str,
    is_world: bool = False,
) -> Material:
    """Rows of items with few captions, pairs of items with several pictures, a gallery of all.

    The gallery is that of an item with sparse truth if there is one, else every picture with its
    first true caption.
    """
    rows = [row for b in benchmarks for item in items[b.name] for row in _rows(b, item)]
    pairs = [pair for b in benchmarks for item in items[b.name] for pair in _pairs(b, item)]
    every = [item for b in benchmarks for item in items[b.name]]
    return Material(about, tuple(rows), tuple(pairs), gallery_of(every), is_world)


def _rows(benchmark: Benchmark, item: Item) -> Iterator[Row]:
    """Each true caption with each false one of its picture; the next true one is the positive."""
    if not _is_small(item):
        return
    true_PC = true_cells(item.truth, item.id)
    captions = [caption for caption in item.captions if isinstance(caption, str)]
    for at, picture in enumerate(item.pictures):
        true = [c for c, is_true in zip(captions, true_PC[at], strict=True) if is_true]
        false: list[int | None] = [*np.flatnonzero(~true_PC[at]).tolist()]
        if not true:
            continue
        for i in false or [None]:
            usual = item.tags.get("kind") or benchmark.name
            kind = item.kinds[i] if item.kinds and i is not None else usual
            yield Row(
                id=f"{benchmark.name}/{item.id}/{at}/{i}",
                picture=picture,
                caption=true[0],
                negative=None if i is None else captions[i],
                positive=true[1] if len(true) > 1 else None,
                kind=kind,
                cluster=f"{benchmark.name}/{item.group or item.id}",
                tags={**item.tags, "benchmark": benchmark.name},
            )


def _pairs(benchmark: Benchmark, item: Item) -> Iterator[PicturePair]:
    """Pictures of one item that a metric calls a pair; the first two if none does."""
    if not _is_small(item) or len(item.pictures) < 2:
        return
    named = [metric.pairs for metric in benchmark.metrics if isinstance(metric, Pairs)]
    places = {name: pair for one in named for name, pair in (one or {}).items()}
    true_PC = true_cells(item.truth, item.id)
    usual = item.tags.get("relation") or item.tags.get("kind") or benchmark.name
    for relation, (i, j) in (places or {usual: (0, 1)}).items():
        if max(i, j) >= len(item.pictures):
            continue
        yield PicturePair(
            id=f"{benchmark.name}/{item.id}/{relation}",
            first=item.pictures[i],
            second=item.pictures[j],
            relation=relation,
            captions=_captions(item, true_PC, i, j),
            cluster=f"{benchmark.name}/{item.group or item.id}",
        )


def _captions(item: Item, true_PC: BoolArray, i: int, j: int) -> tuple[str, str] | None:
    """A caption that is true of one of the two only, for each."""
    found = [
        next((item.captions[c] for c in np.flatnonzero(true_PC[a] & ~true_PC[b])), None)
        for a, b in ((i, j), (j, i))
    ]
    first, second = found
    return (first, second) if isinstance(first, str) and isinstance(second, str) else None


def gallery_of(items: Sequence[Item]) -> Gallery | None:
    """That of the first item that is one; else of all small items; None if there is neither."""
    for item in items:
        if isinstance(item.truth, Sparse) and all(isinstance(c, str) for c in item.captions):
            captions = tuple(str(caption) for caption in item.captions)
            return Gallery(item.pictures, captions, item.truth.row_T, item.truth.column_T)
    place: dict[str, int] = {}
    pictures: list[Picture] = []
    captions_: list[str] = []
    true: list[tuple[int, int]] = []
    for item in filter(_is_small, items):
        true_PC = true_cells(item.truth, item.id)
        for at, picture in enumerate(item.pictures):
            said = np.flatnonzero(true_PC[at])
            if picture.key in place or not len(said) or len(pictures) == MOST_PICTURES:
                continue
            place[picture.key] = len(pictures)
            pictures.append(picture)
            true.append((len(pictures) - 1, len(captions_)))
            captions_.append(str(item.captions[said[0]]))
    if len(pictures) < 2:
        return None
    picture_T, caption_T = np.array(true).T
    return Gallery(tuple(pictures), tuple(captions_), picture_T, caption_T)


def _is_small(item: Item) -> bool:
    is_plain: list[bool] = [isinstance(caption, str) for caption in item.captions]
    few = len(item.captions) <= MOST_CAPTIONS
    return few and all(is_plain) and not isinstance(item.truth, Sparse) and _is_bool(item)


def _is_bool(item: Item) -> bool:
    return not isinstance(item.truth, Sparse) and item.truth.dtype == np.bool_
