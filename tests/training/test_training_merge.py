"""Weights between two models: exact ends, worked numbers between, unlike models refused."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.loading import load_model
from unbag.models.tiny import Tiny, untrained
from unbag.training.encoders.adapters import make_trainable
from unbag.training.merge import interpolate, mix
from unbag.types import DualEncoder

from .export_models import open_clip_config, save_clip, save_open_clip
from .small_world import CONFIG, WORDS, small

FLOATS = st.floats(-1024, 1024, width=32)


def perturbed(encoder: DualEncoder, name: str) -> DualEncoder:
    trainable = make_trainable(encoder, device="cpu")
    rng = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weight in trainable.module.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=rng))
    return trainable.encoder(name)


def vectors(encoder: DualEncoder) -> Tensor:
    noise = np.random.default_rng(1).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    pixels = encoder.prepare(Image.fromarray(noise))[None]
    captions = ["a red star", "a blue cup"]
    return torch.cat([encoder.encode_images(pixels), encoder.encode_texts(captions)])


def test_a_quarter_by_hand() -> None:
    base = {"w": torch.tensor([1.0, -4.0]), "place": torch.tensor([0, 1])}
    tuned = {"w": torch.tensor([3.0, 4.0]), "place": torch.tensor([0, 1])}
    mixed = interpolate(base, tuned, 0.25)
    assert mixed["w"].tolist() == [1.5, -2.0]
    assert mixed["place"].tolist() == [0, 1]
    assert base["w"].tolist() == [1.0, -4.0]


def test_half_precision_is_mixed_in_full() -> None:
    base, tuned = ({"w": torch.tensor([x], dtype=torch.float16)} for x in (1.0, 1.0009765625))
    mixed = interpolate(base, tuned, 0.5)["w"]
    assert mixed.dtype == torch.float32
    assert mixed.item() == 1.00048828125


@given(FLOATS, FLOATS)
def test_ends_are_the_models_bit_for_bit(first: float, second: float) -> None:
    base, tuned = {"w": torch.tensor([first, -0.0])}, {"w": torch.tensor([second, -0.0])}
    for weight, state in ((0.0, base), (1.0, tuned)):
        assert interpolate(base, tuned, weight)["w"].numpy().tobytes() == (
            state["w"].numpy().tobytes()
        )


def test_mixes_of_the_tiny_encoder() -> None:
    base, tuned = small(0), perturbed(small(0), "tuned")
    before = vectors(base)
    mixes = mix(base, tuned, (0.0, 0.5, 1.0))
    assert [one.weight for one in mixes] == [0.0, 0.5, 1.0]
    assert [one.encoder.name for one in mixes] == ["mix 0", "mix 0.5", "mix 1"]
    # The fingerprint is of all weights, so the ends are the models themselves.
    assert mixes[0].encoder.fingerprint == base.fingerprint
    assert mixes[2].encoder.fingerprint == tuned.fingerprint
    assert mixes[1].encoder.fingerprint not in (base.fingerprint, tuned.fingerprint)
    assert isinstance(mixes[1].encoder, Tiny)
    # The logarithm of the scale is what is mixed.
    assert mixes[1].encoder.scale == pytest.approx(sqrt(base.scale * tuned.scale))
    assert torch.equal(vectors(mixes[0].encoder), before)
    assert torch.equal(vectors(mixes[2].encoder), vectors(tuned))
    assert torch.equal(vectors(base), before)


def test_half_is_the_mean_of_all_weights() -> None:
    base, tuned = small(0), small(1)
    (half,) = mix(base, tuned, [0.5])
    network = untrained(CONFIG, seed=0)
    both = (base.network.state_dict(), tuned.network.state_dict())
    network.load_state_dict({key: (both[0][key] + both[1][key]) / 2 for key in both[0]})
    assert torch.equal(vectors(half.encoder), vectors(Tiny(network, name="by hand")))


@pytest.mark.parametrize("kind", ["open_clip", "hf"])
def test_models_of_the_libraries(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("open_clip" if kind == "open_clip" else "transformers")
    name = (
        save_open_clip(tmp_path / "clip", open_clip_config(quick_gelu=True))
        if kind == "open_clip"
        else save_clip(tmp_path / "clip")
    )
    base = load_model(name)
    assert isinstance(base, DualEncoder)
    tuned = perturbed(base, "tuned")
    start, half, end = mix(base, tuned, (0.0, 0.5, 1.0))
    assert type(half.encoder) is type(base)
    assert torch.equal(vectors(start.encoder), vectors(base))
    assert torch.equal(vectors(end.encoder), vectors(tuned))
    assert half.encoder.scale == pytest.approx(sqrt(base.scale * tuned.scale), rel=1e-5)
    assert len({one.encoder.fingerprint for one in (start, half, end)}) == 3


def test_other_sizes_are_refused_by_name() -> None:
    wide = small(0, name="wide", config=replace(CONFIG, joint=12))
    with pytest.raises(UnbagError) as caught:
        mix(small(0), wide, [0.5])
    assert str(caught.value).startswith("tiny:0 and wide differ in architecture: ")
    assert "is 8 x 8 in tiny:0, 12 x 8 in wide" in str(caught.value)
    assert "name the model that the fine-tuning started from as --base" in str(caught.value)


def test_a_deeper_encoder_is_refused_and_the_rest_counted() -> None:
    deep = small(0, name="deep", config=replace(CONFIG, caption_depth=2))
    with pytest.raises(UnbagError, match=r"is only in deep; .* is only in deep; and \d+ more"):
        mix(small(0), deep, [0.5])


def test_other_whole_numbers_are_refused() -> None:
    base, tuned = {"place": torch.tensor([0])}, {"place": torch.tensor([1])}
    with pytest.raises(UnbagError, match="place holds other integers"):
        interpolate(base, tuned, 0.5)


def test_another_vocabulary_of_the_same_size_is_refused() -> None:
    turned = small(0, name="turned", config=replace(CONFIG, words=WORDS[::-1]))
    with pytest.raises(
        UnbagError, match="compute different vectors from the same weights"
    ) as caught:
        mix(small(0), turned, [0.5])
    assert "the same preparation, tokenizer, vocabulary and activation" in str(caught.value)


def test_another_tokenizer_is_refused() -> None:
    class Longer(Tiny):
        def count_tokens(self, captions: object) -> list[int]:
            return [9]

    with pytest.raises(UnbagError, match="have different tokenizers"):
        mix(small(0), Longer(untrained(CONFIG, seed=0), name="longer"), [0.5])


def test_another_preparation_is_refused() -> None:
    class Mirrored(Tiny):
        def prepare(self, image: Image.Image) -> Tensor:
            return super().prepare(image).flip(-1)

    mirrored = Mirrored(untrained(CONFIG, seed=0), name="mirrored")
    with pytest.raises(UnbagError, match="tiny:0 and mirrored prepare an image differently"):
        mix(small(0), mirrored, [0.5])
