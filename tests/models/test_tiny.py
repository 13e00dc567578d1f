"""The tiny dual encoder: tokens, vectors, layers, checkpoints, and the shipped weights."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch.nn.functional import normalize

from unbag.api import evaluate
from unbag.benchmarks.names import benchmark
from unbag.errors import UnbagError
from unbag.models.layers import blocks_of, flatten_maps, make_layers, record_blocks
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
    untrained,
    write,
)
from unbag.scorers import Cosine
from unbag.types import DualEncoder, EvalProtocol, LayerEncoder, Result, TokenEncoder
from unbag.world.grammar import words

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


def test_tokens_are_words_and_an_end_token() -> None:
    tokenize = WordTokenizer(WORDS, context=5)
    token_NL, end_N = tokenize(["A red STAR!", "zebra"])
    assert token_NL.tolist() == [[3, 7, 8, END], [UNKNOWN, END, PAD, PAD]]
    assert end_N.tolist() == [3, 1]


def test_unknown_words() -> None:
    assert tiny().unknown_words(["A red STAR!", "blue, left of"]) == []
    found = tiny().unknown_words(["a Zebra and a star", "a zebra sleeps"])
    assert found == ["zebra", "and", "sleeps"]


def test_long_caption_is_truncated() -> None:
    tokenize = WordTokenizer(WORDS, context=4)
    token_NL, end_N = tokenize(["a red star left of a blue star"])
    assert token_NL.tolist() == [[3, 7, 8, END]]
    assert end_N.tolist() == [3]
    assert len(tokenize.split("a red star left of a blue star")) == 9


def test_padding_has_no_effect() -> None:
    model = tiny()
    alone = model.encode_texts(["a star"])
    padded = model.encode_texts(["a star", "a red star left of a star"])[:1]
    torch.testing.assert_close(alone, padded, rtol=0, atol=1e-6)


def test_vectors_have_unit_norm() -> None:
    model = tiny()
    assert isinstance(model, DualEncoder | TokenEncoder | LayerEncoder)
    pixels = torch.randn(3, 3, 32, 32)
    for vectors in (model.encode_images(pixels), model.encode_texts(["a", "red star"])):
        torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(len(vectors)))
    patches, tokens = model.encode_patches(pixels), model.encode_tokens(["a", "red star"])
    assert patches.vector_NLW.shape == (3, 16, 16)
    assert tokens.mask_NL.tolist() == [[True, True, False], [True, True, True]]


def test_word_order_changes_the_vector() -> None:
    first, second = tiny().encode_texts(["red star", "star red"])
    assert not torch.allclose(first, second, atol=1e-4)


def test_images_are_resized_and_not_flipped() -> None:
    pixels = np.zeros((32, 32, 3), dtype=np.uint8)
    pixels[:, :8] = 255
    prepared = tiny().prepare(Image.fromarray(pixels))
    assert prepared[:, :, :8].min() == 1.0
    assert prepared[:, :, 8:].max() == -1.0
    assert tiny().prepare(Image.new("RGB", (90, 40))).shape == (3, 32, 32)


def test_round_trip_through_half_precision(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    write(untrained(CONFIG, seed=3), path)
    again = load(str(path))
    assert (again.config, again.name) == (CONFIG, "tiny:t")
    expected = tiny(3).encode_texts(["red star"])
    torch.testing.assert_close(again.encode_texts(["red star"]), expected, rtol=0, atol=5e-3)


def test_fingerprint_depends_on_the_weights() -> None:
    assert tiny(1).fingerprint == tiny(1).fingerprint
    assert tiny(1).fingerprint != tiny(2).fingerprint


def test_shipped_models_and_fingerprints() -> None:
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


def test_bad_files_and_names(tmp_path: Path) -> None:
    (tmp_path / "junk.safetensors").write_bytes(b"not a checkpoint")
    save_file({"weight": torch.zeros(2)}, tmp_path / "other.safetensors")
    for name, message in (
        (str(tmp_path / "none.safetensors"), r"no checkpoint at .*none\.safetensors"),
        (str(tmp_path / "junk.safetensors"), "is not a tiny dual encoder"),
        (str(tmp_path / "other.safetensors"), "is not a tiny dual encoder"),
        ("bse", "did you mean 'tiny:base'"),
    ):
        with pytest.raises(UnbagError, match=message):
            load(name)


LAYER_CONFIG = TinyConfig(
    pixels=32, picture_width=32, picture_depth=2, caption_width=16, caption_depth=3, joint=16,
    context=8, words=("a", "blue", "left", "of", "red", "star"),
)  # fmt: skip
CAPTIONS = ["a red star", "star", "a red star left of a blue star"]


@pytest.fixture(scope="module")
def model() -> Tiny:
    return Tiny(untrained(LAYER_CONFIG, seed=1), name="tiny:test")


def pixels(count: int = 3) -> torch.Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_number_of_layers(model: Tiny) -> None:
    images, captions = model.image_layers(pixels()), model.text_layers(CAPTIONS)
    assert [one.shape for one in images.vector_NLW] == [(3, 16, 32)] * 4
    assert [one.shape for one in captions.vector_NLW] == [(3, 8, 16)] * 5
    assert [one.shape for one in images.pooled_NW if one is not None] == [(3, 32)] * 4
    assert [one.shape for one in captions.pooled_NW if one is not None] == [(3, 16)] * 5
    assert images.mask_NL.all()
    assert captions.mask_NL.sum(dim=1).tolist() == [4, 2, 8]


@torch.no_grad()
def test_projected_last_layer_is_the_vector(model: Tiny) -> None:
    image, caption = model.network.picture, model.network.caption
    seen, read = model.image_layers(pixels()), model.text_layers(CAPTIONS)
    for encoder, last, vectors in (
        (image, seen.pooled_NW[-1], model.encode_images(pixels())),
        (caption, read.pooled_NW[-1], model.encode_texts(CAPTIONS)),
        (image, seen.vector_NLW[-1], model.encode_patches(pixels()).vector_NLW),
        (caption, read.vector_NLW[-1], model.encode_tokens(CAPTIONS).vector_NLW),
    ):
        found = normalize(encoder.project(last), dim=-1)
        torch.testing.assert_close(found, vectors, rtol=0, atol=1e-5)


@torch.no_grad()
def test_each_layer_is_the_output_of_its_block(model: Tiny) -> None:
    encoder, found = model.network.picture, model.image_layers(pixels())
    whole = [
        torch.cat([pooled[:, None], vector], dim=1)
        for pooled, vector in zip(found.pooled_NW, found.vector_NLW, strict=True)
        if pooled is not None
    ]
    torch.testing.assert_close(whole[0][:, 0], (encoder.cls + encoder.position[0]).expand(3, -1))
    for block, before, after in zip(encoder.blocks, whole[:-2], whole[1:-1], strict=True):
        torch.testing.assert_close(block(before), after)
    torch.testing.assert_close(encoder.norm(whole[-2]), whole[-1])


def test_first_layer_of_text_has_positions(model: Tiny) -> None:
    first = model.text_layers(["star star"]).vector_NLW[0][0]
    places = model.network.caption.position.detach()
    torch.testing.assert_close(first[1] - first[0], places[1] - places[0], rtol=0, atol=1e-6)


def test_probe_can_be_trained_on_layers(model: Tiny) -> None:
    """Tensors of inference mode would not allow it."""
    reader = torch.nn.Linear(32, 1)
    reader(model.image_layers(pixels()).vector_NLW[1]).sum().backward()
    assert reader.weight.grad is not None
    assert not model.image_layers(pixels()).vector_NLW[1].requires_grad


def test_flatten_maps_averages_finer_maps() -> None:
    fine = torch.arange(16.0).reshape(1, 1, 4, 4)
    coarse = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]])
    first, last = flatten_maps([fine, coarse])
    # Means of the four quarters: rows 0-1 hold 0 1 4 5 | 2 3 6 7, rows 2-3 hold 8 9 12 13 | ...
    assert first.tolist() == [[[2.5], [4.5], [10.5], [12.5]]]
    assert last.tolist() == [[[1, 5], [2, 6], [3, 7], [4, 8]]]


def test_record_blocks_removes_hooks() -> None:
    blocks = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]

    def fails() -> None:
        blocks[0](torch.zeros(1, 2))
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        record_blocks(blocks, fails)
    assert not any(block._forward_hooks or block._forward_pre_hooks for block in blocks)
    out, found = record_blocks(blocks, lambda: blocks[1](blocks[0](torch.ones(1, 2))))
    assert len(found) == 3
    assert torch.equal(found[0], torch.ones(1, 2))
    assert torch.equal(found[2], out)


def test_blocks_of() -> None:
    encoder = torch.nn.Module()
    assert blocks_of(encoder) == []
    encoder.encoder = torch.nn.Module()
    encoder.encoder.layer = torch.nn.ModuleList([torch.nn.Identity()])
    assert blocks_of(encoder) == [encoder.encoder.layer[0]]


def test_make_layers_gives_float32() -> None:
    half = torch.ones(2, 3, 4, dtype=torch.bfloat16)
    found = make_layers([half], [None])
    assert found.vector_NLW[0].dtype == torch.float32
    assert found.mask_NL.tolist() == [[True] * 3] * 2


QUICK = EvalProtocol(resamples=500)


@pytest.fixture(scope="module")
def base() -> Mapping[str, Result]:
    scorer = Cosine(load("base"))
    names = ("world-replace", "world-relation", "world-pairs-a", "world-retrieval")
    return {name: evaluate(scorer, benchmark(name), protocol=QUICK)[0] for name in names}


def value(result: Result, metric: str) -> float:
    return result.overall[metric].value


def test_base_knows_words(base: Mapping[str, Result]) -> None:
    assert value(base["world-replace"], "original") > 0.85
    assert value(base["world-retrieval"], "text_to_image@1") > 0.9
    assert value(base["world-retrieval"], "image_to_text@1") > 0.9


def test_base_does_not_know_relations(base: Mapping[str, Result]) -> None:
    relation = base["world-relation"].overall["original"]
    assert 0.45 < relation.value < 0.55
    sides = base["world-pairs-a"].by_tag["relation=left/right"]
    assert sides["pair"].value <= 0.25
    assert 0.4 < sides["individual"].value < 0.6


def test_base_retrieves_with_shuffled_words(base: Mapping[str, Result]) -> None:
    assert value(base["world-retrieval"], "retention") > 0.95


def test_random_is_at_chance_and_below() -> None:
    random_model = load("random")
    assert random_model.config == load("base").config
    pairs = evaluate(Cosine(random_model), benchmark("world-pairs-a"), protocol=QUICK)[0]
    assert value(pairs, "pair") < 0.06
    assert 0.4 < value(pairs, "individual") < 0.6


def test_base_ships_small_with_a_card_and_all_words() -> None:
    folder = files("unbag.models") / "weights"
    assert len((folder / "tiny-base.safetensors").read_bytes()) < 7e6
    model = load("base")
    assert model.config.words == words()
    assert model.fingerprint in (folder / "README.md").read_text()
