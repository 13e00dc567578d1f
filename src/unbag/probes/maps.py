"""A picture and a caption come in; how near each patch is to each word goes out as maps.

Dimensions: N captions, L patches or pieces of words, D joint space, S patches of a side.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from unbag.engine.cache import Vectors
from unbag.engine.gallery import thumbnail
from unbag.errors import UserError
from unbag.probes.plots import Maps, WordMap
from unbag.probes.space import Space, TokenView
from unbag.readouts.word_pieces import ends
from unbag.types import FloatArray, Picture

MOST_WORDS = 24
ABOUT = (
    "Cosine of the vector of each word with the vector of each patch, in the joint space. Towers "
    "are trained on their read-out only, so a map shows what the parts came to hold, not what the "
    "score is made of."
)


def word_maps(space: Space, picture: Picture, caption: str) -> Maps:
    """The cosine of each word with each patch, rows of patches from the top left.

    A word of several pieces is the mean of their vectors. Where it cannot be known which pieces
    form a word, pieces are shown by number. A model that shows no patches or words, patches that
    make no square, and a picture that cannot be opened raise UserError.
    """
    view = space.tokens
    if view is None:
        raise UserError(f"{space.name} shows no vectors of patches and words")
    patch_LD = _patches(view, picture, space.name)
    found = _words(view, caption)
    shown = tuple(WordMap(word, squared(patch_LD @ vector_D)) for word, vector_D in found)
    return Maps(space.name, thumbnail(picture), caption, shown, ABOUT)


def _patches(view: TokenView, picture: Picture, name: str) -> Vectors:
    found = view.pictures([picture])
    patch_LD: Vectors = found.vector_NLW[0][found.mask_NL[0]]
    if not len(patch_LD) or not np.isfinite(patch_LD).all():
        raise UserError(f"{name} has no vectors for the patches of {picture.name}")
    check_square(len(patch_LD), name=name, picture=picture)
    return patch_LD


def check_square(patches: int, *, name: str, picture: Picture) -> None:
    """Refuse patches that cannot be drawn over a square."""
    if isqrt(patches) ** 2 != patches:
        raise UserError(
            f"{name} has {patches} patches in {picture.name}",
            expected="as many in a row as in a column",
        )


def squared(cosine_L: Vectors) -> tuple[tuple[float, ...], ...]:
    """Rows of patches from the top left."""
    side = isqrt(len(cosine_L))
    rows = np.round(cosine_L.astype(float), 4).reshape(side, side).tolist()
    return tuple(tuple(row) for row in rows)


def _words(view: TokenView, caption: str) -> list[tuple[str, Vectors]]:
    words = caption.split()
    # A word once and twice: the difference is its pieces, what is left of it is special ones.
    asked = [caption, *words, *(f"{word} {word}" for word in words)]
    found = view.captions(asked)
    count_N = found.mask_NL.sum(axis=1)
    once, twice = count_N[1 : 1 + len(words)], count_N[1 + len(words) :]
    piece_LD = found.vector_NLW[0][found.mask_NL[0]]
    columns = ends(int(count_N[0]), once.tolist(), twice.tolist())
    if columns is None:
        named = [(f"piece {at}", row_D) for at, row_D in enumerate(piece_LD, start=1)]
        return named[:MOST_WORDS]
    named = [
        (word, _mean(piece_LD[start:stop]))
        for word, (start, stop) in zip(words, columns, strict=True)
        if stop > start
    ]
    return named[:MOST_WORDS]


def _mean(piece_LD: Vectors) -> Vectors:
    mean_D: FloatArray = piece_LD.mean(axis=0)
    size = float(np.linalg.norm(mean_D))
    return (mean_D / size if size else mean_D).astype(np.float32)
