"""Patch and word vectors: where they lie, what they mean, what is masked, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

from unbag.errors import UnbagError
from unbag.models.open_clip.layers import patches

Made = Callable[[str], Any]
CAPTIONS = ["a red dog", "a", "a dog left of a red cube"]


def pixels_for(encoder: Any, count: int = 2) -> torch.Tensor:
    size = encoder.model.visual.image_size
    sides = size if isinstance(size, tuple) else (size, size)
    return torch.randn(count, 3, *sides, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("name", "places", "width"),
    [("clip", 16, 24), ("custom", 16, 24), ("coca", 16, 24), ("resnet", 4, 24),
     ("siglip", 100, 64), ("vit-avg", 100, 24), ("convnext", 4, 24)],
)  # fmt: skip
def test_patches_are_unit_vectors(name: str, places: int, width: int, loaded: Made) -> None:
    found = loaded(name).encode_patches(pixels_for(loaded(name)))
    assert found.vector_NLW.shape == (2, places, width)
    torch.testing.assert_close(found.vector_NLW.norm(dim=-1), torch.ones(2, places))
    assert found.mask_NL.all()
    assert found.mask_NL.shape == (2, places)


@torch.no_grad()
@pytest.mark.parametrize("name", ["vit-avg", "convnext"])
def test_image_vector_is_the_mean_of_patches(name: str, loaded: Made) -> None:
    visual = loaded(name).model.visual
    pixels = pixels_for(loaded(name))
    mean_ND = patches(visual, pixels).mean(dim=1)
    if name == "convnext":
        # Its layer norm comes after the mean, so only the direction is close.
        assert torch.cosine_similarity(mean_ND, visual(pixels)).min() > 0.5
    else:
        torch.testing.assert_close(mean_ND, visual(pixels), rtol=0, atol=1e-4)


@torch.no_grad()
def test_patches_of_clip_are_projected_like_the_class_token(loaded: Made) -> None:
    visual = loaded("clip").model.visual
    pixels = pixels_for(loaded("clip"))
    visual.output_tokens = True
    pooled_ND, token_NPW = visual(pixels)
    visual.output_tokens = False
    expected = normalize(token_NPW @ visual.proj, dim=-1)
    torch.testing.assert_close(loaded("clip").encode_patches(pixels).vector_NLW, expected)
    assert pooled_ND.shape == (2, 24)


@torch.no_grad()
def test_patches_with_attention_pooling(loaded: Made) -> None:
    """An image encoder that pools a sequence of equal places gives the vector of each place."""
    visual = loaded("coca").model.visual
    one_NW = torch.randn(3, visual.ln_pre.weight.shape[0])
    pooled_ND = visual._pool(one_NW[:, None].expand(-1, 7, -1))[0] @ visual.proj
    alone_ND = visual._pool(one_NW[:, None])[0] @ visual.proj
    torch.testing.assert_close(pooled_ND, alone_ND, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_patches_of_a_resnet(loaded: Made) -> None:
    """Equal places with equal positions leave attention no choice."""
    pool = loaded("resnet").model.visual.attnpool
    kept = pool.positional_embedding.clone()
    pool.positional_embedding.copy_(kept[:1].expand_as(kept))
    hidden = torch.randn(2, kept.shape[1], 1, 1).expand(-1, -1, 2, 2)
    expected = pool(hidden)
    found = pool.c_proj(pool.v_proj(hidden.flatten(2).transpose(1, 2) + kept[:1]))
    pool.positional_embedding.copy_(kept)
    torch.testing.assert_close(found[:, 0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["clip", "custom", "first", "eos", "coca", "bert-mean", "siglip"])
def test_mask_ends_with_the_end_token(name: str, loaded: Made) -> None:
    encoder = loaded(name)
    found = encoder.encode_tokens(CAPTIONS)
    counts = encoder.count_tokens(CAPTIONS)
    assert found.mask_NL.sum(dim=1).tolist() == counts
    assert found.mask_NL.shape == found.vector_NLW.shape[:2] == (3, max(counts))
    for row, count in zip(found.mask_NL, counts, strict=True):
        assert row[:count].all()
    torch.testing.assert_close(found.vector_NLW.norm(dim=-1), torch.ones(3, max(counts)))


@pytest.mark.parametrize("name", ["clip", "custom", "eos"])
def test_last_token_is_the_caption(name: str, loaded: Made) -> None:
    encoder = loaded(name)
    found = encoder.encode_tokens(CAPTIONS)
    last_N = found.mask_NL.sum(dim=1) - 1
    last_ND = found.vector_NLW[torch.arange(3), last_N]
    torch.testing.assert_close(last_ND, encoder.encode_texts(CAPTIONS), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["coca", "bert-mean", "siglip"])
def test_tokens_do_not_depend_on_the_batch(name: str, loaded: Made) -> None:
    encoder = loaded(name)
    together = encoder.encode_tokens(CAPTIONS)
    alone = encoder.encode_tokens(CAPTIONS[:1])
    length = alone.vector_NLW.shape[1]
    torch.testing.assert_close(
        together.vector_NLW[:1, :length], alone.vector_NLW, rtol=0, atol=1e-5
    )


def test_mean_of_tokens_is_the_caption(loaded: Made) -> None:
    encoder = loaded("bert-mean")
    token_NL, real_NL = encoder.tokenize(CAPTIONS[:1])
    with torch.no_grad():
        word_LD = encoder.text.words(token_NL, length=int(real_NL.sum()))[0]
    mean_D = normalize(word_LD.mean(dim=0), dim=-1)
    torch.testing.assert_close(mean_D, encoder.encode_texts(CAPTIONS[:1])[0], rtol=0, atol=1e-5)


def test_encoders_without_tokens_or_patches(loaded: Made) -> None:
    with pytest.raises(UnbagError, match="has a layer of its own for the pooled vector"):
        loaded("bert-cls").encode_tokens(CAPTIONS)
    with pytest.raises(UnbagError, match="patch vectors of a Linear are not known"):
        patches(torch.nn.Linear(2, 2), torch.zeros(1, 2))


@pytest.mark.parametrize("name", ["clip", "custom", "siglip", "coca", "bert-mean"])
def test_encode_padded(name: str, loaded: Made) -> None:
    encoder = loaded(name)
    length = min(12, encoder.context)
    padded, plain = encoder.encode_padded(CAPTIONS, length=length), encoder.encode_tokens(CAPTIONS)
    for row, count in enumerate(encoder.count_tokens(CAPTIONS)):
        torch.testing.assert_close(
            padded.vector_NLW[row, :count], plain.vector_NLW[row, :count], rtol=0, atol=1e-5
        )
        assert padded.mask_NL[row].nonzero().flatten().tolist() == list(range(count))
    alone = encoder.encode_padded(CAPTIONS[1:2], length=length)
    shared = min(alone.vector_NLW.shape[1], padded.vector_NLW.shape[1])
    torch.testing.assert_close(
        padded.vector_NLW[1:2, :shared], alone.vector_NLW[:, :shared], rtol=0, atol=1e-5
    )
    # Encoders that leave padding out have zeros there, in a batch as alone.
    size = padded.vector_NLW[1, encoder.count_tokens(["a"])[0] :].norm(dim=-1)
    assert size.max() == 0 if name in ("coca", "bert-mean") else size.min() > 0.99


def test_encode_padded_keeps_the_end_token(loaded: Made) -> None:
    encoder = loaded("clip")
    cut = encoder.encode_padded(["a red dog left of a"], length=5)
    short = encoder.encode_padded(["a red dog"], length=5)
    torch.testing.assert_close(cut.vector_NLW, short.vector_NLW, rtol=0, atol=1e-5)
    assert cut.mask_NL.all()
