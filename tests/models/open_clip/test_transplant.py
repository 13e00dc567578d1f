"""Encoders of open_clip taken apart: every weight in one part, and the projections of each kind."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from unbag.probes.transplant import Combination, parts_of, transplant
from unbag.training.encoders.adapters import make_trainable
from unbag.types import DualEncoder

pytest.importorskip("open_clip")

Loaded = Callable[[str], Any]
SCALE = {"logit_scale"}
READ_OUT = {
    "clip": SCALE | {"visual.proj", "text_projection"},
    "custom": SCALE | {"visual.proj", "text.text_projection"},
    "bare": SCALE | {"visual.proj"},
    "siglip": SCALE | {"logit_bias", "text.text_projection.weight", "text.text_projection.bias"},
    "convnext": SCALE | {"visual.head.proj.weight", "text.text_projection"},
    "vit-token": SCALE
    | {"visual.head.mlp.fc1.weight", "visual.head.mlp.fc1.bias", "visual.head.mlp.fc2.weight"}
    | {"text.text_projection"},
    "vit-own": SCALE
    | {"visual.trunk.head.weight", "visual.trunk.head.bias", "text.text_projection"},
    "resnet": SCALE
    | {"visual.attnpool.c_proj.weight", "visual.attnpool.c_proj.bias", "text_projection"},
    "coca": SCALE | {"visual.proj", "text.text_projection"},
    "bert-mean": SCALE | {"visual.proj", "text.proj.weight"},
}
"""By hand, from the definitions of the architectures."""
LACK = {"bare": "text", "siglip": "image"}


@pytest.mark.parametrize("kind", READ_OUT)
def test_every_weight_is_in_one_part(loaded: Loaded, kind: str) -> None:
    trainable = make_trainable(loaded(kind), device="cpu")
    parts = parts_of(trainable)
    names = set(trainable.module.state_dict())
    assert parts.read_out == READ_OUT[kind]
    assert parts.image == {n for n in names if n.startswith("visual.")} - READ_OUT[kind]
    assert parts.text == names - parts.image - parts.read_out
    lacks = LACK.get(kind)
    note = f"the {lacks} encoder has no separate projection: the read-out is that of the other"
    assert parts.notes == ((f"{note}, and the scale",) if lacks else ())


def vectors(encoder: DualEncoder) -> tuple[Tensor, Tensor]:
    noise = np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    pixels = encoder.prepare(Image.fromarray(noise))[None]
    return encoder.encode_images(pixels), encoder.encode_texts(["a red dog", "a"])


@pytest.mark.parametrize("kind", ["clip", "siglip", "resnet"])
def test_combinations_of_two_models(loaded: Loaded, kind: str) -> None:
    base = loaded(kind)
    trainable = make_trainable(base, device="cpu")
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in trainable.module.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=rng))
    other = trainable.encoder("other")
    found = transplant(base, other)
    assert len(found) == 8
    for whole, end in ((base, found[0]), (other, found[-1])):
        assert all(map(torch.equal, vectors(end.encoder), vectors(whole)))
        assert end.encoder.scale == whole.scale
        assert end.encoder.bias == whole.bias
    # The vector of an image is that of its encoder and read-out, whatever the captions come from.
    one, two = found[1], found[3]
    assert (one.choice, two.choice) == (
        Combination("base", "base", "other"),
        Combination("base", "other", "other"),
    )
    assert torch.equal(vectors(one.encoder)[0], vectors(two.encoder)[0])
    assert not torch.equal(vectors(one.encoder)[1], vectors(two.encoder)[1])
