"""Layers of encoders of transformers: as many as blocks, ending where the vectors begin."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Images
from torch.nn.functional import normalize

from unbag.errors import UnbagError
from unbag.models.huggingface.blip import Blip, Match
from unbag.models.huggingface.dual import HfDual
from unbag.models.huggingface.loading import load
from unbag.types import DualEncoder, LayerEncoder

transformers: Any = pytest.importorskip("transformers")
HfFolder = Callable[[str], Path]
CLASSED = ("clip", "metaclip_2", "chinese_clip", "altclip")
KNOWN = (*CLASSED, "clip-legacy", "siglip", "siglip2", "align")
CAPTIONS = ("a red cube", "a dog eats a horse", "a", "a blue ball is left of a red cube")


def dual(folder: Path, **options: Any) -> HfDual:
    found = load(str(folder), **options)
    assert isinstance(found, HfDual)
    assert isinstance(found, LayerEncoder)
    return found


def pixels_of(encoder: DualEncoder) -> torch.Tensor:
    noise = np.random.default_rng(0)
    shapes = [(30, 40, 3), (32, 32, 3), (65, 31, 3)]
    images = [Images.fromarray(noise.integers(0, 256, shape, dtype=np.uint8)) for shape in shapes]
    return torch.stack([encoder.prepare(image) for image in images])


def projected_caption(model: Any, last: torch.Tensor) -> torch.Tensor:
    project = getattr(model, "text_projection", None) or model.text_model.head
    return normalize(project(last), dim=-1)


@torch.no_grad()
@pytest.mark.parametrize("kind", CLASSED)
def test_image_layers_with_class_token(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    pixels, model = pixels_of(encoder), encoder.model
    found = encoder.image_layers(pixels)
    assert [one.shape for one in found.vector_NLW] == [(3, 16, 16)] * 4
    assert [one.shape for one in found.pooled_NW if one is not None] == [(3, 16)] * 4
    assert found.mask_NL.all()
    for last, vectors in (
        (found.pooled_NW[-1], encoder.encode_images(pixels)),
        (found.vector_NLW[-1], encoder.encode_patches(pixels).vector_NLW),
    ):
        projected = normalize(model.visual_projection(last), dim=-1)
        torch.testing.assert_close(projected, vectors, rtol=0, atol=1e-5)


@torch.no_grad()
def test_layers_equal_hidden_states_of_transformers(hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder("clip"))
    pixels, model = pixels_of(encoder), encoder.model
    states = model.vision_model(pixel_values=pixels, output_hidden_states=True).hidden_states
    found = encoder.image_layers(pixels)
    for layer, state in enumerate(states):
        torch.testing.assert_close(found.vector_NLW[layer], state[:, 1:])
        torch.testing.assert_close(found.pooled_NW[layer], state[:, 0])
    tokens = encoder.captions(CAPTIONS)
    states = model.text_model(**tokens, output_hidden_states=True).hidden_states
    read = encoder.text_layers(CAPTIONS)
    for layer, state in enumerate(states):
        torch.testing.assert_close(read.vector_NLW[layer], state)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["siglip", "siglip2"])
def test_image_layers_of_siglip(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    pixels = pixels_of(encoder)
    found = encoder.image_layers(pixels)
    assert [one is not None for one in found.pooled_NW] == [False, False, False, True]
    pooled = found.pooled_NW[-1]
    assert pooled is not None
    vectors = encoder.encode_images(pixels)
    torch.testing.assert_close(normalize(pooled, dim=-1), vectors, rtol=0, atol=1e-5)
    assert torch.equal(found.mask_NL, encoder.encode_patches(pixels).mask_NL)
    assert found.mask_NL.all() == (kind == "siglip")
    if kind == "siglip":
        torch.testing.assert_close(
            encoder.model.vision_model.head(found.vector_NLW[-1]), pooled, rtol=0, atol=1e-5
        )


@torch.no_grad()
def test_image_layers_of_align(hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder("align"))
    pixels = pixels_of(encoder)
    found = encoder.image_layers(pixels)
    assert [one.shape[:2] for one in found.vector_NLW] == [(3, 64)] * 4
    stem = encoder.model.vision_model.embeddings(pixels)
    assert stem.shape[2:] == (16, 16)
    torch.testing.assert_close(found.vector_NLW[0][:, 9], stem[:, :, 2:4, 2:4].mean(dim=(2, 3)))
    assert [one is not None for one in found.pooled_NW] == [False, False, False, True]
    pooled = found.pooled_NW[-1]
    assert pooled is not None
    vectors = encoder.encode_images(pixels)
    torch.testing.assert_close(normalize(pooled, dim=-1), vectors, rtol=0, atol=1e-5)
    patches = normalize(found.vector_NLW[-1], dim=-1)
    torch.testing.assert_close(patches, encoder.encode_patches(pixels).vector_NLW)


@torch.no_grad()
@pytest.mark.parametrize("kind", KNOWN)
def test_projected_last_text_layer_is_the_vector(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    found = encoder.text_layers(CAPTIONS)
    assert len(found.vector_NLW) == len(found.pooled_NW) == 4
    last, words = found.pooled_NW[-1], found.vector_NLW[-1]
    assert last is not None
    vectors = encoder.encode_texts(CAPTIONS)
    ours = projected_caption(encoder.model, last)
    torch.testing.assert_close(ours, vectors, rtol=0, atol=1e-5)
    tokens = encoder.encode_tokens(CAPTIONS)
    ours = projected_caption(encoder.model, words)
    torch.testing.assert_close(ours, tokens.vector_NLW, rtol=0, atol=1e-5)
    assert torch.equal(found.mask_NL, tokens.mask_NL)


@torch.no_grad()
@pytest.mark.parametrize(("kind", "place"), [("clip", -1), ("clip-legacy", -1), ("altclip", 0)])
def test_every_text_layer_pools_one_position(kind: str, place: int, hf_folder: HfFolder) -> None:
    found = dual(hf_folder(kind)).text_layers(CAPTIONS)
    for vector_NLW, pooled_NW in zip(found.vector_NLW, found.pooled_NW, strict=True):
        assert pooled_NW is not None
        for i, mask_L in enumerate(found.mask_NL):
            assert torch.equal(vector_NLW[i][mask_L][place], pooled_NW[i])


@torch.no_grad()
def test_layers_of_blip(hf_folder: HfFolder) -> None:
    scorer = load(str(hf_folder("blip")))
    assert isinstance(scorer, Match)
    blip = scorer.reader
    assert isinstance(blip, Blip)
    assert isinstance(blip, LayerEncoder)
    pixels = pixels_of(blip)
    seen, read = blip.image_layers(pixels), blip.text_layers(CAPTIONS)
    assert len(seen.vector_NLW) == len(read.vector_NLW) == 4
    assert seen.vector_NLW[0].shape == (3, 16, 16)
    for project, last, vectors in (
        (blip.model.vision_proj, seen.pooled_NW[-1], blip.encode_images(pixels)),
        (blip.model.vision_proj, seen.vector_NLW[-1], blip.encode_patches(pixels).vector_NLW),
        (blip.model.text_proj, read.pooled_NW[-1], blip.encode_texts(CAPTIONS)),
        (blip.model.text_proj, read.vector_NLW[-1], blip.encode_tokens(CAPTIONS).vector_NLW),
    ):
        torch.testing.assert_close(normalize(project(last), dim=-1), vectors, rtol=0, atol=1e-5)
    assert read.mask_NL.sum(dim=1).tolist() == blip.count_tokens(CAPTIONS)


def test_half_precision_gives_float32(hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder("clip"), dtype="bfloat16")
    for found in (encoder.image_layers(pixels_of(encoder)), encoder.text_layers(CAPTIONS)):
        assert {one.dtype for one in found.vector_NLW} == {torch.float32}


def test_unknown_kinds(hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder("vision-text-dual-encoder"))
    known = "align, altclip, chinese_clip, clip, metaclip_2, siglip, siglip2"
    with pytest.raises(UnbagError, match="image encoder of a 'vision-text-dual-encoder'") as error:
        encoder.image_layers(pixels_of(encoder))
    assert known in str(error.value)
    with pytest.raises(UnbagError, match="text encoder of a 'vision-text-dual-encoder'") as error:
        encoder.text_layers(CAPTIONS)
    assert known in str(error.value)
