"""A trained reader, a picture and a caption come in; the reader's map of each word goes out.

Dimensions: N captions, T parts of a caption, L patches.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from unbag.engine.cache import Vectors
from unbag.engine.gallery import thumbnail
from unbag.errors import UserError
from unbag.probes.maps import MOST_WORDS, check_square, squared
from unbag.probes.plots import Maps, WordMap
from unbag.readouts.mapped import MappedReader
from unbag.readouts.scorer import ReaderScorer
from unbag.readouts.word_pieces import ends
from unbag.types import Picture, Scorer

WHOLE = "(the whole caption)"


def reader_maps(scorer: Scorer, picture: Picture, caption: str) -> Maps:
    """The reader's own number for each word and patch, rows of patches from the top left.

    A word of several pieces is their mean. A scorer that is no reader of patches, or one that draws
    no map, raises UserError.
    """
    if not isinstance(scorer, ReaderScorer) or not isinstance(scorer.reader, MappedReader):
        raise UserError(f"{scorer.name} scores without a map of words over patches")
    map_TL = _maps(scorer, picture, [caption])[0]
    check_square(map_TL.shape[1], name=scorer.name, picture=picture)
    if len(map_TL) == 1:
        words = caption.split()[:MOST_WORDS]
        alone = [one_TL[0] for one_TL in _maps(scorer, picture, words)] if words else []
        found = [(WHOLE, map_TL[0]), *zip(words, alone, strict=True)]
    else:
        found = _words(scorer, caption, map_TL)
    shown = tuple(WordMap(word, squared(map_L)) for word, map_L in found)
    reader = scorer.reader
    is_signed = reader.maps_are_signed
    return Maps(scorer.name, thumbnail(picture), caption, shown, reader.maps_show, is_signed)


@torch.inference_mode()
def _maps(scorer: ReaderScorer, picture: Picture, captions: Sequence[str]) -> Vectors:
    """[N, T, L] of the patches that there are."""
    assert isinstance(scorer.reader, MappedReader)
    device = scorer.read_from.device
    seen = scorer.store.pictures([picture]).to(device)
    said = scorer.store.captions(captions).to(device)
    map_NTL = scorer.reader.word_maps(seen.rows(torch.zeros(len(said), dtype=torch.long)), said)
    found: Vectors = map_NTL[:, :, seen.mask_NL[0]].float().cpu().numpy()
    return found


def _words(scorer: ReaderScorer, caption: str, map_TL: Vectors) -> list[tuple[str, Vectors]]:
    """By word; by piece where it cannot be known which pieces form a word."""
    words = caption.split()
    twice = [f"{word} {word}" for word in words]
    count, *counts = scorer.count_tokens([caption, *words, *twice])
    columns = ends(count, counts[: len(words)], counts[len(words) :]) if words else None
    if columns is None:
        pieces = map_TL[:count]
        return [(f"piece {at}", map_L) for at, map_L in enumerate(pieces, start=1)][:MOST_WORDS]
    return [
        (word, map_TL[start:stop].mean(axis=0))
        for word, (start, stop) in zip(words, columns, strict=True)
        # Beyond the reader's last column there is nothing to show.
        if start < min(stop, len(map_TL))
    ][:MOST_WORDS]
