"""Plan what a run must encode: every image and caption of its benchmarks, each once."""

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
"""Threads that read files for their keys, and images that one of them takes at a time."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Every unique input once, over all benchmarks of a run."""

    images: tuple[ImageSource, ...]
    image_keys: tuple[str, ...]
    captions: tuple[Caption, ...] = ()
    prompts: tuple[str, ...] = ()
    """The strings to encode: plain captions and every prompt of an ensemble."""
    rows: Mapping[str, tuple[Rows, ...]] = field(default_factory=dict)
    """By benchmark, in the order of its items."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Of each benchmark's items."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Where an item's images and captions stand in the plan."""

    image_P: IntArray
    caption_C: IntArray


def make_plan(items: Mapping[str, Sequence[Item]]) -> Plan:
    """Find what is shared; keys are read here, images are not opened."""
    builder = _Builder(_read_keys(items))
    rows = {name: tuple(builder.add(item) for item in some) for name, some in items.items()}
    fingerprints = {name: builder.fingerprint(some, rows[name]) for name, some in items.items()}
    prompts: dict[str, None] = {}
    for caption in builder.captions:
        prompts.update(dict.fromkeys(prompts_of(caption)))
    if odd := [prompt for prompt in prompts if not is_whole_text(prompt)]:
        raise UnbagError(
            f"the caption {odd[0]!r} holds half a character",
            expected="whole characters, which UTF-8 can write",
            hint="mend the caption; in a benchmark of your own, mend its loader",
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
    """An empty benchmark or an id used twice would make every number below it wrong."""
    if not items:
        raise UnbagError(
            f"benchmark {benchmark!r} has no items",
            expected="at least one item",
            hint="check that the files in its folder are complete and not filtered to nothing",
        )
    seen: dict[str, int] = {}
    for at, item in enumerate(items):
        first = seen.setdefault(item.id, at)
        if first != at:
            images = [items[i].images[0].name for i in (first, at)]
            raise UnbagError(
                f"benchmark {benchmark!r} has two items called {item.id!r}: items {first} (image "
                f"{images[0]}) and {at} (image {images[1]})",
                expected="every item id once: ids tie scores to items when a run is continued",
                hint="if a file of the benchmark holds that id twice, mend the file and say so "
                "beside your number; in a benchmark of your own, mend its loader",
            )


def equal_captions(items: Sequence[Item]) -> str:
    """A note on items in which a true caption equals a false one; empty if there are none."""

    def is_contradictory(item: Item) -> bool:
        if isinstance(item.truth, Sparse) or item.truth.dtype != np.bool_:
            return False
        first: dict[Caption, int] = {}
        return any(
            not np.array_equal(item.truth[:, at], item.truth[:, first.setdefault(caption, at)])
            for at, caption in enumerate(item.captions)
        )

    repeats: dict[int, bool] = {}
    count = 0
    for item in items:
        # Class sets share one tuple of a thousand captions between all items.
        known = id(item.captions)
        if known not in repeats:
            repeats[known] = len(set(item.captions)) < len(item.captions)
        count += repeats[known] and is_contradictory(item)
    if not count:
        return ""
    return (
        f"{count:,} of {len(items):,} items have a true caption that equals a false one; no score "
        "can tell these apart: they are ties, or are not judged"
    )


def _read_keys(items: Mapping[str, Sequence[Item]]) -> dict[int, str]:
    """The key of each image by identity, in threads: hashing and disks need no interpreter."""
    every = {id(p): p for some in items.values() for item in some for p in item.images}
    images = list(every.values())

    def read(at: int) -> list[str]:
        return [image.key for image in images[at : at + _KEYS_AT_ONCE]]

    with ThreadPoolExecutor(_HASHERS) as pool:
        parts = pool.map(read, range(0, len(images), _KEYS_AT_ONCE))
        return dict(zip(every, chain.from_iterable(parts), strict=True))


class _Builder:
    def __init__(self, key_of: Mapping[int, str]) -> None:
        self.images: dict[str, ImageSource] = {}
        self.captions: dict[Caption, int] = {}
        self._image_row: dict[str, int] = {}
        self._key_of = key_of
        # Loaders share captions: 50,000 images have the same thousand classes of eighty prompts.
        self._known: dict[int, _Captions] = {}

    def add(self, item: Item) -> Rows:
        image_P = np.array([self._image(p) for p in item.images], dtype=np.int64)
        return Rows(image_P, self._captions(item.captions).row_C)

    def _captions(self, captions: tuple[Caption, ...]) -> _Captions:
        found = self._known.get(id(captions))
        if found is None:
            row_C = np.array(
                [self.captions.setdefault(c, len(self.captions)) for c in captions], dtype=np.int64
            )
            plain = [asdict(c) if isinstance(c, Ensemble) else c for c in captions]
            digest = blake2b(json.dumps(plain).encode(), digest_size=16).hexdigest()
            found = self._known[id(captions)] = _Captions(captions, row_C, digest)
        return found

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
    """A tuple of captions, kept so that its identity stays taken, with what was found of it."""

    captions: tuple[Caption, ...]
    row_C: IntArray
    digest: str
