"""Spaces: cached vectors, layers and tokens of models, and geometry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from unbag.data import FileImage
from unbag.models.tiny import Tiny, TinyConfig, untrained
from unbag.probes.space import EncoderSpace, centred, cosines, spearman
from unbag.types import FloatArray, Layers, TokenFeatures

SMALL = TinyConfig(
    pixels=16,
    patch=8,
    picture_width=16,
    picture_depth=2,
    caption_width=16,
    caption_depth=2,
    joint=8,
    heads=2,
    context=8,
    words=("a", "red", "star", "cup"),
)


class Counting(Tiny):
    """Remembers how many inputs it was given."""

    def __init__(self) -> None:
        super().__init__(untrained(SMALL, seed=0), name="small")
        self.images = 0
        self.said: list[str] = []

    def encode_images(self, pixels: torch.Tensor) -> torch.Tensor:
        self.images += len(pixels)
        return super().encode_images(pixels)

    def encode_texts(self, captions: Sequence[str]) -> torch.Tensor:
        self.said += captions
        return super().encode_texts(captions)


class Layered(Counting):
    """Shows two layers that are made of what it was given."""

    def image_layers(self, pixels: torch.Tensor) -> Layers:
        level = pixels.mean(dim=(1, 2, 3))
        vector = level[:, None, None].expand(-1, 4, 3)
        return Layers((vector, 2 * vector), (None, vector[:, 0]), torch.ones(len(pixels), 4) > 0)

    def text_layers(self, captions: Sequence[str]) -> Layers:
        length = [len(caption.split()) for caption in captions]
        mask = torch.arange(max(length))[None] < torch.tensor(length)[:, None]
        vector = mask.float()[:, :, None] * torch.tensor(length)[:, None, None]
        return Layers((vector, -vector), (vector[:, 0], vector[:, 0]), mask)


@pytest.fixture
def files(tmp_path: Path) -> list[FileImage]:
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for i, path in enumerate(paths):
        Image.new("RGB", (16, 16), (80 * i, 0, 0)).save(path)
    return [FileImage(path) for path in paths]


def test_each_input_is_encoded_once(files: list[FileImage]) -> None:
    encoder = Counting()
    space = EncoderSpace(encoder)
    first = space.images([files[0], files[1], files[0]])
    again = space.images(files[::-1])
    assert encoder.images == 3
    assert np.array_equal(first[0], first[2])
    assert np.array_equal(again[1:], first[1::-1])
    assert first.dtype == np.float64
    assert np.allclose(np.linalg.norm(again, axis=1), 1, atol=1e-6)
    space.captions(["a star", "a cup", "a star"])
    space.captions(["a cup"])
    assert sorted(encoder.said) == ["a cup", "a star"]


def test_vectors_are_those_of_the_encoder(files: list[FileImage]) -> None:
    encoder = Counting()
    pixels = torch.stack([encoder.prepare(one.open()) for one in files])
    space = EncoderSpace(encoder)
    assert np.allclose(space.images(files), encoder.encode_images(pixels), atol=1e-6)
    said = ["a red star", "a cup"]
    assert np.allclose(space.captions(said), encoder.encode_texts(said), atol=1e-6)


def test_a_cache_serves_the_next_space(files: list[FileImage], tmp_path: Path) -> None:
    wanted = EncoderSpace(Counting(), cache=tmp_path / "kept").images(files)
    encoder = Counting()
    result = EncoderSpace(encoder, cache=tmp_path / "kept").images(files)
    assert encoder.images == 0
    assert np.array_equal(result, wanted)


def test_a_damaged_image_is_told_and_has_no_vector(files: list[FileImage], tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no image")
    bad = FileImage(tmp_path / "bad.png")
    space = EncoderSpace(Counting())
    alone = space.images([bad])
    assert np.isnan(alone).all()
    assert list(space.damaged) == [bad.name]
    result = space.images([files[0], bad])
    assert np.isfinite(result[0]).all()
    assert np.isnan(result[1]).all()
    assert result.shape == (2, 8)


def test_nothing_asked_gives_nothing() -> None:
    space = EncoderSpace(Counting())
    assert len(space.images([])) == 0
    assert len(space.captions([])) == 0


def test_patches_and_words_come_in_the_order_asked(files: list[FileImage]) -> None:
    encoder = Counting()
    space = EncoderSpace(encoder)
    assert space.tokens is not None
    pixels = torch.stack([encoder.prepare(one.open()) for one in files])
    result = space.tokens.images([files[2], files[0]])
    wanted: TokenFeatures = encoder.encode_patches(pixels[[2, 0]])
    assert np.allclose(result.vector_NLW, wanted.vector_NLW, atol=1e-6)
    said = ["a red star", "a", "a cup"]
    words = space.tokens.captions(said)
    assert words.mask_NL.sum(dim=1).tolist() == [4, 2, 3]
    alone = encoder.encode_tokens(["a"])
    assert np.allclose(words.vector_NLW[1, :2], alone.vector_NLW[0], atol=1e-5)


def test_layers_are_asked_for_by_number(files: list[FileImage], tmp_path: Path) -> None:
    space = EncoderSpace(Layered())
    assert space.layers is not None
    assert (space.layers.picture_depth, space.layers.caption_depth) == (2, 2)
    (tmp_path / "bad.png").write_bytes(b"no image")
    bad = FileImage(tmp_path / "bad.png")
    last, first = space.layers.images([files[1], bad, files[1]], [-1, 0])
    assert first.pooled_NW is None
    assert last.pooled_NW is not None
    assert np.allclose(last.vector_NLW[0], 2 * first.vector_NLW[0])
    assert np.array_equal(last.vector_NLW[0], last.vector_NLW[2])
    assert last.vector_NLW[1].isnan().all()
    assert not last.mask_NL[1].any()
    assert bad.name in space.damaged
    [words] = space.layers.captions(["a red star", "a"], [0])
    assert words.mask_NL.tolist() == [[True] * 3, [True, False, False]]
    assert words.vector_NLW[:, :, 0].tolist() == [[3, 3, 3], [1, 0, 0]]


def rows(*vectors: list[float]) -> FloatArray:
    return np.array(vectors, dtype=float)


def test_a_high_cosine_can_hide_opposite_ranks() -> None:
    first = rows([10, 11, 12])
    assert cosines(first, rows([12, 11, 10]))[0] == pytest.approx(0.989041, abs=1e-6)
    assert spearman(first, rows([12, 11, 10]))[0] == pytest.approx(-1.0)
    assert cosines(rows([1, 2, 2, 3]), rows([4, 3, 3, 1]))[0] == pytest.approx(0.756978, abs=1e-6)
    assert spearman(rows([1, 2, 2, 3]), rows([4, 3, 3, 1]))[0] == pytest.approx(-1.0)


def test_a_constant_vector_has_no_ranks_and_zero_no_direction() -> None:
    assert np.isnan(spearman(rows([2, 2, 2]), rows([1, 2, 3]))[0])
    assert np.isnan(cosines(rows([0, 0]), rows([1, 0]))[0])


def test_centring_takes_the_axis_of_a_cone_away() -> None:
    cloud = np.random.default_rng(0).normal(size=(200, 8))
    shifted = cloud + 20
    pairs = shifted[:100], shifted[100:]
    assert cosines(*pairs).mean() > 0.99
    assert abs(cosines(*(centred(one, shifted) for one in pairs)).mean()) < 0.1
