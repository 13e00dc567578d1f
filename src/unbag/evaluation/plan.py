"""Plan what a run encodes: every unique image and caption of its benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple

import numpy as np

from unbag.errors import UnbagError
from unbag.types import Caption, Ensemble, ImageSource, IntArray, Item, Sparse
from unbag.types.items import prompts_of
from unbag.types.json import is_whole_text

_HASHERS, _KEYS_AT_ONCE = 8, 64
"""Threads that hash image files, and images per task."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The unique inputs of all benchmarks of a run."""

    images: tuple[ImageSource, ...]
    image_keys: tuple[str, ...]
    captions: tuple[Caption, ...] = ()
    prompts: tuple[str, ...] = ()
    """The strings to encode: plain captions and every prompt of an ensemble."""
    rows: Mapping[str, tuple[Rows, ...]] = field(default_factory=dict)
    """By benchmark, in the order of its items."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Fingerprint of each benchmark's items."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Indices of an item's images and captions in the plan."""

    image_P: IntArray
    caption_C: IntArray


def make_plan(items: Mapping[str, Sequence[Item]]) -> Plan:
    """Collect the unique inputs; images are hashed but not decoded."""
    builder = _Builder(_read_keys(items))
    rows = {
        name: tuple(builder.add(item) for item in benchmark_items)
        for name, benchmark_items in items.items()
    }
    fingerprints = {
        name: builder.fingerprint(benchmark_items, rows[name])
        for name, benchmark_items in items.items()
    }
    prompts: dict[str, None] = {}
    for caption in builder.captions:
        prompts.update(dict.fromkeys(prompts_of(caption)))
    if invalid := [prompt for prompt in prompts if not is_whole_text(prompt)]:
        raise UnbagError(
            f"the caption {invalid[0]!r} holds half a character",
            expected="whole characters, which UTF-8 can write",
            hint="fix the caption; in a benchmark of your own, fix its loader",
        )
    return Plan(
        images=tuple(builder.images.values()),
        image_keys=tuple(builder.images),
        captions=tuple(builder.captions),
        prompts=tuple(prompts),
        rows=rows,
        fingerprints=fingerprints,
    )


def check_items(benchmark: str, items: Sequence[Item]) -> None:
    """Raise an error if a benchmark is empty or an item id repeats."""
    if not items:
        raise UnbagError(
            f"benchmark {benchmark!r} has no items",
            expected="at least one item",
            hint="check that the files in its folder are complete and not filtered to nothing",
        )
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        first = seen.setdefault(item.id, index)
        if first != index:
            images = [items[i].images[0].name for i in (first, index)]
            raise UnbagError(
                f"benchmark {benchmark!r} has two items called {item.id!r}: items {first} (image "
                f"{images[0]}) and {index} (image {images[1]})",
                expected="every item id once: ids tie scores to items when a run is continued",
                hint="if a file of the benchmark holds that id twice, fix the file and say so "
                "beside your number; in a benchmark of your own, fix its loader",
            )


def equal_captions(items: Sequence[Item]) -> str:
    """A note on items in which a true caption equals a false one; empty without such items."""

    def is_contradictory(item: Item) -> bool:
        if isinstance(item.truth, Sparse) or item.truth.dtype != np.bool_:
            return False
        first_column: dict[Caption, int] = {}
        return any(
            not np.array_equal(
                item.truth[:, column], item.truth[:, first_column.setdefault(caption, column)]
            )
            for column, caption in enumerate(item.captions)
        )

    repeats: dict[int, bool] = {}
    count = 0
    for item in items:
        # Items of classification share one tuple of captions.
        captions_id = id(item.captions)
        if captions_id not in repeats:
            repeats[captions_id] = len(set(item.captions)) < len(item.captions)
        count += repeats[captions_id] and is_contradictory(item)
    if not count:
        return ""
    return (
        f"{count:,} of {len(items):,} items have a true caption that equals a false one; no score "
        "can distinguish these: they are ties, or are left out"
    )


def _read_keys(items: Mapping[str, Sequence[Item]]) -> dict[int, str]:
    """The key of each image by object id, read in threads: hashing and I/O release the GIL."""
    image_of = {
        id(p): p
        for benchmark_items in items.values()
        for item in benchmark_items
        for p in item.images
    }
    images = list(image_of.values())

    def read(start: int) -> list[str]:
        return [image.key for image in images[start : start + _KEYS_AT_ONCE]]

    with ThreadPoolExecutor(_HASHERS) as pool:
        parts = pool.map(read, range(0, len(images), _KEYS_AT_ONCE))
        return dict(zip(image_of, chain.from_iterable(parts), strict=True))


class _Builder:
    def __init__(self, key_of: Mapping[int, str]) -> None:
        self.images: dict[str, ImageSource] = {}
        self.captions: dict[Caption, int] = {}
        self._image_row: dict[str, int] = {}
        self._key_of = key_of
        # Loaders share captions: 50,000 images may have the same 1,000 classes of 80 prompts.
        self._known: dict[int, _Captions] = {}

    def add(self, item: Item) -> Rows:
        image_P = np.array([self._image(p) for p in item.images], dtype=np.int64)
        return Rows(image_P, self._captions(item.captions).row_C)

    def _captions(self, captions: tuple[Caption, ...]) -> _Captions:
        captions_info = self._known.get(id(captions))
        if captions_info is None:
            row_C = np.array(
                [self.captions.setdefault(caption, len(self.captions)) for caption in captions],
                dtype=np.int64,
            )
            plain = [
                asdict(caption) if isinstance(caption, Ensemble) else caption
                for caption in captions
            ]
            digest = blake2b(json.dumps(plain).encode(), digest_size=16).hexdigest()
            captions_info = self._known[id(captions)] = _Captions(captions, row_C, digest)
        return captions_info

    def _image(self, image: ImageSource) -> int:
        key = self._key_of[id(image)]
        if key not in self._image_row:
            self._image_row[key] = len(self.images)
            self.images[key] = image
        return self._image_row[key]

    def fingerprint(self, items: Sequence[Item], rows: Sequence[Rows]) -> str:
        keys = tuple(self.images)
        digest = blake2b(digest_size=12)
        for item, row in zip(items, rows, strict=True):
            captions = self._captions(item.captions).digest
            question = asdict(item.question) if item.question else None
            images = [keys[i] for i in row.image_P]
            record = [item.id, images, captions, question, item.group, dict(item.tags)]
            digest.update(json.dumps(record).encode())
            truth = item.truth
            parts = [truth.row_T, truth.column_T] if isinstance(truth, Sparse) else [truth]
            for part in parts:
                digest.update(part.tobytes())
        return digest.hexdigest()


class _Captions(NamedTuple):
    """A tuple of captions (referenced, so that its id is not reused), its rows and its digest."""

    captions: tuple[Caption, ...]
    row_C: IntArray
    digest: str
