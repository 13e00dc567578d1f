"""A user's pictures, with captions or without, come in; material for probes goes out.

Dimensions: N pictures, D space, B pictures of a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from unbag.captions.edit import CaptionEditor, make_editor
from unbag.captions.kinds import Parts
from unbag.captions.pipelines import HOW_TO, find_installed
from unbag.errors import UserError
from unbag.pictures import FilePicture
from unbag.probes.chosen import hashed
from unbag.probes.material import Material, PicturePair, Row
from unbag.probes.material_gallery import gallery_from
from unbag.probes.space import Space
from unbag.train.pairs import Pair, Pairs
from unbag.types import Edit, FloatArray, Given, Picture

MOST = 500
"""Pictures that are looked at unless more are wanted."""
MOST_PAIRS = 200
BLOCK = 512
NEAREST = "nearest pictures"
CAPTIONS = frozenset({".jsonl", ".json", ".tsv", ".csv", ".parquet"})
ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".ppm", ".tif", ".tiff"})


def pairs_material(
    pairs: Pairs,
    *,
    editor: CaptionEditor | None = None,
    kinds: Sequence[str] = ("default",),
    parts: Parts | None = None,
    most: int | None = MOST,
    seed: int = 0,
) -> Material:
    """First captions with their hard negatives and positives, and a gallery of them.

    Edits that were made before are taken as they are; else the editor makes them. Without a spaCy
    pipeline there are none, and a note says how to get one. Pictures are chosen by a hash of seed
    and place, the same in every run; files with the same content are one picture.
    """
    found, notes = _read(pairs, most, seed)
    if len(found) < 2:
        raise UserError(
            f"{pairs.about}: only {len(found)} different picture",
            expected="at least two pictures, since models are asked to tell them apart",
            way_out="name a collection with more pictures",
        )
    edits, more = _edits(found, pairs, editor, kinds, parts, seed)
    rows = [row for pair, one in zip(found, edits, strict=True) for row in _rows(pair, *one)]
    pictures = tuple(pair.picture for pair in found)
    gallery = gallery_from((pair.picture, pair.captions[0]) for pair in found)
    notes += more
    return Material(pairs.about, tuple(rows), (), gallery, notes=notes, pictures=pictures)


def folder_material(path: Path, *, most: int | None = MOST, seed: int = 0) -> Material:
    """Pictures without captions: models can be asked which of them they merge, and nothing else."""
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in ENDINGS and p.is_file())
    chosen = _chosen([file.name for file in files], most, seed)
    pictures = _distinct([FilePicture(files[at]) for at in chosen])
    if len(pictures) < 2:
        raise UserError(
            f"the folder {path} holds {len(pictures) or 'no'} picture{'' if pictures else 's'}",
            expected="at least two different pictures, since models are asked to tell them apart",
            way_out="name a folder with more pictures; without one, the built-in world is asked "
            "about",
        )
    beside = sorted(p for p in path.iterdir() if p.suffix.lower() in CAPTIONS and p.is_file())
    begin = "a folder is read without captions" if beside else "there are no captions"
    hint = f"{beside[0]} if it holds captions" if beside else "a file with captions"
    notes = [f"{begin}, so only the picture tower is asked: name {hint}"]
    notes += _part(len(chosen), len(files))
    if len(pictures) < len(chosen):
        notes.append(f"{len(chosen) - len(pictures):,} pictures are copies of others")
    about = f"the folder {path.name}: {len(pictures):,} pictures without captions"
    return Material(about, notes=tuple(notes), pictures=tuple(pictures))


def near_pairs(
    space: Space, pictures: Sequence[Picture], most: int = MOST_PAIRS
) -> tuple[PicturePair, ...]:
    """The different pictures that are nearest to each other by cosine, the nearest first.

    Pictures that cannot be opened, and copies by key, are in no pair. They are the pairs that this
    model is most likely to merge, so the rate of merged ones among them says nothing of others.
    """
    distinct = _distinct(pictures)
    vector_ND = space.pictures(distinct)
    return tuple(
        PicturePair(
            id=f"{distinct[i].name}/{distinct[j].name}",
            first=distinct[i],
            second=distinct[j],
            relation=NEAREST,
        )
        for i, j in _nearest(vector_ND, most)
    )


def _distinct(pictures: Sequence[Picture]) -> list[Picture]:
    """The first of each content."""
    found: dict[str, Picture] = {}
    for picture in pictures:
        found.setdefault(picture.key, picture)
    return list(found.values())


def _nearest(vector_ND: FloatArray, most: int) -> list[tuple[int, int]]:
    """Places with the highest cosines; memory is that of a block of rows."""
    found = np.empty((0, 3))
    column_N = np.arange(len(vector_ND))
    for start in range(0, len(vector_ND), BLOCK):
        row_B = column_N[start : start + BLOCK]
        cosine_BN = np.nan_to_num(vector_ND[row_B] @ vector_ND.T, nan=-np.inf)
        cosine_BN[column_N <= row_B[:, None]] = -np.inf
        flat = cosine_BN.ravel()
        at_K = np.argpartition(-flat, most)[:most] if len(flat) > most else np.arange(len(flat))
        at_K = at_K[flat[at_K] > -np.inf]
        i_K, j_K = np.divmod(at_K, len(vector_ND))
        found = np.concatenate([found, np.stack([i_K + start, j_K, -flat[at_K]], axis=1)])
        found = found[np.lexsort((found[:, 1], found[:, 0], found[:, 2]))][:most]
    return [(int(i), int(j)) for i, j, _ in found]


def _read(pairs: Pairs, most: int | None, seed: int) -> tuple[list[Pair], tuple[str, ...]]:
    """As many as are wanted; entries about one picture become one."""
    # By place: to ask a million entries for their ids takes a minute.
    chosen = _chosen([str(place) for place in range(len(pairs))], most, seed)
    by_key: dict[str, Pair] = {}
    for place in chosen:
        pair = pairs[place]
        known = by_key.setdefault(pair.picture.key, pair)
        if known is not pair:
            captions, edits = known.captions + pair.captions, known.edits + pair.edits
            by_key[pair.picture.key] = replace(known, captions=captions, edits=edits)
    notes = _part(len(chosen), len(pairs))
    if len(by_key) < len(chosen):
        again = len(chosen) - len(by_key)
        notes.append(f"{again:,} of {len(chosen):,} entries show a picture that another shows")
    return list(by_key.values()), tuple(notes)


Captioned = tuple[str, tuple[Edit, ...]]
"""A caption as it was edited, and its edits."""


def _edits(
    found: Sequence[Pair],
    pairs: Pairs,
    editor: CaptionEditor | None,
    kinds: Sequence[str],
    parts: Parts | None,
    seed: int,
) -> tuple[list[Captioned], tuple[str, ...]]:
    if pairs.has_edits and editor is None:
        return [(pair.captions[0], pair.edits[0]) for pair in found], ()
    parts = parts or Parts()
    if editor is None and parts.pipeline == "auto" and find_installed() is None:
        why = f"captions are not edited, since no spaCy pipeline was found: {HOW_TO}"
        return [(pair.captions[0], ()) for pair in found], (why,)
    editor = editor or make_editor(kinds, parts=parts, seed=seed)
    given = [Given(pair.id, pair.captions[0], pair.captions[1:]) for pair in found]
    edited, _ = editor(given)
    none = sum(not any(not e.keeps_meaning for e in one.edits) for one in edited)
    note = f"{none:,} of {len(found):,} captions have no hard negative"
    return [(one.text, one.edits) for one in edited], (note,) if none else ()


def _rows(pair: Pair, caption: str, edits: Sequence[Edit]) -> Iterator[Row]:
    """One for each hard negative; the first hard positive stands beside all of them."""
    positive = next((edit.text for edit in edits if edit.keeps_meaning), None)
    negatives = [edit for edit in edits if not edit.keeps_meaning]
    for number, edit in enumerate(negatives or (None,)):
        yield Row(
            id=f"{pair.id}/{number}",
            picture=pair.picture,
            caption=caption,
            negative=edit.text if edit else None,
            positive=positive,
            kind=edit.kind if edit else "",
            cluster=pair.id,
        )


def _chosen(ids: Sequence[str], most: int | None, seed: int) -> list[int]:
    """Places of the chosen ones, in their order."""
    order = sorted(range(len(ids)), key=lambda at: hashed(f"{seed}\0{ids[at]}"))
    return sorted(order[: len(ids) if most is None else most])


def _part(chosen: int, every: int) -> list[str]:
    return [f"{chosen:,} of {every:,} pictures are used"] if chosen < every else []
