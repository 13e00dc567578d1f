"""Pairs of a user and a frozen encoder come in; a pool of their parts goes out.

Dimensions: N rows, K negatives of a caption.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor

from unbag.captions.changes import normalised
from unbag.engine.progress import Progress
from unbag.errors import PictureError, UserError
from unbag.readouts.parts import Parts, View, stacked
from unbag.readouts.pasted_written import pair_name
from unbag.readouts.pool import Pool, kept
from unbag.readouts.store import PartsStore
from unbag.reports.wording import count_text
from unbag.train.batch import FindTruth, Said
from unbag.train.equal import code_of, find_equal
from unbag.train.left_out import left_out_lines
from unbag.train.pairs import Pair, Pairs
from unbag.types import DualEncoder, Picture

NEGATIVES = 4
"""Hard negatives of a caption that are kept, of different kinds where there are as many."""
MOST_BYTES = 12 << 30
"""Of features that are kept in memory, in half precision."""
_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class Row:
    """A picture, a caption that fits it, and some that do not."""

    picture: Picture
    caption: str
    negatives: tuple[str | None, ...] = ()


def rows_of(pairs: Pairs, *, progress: Progress | None = None) -> list[Row]:
    """A row for each caption; pairs that cannot be read are left out, and counted."""
    found: list[Row] = []
    bad: list[UserError] = []
    for place in range(len(pairs)):
        try:
            pair = pairs[place]
        except UserError as error:
            bad.append(error)
            continue
        found += [Row(pair.picture, c, _negatives(pair, at)) for at, c in enumerate(pair.captions)]
    if not found:
        raise UserError(
            f"no pair can be read: {pairs.about}", expected="pictures with captions to train on"
        )
    if bad and progress is not None:
        verb = "is" if len(bad) == 1 else "are"
        said = f"{count_text(len(bad), 'pair')} cannot be read and {verb} left out"
        progress.say(f"{said}: {bad[0].found}")
    return found


def mixed(rows: Sequence[Row]) -> list[Row]:
    """Pictures in an order that only their names decide, rows of one picture together.

    The last of them can then be kept apart: they are like all the others. Two opposite pictures
    that were pasted stand beside each other.
    """
    return sorted(rows, key=lambda row: (_drawn(pair_name(row.picture.name)), row.picture.name))


def _drawn(name: str) -> bytes:
    return blake2b(name.encode(errors="replace")).digest()


def pool_of(
    rows: Sequence[Row],
    encoder: DualEncoder,
    view: View,
    *,
    cache: Path | None,
    progress: Progress,
    about: str,
    code: Mapping[str, Tensor] | None = None,
    find_truth: FindTruth | None = None,
    group: int = 1,
) -> Pool:
    """Parts of all rows; without a code, equal captions and pictures are found by their text."""
    store = PartsStore(encoder, view, cache=cache, progress=progress)
    pictures = {row.picture.key: row.picture for row in rows}
    every = [text for row in rows for text in (row.caption, *row.negatives) if text is not None]
    texts = list(dict.fromkeys(every))
    _check_size(store, list(pictures.values()), texts)
    store.meet(list(pictures.values()), texts)
    whole = [row for row in rows if row.picture.key not in store.damaged]
    if store.damaged:
        for line in left_out_lines({pictures[k].name: why for k, why in store.damaged.items()}):
            progress.say(line)
        if group > 1 or code is not None:
            raise UserError(
                f"{count_text(len(store.damaged), 'picture')} cannot be read",
                expected="all of them, since each has its opposite",
            )
    if not whole:
        raise UserError("no picture can be opened", expected="at least one, to train on")
    place_of = {key: at for at, key in enumerate(dict.fromkeys(r.picture.key for r in whole))}
    string_of = {text: at for at, text in enumerate(texts)}
    if code is None:
        said = [Said(row.caption) for row in whole]
        code, find_truth = code_of(said, [row.picture.key for row in whole]), find_equal
    digest = blake2b(repr((encoder.fingerprint, view.name)).encode(), digest_size=12)
    for row in whole:
        digest.update(repr((row.picture.key, row.caption, row.negatives)).encode())
    return Pool(
        picture=_pictures(store, [pictures[key] for key in place_of]),
        caption=_captions(store, list(string_of)),
        picture_N=torch.tensor([place_of[row.picture.key] for row in whole]),
        caption_N=torch.tensor([string_of[row.caption] for row in whole]),
        negative_NK=_rows([row.negatives for row in whole], string_of),
        code=dict(code),
        find_truth=find_truth,
        group=group,
        about=about,
        fingerprint=f"pool-{digest.hexdigest()}",
    )


def _negatives(pair: Pair, at: int) -> tuple[str | None, ...]:
    """Of as many kinds as there are, in an order that the caption decides."""
    true = {normalised(caption) for caption in pair.captions}
    edits = [e for e in pair.edits[at] if not e.keeps_meaning and normalised(e.text) not in true]
    edits.sort(key=lambda e: blake2b(f"{pair.id}\0{e.kind}\0{e.text}".encode()).digest())
    first: dict[str, str] = {}
    for edit in edits:
        first.setdefault(edit.kind, edit.text)
    chosen = list(dict.fromkeys((*first.values(), *(edit.text for edit in edits))))[:NEGATIVES]
    return (*chosen, *[None] * (NEGATIVES - len(chosen)))


def _rows(every: Sequence[tuple[str | None, ...]], place_of: Mapping[str, int]) -> Tensor:
    most = max(map(len, every))
    padded = [(*one, *[None] * (most - len(one))) for one in every]
    found = [[-1 if text is None else place_of[text] for text in one] for one in padded]
    return torch.tensor(found, dtype=torch.int64).reshape(len(every), most)


def _check_size(store: PartsStore, pictures: Sequence[Picture], texts: Sequence[str]) -> None:
    """Before hours are spent on features that memory cannot hold."""
    counts = store.encoder.count_tokens(texts)
    longest = texts[max(range(len(texts)), key=counts.__getitem__)]
    seen = _first_whole(store, pictures)
    # Kept in half of the precision they are computed in.
    size = len(pictures) * (seen.nbytes // 2 if seen else 0)
    size += len(texts) * store.captions([longest]).nbytes // 2
    if size > MOST_BYTES:
        raise UserError(
            f"parts of {len(pictures):,} pictures and of {len(texts):,} captions and negatives "
            f"take {size / 2**30:.1f} gigabytes",
            expected=f"at most {MOST_BYTES / 2**30:.0f}, since readers are trained from memory",
            way_out="train on fewer pairs: a reader has few weights and needs no more",
        )


def _first_whole(store: PartsStore, pictures: Sequence[Picture]) -> Parts | None:
    for picture in pictures:
        try:
            return store.pictures([picture])
        except PictureError:
            continue
    return None


def _pictures(store: PartsStore, pictures: Sequence[Picture]) -> Parts:
    found = [
        kept(store.pictures(pictures[at : at + _AT_ONCE]), "cpu", torch.float16)
        for at in range(0, len(pictures), _AT_ONCE)
    ]
    return stacked(found)


def _captions(store: PartsStore, texts: Sequence[str]) -> Parts:
    found = [
        kept(store.captions(texts[at : at + _AT_ONCE]), "cpu", torch.float16)
        for at in range(0, len(texts), _AT_ONCE)
    ]
    return stacked(found)
