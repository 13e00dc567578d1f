"""A collection is read once before work begins: how much there is, and that nothing is broken."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from unbag.corpus.entries import Entry
from unbag.corpus.forms import entries
from unbag.corpus.source import Bad, Source
from unbag.errors import UserError


@dataclass(frozen=True)
class Survey:
    """What a collection holds."""

    captions: int
    pictures: int
    """Entries: captions without a picture are one each."""
    nameless: int
    """Captions without a picture."""
    come_back: int
    """Pictures that come again after others: their captions are not checked against each other."""
    bad: int
    """Broken lines that are left out."""
    bad_named: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"bad_named": list(self.bad_named)}

    @staticmethod
    def from_json(said: dict[str, Any]) -> Survey:
        """What `as_json` wrote."""
        return Survey(**(said | {"bad_named": tuple(said["bad_named"])}))


def surveyed(source: Source) -> Survey:
    """Read all of it; raises UserError for what is broken, missing or there twice."""
    bad = Bad(source.skips_bad)
    ids, pictures = array("Q"), array("Q")
    nameless = count = 0
    before = ""
    for entry in entries(source, bad):
        count += 1
        ids.extend(_hash(caption.id) for caption in entry.captions)
        if not entry.picture:
            nameless += len(entry.captions)
        elif entry.picture != before:
            pictures.append(_hash(entry.picture))
        before = entry.picture
    if not ids:
        raise UserError(
            f"{source.name} holds no captions"
            + (f", only {bad.count} broken lines, first {bad.named[0]}" if bad.count else ""),
            expected="at least one",
        )
    _check_once(_repeated(ids), source)
    back = len(_repeated(pictures))
    return Survey(len(ids), count, nameless, back, bad.count, tuple(bad.named))


def _check_once(repeated: set[int], source: Source) -> None:
    """Two captions must not have one id: it decides what is drawn for them."""
    if not repeated:
        return
    name, first, second = _places(entries(source), repeated)
    raise UserError(
        f"two captions have the id {name!r}: {first} and {second}",
        expected="an id for each caption",
        way_out="mend the ids; without a field or column id they are made from the line",
    )


def _places(found: Iterable[Entry], repeated: set[int]) -> tuple[str, str, str]:
    seen: dict[str, str] = {}
    for entry in found:
        for caption in entry.captions:
            if caption.id in seen:
                return caption.id, seen[caption.id], caption.where
            if _hash(caption.id) in repeated:
                seen[caption.id] = caption.where
    raise UserError("the captions changed while they were read", way_out="try again")


def _repeated(hashes: array[int]) -> set[int]:
    # Eight bytes a caption and a sort: a set of names would not fit for a hundred million.
    sorted_N = np.sort(np.frombuffer(hashes, dtype=np.uint64))
    return set(np.unique(sorted_N[1:][sorted_N[1:] == sorted_N[:-1]]).tolist())


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
