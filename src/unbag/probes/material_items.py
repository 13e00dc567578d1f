"""Items of benchmarks come in; rows, pairs of pictures and a gallery for probes go out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from unbag.metrics.cases import true_cells
from unbag.metrics.groups import is_matching
from unbag.metrics.pairs import Pairs
from unbag.probes.chosen import hashed
from unbag.probes.material import Gallery, Material, PicturePair, Row
from unbag.probes.material_gallery import gallery_from, gallery_item
from unbag.registry import find, names
from unbag.types import Benchmark, BoolArray, Item, Picture, Sparse

MOST_CAPTIONS = 16
"""Items with more captions are galleries, or lists of classes: nobody edited these."""

DIFFERENCES = ("relation", "kind", "pattern", "collapsed_tag")
"""Tags that say what the pictures of an item differ in: ours, MMVP-VLM's, Winoground's."""


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
    most: int | None = None,
    seed: int = 0,
) -> Material:
    """Rows of items with few captions, pairs of items with several pictures, a gallery of all.

    The gallery is that of an item with sparse truth if there is one, else every picture with its
    first true caption. Answers to questions are no captions, but pictures that the same question
    tells apart are a pair. At most `most` rows and pairs, whole clusters chosen by hash.
    """
    rows = [row for b in benchmarks for item in items[b.name] for row in _rows(b, item)]
    pairs = [pair for b in benchmarks for item in items[b.name] for pair in _pairs(b, item)]
    pairs += [pair for b in benchmarks for pair in _grouped(b, items[b.name])]
    kept_rows = [rows[at] for at in _chosen([row.cluster for row in rows], most, seed)]
    kept_pairs = [pairs[at] for at in _chosen([pair.cluster for pair in pairs], most, seed)]
    return Material(
        about,
        tuple(kept_rows),
        tuple(kept_pairs),
        _gallery(benchmarks, items),
        is_world=is_world,
        notes=(
            *_fewer(kept_rows, rows, "captions with their edits"),
            *_fewer(kept_pairs, pairs, "pairs of pictures"),
            *(note for b in benchmarks for note in _unused(b, items[b.name])),
        ),
    )


def _rows(benchmark: Benchmark, item: Item) -> Iterator[Row]:
    """Each true caption with each false one of its picture; the next true one is the positive."""
    if not _is_small(item) or item.question is not None:
        return
    true_PC = true_cells(item.truth, item.id)
    captions = [str(caption) for caption in item.captions]
    for at, picture in enumerate(item.pictures):
        true = [c for c, is_true in zip(captions, true_PC[at], strict=True) if is_true]
        # Some files have a false caption that is the true one.
        false = [i for i in np.flatnonzero(~true_PC[at]).tolist() if captions[i] not in true]
        if not true:
            continue
        others = [caption for caption in true if caption != true[0]]
        for i in (*false,) or (None,):
            usual = item.tags.get("kind") or benchmark.name
            kind = item.kinds[i] if item.kinds and i is not None else usual
            yield Row(
                id=f"{benchmark.name}/{item.id}/{at}/{i}",
                picture=picture,
                caption=true[0],
                negative=None if i is None else captions[i],
                positive=others[0] if others else None,
                kind=kind,
                cluster=_cluster(benchmark, item),
                tags={**item.tags, "benchmark": benchmark.name},
            )


def _pairs(benchmark: Benchmark, item: Item) -> Iterator[PicturePair]:
    """Pictures of one item that a metric calls a pair; else the first two, the next two ..."""
    if not _is_small(item) or len(item.pictures) < 2:
        return
    named = [metric.pairs for metric in benchmark.metrics if isinstance(metric, Pairs)]
    places = [(name, pair) for one in named for name, pair in (one or {}).items()]
    usual = _difference(benchmark, item)
    places = places or [(usual, (i, i + 1)) for i in range(0, len(item.pictures) - 1, 2)]
    true_PC = true_cells(item.truth, item.id)
    for relation, (i, j) in dict.fromkeys(places):
        if max(i, j) >= len(item.pictures) or item.pictures[i] == item.pictures[j]:
            continue
        yield PicturePair(
            id=f"{benchmark.name}/{item.id}/{relation}/{i}-{j}",
            first=item.pictures[i],
            second=item.pictures[j],
            relation=relation,
            captions=None if item.question else _captions(item, true_PC[i], true_PC[j]),
            cluster=_cluster(benchmark, item),
        )


def _grouped(benchmark: Benchmark, items: Sequence[Item]) -> Iterator[PicturePair]:
    """Two items of a group that ask the same of two pictures, with opposite truths (MMVP)."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        if item.group and len(item.pictures) == 1 and len(item.captions) == 2 and _is_small(item):
            groups.setdefault(item.group, []).append(item)
    for name, members in groups.items():
        asked: dict[object, list[Item]] = {}
        for item in members:
            asked.setdefault((item.captions, item.question), []).append(item)
        known: set[frozenset[str]] = set()
        for first, second in (two for two in asked.values() if len(two) == 2):
            true_22 = np.array([true_cells(one.truth, one.id)[0] for one in (first, second)])
            pictures = frozenset((first.pictures[0].name, second.pictures[0].name))
            # Several questions about two pictures make one pair (NaturalBench).
            if not is_matching(true_22[None])[0] or len(pictures) < 2 or pictures in known:
                continue
            known.add(pictures)
            yield PicturePair(
                id=f"{benchmark.name}/{first.id}/{second.id}",
                first=first.pictures[0],
                second=second.pictures[0],
                relation=_difference(benchmark, first),
                captions=None if first.question else _captions(first, *true_22),
                cluster=f"{benchmark.name}/{name}",
            )


