"""From items that a scorer got wrong to a few small failures that a page can show."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import blake2b
from io import BytesIO

from unbag.types import Caption, Case, Failure, Outcomes, Picture, Sparse

MOST = 6
"""Failures kept for each scorer and benchmark."""
_SIDE = 192
"""Longest side of a picture on the page, in pixels."""


def choose_failures(
    benchmark: str, scorer: str, outcomes: Outcomes, cases: Mapping[str, Case]
) -> list[Failure]:
    """A sample of the units with no credit: drawn by hash, so neither the worst nor the first."""
    missed = [
        (unit, tags)
        for unit, tags, value in zip(outcomes.units, outcomes.tags, outcomes.value_U, strict=True)
        if value == 0
    ]
    missed.sort(key=lambda pair: blake2b(pair[0].encode(), digest_size=8).digest())
    found: list[Failure] = []
    shown: set[str] = set()
    for unit, tags in missed:
        case, query = _case_of(unit, cases)
        is_large = case is not None and isinstance(case.item.truth, Sparse)
        shown_as = unit if case is None or is_large else case.item.id
        if case is None or shown_as in shown:
            continue
        shown.add(shown_as)
        failure = _failure(benchmark, scorer, outcomes.metric, case, query, unit, tags)
        if failure is not None:
            found.append(failure)
        if len(found) == MOST:
            break
    return found


def _case_of(unit: str, cases: Mapping[str, Case]) -> tuple[Case | None, int | None]:
    """The item a unit is named after, and the number of the caption if it is a retrieval query."""
    item, rest = unit, ""
    while item not in cases and "/" in item:
        item, _, rest = item.rpartition("/")
    number = rest.rpartition(" ")[2]
    return cases.get(item), int(number) if number.isdigit() else None


def _failure(
    benchmark: str,
    scorer: str,
    metric: str,
    case: Case,
    query: int | None,
    unit: str,
    tags: Mapping[str, str],
) -> Failure | None:
    if isinstance(case.item.truth, Sparse):
        return _retrieval_failure(benchmark, scorer, metric, case, query, unit, tags)
    pictures = [thumbnail(picture) for picture in case.item.pictures]
    if not all(pictures) or case.scores.values is None or len(case.item.captions) > 16:
        return None
    return Failure(
        benchmark=benchmark,
        scorer=scorer,
        item=case.item.id,
        metric=metric,
        pictures=tuple(pictures),
        captions=tuple(map(_text, case.item.captions)),
        kinds=case.item.kinds or ("",) * len(case.item.captions),
        truth=tuple(tuple(bool(t) for t in row) for row in case.item.truth),
        scores=tuple(tuple(float(s) for s in row) for row in case.scores.values),
        tags=dict(tags),
    )


def _retrieval_failure(
    benchmark: str,
    scorer: str,
    metric: str,
    case: Case,
    query: int | None,
    unit: str,
    tags: Mapping[str, str],
) -> Failure | None:
    """The caption, a picture it belongs to, and the picture that came first instead."""
    ranks, truth = case.scores.text_to_image, case.item.truth
    if ranks is None or query is None or not isinstance(truth, Sparse):
        return None
    true = truth.row_T[truth.column_T == query]
    first = int(ranks.top_QK[query][0])
    chosen = [int(true[0]), first]
    known = dict(zip(ranks.top_QK[query].tolist(), ranks.top_score_QK[query].tolist(), strict=True))
    pictures = [thumbnail(case.item.pictures[i]) for i in chosen]
    if not all(pictures):
        return None
    return Failure(
        benchmark=benchmark,
        scorer=scorer,
        item=unit,
        metric=metric,
        pictures=tuple(pictures),
        captions=(_text(case.item.captions[query]),),
        kinds=("query",),
        truth=((True,), (first in true,)),
        scores=tuple((known.get(i, float("nan")),) for i in chosen),
        tags=dict(tags),
    )


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
