"""Two models taken apart and put together: exact parts, exact ends, unlike models refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from unbag.errors import UnbagError
from unbag.models.huggingface.loading import load as load_hf
from unbag.models.tiny import Tiny, untrained
from unbag.probes.transplant import SOURCES, Combination, parts_of, transplant
from unbag.training.encoders.adapters import make_trainable
from unbag.types import DualEncoder

from .small_models import CONFIG, WORDS, perturbed, small


def vectors(encoder: DualEncoder) -> tuple[Tensor, Tensor]:
    noise = np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    pixels = encoder.prepare(Image.fromarray(noise))[None]
    return encoder.encode_images(pixels), encoder.encode_texts(["a red cross", "a"])


def test_parts_of_the_tiny_encoder() -> None:
    trainable = make_trainable(small(0), device="cpu")
    parts = parts_of(trainable)
    names = set(trainable.module.state_dict())
    assert parts.read_out == {"picture.project.weight", "caption.project.weight", "log_scale"}
    assert parts.image == {n for n in names if n.startswith("picture.")} - parts.read_out
    assert parts.text == {n for n in names if n.startswith("caption.")} - parts.read_out
    assert len(parts.image) + len(parts.text) + len(parts.read_out) == len(names)
    assert parts.notes == ()


def test_eight_combinations_and_their_ends() -> None:
    base, other = small(0), small(1)
    found = transplant(base, other)
    assert [one.choice for one in found] == [
        Combination(p, t, r) for p, t, r in product(SOURCES, repeat=3)
    ]
    # The fingerprint is of all weights, so the ends are the models themselves.
    assert found[0].encoder.fingerprint == base.fingerprint
    assert found[-1].encoder.fingerprint == other.fingerprint
    assert len({one.encoder.fingerprint for one in found}) == 8
    assert found[1].encoder.name == "images of tiny:0, captions of tiny:0, read-out of tiny:1"
    assert found[1].encoder.scale == other.scale
    for one in found:
        assert isinstance(one.encoder, Tiny)
        state = one.encoder.network.state_dict()
        for place, source in {
            "picture.norm.weight": one.choice.image,
            "caption.tokens.weight": one.choice.text,
            "picture.project.weight": one.choice.read_out,
            "caption.project.weight": one.choice.read_out,
        }.items():
            wanted = (base if source == "base" else other).network.state_dict()[place]
            assert torch.equal(state[place], wanted), (one.choice, place)


HF = {
    "clip": {"visual_projection.weight", "text_projection.weight", "logit_scale"},
    "siglip": {"text_model.head.weight", "text_model.head.bias", "logit_scale", "logit_bias"},
    "align": {"text_projection.weight", "text_projection.bias", "log_scale"},
}


@pytest.mark.parametrize("kind", HF)
def test_models_of_transformers(hf_folder: Callable[[str], Path], kind: str) -> None:
    base = load_hf(str(hf_folder(kind)))
    assert isinstance(base, DualEncoder)
    trainable = make_trainable(base, device="cpu")
    parts = parts_of(trainable)
    names = set(trainable.module.state_dict())
    assert parts.read_out == HF[kind]
    assert parts.image | parts.text | parts.read_out == names
    assert parts.image == {n for n in names if n.startswith("vision_model.")}
    assert len(parts.image) + len(parts.text) + len(parts.read_out) == len(names)
    assert bool(parts.notes) == (kind in ("siglip", "align"))
    other = perturbed(base, "other", size=0.05)
    found = transplant(base, other)
    for whole, ends in ((base, found[0]), (other, found[-1])):
        assert all(map(torch.equal, vectors(ends.encoder), vectors(whole)))
    assert len(found) == 8
    assert type(found[3].encoder) is type(base)
    mixed = {one.choice: one.encoder for one in found}[Combination("other", "base", "other")]
    assert not torch.equal(vectors(mixed)[1], vectors(other)[1])


class _NoProjection:
    """Encoders of two layers without a projection."""

    name = "plain"

    def __init__(self) -> None:
        self.module: Any = nn.Module()
        self.module.eyes, self.module.words = nn.Linear(2, 2), nn.Linear(2, 2)
        self.module.eyes.register_buffer("grid", torch.ones(2))
        self.module.register_buffer("mask", torch.ones(2))
        self.module.scale = nn.Parameter(torch.tensor(1.0))
        self.image_layers = [[self.module.eyes.weight], [self.module.eyes.bias]]
        self.text_layers = [[self.module.words]]
        self.temperature = [self.module.scale]


def test_without_a_projection_there_are_two_parts() -> None:
    parts = parts_of(_NoProjection())  # type: ignore[arg-type]
    assert parts.read_out == frozenset()
    # A buffer right in the image encoder is the encoder's; the scale goes with the text.
    assert parts.image == {"eyes.weight", "eyes.bias", "eyes.grid"}
    assert parts.text == {"words.weight", "words.bias", "scale", "mask"}
    assert parts.notes == (
        "neither encoder has a separate projection: only encoders were exchanged",
    )


def test_encoders_that_share_weights_are_refused() -> None:
    plain = _NoProjection()
    plain.text_layers = [[plain.module.eyes, plain.module.words]]
    with pytest.raises(
        UnbagError, match="plain cannot be taken apart: its encoders share 2 weights"
    ):
        parts_of(plain)  # type: ignore[arg-type]


def test_another_architecture_is_refused() -> None:
    wide = small(0, name="wide", config=replace(CONFIG, joint=12))
    with pytest.raises(UnbagError) as caught:
        transplant(small(0), wide)
    assert str(caught.value).startswith("tiny:0 and wide differ in architecture: ")
    assert "name that one as --against" in str(caught.value)
    assert "--base" not in str(caught.value)


def test_another_vocabulary_is_refused() -> None:
    turned = small(0, name="turned", config=replace(CONFIG, words=WORDS[::-1]))
    with pytest.raises(UnbagError, match="compute different vectors from the same") as caught:
        transplant(small(0), turned)
    assert "name that one as --against" in str(caught.value)


def test_another_preparation_is_refused() -> None:
    class Mirrored(Tiny):
        def prepare(self, image: Image.Image) -> Tensor:
            return super().prepare(image).flip(-1)

    mirrored = Mirrored(untrained(CONFIG, seed=0), name="mirrored")
    with pytest.raises(UnbagError, match="tiny:0 and mirrored prepare an image differently"):
        transplant(small(0), mirrored)


def test_a_model_without_encoders_is_refused() -> None:
    class Chat:
        name = "chat"

    with pytest.raises(UnbagError) as caught:
        transplant(small(0), Chat())  # type: ignore[arg-type]
    assert str(caught.value).startswith(
        "chat cannot be taken apart into two encoders and a read-out"
    )
    assert "chat models and matching heads have no two encoders" in str(caught.value)
