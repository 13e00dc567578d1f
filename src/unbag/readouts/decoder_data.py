"""Pairs or scenes come in; frozen features of their pictures and what is said of them go out.

Dimensions: N pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import torch
from torch import Tensor

from unbag.engine.progress import Progress
from unbag.errors import UserError
from unbag.readouts.decoder_model import view_of
from unbag.readouts.decoder_net import picture_tokens
from unbag.readouts.decoder_questions import Fact
from unbag.readouts.decoder_settings import DecoderSettings
from unbag.readouts.parts import stacked
from unbag.readouts.pool_pairs import Row, rows_of
from unbag.readouts.pool_world import WorldRows, world_pool, world_rows
from unbag.readouts.store import PartsStore
from unbag.train.left_out import left_out_lines
from unbag.train.repair import WORLD, Wanted, Where
from unbag.types import DualEncoder, Picture

HELD, MOST_HELD = 0.1, 2_000
"""Share of the pictures that no step sees, and the most of them."""
MOST_BYTES = 24 << 30
"""Of features that are kept in memory."""
_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class Material:
    """All that training needs of the data."""

    seen_NLV: Tensor | None
    """Features of the pictures; None where none is seen."""
    facts: tuple[Fact, ...]
    count: int
    """Pictures, those that are kept apart included."""
    about: str
    fingerprint: str

    @property
    def held(self) -> int:
        """Pictures at the end that no step sees; of two opposite ones both or none."""
        first = self.count - min(MOST_HELD, int(HELD * self.count))
        while 0 < first < self.count and self._are_opposite(first - 1, first):
            first += 1
        return self.count - first

    def _are_opposite(self, picture: int, other: int) -> bool:
        """Whether captions of the two are each other's edits."""
        own, rest = ([f for f in self.facts if f.picture == p] for p in (picture, other))
        return any(a.caption in b.negatives and b.caption in a.negatives for a in own for b in rest)


def gather(
    encoder: DualEncoder,
    wanted: Wanted,
    settings: DecoderSettings,
    *,
    seed: int,
    where: Where,
    progress: Progress,
) -> Material:
    """Scenes of the world, or pairs of a file; each picture is encoded once."""
    if wanted.path == WORLD:
        rows = world_rows(settings.scenes, seed=seed, workers=where.workers, progress=progress)
        return of_world(encoder, rows, settings, progress=progress)
    # Neighbours are for recipes with hard pictures, of which there are none here.
    pairs = replace(wanted, neighbours=None).opened()
    found = _of_pairs(encoder, rows_of(pairs), settings, where=where, progress=progress)
    return replace(found, about=pairs.about)


def of_world(
    encoder: DualEncoder,
    rows: Sequence[WorldRows],
    settings: DecoderSettings,
    *,
    device: str = "cpu",
    progress: Progress,
) -> Material:
    """Scenes that were made before; features are kept on `device`."""
    captions = [caption for some in rows for caption in some.captions]
    negatives = [one for some in rows for one in some.negatives]
    seen_NLV = None
    if settings.sees != "nothing":
        kept = torch.float16 if settings.keeps == "float16" else torch.float32
        pool = world_pool(
            encoder, view_of(settings), rows, dtype=kept, device=device, progress=progress
        )
        seen_NLV = picture_tokens(pool.picture, settings)
    return Material(
        seen_NLV,
        tuple(_fact(n, *both) for n, both in enumerate(zip(captions, negatives, strict=True))),
        len(captions),
        f"{len(captions):,} scenes of the built-in world",
        _digest(captions, negatives),
    )


def _of_pairs(
    encoder: DualEncoder,
    rows: Sequence[Row],
    settings: DecoderSettings,
    *,
    where: Where,
    progress: Progress,
) -> Material:
    pictures = {row.picture.key: row.picture for row in rows}
    seen_NLV, damaged = None, frozenset[str]()
    if settings.sees != "nothing":
        store = PartsStore(encoder, view_of(settings), cache=where.cache, progress=progress)
        store.meet(list(pictures.values()), [])
        damaged = frozenset(store.damaged)
        for line in left_out_lines({pictures[k].name: why for k, why in store.damaged.items()}):
            progress.say(line)
        pictures = {key: one for key, one in pictures.items() if key not in damaged}
        if not pictures:
            raise UserError("no picture can be opened", expected="at least one, to train on")
        seen_NLV = _features(store, list(pictures.values()), settings)
    place_of = {key: n for n, key in enumerate(pictures)}
    whole = [row for row in rows if row.picture.key not in damaged]
    return Material(
        seen_NLV,
        tuple(_fact(place_of[row.picture.key], row.caption, row.negatives) for row in whole),
        len(pictures),
        "",
        _digest([f"{row.picture.key}\0{row.caption}" for row in whole],
                [row.negatives for row in whole]),
    )  # fmt: skip


def _features(
    store: PartsStore, pictures: Sequence[Picture], settings: DecoderSettings
) -> Tensor | None:
    size = store.pictures(pictures[:1]).part_NLW.nbytes * len(pictures)
    if settings.sees == "patches" and size > MOST_BYTES:
        raise UserError(
            f"patches of {len(pictures):,} pictures take {size >> 30} gigabytes",
            expected=f"at most {MOST_BYTES >> 30}, since a decoder is trained from memory",
            way_out="train on fewer pictures",
        )
    found = [
        store.pictures(pictures[at : at + _AT_ONCE]) for at in range(0, len(pictures), _AT_ONCE)
    ]
    return picture_tokens(stacked(found), settings)


def _fact(picture: int, caption: str, negatives: Sequence[str | None]) -> Fact:
    some = (one for one in negatives if one is not None and one != caption)
    return Fact(picture, caption, tuple(dict.fromkeys(some)))


def _digest(captions: Sequence[str], negatives: Sequence[Sequence[str | None]]) -> str:
    digest = blake2b(digest_size=12)
    for both in zip(captions, negatives, strict=True):
        digest.update(repr(both).encode())
    return f"facts-{digest.hexdigest()}"
