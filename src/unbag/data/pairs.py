"""Pairs to train on: images with true captions and, where they were made before, their edits.

`pack` keeps a row as compressed JSON: edits of a caption repeat most of its words. An image with
one caption takes some 100 bytes so, with eleven edits 230; with five captions 180, and 820 with
eleven edits of each. Unpacking takes well under a millisecond, a tenth of what decoding a JPEG
does.

Dimensions: N pairs.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Protocol
from zlib import compress, decompress

import numpy as np

from unbag.data.images import FileImage
from unbag.errors import UnbagError
from unbag.types import Edit, ImageSource, IntArray

_NAMED = 5
_LEVEL = 1
"""More costs time and saves little: rows are short."""


class Pairs(Protocol):
    """A collection with a place for each image. Opened images are the caller's to close."""

    @property
    def about(self) -> str:
        """For people: form, file name, how many images and captions, licence if it says one."""

    @property
    def fingerprint(self) -> str:
        """Of the files: names, sizes, times or content."""

    @property
    def has_edits(self) -> bool:
        """Whether edits were made before."""

    def __len__(self) -> int:
        """Images."""

    def __getitem__(self, place: int) -> Pair:
        """Reads captions and edits; the image is opened later. Same place, same pair."""


@dataclass(frozen=True, eq=False)
class Pair:
    """An image with its captions and their edits."""

    id: str
    image: ImageSource
    captions: tuple[str, ...]
    """At least one; each epoch draws one."""
    edits: tuple[tuple[Edit, ...], ...]
    """For each caption."""
    nearest: tuple[int, ...] = ()
    """Places of the images most like it, for NegCLIP's hard images."""


def pack(
    rows: Iterable[PairRow],
    origin: PairsOrigin,
    *,
    neighbours: Mapping[str, Sequence[str]] | None = None,
) -> PackedPairs:
    """Read every row once; images that are not there are named all at once.

    Args:
        rows: In the order of the file.
        origin: Where they come from.
        neighbours: Names of the nearest images of each, where the rows do not know them.
    """
    packer = _Packer(neighbours is not None)
    missing: list[str] = []
    is_there = _FileLookup(origin.root)
    for row in rows:
        packer.add(row, is_kept=is_there(row.image))
        if packer.place[-1] < 0:
            missing.append(row.image)
    read = len(packer.place)
    if missing and (not origin.skips_missing or len(missing) == read):
        raise missing_images(missing, total=read, name=origin.name, root=origin.root)
    if not read:
        raise UnbagError(f"{origin.name} holds no pairs", expected="images with captions")
    near = packer.named(neighbours) if neighbours is not None else packer.numbered()
    return packer.packed(origin, near, len(missing))


@dataclass(frozen=True, eq=False)
class PackedPairs:
    """Pairs whose images are files."""

    about: str
    fingerprint: str
    has_edits: bool
    root: Path
    """Folder that names of images start from."""
    rows: bytearray
    end_N: IntArray
    """Where in `rows` each ends."""
    kinds: tuple[Kind, ...]
    near: IntArray
    """Places of nearest images, one pair after the other."""
    near_end_N: IntArray

    def __len__(self) -> int:
        """Images."""
        return len(self.end_N)

    def __getitem__(self, place: int) -> Pair:
        """The pair at this place; its image is opened later."""
        row = decompress(self.rows[_span(self.end_N, place)])
        name, image, captions, *edits = json.loads(row)
        return Pair(
            name,
            # Photographs of a user's own, which a camera may have stored on their side.
            FileImage(self.root / image, turn_upright=True),
            tuple(captions),
            tuple(self._edits(records) for records in edits[0]) if edits else ((),) * len(captions),
            tuple(self.near[_span(self.near_end_N, place)].tolist()),
        )

    def _edits(self, records: Sequence[tuple[int, str]]) -> tuple[Edit, ...]:
        return tuple(Edit(text, *self.kinds[kind], (0, 0)) for kind, text in records)


class PairRow(NamedTuple):
    """An image as a file names it."""

    id: str
    image: str
    captions: tuple[str, ...]
    edits: tuple[tuple[Edit, ...], ...] = ()
    """For each caption; nothing where no edits were made before."""
    nearest: tuple[int, ...] = ()
    """Numbers of rows, where the file itself knows them."""


@dataclass(frozen=True)
class PairsOrigin:
    """Where rows come from, and what is done about images that are not there."""

    name: str
    """For messages: form and file."""
    root: Path
    skips_missing: bool = False


