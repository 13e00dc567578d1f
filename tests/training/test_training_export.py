"""A CLIP of OpenCLIP, exported: both folders, read by plain code, give its vectors."""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Images
from PIL.Image import Image
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import normalize

from unbag.models.loading import load_model
from unbag.reports.cards import Card, Cost, Exported
from unbag.training.export.clip import to_open_clip
from unbag.training.export.export import export
from unbag.types import DualEncoder

from .export_models import SIDE, open_clip_config, save_open_clip

open_clip: Any = pytest.importorskip("open_clip")
tf: Any = pytest.importorskip("transformers")
CAPTIONS = ("a", "the horse eats the grass", "a red cube left of a blue ball, and more " * 12)
CONFIGS = {
    "gelu": open_clip_config(),
    "quickgelu": open_clip_config(quick_gelu=True, custom_text=True),
    "bias": open_clip_config(
        init_logit_bias=-9.5, text={"norm_kwargs": {"eps": 0.01}, "context_length": 16}
    ),
}
CARD = Card("mine", "open_clip:base", recipe="hard_positive", cost=Cost(5, 640, 3700.0, "CPU"))


@pytest.fixture(scope="module", params=CONFIGS)
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[DualEncoder, Exported]:
    root = tmp_path_factory.mktemp("export")
    squash = {"resize_mode": "squash", "interpolation": "bilinear", "mean": [0.5, 0.4, 0.3]}
    preparation = squash if request.param == "bias" else {}
    name = save_open_clip(root / "source", CONFIGS[request.param], **preparation)
    encoder = load_model(name)
    assert isinstance(encoder, DualEncoder)
    return encoder, export(encoder, root / "out", card=CARD)


def noise() -> list[Image]:
    rng = np.random.default_rng(0)
    shapes = ((SIDE, SIDE, 3), (70, 50, 3), (41, 90, 3))
    return [Images.fromarray(rng.integers(0, 256, s, dtype=np.uint8)) for s in shapes]


def mine(encoder: DualEncoder, images: Sequence[Image]) -> tuple[Tensor, Tensor]:
    pixels = torch.stack([encoder.prepare(one) for one in images])
    return encoder.encode_images(pixels), encoder.encode_texts(CAPTIONS)


def test_plain_open_clip_gives_the_same_vectors(made: tuple[DualEncoder, Exported]) -> None:
    encoder, found = made
    name = f"local-dir:{found.path / 'open_clip'}"
    model, _, transform = open_clip.create_model_and_transforms(name)
    tokens = open_clip.get_tokenizer(name)(list(CAPTIONS))
    assert tokens.shape[1] == encoder.context
    with torch.no_grad():
        images = model.eval().encode_image(torch.stack(list(map(transform, noise()))))
        captions = model.encode_text(tokens)
    image_ND, caption_ND = mine(encoder, noise())
    torch.testing.assert_close(normalize(images, dim=-1), image_ND, atol=1e-6, rtol=0)
    torch.testing.assert_close(normalize(captions, dim=-1), caption_ND, atol=1e-6, rtol=0)
    assert model.logit_scale.exp().item() == pytest.approx(encoder.scale)
    assert encoder.bias == (0.0 if model.logit_bias is None else model.logit_bias.item())


def test_plain_transformers_gives_the_same_vectors(made: tuple[DualEncoder, Exported]) -> None:
    encoder, found = made
    model = tf.CLIPModel.from_pretrained(found.path / "transformers").eval()
    processor = tf.AutoProcessor.from_pretrained(found.path / "transformers")
    inputs = processor(
        text=list(CAPTIONS), padding="max_length", truncation=True, return_tensors="pt"
    )
    assert inputs["input_ids"].shape[1] == encoder.context
    pixels = torch.stack([encoder.prepare(one) for one in noise()])
    with torch.no_grad():
        images = model.get_image_features(pixel_values=pixels).pooler_output
        captions = model.get_text_features(**inputs).pooler_output
    image_ND, caption_ND = mine(encoder, noise())
    torch.testing.assert_close(normalize(images, dim=-1), image_ND, atol=1e-5, rtol=0)
    torch.testing.assert_close(normalize(captions, dim=-1), caption_ND, atol=1e-5, rtol=0)
    assert model.logit_scale.exp().item() == pytest.approx(encoder.scale)
    # Resized by other code; the first image has the encoder's size and is not resized.
    theirs = processor(images=noise(), return_tensors="pt")["pixel_values"]
    torch.testing.assert_close(theirs[0], pixels[0], atol=1e-6, rtol=0)
    assert ((theirs - pixels).abs() * 0.3 * 255).max() < 2.0


def test_unbag_loads_both_under_names_of_their_own(made: tuple[DualEncoder, Exported]) -> None:
    encoder, found = made
    again = [load_model(one.model_name(found.path)) for one in found.folders]
    assert [one.name for one in again] == ["out/open_clip", "out/transformers"]
    for one in again:
        assert isinstance(one, DualEncoder)
        captions = one.encode_texts(CAPTIONS)
        torch.testing.assert_close(captions, encoder.encode_texts(CAPTIONS), atol=1e-5, rtol=0)
        assert one.context == encoder.context


def test_the_record_says_what_was_written(made: tuple[DualEncoder, Exported]) -> None:
    encoder, found = made
    record = json.loads((found.path / "unbag.json").read_text(encoding="utf-8"))
    assert record["fingerprint"] == encoder.fingerprint
    assert record["card"]["cost"]["steps"] == 5
    assert record["left_out"] == {}
    weights = dict(pair for one in found.folders for pair in one.weights)
    assert len(weights) == 2
    for file, said in weights.items():
        assert sha256((found.path / file).read_bytes()).hexdigest() == said
    assert all(one.agreement.vectors < 1e-6 for one in found.folders)
    assert sorted(p.name for p in found.path.iterdir()) == [
        "README.md", "open_clip", "transformers", "unbag.json",
    ]  # fmt: skip
    assert not list(found.path.parent.glob(".*.part"))
    has_bias = encoder.bias == -9.5
    assert has_bias == any("-9.5000, has no place in transformers" in n for n in found.notes)


def test_a_cut_that_is_a_pixel_apart_is_said(made: tuple[DualEncoder, Exported]) -> None:
    """Of three columns open_clip cuts two on the left, transformers one; squashing cuts none."""
    encoder, found = made
    other = next(one for one in found.folders if one.library == "transformers")
    is_cut = encoder.bias == 0
    assert (other.agreement.levels > 20) == is_cut
    assert (other.agreement.cosine < 0.999) == is_cut
    said = any("Images prepared by transformers get different vectors" in n for n in found.notes)
    assert said == is_cut


def test_the_weights_of_both_folders_are_bit_for_bit_the_same(
    made: tuple[DualEncoder, Exported],
) -> None:
    _, found = made
    ours = load_file(found.path / "open_clip" / "open_clip_model.safetensors")
    theirs = to_open_clip(load_file(found.path / "transformers" / "model.safetensors"))
    # The second form of open_clip's CLIP comes back as the first.
    plain = {name.removeprefix("text."): value for name, value in ours.items()}
    assert set(plain) - set(theirs) <= {"logit_bias"}
    assert all(torch.equal(theirs[name], plain[name]) for name in theirs)
