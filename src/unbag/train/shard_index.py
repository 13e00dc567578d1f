"""Webdataset shards come in; where each sample's members stand goes out, some 70 bytes a sample.

Headers alone are read, by seeking from one to the next: a shard is never unpacked, and pictures
are not touched before they are wanted.
"""

from __future__ import annotations

import tarfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unbag.corpus.shards import EDITS_ENDING, PICTURES, Sample, opened, samples
from unbag.corpus.source import Bad
from unbag.errors import UserError

_TEXT, _RECORD = "txt", "json"
PART = np.dtype([("start", np.int64), ("size", np.uint32)])
"""A member's place in its shard; size 0 where there is none."""
SAMPLE = np.dtype([("picture", PART), ("text", PART), ("record", PART), ("edits", PART)])


@dataclass(frozen=True, eq=False)
class ShardIndex:
    """Samples of all shards, in order."""

    shards: tuple[Path, ...]
    sample_N: NDArray[np.void]
    """Of type SAMPLE."""
    end_S: NDArray[np.int64]
    """Samples up to the end of each shard."""
    names: bytearray
    """Names of picture members, one after the other."""
    name_end_N: NDArray[np.int64]

    def __len__(self) -> int:
        """Samples."""
        return len(self.sample_N)

    def name(self, at: int) -> str:
        """Of the picture."""
        start = int(self.name_end_N[at - 1]) if at else 0
        return self.names[start : int(self.name_end_N[at])].decode()

    def shard(self, at: int) -> Path:
        """That a sample stands in."""
        return self.shards[int(np.searchsorted(self.end_S, at, side="right"))]


def index_shards(paths: list[Path], bad: Bad) -> ShardIndex:
    """Read all headers; an empty shard, and a sample without picture or caption, are errors."""
    names, name_ends, ends = bytearray(), array("q"), array("q")
    found: list[NDArray[np.void]] = []
    for path in paths:
        rows: list[tuple[tuple[int, int], ...]] = []
        for name, row in _rows(path, bad):
            rows.append(row)
            names += name.encode()
            name_ends.append(len(names))
        if not rows:
            raise UserError(
                f"the shard {path} holds no sample with a picture and a caption",
                expected="samples such as 000.jpg with 000.txt",
                way_out="remove it, or make it anew",
            )
        found.append(np.array(rows, SAMPLE))
        ends.append(len(name_ends))
    sample_N = np.concatenate(found)
    return ShardIndex(
        tuple(paths), sample_N, np.array(ends, np.int64), names, np.array(name_ends, np.int64)
    )


def _rows(path: Path, bad: Bad) -> Iterator[tuple[str, tuple[tuple[int, int], ...]]]:
    with opened(path) as shard:
        for sample in samples(shard, path.stem):
            if not sample.place.key:
                continue
            picture = next((m for end in PICTURES if (m := sample.ending(end))), None)
            members = [sample.ending(end) for end in (_TEXT, _RECORD, EDITS_ENDING)]
            if picture is None or not any(members):
                bad(_lacking(path, sample, "caption" if picture else "picture"))
                continue
            yield picture.name, tuple(_part(member) for member in (picture, *members))


def _part(member: tarfile.TarInfo | None) -> tuple[int, int]:
    return (member.offset_data, member.size) if member else (0, 0)


def _lacking(path: Path, sample: Sample, what: str) -> UserError:
    there = ", ".join(member.name for member in sample.members[:5])
    return UserError(
        f"{path.name}, sample {sample.place.key!r} has no {what}, only {there}",
        expected=f"KEY.{' or KEY.'.join(PICTURES)}, and KEY.txt or KEY.json",
    )
