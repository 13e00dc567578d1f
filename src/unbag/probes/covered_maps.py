"""A chat model of any build, a picture and a caption come in; maps of words go out.

Cells of the picture itself are painted over before the model prepares it, so that nothing needs to
be known of its image tokens. A number says what becomes worse without one cell.

Dimensions: H height, W width, C colours, L cells, B pictures (as it is, then without each cell),
N numbers that are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise, product

import numpy as np
import torch
from torch import Tensor

from unbag.engine.gallery import thumbnail
from unbag.errors import UserError
from unbag.models.asks import Ask, HiddenGenerator, logprobs_of
from unbag.models.hf_chat_model import ChatModel
from unbag.models.server import ServerModel
from unbag.pictures.files import PixelPicture
from unbag.probes.maps import MOST_WORDS, squared
from unbag.probes.occlusion_maps import (
    Found,
    about_met,
    about_said,
    asked_of,
    model_of,
    of_caption,
    of_word,
    with_less,
)
from unbag.probes.plots import Maps, WordMap
from unbag.readouts.occluded import PROMPT, WORD, Taken, spans
from unbag.readouts.vlm2vec_core import unit
from unbag.readouts.vlm2vec_encoder import hidden_generator
from unbag.readouts.vlm2vec_score import AskedCosine
from unbag.scorers.cosine import Cosine
from unbag.types import Generator, Picture, Scorer

GRID = 6
"""Cells of a row and of a column: a chat model runs once for each, and it is slow."""
AT_ONCE = 8
"""Pictures given to the model together; if they do not fit, it takes fewer by itself."""
_PAINTED = (
    f"The picture is cut into {GRID} x {GRID} cells. One at a time is painted with the mean colour "
    "of the picture, before the model prepares it, and a number is by how much "
)
_PAINT = " A painted cell is itself something to see, so small numbers may be the paint's."
SAID = about_said(_PAINTED, "cell", "cells") + _PAINT
MET = about_met(_PAINTED, "cell", "cells") + _PAINT


def chat_of(scorer: Scorer) -> Generator | None:
    """The chat model that a scorer asks or embeds with; None for every other scorer."""
    model = model_of(scorer)
    return model if isinstance(model, Generator) and not scorer.is_blind else None


def covered_maps(scorer: Scorer, picture: Picture, caption: str) -> Maps:
    """What each cell does for each word, rows of cells from the top left.

    A scorer without a chat model, one behind a server, and a picture smaller than the grid raise
    UserError.
    """
    model = chat_of(scorer)
    if model is None:
        raise UserError(f"{scorer.name} asks no chat model about pictures")
    if isinstance(model, ServerModel):
        raise UserError(
            f"{model.name} is behind a server, which tells the probability of one token and not "
            "of a caption",
            expected="a chat model on this machine, such as hf:FOLDER",
        )
    pictures = covered(picture)
    if isinstance(scorer, AskedCosine | Cosine):
        text, about = asked_of(scorer, caption), MET
        found = list(_met(hidden_generator(model), pictures, text, caption))
    else:
        text, about = PROMPT, SAID
        found = list(_said(model, pictures, caption))
    shown = tuple(WordMap(word, squared(map_L.numpy()), whole) for word, map_L, whole in found)
    return Maps(scorer.name, thumbnail(picture), caption, shown, about, is_signed=True, asked=text)


def covered(picture: Picture) -> Iterator[PixelPicture]:
    """The picture as it is, then one for each cell in which that cell has the mean colour.

    All are of one size, and painted when they are asked for: a photograph is large, and all of its
    copies together may not fit. Cells differ by a pixel where the sides do not divide evenly.
    """
    pixel_HWC = np.asarray(picture.open().convert("RGB"))
    height, width = pixel_HWC.shape[:2]
    if min(height, width) < GRID:
        raise UserError(
            f"{picture.name} has {width} x {height} pixels",
            expected=f"at least {GRID} x {GRID}, one for each cell of a map",
        )
    colour_C = pixel_HWC.mean(axis=(0, 1)).round().astype(np.uint8)
    yield PixelPicture(pixel_HWC, picture.name)
    for rows, columns in product(cells(height, GRID), cells(width, GRID)):
        painted_HWC = pixel_HWC.copy()
        painted_HWC[rows, columns] = colour_C
        yield PixelPicture(painted_HWC, picture.name)


def cells(pixels: int, count: int) -> list[slice]:
    """Which pixels of a side each of so many cells takes."""
    edges = [round(at * pixels / count) for at in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _met(
    model: HiddenGenerator, pictures: Iterable[Picture], text: str, caption: str
) -> Iterator[Found]:
    """Cosines of the caption, and of it without each word."""
    hidden = [model.last_hidden([(one, text) for one in some]) for some in _some(pictures)]
    caption_NW = unit(model.last_hidden([(None, one) for one in with_less(caption)])).double()
    cosine_BN = unit(torch.cat(hidden)).double() @ caption_NW.T
    yield from of_caption(caption, _taken(cosine_BN))


def _said(model: Generator, pictures: Iterable[Picture], caption: str) -> Iterator[Found]:
    """Log-probabilities of words, each behind those before it.

    Where pieces of words are known, those of a word are added up; else a word is what it takes
    from the probability of the words before it, which asks for every beginning of the caption.
    """
    if isinstance(model, ChatModel):
        parts = spans(model, caption)[:MOST_WORDS]
        words = [span.word for span in parts]
        log_BN = torch.tensor(
            [
                [sum(log_A[span.start : span.stop]) for span in parts]
                for (log_A,) in _logs(model, pictures, (caption,))
            ],
            dtype=torch.float64,
        )
    else:
        matches = list(WORD.finditer(caption))[:MOST_WORDS]
        words = [match.group() for match in matches]
        begun = tuple(caption[: match.end()] for match in matches)
        sums = [[0.0, *(sum(one) for one in row)] for row in _logs(model, pictures, begun)]
        log_BN = torch.tensor(sums, dtype=torch.float64).diff(dim=1)
    found = _taken(log_BN)
    for word, log, fall_L in zip(words, found.whole_N.tolist(), found.fall_NL, strict=True):
        yield of_word(word, log, fall_L)


def _logs(
    model: Generator, pictures: Iterable[Picture], answers: tuple[str, ...]
) -> Iterator[list[list[float]]]:
    """For each picture, the log-probabilities of the tokens of each answer."""
    for some in _some(pictures):
        yield from logprobs_of(model, [Ask(one, PROMPT, answers) for one in some])


def _some(pictures: Iterable[Picture]) -> Iterator[list[Picture]]:
    left = iter(pictures)
    while some := list(islice(left, AT_ONCE)):
        yield some


def _taken(value_BN: Tensor) -> Taken:
    return Taken(value_BN[0], (value_BN[:1] - value_BN[1:]).T)
