"""Webdataset shards: read captions to edit, write shards with edits, open training pairs.

A key is a name up to its first dot; a sample is consecutive files with one key. Nothing is unpacked
to disk: editing copies every member unchanged, and training indexes the headers once and reads a
member only when it is needed.
"""

from __future__ import annotations

import tarfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbag.data.captions import (
    Bad,
    EditedEntries,
    Edits,
    Entry,
    Source,
    already_edited_error,
    captions_at,
    captions_in,
    clean_captions,
    decoded,
    edited_record,
    edits_in,
    json_line,
    json_record,
    json_value,
    read_entries,
)
from unbag.data.images import MemberImage, read_part
from unbag.data.pairs import Pair
from unbag.errors import UnbagError
from unbag.types import IntArray

EDITS_ENDING = "edits.json"
IMAGE_ENDINGS = ("jpg", "jpeg", "png", "webp")
PART = np.dtype([("start", np.int64), ("size", np.uint32)])
"""Location of a member in its shard; size 0 if it is absent."""
SAMPLE = np.dtype([("image", PART), ("text", PART), ("record", PART), ("edits", PART)])


def read_shards(source: Source, bad: Bad) -> Iterator[Entry]:
    """Yield one entry per sample; a sample without a caption is malformed."""
    paths = source.files()
    seen: dict[str, Path] = {}
    for path in paths:
        if path.name in seen:
            raise UnbagError(
                f"two shards have the same name: {seen[path.name]} and {path}",
                expected="a different name for each shard, since they are written to one folder",
            )
        seen[path.name] = path
    for path in paths:
        with opened_shard(path) as shard:
            keyed = (sample for sample in samples(shard, path.stem) if sample.place.key)
            yield from read_entries(keyed, partial(_entry, shard, source), bad)


def write_shards(pairs: EditedEntries, folder: Path) -> None:
    """Write shards of the same names, with KEY.edits.json in every sample that was read."""
    folder.mkdir()
    flow = iter(pairs)
    pair = next(flow, None)
    for path in pairs.source.files():
        if pair is None and pairs.source.limit is not None:
            return
        with opened_shard(path) as shard, tarfile.open(folder / path.name, "w") as new:
            for sample in samples(shard, path.stem):
                for member in sample.members:
                    new.addfile(member, shard.extractfile(member) if member.isreg() else None)
                if pair is not None and pair.entry.rest[0] == sample.place:
                    content = json_line([edited_record(edited) for edited in pair.edited]).encode()
                    info = tarfile.TarInfo(f"{sample.place.key}.{EDITS_ENDING}")
                    info.size, info.mtime = len(content), sample.members[0].mtime
                    new.addfile(info, BytesIO(content))
                    pair = next(flow, None)
                    if pair is None and pairs.source.limit is not None:
                        break


def _entry(shard: tarfile.TarFile, source: Source, sample: ShardSample) -> Entry:
    place = sample.place
    where = f"{place.shard}.tar, sample {place.key!r}"
    if sample.ending(EDITS_ENDING):
        raise already_edited_error(where)
    text, record_member = sample.ending("txt"), sample.ending("json")
    texts: str | tuple[str, ...]
    if text and not source.caption_column:
        texts = decoded(_content(shard, text), where)
    elif record_member:
        texts = captions_in(
            json_record(_content(shard, record_member), where), source.caption_column, where
        )
    else:
        names = ", ".join(m.name for m in sample.members[:5])
        raise UnbagError(f"{where} has no caption, only {names}", expected="KEY.txt or KEY.json")
    captions = captions_at(texts, f"{place.shard}/{place.key}", where)
    image = next((m.name for end in IMAGE_ENDINGS if (m := sample.ending(end))), "")
    return Entry(image, captions, (place,) * len(captions))


