"""Training pairs: images with true captions and, where the data has them, edits.

`pack` stores each row as compressed JSON, since edits repeat most words of their caption. An image
with one caption takes about 100 bytes, with eleven edits 230; with five captions 180, and 820 with
eleven edits each. Unpacking takes well under a millisecond, a tenth of the time of decoding a JPEG.

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
"""Compression level; higher levels are slower and save little on short rows."""


class Pairs(Protocol):
    """A sequence of pairs, one per image. The caller closes opened images."""

    @property
    def about(self) -> str:
        """Description: format, file name, number of images and captions, licence if stated."""

    @property
    def fingerprint(self) -> str:
        """Hash of the files: names, sizes, times or content."""

    @property
    def has_edits(self) -> bool:
        """Whether the data contains edits."""

    def __len__(self) -> int:
        """Images."""

    def __getitem__(self, place: int) -> Pair:
        """Read captions and edits; the image is opened later. Deterministic."""


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
    """Places of the nearest images, for NegCLIP's hard images."""


def pack(
    rows: Iterable[PairRow],
    origin: PairsOrigin,
    *,
    neighbours: Mapping[str, Sequence[str]] | None = None,
) -> PackedPairs:
    """Read all rows; missing images are reported together in one error.

    Args:
        rows: In the order of the file.
        origin: Where they come from.
        neighbours: Nearest images by name, where the rows themselves do not give them.
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
    """Folder that image paths are relative to."""
    rows: bytearray
    end_N: IntArray
    """End of each row in `rows`."""
    kinds: tuple[Kind, ...]
    near: IntArray
    """Places of nearest images, one pair after the other."""
    near_end_N: IntArray

    def __len__(self) -> int:
        """Images."""
        return len(self.end_N)

    def __getitem__(self, place: int) -> Pair:
        """Return the pair at a place; its image is opened later."""
        row = decompress(self.rows[_span(self.end_N, place)])
        name, image, captions, *edits = json.loads(row)
        return Pair(
            name,
            # Users' own photographs, which cameras may have stored rotated.
            FileImage(self.root / image, turn_upright=True),
            tuple(captions),
            tuple(self._edits(records) for records in edits[0]) if edits else ((),) * len(captions),
            tuple(self.near[_span(self.near_end_N, place)].tolist()),
        )

    def _edits(self, records: Sequence[tuple[int, str]]) -> tuple[Edit, ...]:
        return tuple(Edit(text, *self.kinds[kind], (0, 0)) for kind, text in records)


class PairRow(NamedTuple):
    """A pair as read from a file."""

    id: str
    image: str
    captions: tuple[str, ...]
    edits: tuple[tuple[Edit, ...], ...] = ()
    """For each caption; empty if the file has no edits."""
    nearest: tuple[int, ...] = ()
    """Row numbers of the nearest images, if the file gives them."""


@dataclass(frozen=True)
class PairsOrigin:
    """The source of pairs, and what to do about missing images."""

    name: str
    """Format and file, for messages."""
    root: Path
    skips_missing: bool = False


class Kind(NamedTuple):
    """A kind of edit. Its `repr` is part of fingerprints."""

    name: str
    is_positive: bool


@dataclass(eq=False)
class _Packer:
    """Collects rows until they become `PackedPairs`."""

    keeps_names: bool
    rows: bytearray = field(default_factory=bytearray)
    end: array[int] = field(default_factory=lambda: array("q"))
    place: array[int] = field(default_factory=lambda: array("q"))
    """Place of each row read; -1 if it was left out."""
    nearest: list[tuple[int, ...]] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    """Image names by place, if neighbours are given by name."""
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
        """Return the places of neighbours given by name; names without a pair are left out."""
        place_of: dict[str, int] = {}
        for place, image in enumerate(self.images):
            place_of.setdefault(image, place)
        for image in self.images:
            yield [place_of[name] for name in neighbours.get(image, ()) if name in place_of]

    def numbered(self) -> Iterator[list[int]]:
        """Return the places of neighbours given by row number."""
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
    """Return the error for missing images."""
    more = ", ..." if len(missing) > _NAMED else ""
    return UnbagError(
        f"{len(missing):,} of {total:,} images of {name} are missing: "
        f"{', '.join(missing[:_NAMED])}{more}",
        expected=f"files below {root}",
        hint="give their folder with --images"
        + (", or train without them: --missing skip" if len(missing) < total else ""),
    )


@dataclass(eq=False)
class _FileLookup:
    """Looks up files in folder listings: one check per file takes minutes on a shared disk."""

    root: Path
    listed: dict[str, frozenset[str]] = field(default_factory=dict)

    def __call__(self, name: str) -> bool:
        """Return whether the file exists below the root, or at this absolute path."""
        folder, last = os.path.split(os.path.join(self.root, name))  # noqa: PTH118
        if folder not in self.listed:
            self.listed[folder] = frozenset()
            with suppress(OSError, ValueError), os.scandir(folder) as entries:
                self.listed[folder] = frozenset(entry.name for entry in entries if entry.is_file())
        if last in self.listed[folder]:
            return True
        # The file system may ignore case, so check names that are not listed.
        with suppress(OSError, ValueError):
            return Path(folder, last).is_file()
        return False
