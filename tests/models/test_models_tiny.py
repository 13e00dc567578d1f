"""The tiny dual encoder: exact at any caption length, read and written, refused when broken."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from unbag.errors import UnbagError
from unbag.models.tiny import (
    END,
    OF_THE_STUDY,
    PAD,
    SHIPPED,
    UNKNOWN,
    Tiny,
    TinyConfig,
    WordTokenizer,
    load,
    read,
    untrained,
    write,
)
from unbag.types import DualEncoder, TokenEncoder

WORDS = ("a", "blue", "left", "of", "red", "star")
CONFIG = TinyConfig(
    pixels=32,
    picture_width=32,
    picture_depth=2,
    caption_width=32,
    caption_depth=2,
    joint=16,
    context=8,
    words=WORDS,
)

# Another one means other weights or another forward pass: numbers of the docs are then out of date.
FINGERPRINTS = [
    "tiny-06f89ea32348deb1f3817c58",
    "tiny-50a30f882d0fd3e4d12066f0",
    "tiny-3b3519c728df2e9e430f217a",
    "tiny-2544dcd5f0250051e07a7655",
]


def tiny(seed: int = 0) -> Tiny:
    return Tiny(untrained(CONFIG, seed=seed), name="tiny:test")


def test_it_is_a_token_encoder() -> None:
    assert isinstance(tiny(), DualEncoder)
    assert isinstance(tiny(), TokenEncoder)


def test_tokens_are_words_and_an_end() -> None:
    tokenize = WordTokenizer(WORDS, context=5)
    token_NL, end_N = tokenize(["A red STAR!", "zebra"])
    assert token_NL.tolist() == [[3, 7, 8, END], [UNKNOWN, END, PAD, PAD]]
    assert end_N.tolist() == [3, 1]


def test_words_it_does_not_know_are_named_once() -> None:
    assert tiny().unknown_words(["A red STAR!", "blue, left of"]) == []
    found = tiny().unknown_words(["a Zebra and a star", "a zebra sleeps"])
    assert found == ["zebra", "and", "sleeps"]


def test_a_long_caption_is_cut_and_can_be_counted() -> None:
    tokenize = WordTokenizer(WORDS, context=4)
    token_NL, end_N = tokenize(["a red star left of a blue star"])
    assert token_NL.tolist() == [[3, 7, 8, END]]
    assert end_N.tolist() == [3]
    assert len(tokenize.split("a red star left of a blue star")) == 9


def test_a_caption_gets_the_same_vector_alone_and_padded() -> None:
    model = tiny()
    alone = model.encode_texts(["a star"])
    padded = model.encode_texts(["a star", "a red star left of a star"])[:1]
    torch.testing.assert_close(alone, padded, rtol=0, atol=1e-6)


def test_vectors_have_unit_norm() -> None:
    model = tiny()
    pixels = torch.randn(3, 3, 32, 32)
    for vectors in (model.encode_images(pixels), model.encode_texts(["a", "red star"])):
        torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(len(vectors)))
    patches, tokens = model.encode_patches(pixels), model.encode_tokens(["a", "red star"])
    assert patches.vector_NLW.shape == (3, 16, 16)
    assert tokens.mask_NL.tolist() == [[True, True, False], [True, True, True]]


def test_word_order_reaches_the_vector() -> None:
    first, second = tiny().encode_texts(["red star", "star red"])
    assert not torch.allclose(first, second, atol=1e-4)


def test_images_are_never_flipped() -> None:
    pixels = np.zeros((32, 32, 3), dtype=np.uint8)
    pixels[:, :8] = 255
    prepared = tiny().prepare(Image.fromarray(pixels))
    assert prepared[:, :, :8].min() == 1.0
    assert prepared[:, :, 8:].max() == -1.0


def test_other_sizes_are_brought_to_size() -> None:
    assert tiny().prepare(Image.new("RGB", (90, 40))).shape == (3, 32, 32)


def test_round_trip_through_half_precision(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    write(untrained(CONFIG, seed=3), path)
    again = load(str(path))
    assert (again.config, again.name) == (CONFIG, "tiny:t")
    expected = tiny(3).encode_texts(["red star"])
    torch.testing.assert_close(again.encode_texts(["red star"]), expected, rtol=0, atol=5e-3)


def test_fingerprints_follow_the_weights() -> None:
    assert tiny(1).fingerprint == tiny(1).fingerprint
    assert tiny(1).fingerprint != tiny(2).fingerprint


def test_the_shipped_ones_are_the_base_and_repairs_of_it() -> None:
    models = [load(name) for name in (*SHIPPED, *OF_THE_STUDY)]
    assert [model.name for model in models] == [
        "tiny:base",
        "tiny:hard_negative",
        "tiny:hard_positive",
        "tiny:ce_clip_fixed",
    ]
    assert [model.fingerprint for model in models] == FINGERPRINTS
    assert len({model.config for model in models}) == 1
    card = (files("unbag.models") / "weights" / "README.md").read_text(encoding="utf-8")
    for model in models:
        assert f"`{model.fingerprint}`" in card
        assert f"`{model.name.replace(':', '-')}.safetensors`" in card


def test_building_one_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    untrained(CONFIG, seed=0)
    assert torch.equal(torch.rand(1), expected)


def test_missing_broken_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=r"no checkpoint at .*none\.safetensors"):
        load(str(tmp_path / "none.safetensors"))
    (tmp_path / "junk.safetensors").write_bytes(b"not a checkpoint")
    with pytest.raises(UnbagError, match="is not a tiny dual encoder"):
        load(str(tmp_path / "junk.safetensors"))
    save_file({"weight": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(UnbagError, match="is not a tiny dual encoder"):
        read(tmp_path / "other.safetensors", name="x")
    with pytest.raises(UnbagError, match="did you mean 'tiny:base'"):
        load("bse")
