"""One picture and a few captions come in; a score for each goes out, by any kind of scorer.

Dimensions: P pictures, C captions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from unbag.engine.asking import QueryScoring, checked_numbers
from unbag.engine.given import as_scorer
from unbag.errors import UserError
from unbag.pictures import FilePicture, PixelPicture
from unbag.scorers.resolve import Model
from unbag.types import (
    Caption,
    Ensemble,
    FloatArray,
    Item,
    ItemScorer,
    MatrixScorer,
    Picture,
    Scores,
)
from unbag.types.json_fields import is_whole_text

if TYPE_CHECKING:
    from PIL.Image import Image

    Shown: TypeAlias = str | Path | Picture | Image


def score(picture: Shown, captions: Sequence[Caption], scorer: Model | str) -> FloatArray:
    """One number a caption, larger is better; NaN where the scorer has none.

    The smallest use: nothing is planned, cached or measured. A dual encoder is scored by `Cosine`;
    a model that is given by name is loaded at every call.
    """
    found = answered(picture, captions, scorer).values
    assert found is not None
    score_C: FloatArray = found[0]
    return score_C


def answered(picture: Shown, captions: Sequence[Caption], scorer: Model | str) -> Scores:
    """The same with the raw answer of a chat model; NaN where no rule could read it."""
    captions, scorer = _checked(captions), as_scorer(scorer)
    shown = opened(_as_picture(picture))
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


def _checked(captions: Iterable[Caption]) -> list[Caption]:
    found = list(captions) if isinstance(captions, Iterable) else []
    if isinstance(captions, str) or not found:
        raise UserError(
            f"captions are {captions!r}",
            expected="a list of at least one caption",
            way_out='write ["a caption", "another one"]',
        )
    for at, caption in enumerate(found):
        if not isinstance(caption, str | Ensemble):
            raise UserError(
                f"caption {at + 1} of {len(found)} is {caption!r}",
                expected="a string, or unbag.types.Ensemble",
                way_out="leave it out, or write it as text",
            )
        for text in [caption] if isinstance(caption, str) else caption.prompts:
            if not is_whole_text(text):
                raise UserError(
                    f"the caption {text!r} holds half a character",
                    expected="whole characters, which UTF-8 can write",
                    way_out="type the caption again; a terminal that is not set to UTF-8 may be "
                    "the reason",
                )
    return found


def _as_picture(given: Shown) -> Picture:
    from PIL.Image import Image

    if isinstance(given, str | Path):
        # A photograph of the user's own: as its camera was held, which is how people see it.
        return FilePicture(Path(given), turn_upright=True)
    if isinstance(given, Image):
        return _of_image(given)
    if not isinstance(given, Picture):
        raise UserError(
            f"a {type(given).__name__} was given in place of a picture",
            expected="a path, an image of Pillow, or a picture: key, name and open()",
            way_out="for an array of bytes [height, width, 3], write "
            "unbag.pictures.PixelPicture(array)",
        )
    return given


def _of_image(image: Image) -> Picture:
    """Its pixels, as a file of it would be read."""
    from PIL import ImageOps

    if image.mode[0] in "IF":
        raise UserError(
            f"the image has pixels of mode {image.mode}",
            expected="8 bits a channel",
            way_out="give the path of its file, or convert it to RGB",
        )
    try:
        upright = ImageOps.exif_transpose(image)
        # By way of alpha Pillow does not warn of a palette with transparency.
        whole = upright.convert("RGBA") if upright.mode == "P" else upright
        return PixelPicture(np.asarray(whole.convert("RGB")), "image")
    except (OSError, ValueError) as error:
        raise _not_opened("image", error) from error


def opened(picture: Picture) -> Picture:
    """The same, if it can be opened."""
    try:
        picture.open()
    except (OSError, ValueError) as error:
        raise _not_opened(picture.name, error) from error
    return picture


def _not_opened(name: str, error: Exception) -> UserError:
    is_missing = isinstance(error, FileNotFoundError)
    why = "there is no such file" if is_missing else f"{type(error).__name__}: {error}"
    return UserError(
        f"the picture {name} cannot be opened: {why}",
        expected="a picture in a format that Pillow reads (PNG, JPEG, WebP ...)",
        way_out="check the path" if is_missing else "save it again with another program",
    )
