"""Maps of words over patches: known cosines, words of several pieces, what cannot be mapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from unbag.data.images import PixelImage
from unbag.errors import UnbagError
from unbag.models.tiny import load as load_tiny
from unbag.probes.maps import word_maps
from unbag.probes.space import EncoderSpace, LayerView, TokenView
from unbag.types import FloatArray, ImageSource, TokenFeatures

IMAGE = PixelImage(np.zeros((8, 8, 3), dtype=np.uint8))
AXES = np.eye(4, dtype=np.float32)


@dataclass
class Parts:
    """Four patches, one for each axis; a word points to the axis of its first letter."""

    patches: int = 4
    special: tuple[int, int] = (1, 1)
    """Pieces before and after the words."""
    counts_oddly: bool = False

    def images(self, images: Sequence[ImageSource]) -> TokenFeatures:
        rows = np.resize(AXES, (self.patches, 4))[None]
        return TokenFeatures(torch.from_numpy(rows), torch.ones(rows.shape[:2]) > 0)

    def captions(self, captions: Sequence[str]) -> TokenFeatures:
        found = [self._pieces(caption) for caption in captions]
        long = max(map(len, found))
        vector_NLW = np.zeros((len(found), long, 4), dtype=np.float32)
        mask_NL = np.zeros((len(found), long), dtype=np.bool_)
        for at, rows in enumerate(found):
            vector_NLW[at, : len(rows)], mask_NL[at, : len(rows)] = rows, True
        return TokenFeatures(torch.from_numpy(vector_NLW), torch.from_numpy(mask_NL))

    def _pieces(self, caption: str) -> FloatArray:
        # Two letters are a piece; its first letter says where it points.
        pieces = [word[i : i + 2] for word in caption.split() for i in range(0, len(word), 2)]
        extra = 1 if self.counts_oddly and len(pieces) > 2 else 0
        rows = [AXES[ord(piece[0]) - ord("a")] for piece in pieces]
        start, end = np.full((self.special[0], 4), 0.5), np.full((self.special[1] + extra, 4), 0.5)
        return np.concatenate([start, np.array(rows), end])


@dataclass
class Space:
    tokens: TokenView | None
    name: str = "a space"
    fingerprint: str = "1"
    layers: LayerView | None = None
    damaged: Mapping[str, str] = field(default_factory=dict)

    def images(self, images: Sequence[ImageSource]) -> FloatArray:
        raise NotImplementedError

    def captions(self, captions: Sequence[str]) -> FloatArray:
        raise NotImplementedError


@pytest.mark.parametrize("special", [(0, 0), (0, 1), (1, 1)])
def test_a_word_lights_up_its_patch(special: tuple[int, int]) -> None:
    found = word_maps(Space(Parts(special=special)), IMAGE, "a c dd")
    assert [one.word for one in found.maps] == ["a", "c", "dd"]
    shown = [one.values for one in found.maps]
    assert shown == [((1, 0), (0, 0)), ((0, 0), (1, 0)), ((0, 0), (0, 1))]
    assert (found.title, found.caption) == ("a space", "a c dd")
    assert found.image.startswith("data:image/")


def test_a_word_of_two_pieces_is_their_mean() -> None:
    found = word_maps(Space(Parts()), IMAGE, "b aaca")
    assert [one.word for one in found.maps] == ["b", "aaca"]
    # (a + c) / |a + c|
    assert found.maps[1].values == ((0.7071, 0), (0.7071, 0))


def test_pieces_are_shown_where_words_do_not_add_up() -> None:
    found = word_maps(Space(Parts(counts_oddly=True)), IMAGE, "a b c")
    assert [one.word for one in found.maps] == [f"piece {i}" for i in range(1, 7)]
    found = word_maps(Space(Parts(special=(2, 1))), IMAGE, "a b")
    assert [one.word for one in found.maps] == [f"piece {i}" for i in range(1, 6)]


def test_a_long_caption_is_cut_to_24_words() -> None:
    assert len(word_maps(Space(Parts()), IMAGE, "a b " * 20).maps) == 24


def test_what_cannot_be_mapped_says_so() -> None:
    with pytest.raises(UnbagError, match="a space shows no vectors of patches and words"):
        word_maps(Space(None), IMAGE, "a")
    with pytest.raises(UnbagError, match="a space has 5 patches in") as error:
        word_maps(Space(Parts(patches=5)), IMAGE, "a")
    assert error.value.expected == "as many in a row as in a column"
    with pytest.raises(UnbagError, match="no vectors for the patches of"):
        word_maps(Space(Parts(patches=0)), IMAGE, "a")


def test_the_tiny_model_has_maps_of_words() -> None:
    space = EncoderSpace(load_tiny("base"))
    image = PixelImage(np.full((64, 64, 3), 90, dtype=np.uint8))
    found = word_maps(space, image, "a red star, left of a cup.")
    assert [one.word for one in found.maps] == ["a", "red", "star,", "left", "of", "a", "cup."]
    assert space.tokens is not None
    words = space.tokens.captions(["a red star, left of a cup."]).vector_NLW[0]
    patches = space.tokens.images([image]).vector_NLW[0]
    side = len(found.maps[0].values)
    assert side**2 == len(patches)
    cosine_L = np.round((patches @ words[1]).numpy().astype(float), 4)
    assert found.maps[1].values == tuple(map(tuple, cosine_L.reshape(side, side).tolist()))
