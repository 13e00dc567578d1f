"""The random twins of the tiny dual encoder and of models of transformers."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from PIL import Image

from unbag.models.huggingface.blip import Blip, Match
from unbag.models.huggingface.dual import HfDual
from unbag.models.huggingface.loading import load
from unbag.models.tiny import RANDOM_SEED, Tiny
from unbag.models.tiny import load as load_tiny
from unbag.models.weights import random_init
from unbag.types import DualEncoder, LayerEncoder

HfFolder = Callable[[str], Path]
CAPTIONS = ["a red cube", "a dog eats a horse"]


def pixels_of(encoder: DualEncoder) -> torch.Tensor:
    return encoder.prepare(Image.radial_gradient("L").convert("RGB"))[None]


def dual(folder: Path, **options: Any) -> HfDual:
    found = load(str(folder), **options)
    assert isinstance(found, HfDual)
    return found


def test_the_twin_of_tiny_base_is_tiny_random() -> None:
    base = load_tiny("base")
    found = random_init(base, seed=RANDOM_SEED)
    assert isinstance(found, Tiny)
    assert found.name == "tiny:base, random weights"
    assert found.fingerprint == load_tiny("random").fingerprint
    # Twins do not depend on weights, so a model and its repair share one.
    repaired = random_init(load_tiny("hard_negative"), seed=RANDOM_SEED)
    assert repaired is not None
    assert repaired.fingerprint == found.fingerprint
    assert found.fingerprint != base.fingerprint


@pytest.mark.parametrize(
    "kind", ["clip", "siglip", "siglip2", "align", "altclip", "vision-text-dual-encoder"]
)
def test_twins_of_models_of_transformers(kind: str, hf_folder: HfFolder) -> None:
    encoder = dual(hf_folder(kind))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = (random_init(encoder, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(3), expected)
    assert isinstance(first, HfDual)
    assert isinstance(again, HfDual)
    assert isinstance(other, HfDual)
    assert isinstance(first, LayerEncoder)
    assert first.name == f"{encoder.name}, random weights"
    assert first.fingerprint == again.fingerprint
    assert len({first.fingerprint, other.fingerprint, encoder.fingerprint}) == 3
    ours, theirs = encoder.model.state_dict(), first.model.state_dict()
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}
    assert first.count_tokens(CAPTIONS) == encoder.count_tokens(CAPTIONS)
    assert first.context == encoder.context
    pixels = pixels_of(encoder)
    assert torch.equal(pixels_of(first), pixels)
    assert torch.equal(first.encode_images(pixels), again.encode_images(pixels))
    assert not torch.allclose(first.encode_texts(CAPTIONS), encoder.encode_texts(CAPTIONS))


def test_weights_begin_as_transformers_begins_them(hf_folder: HfFolder) -> None:
    # The weights on disk are spread by 0.3; token embeddings of CLIP begin with 0.02.
    encoder = dual(hf_folder("clip"))
    found = random_init(encoder)
    assert isinstance(found, HfDual)
    weight = found.model.text_model.embeddings.token_embedding.weight
    assert weight.std() == pytest.approx(0.02, rel=0.1)
    assert not found.model.training
    assert not weight.requires_grad


def test_a_twin_computes_in_the_same_precision(hf_folder: HfFolder) -> None:
    found = random_init(dual(hf_folder("clip"), dtype="bfloat16"))
    assert isinstance(found, HfDual)
    assert found.model.dtype == torch.bfloat16


def test_blip_has_a_twin(hf_folder: HfFolder) -> None:
    scorer = load(str(hf_folder("blip")))
    assert isinstance(scorer, Match)
    assert isinstance(scorer.reader, Blip)
    found = random_init(scorer.reader)
    assert isinstance(found, Blip)
    assert found.encode_texts(CAPTIONS).shape == (2, 12)
    assert found.fingerprint != scorer.reader.fingerprint


def test_what_is_not_known_has_no_twin() -> None:
    assert random_init(cast(DualEncoder, SimpleNamespace(name="mine"))) is None
