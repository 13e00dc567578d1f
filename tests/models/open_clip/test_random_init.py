"""Random initialization of models of open_clip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from PIL import Image

from unbag.models.open_clip.encoder import OpenClip
from unbag.models.weights import random_init

Made = Callable[[str], Any]
CAPTIONS = ["a red dog", "a dog left of a red cube"]


def random_model(encoder: Any, seed: int = 0) -> OpenClip:
    found = random_init(encoder, seed=seed)
    assert isinstance(found, OpenClip)
    return found


@pytest.mark.parametrize(
    "name", ["clip", "custom", "siglip", "coca", "resnet", "convnext", "bert-mean"]
)
def test_all_but_the_weights_is_equal(name: str, loaded: Made) -> None:
    encoder = loaded(name)
    other = random_model(encoder)
    assert other.name == f"{encoder.name}, random weights"
    for field in ("context", "device", "dtype"):
        assert getattr(other, field) == getattr(encoder, field)
    ours, theirs = encoder.model.state_dict(), other.model.state_dict()
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}
    image = Image.radial_gradient("L").convert("RGB")
    pixels = encoder.prepare(image)
    torch.testing.assert_close(other.prepare(image), pixels)
    assert other.count_tokens(CAPTIONS) == encoder.count_tokens(CAPTIONS)
    assert other.encode_images(pixels[None]).shape == encoder.encode_images(pixels[None]).shape
    assert not torch.allclose(other.encode_texts(CAPTIONS), encoder.encode_texts(CAPTIONS))
    assert other.trained_on == ()


def test_seed_decides_the_weights(loaded: Made) -> None:
    encoder = loaded("clip")
    before = torch.get_rng_state()
    first, again, other = (random_model(encoder, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert first.fingerprint == again.fingerprint
    assert len({first.fingerprint, other.fingerprint, encoder.fingerprint}) == 3
    vectors = first.encode_texts(CAPTIONS)
    assert torch.equal(vectors, again.encode_texts(CAPTIONS))
    assert not torch.allclose(vectors, other.encode_texts(CAPTIONS))


def test_no_weight_is_uninitialized(loaded: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, empty, held = loaded("coca"), torch.empty, iter(range(1, 10_000))

    def dirty(*sizes: Any, **options: Any) -> torch.Tensor:
        with torch.no_grad():
            return empty(*sizes, **options).fill_(next(held))

    monkeypatch.setattr(torch, "empty", dirty)
    assert random_model(encoder).fingerprint == random_model(encoder).fingerprint


def test_weights_follow_open_clip(loaded: Made) -> None:
    # The weights of these models are spread by 0.3; token embeddings of open_clip begin with 0.02.
    found = random_model(loaded("clip"))
    assert found.model.token_embedding.weight.std() == pytest.approx(0.02, rel=0.02)
    assert found.scale == pytest.approx(1 / 0.07)


def test_bias_is_reset(loaded: Made) -> None:
    siglip = random_model(loaded("siglip"))
    assert siglip.bias == -10.0
    assert random_model(loaded("clip")).bias == 0.0
    assert getattr(random_model(loaded("clip")).model, "logit_bias", None) is None


def test_no_random_init_without_config(loaded: Made) -> None:
    old = loaded("clip")
    bare = OpenClip(
        old.model, name="bare", fingerprint="x", tokenizer=old.tokenize, prepare=old.prepare
    )
    assert random_init(bare) is None
