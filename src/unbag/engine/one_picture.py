"""One picture and a few captions come in; a score for each goes out, by any kind of scorer.

Dimensions: P pictures, C captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from unbag.engine.asking import QueryScoring, checked_numbers
from unbag.errors import UserError
from unbag.pictures import FilePicture
from unbag.types import Caption, FloatArray, Item, ItemScorer, MatrixScorer, Picture, Scorer, Scores
from unbag.types.json_fields import is_whole_text


def score(picture: str | Path | Picture, captions: Sequence[Caption], scorer: Scorer) -> FloatArray:
    """One number a caption, larger is better; NaN where the scorer has none.

    The smallest use: nothing is planned, cached or measured.
    """
    found = answered(picture, captions, scorer).values
    assert found is not None
    score_C: FloatArray = found[0]
    return score_C


def answered(picture: str | Path | Picture, captions: Sequence[Caption], scorer: Scorer) -> Scores:
    """The same with the raw answer of a chat model; NaN where no rule could read it."""
    _check(captions)
    if isinstance(picture, str | Path):
        # A photograph of the user's own: as its camera was held, which is how people see it.
        picture = FilePicture(Path(picture), turn_upright=True)
    shown = opened(picture)
    if isinstance(scorer, MatrixScorer) and not isinstance(scorer, ItemScorer):
        score_PC = scorer.score_matrix([shown], captions)
        score_C = checked_numbers(scorer, score_PC.reshape(-1), len(captions))
        return Scores("picture", score_C[None])
    no_truth = np.zeros((1, len(captions)), dtype=np.bool_)
    item = Item("picture", (shown,), tuple(captions), no_truth)
    scoring = QueryScoring(scorer)
    found = scoring.chunk([item])[0]
    for reason in scoring.damaged.values():
        raise UserError(
            reason,
            expected="a picture of a shape that this model takes",
            way_out="cut it to a usual shape",
        )
    if not found.unparsed:
        return found
    # A benchmark counts such an answer as wrong; here there is no truth it could miss.
    return replace(found, values=np.full(no_truth.shape, np.nan))


def _check(captions: Sequence[Caption]) -> None:
    if isinstance(captions, str) or not captions:
        raise UserError(
            f"captions are {captions!r}",
            expected="a list of at least one caption",
            way_out='write ["a caption", "another one"]',
        )
    for caption in captions:
        for text in [caption] if isinstance(caption, str) else caption.prompts:
            if not is_whole_text(text):
                raise UserError(
                    f"the caption {text!r} holds half a character",
                    expected="whole characters, which UTF-8 can write",
                    way_out="type the caption again; a terminal that is not set to UTF-8 may be "
                    "the reason",
                )


def opened(picture: Picture) -> Picture:
    """The same, if it can be opened."""
    try:
        picture.open()
    except (OSError, ValueError) as error:
        is_missing = isinstance(error, FileNotFoundError)
        why = "there is no such file" if is_missing else f"{type(error).__name__}: {error}"
        raise UserError(
            f"the picture {picture.name} cannot be opened: {why}",
            expected="a picture in a format that Pillow reads (PNG, JPEG, WebP ...)",
            way_out="check the path" if is_missing else "save it again with another program",
        ) from error
    return picture