def _content(shard: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = shard.extractfile(member)
    assert file is not None
    return file.read()


@contextmanager
def opened_shard(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a shard for reading; a truncated one raises UnbagError when its end is reached."""
    try:
        with tarfile.open(path, "r:") as shard:
            yield shard
    except tarfile.TarError as error:
        raise UnbagError(
            f"{path} is not a complete shard: {error}",
            expected="an uncompressed tar file",
            hint="check that it was copied completely",
        ) from error


def samples(shard: tarfile.TarFile, name: str) -> Iterator[ShardSample]:
    """Group members into samples; folders and links belong to the sample before them."""
    current = ShardSample(SamplePlace(name, "", 0))
    for number, member in enumerate(shard):
        folder, slash, last = member.name.rpartition("/")
        key = folder + slash + last.partition(".")[0] if member.isreg() else current.place.key
        if key != current.place.key:
            if current.members:
                yield current
            current = ShardSample(SamplePlace(name, key, number))
        current.members.append(member)
    if current.members:
        yield current


@dataclass(eq=False)
class ShardSample:
    """The members of a shard that share one key."""

    place: SamplePlace
    members: list[tarfile.TarInfo] = field(default_factory=list)

    def ending(self, name: str) -> tarfile.TarInfo | None:
        """Return the member with this extension, if there is one."""
        full_name = f"{self.place.key}.{name}"
        return next((m for m in self.members if m.name.lower() == full_name.lower()), None)


class SamplePlace(NamedTuple):
    """Identifies a sample: shard, key and number of its first member."""

    shard: str
    key: str
    number: int
    """Number of its first member in the shard, since a key may occur twice."""


def open_shards(
    source: Source, *, neighbours: Mapping[str, Sequence[str]] | None = None
) -> ShardPairs:
    """Index the shards; `neighbours` name images as the shards do."""
    bad = Bad(source.skips_bad)
    index = index_shards(source.files(), bad)
    digest = blake2b(index.sample_N.tobytes(), digest_size=16)
    near: dict[int, tuple[int, ...]] | None = None
    if neighbours is not None:
        place_of = {index.name(place): place for place in reversed(range(len(index)))}
        near_places = (
            (
                place,
                tuple(
                    place_of[neighbour]
                    for neighbour in neighbours.get(name, ())
                    if neighbour in place_of
                ),
            )
            for name, place in place_of.items()
        )
        near = {place: places for place, places in near_places if places}
    for part in ([path.name for path in index.shards], sorted((near or {}).items())):
        digest.update(repr(part).encode())
    digest.update(index.names + index.end_S.tobytes() + source.caption_column.encode())
    left_out = f", {bad.count:,} malformed samples left out" if bad.count else ""
    return ShardPairs(
        about=f"{len(index.shards):,} webdataset shards {source.name}: {len(index):,} images"
        + left_out,
        fingerprint=digest.hexdigest(),
        has_edits=bool(np.any(index.sample_N["edits"]["size"])),
        index=index,
        caption_column=source.caption_column,
        near=near,
    )


@dataclass(frozen=True, eq=False)
class ShardPairs:
    """Pairs that are read from shards on access."""

    about: str
    fingerprint: str
    has_edits: bool
    index: ShardIndex
    caption_column: str = ""
    near: Mapping[int, tuple[int, ...]] | None = None
    """Places of the nearest images of each."""

    @property
    def block_ends(self) -> IntArray:
        """End of each shard: samples of one shard are read fastest in sequence."""
        return self.index.end_S

    def __len__(self) -> int:
        """Images."""
        return len(self.index)

    def __getitem__(self, place: int) -> Pair:
        """Read captions and edits; UnbagError if they cannot be read."""
        path, name = self.index.shard(place), self.index.name(place)
        sample = self.index.sample_N[place]
        image = MemberImage(path, name, *_part_span(sample["image"]))
        captions, edits = self._captions(path, place, f"{path.name}, sample {name!r}")
        near = self.near.get(place, ()) if self.near else ()
        return Pair(f"{path.stem}/{name}", image, captions, edits, near)

    def _captions(self, path: Path, place: int, where: str) -> tuple[tuple[str, ...], Edits]:
        sample = self.index.sample_N[place]
        if sample["edits"]["size"]:
            return _edited(_part_content(path, sample["edits"], where), where)
        texts: str | tuple[str, ...]
        if sample["text"]["size"] and not self.caption_column:
            texts = decoded(_part_content(path, sample["text"], where), where)
        else:
            record = json_record(_part_content(path, sample["record"], where), where)
            texts = captions_in(record, self.caption_column, where)
        captions = clean_captions(texts, where)
        return captions, ((),) * len(captions)


def _edited(raw: bytes, where: str) -> tuple[tuple[str, ...], Edits]:
    """Parse KEY.edits.json: a list of captions, each with its edits."""
    value = json_value(raw, where)
    records = value if isinstance(value, list) else []
    if not records or not all(isinstance(record, dict) for record in records):
        raise UnbagError(
            f"{where}: edits.json is not a list of objects", expected="as `unbag edit` writes it"
        )
    non_empty = [record for record in records if str(record.get("caption", "")).strip()]
    texts = clean_captions(tuple(str(record["caption"]) for record in non_empty), where)
    return texts, tuple(edits_in(record.get("edits", []), None, where)[0] for record in non_empty)


def _part_content(path: Path, part: np.void, where: str) -> bytes:
    try:
        return read_part(path, *_part_span(part))
    except (OSError, ValueError) as error:
        raise UnbagError(f"{where} cannot be read: {error}") from error


def _part_span(part: np.void) -> tuple[int, int]:
    return int(part["start"]), int(part["size"])


def index_shards(paths: list[Path], bad: Bad) -> ShardIndex:
    """Index all samples; an empty shard, and a sample without image or caption, are errors."""
    names, name_ends, ends = bytearray(), array("q"), array("q")
    sample_arrays: list[NDArray[np.void]] = []
    for path in paths:
        rows: list[tuple[tuple[int, int], ...]] = []
        for name, row in _index_rows(path, bad):
            rows.append(row)
            names += name.encode()
            name_ends.append(len(names))
        if not rows:
            raise UnbagError(
                f"the shard {path} contains no sample with an image and a caption",
                expected="samples such as 000.jpg with 000.txt",
                hint="remove it, or create it again",
            )
        sample_arrays.append(np.array(rows, SAMPLE))
        ends.append(len(name_ends))
    sample_N = np.concatenate(sample_arrays)
    return ShardIndex(
        tuple(paths), sample_N, np.array(ends, np.int64), names, np.array(name_ends, np.int64)
    )


@dataclass(frozen=True, eq=False)
class ShardIndex:
    """Samples of all shards, in order."""

    shards: tuple[Path, ...]
    sample_N: NDArray[np.void]
    """Of type SAMPLE."""
    end_S: NDArray[np.int64]
    """Number of samples up to the end of each shard."""
    names: bytearray
    """Names of image members, concatenated."""
    name_end_N: NDArray[np.int64]

    def __len__(self) -> int:
        """Samples."""
        return len(self.sample_N)

    def name(self, at: int) -> str:
        """Return the name of the image member."""
        start = int(self.name_end_N[at - 1]) if at else 0
        return self.names[start : int(self.name_end_N[at])].decode()

    def shard(self, at: int) -> Path:
        """Return the shard that contains a sample."""
        return self.shards[int(np.searchsorted(self.end_S, at, side="right"))]


def _index_rows(path: Path, bad: Bad) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    with opened_shard(path) as shard:
        for sample in samples(shard, path.stem):
            if not sample.place.key:
                continue
            image = next((m for end in IMAGE_ENDINGS if (m := sample.ending(end))), None)
            members = [sample.ending(end) for end in ("txt", "json", EDITS_ENDING)]
            if image is None or not any(members):
                missing = "caption" if image else "image"
                names = ", ".join(member.name for member in sample.members[:5])
                error = UnbagError(
                    f"{path.name}, sample {sample.place.key!r} has no {missing}, only {names}",
                    expected=f"KEY.{' or KEY.'.join(IMAGE_ENDINGS)}, and KEY.txt or KEY.json",
                )
                bad(error)
                continue
            yield (
                image.name,
                tuple((m.offset_data, m.size) if m else (0, 0) for m in (image, *members)),
            )
