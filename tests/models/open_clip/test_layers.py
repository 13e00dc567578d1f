"""Layers of open_clip's encoders: as many as blocks, ending where the vectors begin."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

from unbag.errors import UnbagError
from unbag.models.open_clip.layers import image_layers, through
from unbag.models.open_clip.loading import load
from unbag.models.open_clip.text import Unknown, project
from unbag.types import Layers

Made = Callable[[str], Any]
CAPTIONS = ["a red dog", "a", "a dog left of a red cube"]


def pixels_for(encoder: Any, count: int = 2) -> torch.Tensor:
    size = encoder.model.visual.image_size
    sides = size if isinstance(size, tuple) else (size, size)
    return torch.randn(count, 3, *sides, generator=torch.Generator().manual_seed(0))


def projected(visual: Any, last: torch.Tensor) -> torch.Tensor:
    """As each kind of image encoder projects what it pooled."""
    if hasattr(visual, "trunk"):
        own = getattr(visual.trunk.head, "fc", visual.trunk.head)
        last = visual.head(own(last))
    elif hasattr(visual, "attnpool"):
        last = visual.attnpool.c_proj(last)
    else:
        last = last @ visual.proj
    return normalize(last, dim=-1)


def read_at(found: Layers) -> list[bool]:
    return [one is not None for one in found.pooled_NW]


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "blocks", "places", "has_class"),
    [("clip", 2, 16, True), ("deep", 3, 16, True), ("custom", 2, 16, False),
     ("coca", 2, 16, False), ("resnet", 4, 4, False), ("siglip", 6, 100, False),
     ("vit-avg", 6, 100, False), ("vit-token", 6, 100, True), ("vit-own", 6, 100, True),
     ("convnext", 4, 4, False)],
)  # fmt: skip
def test_projected_last_image_layer_is_the_vector(
    name: str, blocks: int, places: int, has_class: bool, loaded: Made
) -> None:
    encoder = loaded(name)
    pixels = pixels_for(encoder)
    found = encoder.image_layers(pixels)
    assert [one.shape[:2] for one in found.vector_NLW] == [(2, places)] * (blocks + 2)
    assert read_at(found) == [has_class] * (blocks + 1) + [True]
    assert found.mask_NL.all()
    assert found.mask_NL.shape == (2, places)
    last = projected(encoder.model.visual, found.pooled_NW[-1])
    torch.testing.assert_close(last, encoder.encode_images(pixels), rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", ["clip", "custom", "vit-avg", "vit-token", "vit-own", "convnext"])
def test_projected_last_patches_are_the_patches(name: str, loaded: Made) -> None:
    """Where pooling is a choice or a mean; attention takes places another way."""
    encoder = loaded(name)
    pixels = pixels_for(encoder)
    last = projected(encoder.model.visual, encoder.image_layers(pixels).vector_NLW[-1])
    expected = encoder.encode_patches(pixels).vector_NLW
    torch.testing.assert_close(last, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_layers_equal_blocks(loaded: Made) -> None:
    visual = loaded("clip").model.visual
    pixels = pixels_for(loaded("clip"))
    found = loaded("clip").image_layers(pixels)
    hidden = visual._embeds(pixels)
    for layer, block in enumerate(visual.transformer.resblocks):
        torch.testing.assert_close(found.vector_NLW[layer], hidden[:, 1:])
        torch.testing.assert_close(found.pooled_NW[layer], hidden[:, 0])
        hidden = block(hidden)
    torch.testing.assert_close(found.vector_NLW[-2], hidden[:, 1:])


@torch.no_grad()
def test_last_layer_with_attention_pooling(loaded: Made) -> None:
    coca, siglip, resnet = loaded("coca"), loaded("siglip"), loaded("resnet")
    found = coca.image_layers(pixels_for(coca))
    torch.testing.assert_close(found.vector_NLW[-1], found.vector_NLW[-2])
    last = siglip.image_layers(pixels_for(siglip)).vector_NLW[-1]
    trunk = siglip.model.visual.trunk
    expected = normalize(trunk.attn_pool(last), dim=-1)
    torch.testing.assert_close(expected, siglip.encode_images(pixels_for(siglip)))
    found = resnet.image_layers(pixels_for(resnet))
    place = resnet.model.visual.attnpool.positional_embedding[1:]
    torch.testing.assert_close(found.vector_NLW[-1], found.vector_NLW[-2] + place)


@torch.no_grad()
def test_stages_of_a_resnet_are_averaged(loaded: Made) -> None:
    visual = loaded("resnet").model.visual
    pixels = pixels_for(loaded("resnet"))
    stem = visual.stem(pixels)
    assert stem.shape[2:] == (16, 16)
    first = loaded("resnet").image_layers(pixels).vector_NLW[0]
    torch.testing.assert_close(first[:, 1], stem[:, :, :8, 8:].mean(dim=(2, 3)))


NATIVE = ["clip", "deep", "custom", "first", "last", "looking", "bare", "eos", "siglip"]


@torch.no_grad()
@pytest.mark.parametrize("name", NATIVE)
def test_text_layers_of_open_clip(name: str, loaded: Made) -> None:
    encoder = loaded(name)
    text_network = encoder.text.encoder
    found = encoder.text_layers(CAPTIONS)
    assert len(found.vector_NLW) == len(found.pooled_NW) == text_network.transformer.layers + 2
    assert all(read_at(found))
    assert found.mask_NL.sum(dim=1).tolist() == encoder.count_tokens(CAPTIONS)
    last = normalize(project(text_network, found.pooled_NW[-1]), dim=-1)
    torch.testing.assert_close(last, encoder.encode_texts(CAPTIONS), rtol=0, atol=1e-5)
    words = normalize(project(text_network, found.vector_NLW[-1]), dim=-1)
    expected = encoder.encode_tokens(CAPTIONS)
    torch.testing.assert_close(words, expected.vector_NLW, rtol=0, atol=1e-5)
    assert torch.equal(found.mask_NL, expected.mask_NL)
    ids = encoder.tokenize(CAPTIONS)[0][:, : found.mask_NL.shape[1]]
    entering = text_network.token_embedding(ids) + text_network.positional_embedding[: ids.shape[1]]
    torch.testing.assert_close(found.vector_NLW[0], entering)


@torch.no_grad()
def test_text_layers_of_coca(loaded: Made) -> None:
    encoder = loaded("coca")
    text_network, found = encoder.text.encoder, encoder.text_layers(CAPTIONS)
    assert len(found.vector_NLW) == 4
    assert found.mask_NL.sum(dim=1).tolist() == encoder.count_tokens(CAPTIONS)
    entering = text_network.cls_emb + text_network.positional_embedding[-1]
    torch.testing.assert_close(found.pooled_NW[0], entering.expand(3, -1))
    last = normalize(project(text_network, found.pooled_NW[-1]), dim=-1)
    torch.testing.assert_close(last, encoder.encode_texts(CAPTIONS), rtol=0, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(("name", "has_class"), [("bert-mean", False), ("bert-cls", True)])
def test_text_layers_of_transformers(name: str, has_class: bool, loaded: Made) -> None:
    encoder = loaded(name)
    found = encoder.text_layers(CAPTIONS)
    assert read_at(found) == [has_class] * 3 + [True]
    # BERT has its norms inside its blocks.
    torch.testing.assert_close(found.vector_NLW[-1], found.vector_NLW[-2])
    assert found.mask_NL.sum(dim=1).tolist() == encoder.count_tokens(CAPTIONS)
    last = normalize(encoder.text.encoder.proj(found.pooled_NW[-1]), dim=-1)
    torch.testing.assert_close(last, encoder.encode_texts(CAPTIONS), rtol=0, atol=1e-5)


@torch.no_grad()
def test_blocks_with_tokens_first(loaded: Made) -> None:
    transformer = loaded("clip").model.visual.transformer
    hidden = torch.randn(2, 5, 32)
    expected = through(transformer, hidden)

    class TokensFirst:
        batch_first = False
        resblocks = tuple(
            lambda x, *, attn_mask, block=block: block(
                x.transpose(0, 1), attn_mask=attn_mask
            ).transpose(0, 1)
            for block in transformer.resblocks
        )

    for ours, theirs in zip(through(TokensFirst(), hidden), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["clip", "vit-avg", "bert-mean"])
def test_layers_of_compiled_encoders(
    name: str, loaded: Made, saved: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks and blocks are not seen from inside a compiled encoder, so it must not be run."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = load(f"tiny-{name}@{saved(name)}", compiles=True)
    pixels = pixels_for(fast)
    fast.encode_images(pixels), fast.encode_texts(CAPTIONS)
    for ours, theirs in (
        (fast.image_layers(pixels), loaded(name).image_layers(pixels)),
        (fast.text_layers(CAPTIONS), loaded(name).text_layers(CAPTIONS)),
    ):
        for one, other in zip(ours.vector_NLW, theirs.vector_NLW, strict=True):
            torch.testing.assert_close(one, other)


def test_unknown_image_encoders(loaded: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnbagError, match="layers of a Linear are not known"):
        image_layers(torch.nn.Linear(2, 2), torch.zeros(1, 2))
    encoder = loaded("vit-avg")
    pixels = pixels_for(encoder, 1)
    monkeypatch.setattr(encoder.model.visual.trunk, "global_pool", "max")
    with pytest.raises(
        UnbagError, match="layers of a VisionTransformer with pooling 'max' are not"
    ):
        encoder.image_layers(pixels)
    monkeypatch.setattr(loaded("clip").model.visual, "pool_type", "none")
    with pytest.raises(UnbagError, match="vision transformer with pooling 'none' are not known"):
        loaded("clip").image_layers(pixels_for(loaded("clip"), 1))


@pytest.mark.parametrize("kind", ["test_resnet", "test_efficientnet"])
def test_unknown_timm_networks(kind: str) -> None:
    timm = pytest.importorskip("timm")
    visual = torch.nn.Module()
    visual.trunk = timm.create_model(kind, num_classes=0).eval()
    with pytest.raises(UnbagError, match=r"layers of a (ResNet|EfficientNet) are not known"):
        image_layers(visual, torch.zeros(1, 3, 64, 64))


def test_unknown_text_encoders(loaded: Made) -> None:
    with pytest.raises(UnbagError, match="a text encoder that runs at full length, since its text"):
        Unknown(None).layers(torch.zeros(1, 2).long(), torch.ones(1, 2).bool())
    text = loaded("bert-mean").text
    token_NL, real_NL = loaded("bert-mean").tokenize(CAPTIONS)
    kept, text.encoder.transformer.encoder = text.encoder.transformer.encoder, torch.nn.Identity()
    try:
        with pytest.raises(UnbagError, match="layers of a BertModel are not known"):
            text.layers(token_NL, real_NL)
    finally:
        text.encoder.transformer.encoder = kept