def _captions(item: Item, first_C: BoolArray, second_C: BoolArray) -> tuple[str, str] | None:
    """A caption that is true of one of two pictures only, for each."""
    own, other = np.flatnonzero(first_C & ~second_C), np.flatnonzero(second_C & ~first_C)
    if not len(own) or not len(other):
        return None
    return str(item.captions[own[0]]), str(item.captions[other[0]])


def _gallery(
    benchmarks: Sequence[Benchmark], items: Mapping[str, Sequence[Item]]
) -> Gallery | None:
    """That of the first item that is one, as the benchmark counts it; else of all small items."""
    for benchmark in benchmarks:
        # Galleries of shuffled captions follow; the rule of the headline names the plain one.
        only = dict(benchmark.aggregates[0].only).items()
        for item in (one for one in items[benchmark.name] if only <= dict(one.tags).items()):
            if found := gallery_item(item):
                return found
    return gallery_from(_told(item for b in benchmarks for item in items[b.name]))


def _told(items: Iterator[Item]) -> Iterator[tuple[Picture, str]]:
    """Every picture with the first caption that is true of it."""
    for item in items:
        if not _is_small(item) or item.question is not None:
            continue
        true_PC = true_cells(item.truth, item.id)
        for picture, true_C in zip(item.pictures, true_PC, strict=True):
            if true_C.any():
                yield picture, str(item.captions[int(true_C.argmax())])


def _is_small(item: Item) -> bool:
    """A few plain captions, each true or false of each picture."""
    if isinstance(item.truth, Sparse) or item.truth.dtype != np.bool_:
        return False
    is_plain = all(isinstance(caption, str) for caption in item.captions)
    return is_plain and len(item.captions) <= MOST_CAPTIONS


def _difference(benchmark: Benchmark, item: Item) -> str:
    """What two pictures differ in, as far as the benchmark says it."""
    told = (item.tags[tag] for tag in DIFFERENCES if item.tags.get(tag))
    return next(told, benchmark.name)


def _cluster(benchmark: Benchmark, item: Item) -> str:
    return f"{benchmark.name}/{item.group or item.id}"


def _chosen(clusters: Sequence[str], most: int | None, seed: int) -> list[int]:
    """Places of the members of whole clusters, in their order, until there are enough."""
    if most is None or len(clusters) <= most:
        return list(range(len(clusters)))
    order = sorted(range(len(clusters)), key=lambda at: hashed(f"{seed}\0{clusters[at]}"))
    last = clusters[order[most - 1]]
    wanted = {clusters[at] for at in order[:most]}
    # The last cluster may be cut; the first is kept whatever its size.
    if len(wanted) > 1 and order[most:] and clusters[order[most]] == last:
        wanted.discard(last)
    return [at for at, name in enumerate(clusters) if name in wanted]


def _fewer(kept: Sequence[object], every: Sequence[object], what: str) -> list[str]:
    return [f"{len(kept):,} of {len(every):,} {what} are used"] if len(kept) < len(every) else []


def _unused(benchmark: Benchmark, items: Sequence[Item]) -> list[str]:
    """What no probe can use, said once for each benchmark."""
    asked = sum(item.question is not None for item in items)
    large = sum(not _is_small(item) and not isinstance(item.truth, Sparse) for item in items)
    counts = (
        (asked, "are questions, whose answers are no captions"),
        (large, f"have ratings, classes or more than {MOST_CAPTIONS} captions"),
    )
    return [f"{benchmark.name}: {n:,} of {len(items):,} items {why}" for n, why in counts if n]
