"""From items that a scorer got wrong to a few small failures that a page can show."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from io import BytesIO
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbag.types import Caption, Case, Failure, FloatArray, Outcomes, Picture, Sparse

MOST = 6
"""Failures kept for each scorer and benchmark."""
_MOST_CAPTIONS = 16
_SIDE = 192
"""Longest side of a picture on the page, in pixels."""


class _Shown(NamedTuple):
    """The part of an item that makes its failure plain."""

    name: str
    pictures: Sequence[Picture]
    captions: Sequence[Caption]
    kinds: Sequence[str]
    truth: Sequence[Sequence[bool]] | NDArray[np.generic]
    scores: Sequence[Sequence[float]] | FloatArray


def choose_failures(
    benchmark: str,
    scorer: str,
    outcomes: Outcomes,
    cases: Mapping[str, Case],
    *,
    only: Mapping[str, str],
) -> list[Failure]:
    """A sample of the units with no credit: drawn by hash, so neither the worst nor the first.

    `only` holds the tags that count for the headline (see Aggregate.only).
    """
    missed = [
        (unit, tags)
        for unit, tags, value in zip(outcomes.units, outcomes.tags, outcomes.value_U, strict=True)
        if value == 0 and only.items() <= tags.items()
    ]
    missed.sort(key=lambda pair: blake2b(pair[0].encode(), digest_size=8).digest())
    found: dict[str, Failure] = {}
    for unit, tags in missed:
        shown = _shown(unit, cases)
        if shown is None or shown.name in found:
            continue
        pictures = [thumbnail(picture) for picture in shown.pictures]
        if not all(pictures):
            continue
        found[shown.name] = Failure(
            benchmark=benchmark,
            scorer=scorer,
            item=shown.name,
            metric=outcomes.metric,
            pictures=tuple(pictures),
            captions=tuple(map(_text, shown.captions)),
            kinds=tuple(shown.kinds),
            truth=tuple(tuple(bool(t) for t in row) for row in shown.truth),
            scores=tuple(tuple(float(s) for s in row) for row in shown.scores),
            tags=dict(tags),
        )
        if len(found) == MOST:
            break
    return list(found.values())


def _shown(unit: str, cases: Mapping[str, Case]) -> _Shown | None:
    """What to show of the item a unit is named after; units read as "item/what number"."""
    name, rest = unit, ""
    while name not in cases and "/" in name:
        name, _, rest = name.rpartition("/")
    if name not in cases:
        return None
    case = cases[name]
    if isinstance(case.item.truth, Sparse):
        direction, _, number = rest.partition(" ")
        return _query(unit, case, case.item.truth, direction, int(number))
    if case.scores.values is None or len(case.item.captions) > _MOST_CAPTIONS:
        return None
    kinds = case.item.kinds or ("",) * len(case.item.captions)
    item = case.item
    return _Shown(name, item.pictures, item.captions, kinds, case.item.truth, case.scores.values)


def _query(unit: str, case: Case, truth: Sparse, direction: str, query: int) -> _Shown | None:
    """A query of retrieval, one thing it belongs to, and the thing that came first instead."""
    asks_picture = direction == "text_to_image"
    ranks = case.scores.text_to_image if asks_picture else case.scores.image_to_text
    if ranks is None:
        return None
    asked, wanted = (truth.column_T, truth.row_T) if asks_picture else (truth.row_T, truth.column_T)
    true = wanted[asked == query]
    chosen = [int(true[0]), int(ranks.top_QK[query][0])]
    known = dict(zip(ranks.top_QK[query].tolist(), ranks.top_score_QK[query].tolist(), strict=True))
    is_true = [True, chosen[1] in true]
    score = [known.get(i, float("nan")) for i in chosen]
    item = case.item
    if asks_picture:
        pictures = [item.pictures[i] for i in chosen]
        rows = [[t] for t in is_true], [[s] for s in score]
        return _Shown(unit, pictures, [item.captions[query]], ["query"], *rows)
    captions = [item.captions[i] for i in chosen]
    return _Shown(unit, [item.pictures[query]], captions, ["", "first"], [is_true], [score])


def thumbnail(picture: Picture) -> str:
    """A small copy as a data: address; empty if the picture is damaged."""
    try:
        image = picture.open()
    except (OSError, ValueError):
        return ""
    if max(image.size) > _SIDE:
        image.thumbnail((_SIDE, _SIDE))
    buffer = BytesIO()
    image.save(buffer, format="JPEG", quality=90, subsampling=0)
    return "data:image/jpeg;base64," + b64encode(buffer.getvalue()).decode()


def _text(caption: Caption) -> str:
    return caption if isinstance(caption, str) else caption.name
