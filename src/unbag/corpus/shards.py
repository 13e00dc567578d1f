"""Webdataset shards in and out: a sample is the files of one key; edits go out beside them.

A key is a name up to its first dot, and a sample is files of one key that follow each other.
Nothing is unpacked to disk; every member goes through unchanged.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from unbag.corpus.entries import Caption, Entry
from unbag.corpus.source import Bad, Source, captions_in, decoded, edited_before, json_record
from unbag.corpus.written import Pair, Pairs, as_json, record
from unbag.errors import UserError

EDITS_ENDING = "edits.json"
PICTURES = ("jpg", "jpeg", "png", "webp")


class Place(NamedTuple):
    """Where a sample stands."""

    shard: str
    key: str
    number: int
    """Of its first member in the shard: a key may come twice."""


@dataclass(eq=False)
class Sample:
    """Members of one key."""

    place: Place
    members: list[tarfile.TarInfo] = field(default_factory=list)

    def ending(self, name: str) -> tarfile.TarInfo | None:
        """The member with this ending."""
        wanted = f"{self.place.key}.{name}"
        return next((m for m in self.members if m.name.lower() == wanted.lower()), None)


def read(source: Source, bad: Bad) -> Iterator[Entry]:
    """One entry a sample; a sample without a caption is broken."""
    paths = source.files()
    _check_names(paths)
    for path in paths:
        with opened(path) as shard:
            for sample in samples(shard, path.stem):
                if not sample.place.key:
                    continue
                try:
                    entry = _entry(shard, sample, source)
                except UserError as error:
                    bad(error)
                else:
                    yield entry


def write(pairs: Pairs, folder: Path) -> None:
    """Shards of the same names in a folder, with KEY.edits.json in every sample that was read."""
    folder.mkdir()
    flow = iter(pairs)
    pair = next(flow, None)
    for path in pairs.source.files():
        if pair is None and pairs.source.limit is not None:
            return
        with opened(path) as shard, tarfile.open(folder / path.name, "w") as new:
            for sample in samples(shard, path.stem):
                for member in sample.members:
                    new.addfile(member, shard.extractfile(member) if member.isreg() else None)
                if _place_of(pair) == sample.place:
                    assert pair is not None
                    _add_edits(new, sample, pair)
                    pair = next(flow, None)
                    if pair is None and pairs.source.limit is not None:
                        break


def _entry(shard: tarfile.TarFile, sample: Sample, source: Source) -> Entry:
    place = sample.place
    where = f"{place.shard}.tar, sample {place.key!r}"
    if sample.ending(EDITS_ENDING):
        raise edited_before(where)
    text, said = sample.ending("txt"), sample.ending("json")
    found: str | tuple[str, ...]
    if text and not source.caption_column:
        found = decoded(_content(shard, text), where)
    elif said:
        found = captions_in(json_record(_content(shard, said), where), source.caption_column, where)
    else:
        there = ", ".join(m.name for m in sample.members[:5])
        raise UserError(f"{where} has no caption, only {there}", expected="KEY.txt or KEY.json")
    name = f"{place.shard}/{place.key}"
    texts = (found,) if isinstance(found, str) else found
    names = [name] if isinstance(found, str) else [f"{name}#{at}" for at in range(len(texts))]
    captions = tuple(Caption(n, t, where) for n, t in zip(names, texts, strict=True))
    picture = next((m.name for end in PICTURES if (m := sample.ending(end))), "")
    return Entry(picture, captions, (place,) * len(captions))


def samples(shard: tarfile.TarFile, name: str) -> Iterator[Sample]:
    """Members in order; folders and links stand with the sample before them."""
    current = Sample(Place(name, "", 0))
    for number, member in enumerate(shard):
        key = _key(member.name) if member.isreg() else current.place.key
        if key != current.place.key:
            if current.members:
                yield current
            current = Sample(Place(name, key, number))
        current.members.append(member)
    if current.members:
        yield current


def _key(name: str) -> str:
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(".")[0]


def _content(shard: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = shard.extractfile(member)
    assert file is not None
    return file.read()


def _place_of(pair: Pair | None) -> object:
    return pair.entry.rest[0] if pair else None


def _add_edits(new: tarfile.TarFile, sample: Sample, pair: Pair) -> None:
    content = as_json([record(one) for one in pair.edited]).encode()
    info = tarfile.TarInfo(f"{sample.place.key}.{EDITS_ENDING}")
    info.size, info.mtime = len(content), sample.members[0].mtime
    new.addfile(info, BytesIO(content))


@contextmanager
def opened(path: Path) -> Iterator[tarfile.TarFile]:
    """A shard for reading; one that was cut short is an error when its end is met."""
    try:
        with tarfile.open(path, "r:") as shard:
            yield shard
    except tarfile.TarError as error:
        raise UserError(
            f"{path} is no whole shard: {error}",
            expected="an uncompressed tar file",
            way_out="check that it was copied to its end",
        ) from error


def _check_names(paths: list[Path]) -> None:
    seen: dict[str, Path] = {}
    for path in paths:
        if path.name in seen:
            raise UserError(
                f"two shards have the same name: {seen[path.name]} and {path}",
                expected="shards with names of their own, since they are written to one folder",
            )
        seen[path.name] = path
