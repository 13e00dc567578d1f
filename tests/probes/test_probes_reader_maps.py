"""What a trained reader makes of each word and patch, drawn beside the model's own cosines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from unbag.data.images import PixelImage
from unbag.errors import UnbagError
from unbag.models.features import JOINT
from unbag.models.tiny import load as load_tiny
from unbag.probes.maps import WHOLE, reader_maps, word_maps
from unbag.probes.space import EncoderSpace
from unbag.readouts.pacl import Pacl, PaclSettings
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import Reader, Sizes
from unbag.readouts.scorer import ReaderScorer
from unbag.scorers.cosine import Cosine
from unbag.types import TokenFeatures

ENCODER = load_tiny("base")
PATCHES = 64
CAPTION = "a red star, left of a cup."
IMAGE = PixelImage(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))


class Cosines(Reader):
    """Compares nothing; its maps are cosines of parts, so that the answer is known."""

    name, view, settings = "cosines", JOINT, PooledSettings()
    maps_show = "Cosines."
    maps_are_signed = True
    columns = 99

    def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        words_NTD = caption.vector_NLW[:, : self.columns]
        return words_NTD @ image.vector_NLW.transpose(1, 2)


def drawn(reader: Reader, caption: str = CAPTION) -> dict[str, np.ndarray]:
    found = reader_maps(ReaderScorer(ENCODER, reader), IMAGE, caption)
    return {f"{at} {one.word}": np.array(one.values) for at, one in enumerate(found.maps)}


def test_a_reader_of_cosines_draws_what_the_model_draws() -> None:
    found = reader_maps(ReaderScorer(ENCODER, Cosines()), IMAGE, CAPTION)
    own = word_maps(EncoderSpace(ENCODER), IMAGE, CAPTION)
    assert (found.title, found.about) == ("tiny:base+cosines", "Cosines.")
    assert (found.is_signed, own.is_signed) == (True, False)
    assert (found.caption, found.image) == (own.caption, own.image)
    assert [one.word for one in found.maps] == CAPTION.split()
    for mine, theirs in zip(found.maps, own.maps, strict=True):
        assert np.allclose(mine.values, theirs.values, atol=2e-4)


def test_words_behind_the_last_column_are_not_drawn() -> None:
    reader = Cosines()
    reader.columns = 3
    assert list(drawn(reader)) == ["0 a", "1 red", "2 star,"]


def test_pieces_are_drawn_where_words_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = ReaderScorer(ENCODER, Cosines())
    monkeypatch.setattr(scorer, "count_tokens", lambda captions: [4] * len(captions))
    found = reader_maps(scorer, IMAGE, CAPTION)
    assert [one.word for one in found.maps] == [f"piece {at}" for at in range(1, 5)]


def test_a_reader_of_whole_captions_is_asked_with_each_word_alone() -> None:
    sizes = Sizes(PATCHES, ENCODER.config.picture_width, ENCODER.config.joint)
    torch.manual_seed(0)
    reader = Pacl(PaclSettings(), sizes).eval()
    found = drawn(reader, "a red cup")
    assert list(found) == [f"0 {WHOLE}", "1 a", "2 red", "3 cup"]
    assert np.allclose(found["2 red"], drawn(reader, "red")[f"0 {WHOLE}"], atol=2e-4)
    assert not np.allclose(found["2 red"], found["3 cup"], atol=1e-2)
    assert found["2 red"].shape == (8, 8)
    assert list(drawn(reader, "")) == [f"0 {WHOLE}"]


def test_the_blind_and_the_oblong_say_so() -> None:
    sizes = Sizes(0, ENCODER.config.picture_width, ENCODER.config.caption_width)
    pooled = ReaderScorer(ENCODER, Pooled(PooledSettings(width=8), sizes))
    for scorer in (pooled, Cosine(ENCODER)):
        with pytest.raises(
            UnbagError, match=f"{scorer.name.replace('+', '.')} scores without a map"
        ):
            reader_maps(scorer, IMAGE, CAPTION)

    class Oblong(Cosines):
        def word_maps(self, image: TokenFeatures, caption: TokenFeatures) -> Tensor:
            return torch.zeros((1, 5, 64))

        view = replace(
            JOINT,
            name="joint-seven",
            encode_images=lambda encoder, pixels: _seven(JOINT.encode_images(encoder, pixels)),
        )

    with pytest.raises(UnbagError, match="has 7 patches in"):
        reader_maps(ReaderScorer(ENCODER, Oblong()), IMAGE, CAPTION)


def _seven(parts: TokenFeatures) -> TokenFeatures:
    mask_NL = parts.mask_NL.clone()
    mask_NL[:, 7:] = False
    return replace(parts, mask_NL=mask_NL)
