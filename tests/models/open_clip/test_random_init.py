"""The random twin of a model of open_clip: the same but for its weights."""

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
def test_all_but_the_weights_is_the_same(name: str, loaded: Made) -> None:
    encoder = loaded(name)
    other = random_model(encoder)
    assert other.name == f"{encoder.name}, random weights"
    assert (other.context, other.device, other.dtype) == (
        encoder.context,
        encoder.device,
        encoder.dtype,
    )
    ours, theirs = encoder.model.state_dict(), other.model.state_dict()
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}
    image = Image.radial_gradient("L").convert("RGB")
    pixels = encoder.prepare(image)
    torch.testing.assert_close(other.prepare(image), pixels)
    assert other.count_tokens(CAPTIONS) == encoder.count_tokens(CAPTIONS)
    assert other.encode_images(pixels[None]).shape == encoder.encode_images(pixels[None]).shape
    assert not torch.allclose(other.encode_texts(CAPTIONS), encoder.encode_texts(CAPTIONS))
    assert other.trained_on == ()


def test_a_seed_is_a_twin_and_a_fingerprint(loaded: Made) -> None:
    encoder = loaded("clip")
    first, again, other = (
        random_model(encoder),
        random_model(encoder),
        random_model(encoder, seed=1),
    )
    assert first.fingerprint == again.fingerprint
    assert len({first.fingerprint, other.fingerprint, encoder.fingerprint}) == 3
    vectors = first.encode_texts(CAPTIONS)
    assert torch.equal(vectors, again.encode_texts(CAPTIONS))
    assert not torch.allclose(vectors, other.encode_texts(CAPTIONS))


def test_no_weight_is_what_the_memory_held(loaded: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, empty, held = loaded("coca"), torch.empty, iter(range(1, 10_000))

    def dirty(*sizes: Any, **options: Any) -> torch.Tensor:
        with torch.no_grad():
            return empty(*sizes, **options).fill_(next(held))

    monkeypatch.setattr(torch, "empty", dirty)
    assert random_model(encoder).fingerprint == random_model(encoder).fingerprint


def test_weights_begin_as_open_clip_begins_them(loaded: Made) -> None:
    # The weights of these models are spread by 0.3; token embeddings of open_clip begin with 0.02.
    found = random_model(loaded("clip"))
    assert found.model.token_embedding.weight.std() == pytest.approx(0.02, rel=0.02)
    assert found.scale == pytest.approx(1 / 0.07)


def test_a_bias_is_kept_as_a_place_not_as_a_number(loaded: Made) -> None:
    siglip = random_model(loaded("siglip"))
    assert siglip.bias == -10.0
    assert random_model(loaded("clip")).bias == 0.0
    assert getattr(random_model(loaded("clip")).model, "logit_bias", None) is None


def test_the_global_generator_goes_on_as_if_nothing_was(loaded: Made) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    random_model(loaded("clip"))
    assert torch.equal(torch.rand(3), expected)


def test_without_its_config_there_is_no_twin(loaded: Made) -> None:
    old = loaded("clip")
    bare = OpenClip(
        old.model, name="bare", fingerprint="x", tokenizer=old.tokenize, prepare=old.prepare
    )
    assert random_init(bare) is None