class Kind(NamedTuple):
    """What is said of all edits of a kind. Its `repr` is part of fingerprints."""

    name: str
    is_positive: bool


@dataclass(eq=False)
class _Packer:
    """Collects rows until they become `PackedPairs`."""

    keeps_names: bool
    rows: bytearray = field(default_factory=bytearray)
    end: array[int] = field(default_factory=lambda: array("q"))
    place: array[int] = field(default_factory=lambda: array("q"))
    """Of each row that was read; -1 where it was left out."""
    nearest: list[tuple[int, ...]] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    """By place, where they are needed."""
    kinds: dict[Kind, int] = field(default_factory=dict)
    captions: int = 0
    has_edits: bool = False

    def add(self, row: PairRow, *, is_kept: bool) -> None:
        self.place.append(len(self.end) if is_kept else -1)
        if not is_kept:
            return
        if self.keeps_names:
            self.images.append(row.image)
        self.nearest.append(row.nearest)
        self.captions += len(row.captions)
        record: list[object] = [row.id, row.image, row.captions]
        if row.edits:
            self.has_edits = True
            record.append([[(self._kind(e), e.text) for e in edits] for edits in row.edits])
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        self.rows += compress(text.encode(), _LEVEL)
        self.end.append(len(self.rows))

    def _kind(self, edit: Edit) -> int:
        return self.kinds.setdefault(Kind(edit.kind, edit.is_positive), len(self.kinds))

    def named(self, neighbours: Mapping[str, Sequence[str]]) -> Iterator[list[int]]:
        """Places of neighbours by name; those that are not in the collection are left out."""
        place_of: dict[str, int] = {}
        for place, image in enumerate(self.images):
            place_of.setdefault(image, place)
        for image in self.images:
            yield [place_of[name] for name in neighbours.get(image, ()) if name in place_of]

    def numbered(self) -> Iterator[list[int]]:
        """Places of neighbours by the numbers of their rows."""
        for numbers in self.nearest:
            yield [self.place[number] for number in numbers if self.place[number] >= 0]

    def packed(self, origin: PairsOrigin, near: Iterable[list[int]], missing: int) -> PackedPairs:
        flat, ends = array("q"), array("q")
        for places in near:
            flat.extend(places)
            ends.append(len(flat))
        digest = blake2b(self.rows, digest_size=16)
        digest.update(repr(list(self.kinds)).encode() + flat.tobytes() + ends.tobytes())
        left_out = f", {missing:,} missing ones left out" if missing else ""
        return PackedPairs(
            about=f"{origin.name}: {len(self.end):,} images, {self.captions:,} captions" + left_out,
            fingerprint=digest.hexdigest(),
            has_edits=self.has_edits,
            root=origin.root,
            rows=self.rows,
            end_N=np.array(self.end, np.int64),
            kinds=tuple(self.kinds),
            near=np.array(flat, np.int64),
            near_end_N=np.array(ends, np.int64),
        )


def _span(end_N: IntArray, place: int) -> slice:
    return slice(int(end_N[place - 1]) if place else 0, int(end_N[place]))


def missing_images(missing: Sequence[str], *, total: int, name: str, root: Path) -> UnbagError:
    """The error for images that are not there."""
    more = ", ..." if len(missing) > _NAMED else ""
    return UnbagError(
        f"{len(missing):,} of {total:,} images of {name} are not there: "
        f"{', '.join(missing[:_NAMED])}{more}",
        expected=f"files below {root}",
        hint="name their folder with --images"
        + (", or train without them: --missing skip" if len(missing) < total else ""),
    )


@dataclass(eq=False)
class _FileLookup:
    """Asks folders for what they hold: a question a file would take minutes on a shared disk."""

    root: Path
    listed: dict[str, frozenset[str]] = field(default_factory=dict)

    def __call__(self, name: str) -> bool:
        """Whether there is such a file below the root, or at this absolute path."""
        folder, last = os.path.split(os.path.join(self.root, name))  # noqa: PTH118
        if folder not in self.listed:
            self.listed[folder] = frozenset()
            with suppress(OSError, ValueError), os.scandir(folder) as entries:
                self.listed[folder] = frozenset(entry.name for entry in entries if entry.is_file())
        if last in self.listed[folder]:
            return True
        # A disk may not care about case, so a name that is not listed is asked for.
        with suppress(OSError, ValueError):
            return Path(folder, last).is_file()
        return False
