"""Failures come in; what a card of the gallery shows of each goes out, ready for the template."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from unbag.types import Failure

Fault = Literal["", "above", "tied"]
"""What is wrong with a false caption's score, against the true one it was compared with."""

_DATA_ADDRESS = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True)
class Cell:
    """One picture with one caption."""

    is_true: bool
    score: str
    share: float
    """Length of the score bar, from 0 (the item's lowest score) to 1 (its highest)."""
    fault: Fault


@dataclass(frozen=True)
class Line:
    """One caption with its cells, a cell a picture."""

    letter: str
    caption: str
    kind: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Card:
    """One failure."""

    item: str
    scorer: str
    metric: str
    tags: str
    pictures: tuple[str, ...]
    """Addresses that hold the picture themselves; empty where there is none to show."""
    lines: tuple[Line, ...]
    rival: str
    """What a false cell was compared with: the true caption or the true picture."""

    @property
    def is_matrix(self) -> bool:
        """Several pictures, shown as a small table."""
        return len(self.pictures) > 1


def card(failure: Failure) -> Card:
    """One failure as it is shown."""
    by_caption = _compares_pictures(failure)
    finite = [score for row in failure.scores for score in row if math.isfinite(score)]
    lines = tuple(
        Line(
            letter=_letter(at),
            caption=caption,
            kind=failure.kinds[at].replace("_", " ") if failure.kinds else "",
            cells=tuple(
                _cell(failure, picture, at, finite, by_caption=by_caption)
                for picture in range(len(failure.pictures))
            ),
        )
        for at, caption in enumerate(failure.captions)
    )
    return Card(
        item=failure.item,
        scorer=failure.scorer,
        metric=failure.metric,
        tags=", ".join(f"{tag} {value}" for tag, value in failure.tags.items()),
        pictures=tuple(safe_picture(address) for address in failure.pictures),
        lines=lines,
        rival="picture" if by_caption else "caption",
    )


def safe_picture(address: str) -> str:
    """The address if it holds the picture itself; anything a browser would fetch is left out."""
    return address if _DATA_ADDRESS.fullmatch(address) else ""


def score_text(score: float, finite: Sequence[float]) -> str:
    """A score with as many decimals as it takes to tell the item's scores apart."""
    if not math.isfinite(score):
        return "no score"
    different = len(set(finite))
    for decimals in range(3, 10):
        if len({f"{other:.{decimals}f}" for other in finite}) == different:
            return f"{score:.{decimals}f}"
    return f"{score!r}"


def _letter(at: int) -> str:
    return chr(ord("A") + at) if at < 26 else str(at + 1)


def _compares_pictures(failure: Failure) -> bool:
    """Whether pictures compete for a caption; otherwise captions compete for a picture."""
    searches = failure.metric.startswith(("text_to_image", "image_pair"))
    return len(failure.captions) == 1 or searches or failure.metric == "image"


def _cell(
    failure: Failure, picture: int, caption: int, finite: Sequence[float], *, by_caption: bool
) -> Cell:
    score = failure.scores[picture][caption]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    share = (score - low) / (high - low) if math.isfinite(score) and high > low else 0.0
    return Cell(
        is_true=failure.truth[picture][caption],
        score=score_text(score, finite),
        share=share,
        fault=_fault(failure, picture, caption, by_caption=by_caption),
    )


def _fault(failure: Failure, picture: int, caption: int, *, by_caption: bool) -> Fault:
    """Against the weakest true score, as hard positives need; in retrieval against the best one."""
    score = failure.scores[picture][caption]
    if failure.truth[picture][caption] or not math.isfinite(score):
        return ""
    if by_caption:
        row = [(t[caption], s[caption]) for t, s in zip(failure.truth, failure.scores, strict=True)]
    else:
        row = list(zip(failure.truth[picture], failure.scores[picture], strict=True))
    true = [found for is_true, found in row if is_true and math.isfinite(found)]
    if not true:
        return ""
    rival = max(true) if "@" in failure.metric else min(true)
    return "above" if score > rival else "tied" if score == rival else ""
