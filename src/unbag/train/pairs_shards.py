"""Webdataset shards come in; pairs go out that are read from them when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from unbag.corpus.edits_read import Edits, edits_in
from unbag.corpus.source import Bad, Source, captions_in, decoded, json_record, json_value
from unbag.errors import UserError
from unbag.pictures.members import MemberPicture, read_part
from unbag.train.pairs import Pair
from unbag.train.shard_index import ShardIndex, index_shards
from unbag.types import IntArray

_NO_NEAREST: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class ShardPairs:
    """Samples of shards."""

    about: str
    fingerprint: str
    has_edits: bool
    index: ShardIndex
    caption_column: str = ""
    near: Mapping[int, tuple[int, ...]] | None = None
    """Places of the nearest pictures of each."""

    @property
    def block_ends(self) -> IntArray:
        """Places at which shards end: samples of one are read quickest one after the other."""
        return self.index.end_S

    def __len__(self) -> int:
        """Pictures."""
        return len(self.index)

    def __getitem__(self, place: int) -> Pair:
        """Reads caption and edits; raises UserError for those that cannot be read."""
        path, name = self.index.shard(place), self.index.name(place)
        sample = self.index.sample_N[place]
        picture = MemberPicture(path, name, *_part(sample["picture"]))
        captions, edits = self._said(path, place, f"{path.name}, sample {name!r}")
        near = (self.near or {}).get(place, _NO_NEAREST)
        return Pair(f"{path.stem}/{name}", picture, captions, edits, near)

    def _said(self, path: Path, place: int, where: str) -> tuple[tuple[str, ...], Edits]:
        sample = self.index.sample_N[place]
        if sample["edits"]["size"]:
            return _edited(_content(path, sample["edits"], where), where)
        found: str | tuple[str, ...]
        if sample["text"]["size"] and not self.caption_column:
            found = decoded(_content(path, sample["text"], where), where)
        else:
            said = json_record(_content(path, sample["record"], where), where)
            found = captions_in(said, self.caption_column, where)
        texts = (found,) if isinstance(found, str) else found
        kept = tuple(text for one in texts if (text := " ".join(one.split())))
        if not kept:
            raise UserError(
                f"{where} has an empty caption", expected="a caption that says anything"
            )
        return kept, ((),) * len(kept)


def open_shards(
    source: Source, *, neighbours: Mapping[str, Sequence[str]] | None = None
) -> ShardPairs:
    """Index the shards; `neighbours` are named as pictures are within shards."""
    bad = Bad(source.skips_bad)
    index = index_shards(source.files(), bad)
    digest = blake2b(index.sample_N.tobytes(), digest_size=16)
    near = _places(index, neighbours) if neighbours is not None else None
    for part in ([path.name for path in index.shards], sorted((near or {}).items())):
        digest.update(repr(part).encode())
    digest.update(index.names + index.end_S.tobytes() + source.caption_column.encode())
    left_out = f", {bad.count:,} broken samples left out" if bad.count else ""
    return ShardPairs(
        about=f"{len(index.shards):,} webdataset shards {source.name}: {len(index):,} pictures"
        + left_out,
        fingerprint=digest.hexdigest(),
        has_edits=bool(np.any(index.sample_N["edits"]["size"])),
        index=index,
        caption_column=source.caption_column,
        near=near,
    )


def _edited(raw: bytes, where: str) -> tuple[tuple[str, ...], Edits]:
    """Of KEY.edits.json: a list of captions, each with its edits."""
    found = json_value(raw, where)
    records = found if isinstance(found, list) else []
    if not records or not all(isinstance(one, dict) for one in records):
        raise UserError(
            f"{where}: edits.json is no list of objects", expected="as `unbag edit` writes it"
        )
    kept = [one for one in records if str(one.get("caption", "")).strip()]
    texts = tuple(" ".join(str(one["caption"]).split()) for one in kept)
    if not texts:
        raise UserError(f"{where} has an empty caption", expected="a caption that says anything")
    return texts, tuple(edits_in(one.get("edits", []), None, where)[0] for one in kept)


def _content(path: Path, part: np.void, where: str) -> bytes:
    try:
        return read_part(path, *_part(part))
    except (OSError, ValueError) as error:
        raise UserError(f"{where} cannot be read: {error}") from error


def _part(part: np.void) -> tuple[int, int]:
    return int(part["start"]), int(part["size"])


def _places(
    index: ShardIndex, neighbours: Mapping[str, Sequence[str]]
) -> dict[int, tuple[int, ...]]:
    place_of = {index.name(place): place for place in reversed(range(len(index)))}
    return {
        place: found
        for name, place in place_of.items()
        if (found := tuple(place_of[n] for n in neighbours.get(name, ()) if n in place_of))
    }
