"""Joined models on image encoders of every library: trained end to end, exported, read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from unbag.models.joined import load, module_of
from unbag.training.data.world import WorldBatches
from unbag.training.export.export import export
from unbag.training.fine_tuning import TrainJob, train
from unbag.training.recipes import Freeze

from .export_models import open_clip_config, save_open_clip
from .joined_runs import CAPTIONS, CARD, recipe, trainable_of

pytest.importorskip("transformers")
IMAGE = Image.linear_gradient("L").convert("RGB")


def image_of(kind: str, hf_folder: Callable[[str], Path], tmp_path: Path) -> str:
    if kind == "open_clip":
        pytest.importorskip("open_clip")
        return save_open_clip(tmp_path / "open_clip", open_clip_config())
    return f"hf:{hf_folder(kind)}"


@pytest.mark.filterwarnings("ignore:.*the text encoder")
@pytest.mark.parametrize("kind", ["clip", "siglip", "align", "open_clip"])
def test_an_image_encoder_of_another_library(
    kind: str,
    hf_folder: Callable[[str], Path],
    text_folder: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    joined = load(f"{image_of(kind, hf_folder, tmp_path)}+{text_folder('llama')}")
    pixels = joined.prepare(IMAGE)[None]
    before = {k: v.clone() for k, v in module_of(joined.image).state_dict().items()}
    network = trainable_of(joined)
    # In train mode a batch norm would take its averages from this one image.
    network.module.eval()
    seen = network.embed_images(network.reads.prepare(IMAGE)[None]).detach()
    assert torch.allclose(network.embed_images(pixels), joined.encode_images(pixels), atol=1e-5)
    assert seen.shape == joined.encode_texts(CAPTIONS)[:1].shape
    name = "siglip_hn" if kind == "siglip" else "hard_negative"
    asked = recipe(name, Freeze(0, "part"))
    train(
        TrainJob(
            network,
            WorldBatches(asked, network.reads, seed=0, per_epoch=1),
            asked,
            tmp_path / "run",
        )
    )
    after = network.encoder("after")
    assert after.changed.image
    assert not after.changed.text
    assert not torch.allclose(after.encode_images(pixels), joined.encode_images(pixels))
    assert (after.bias != 0) is (kind == "siglip")
    # The encoder that was given stays as it was.
    now = module_of(joined.image).state_dict()
    assert all(torch.equal(now[k], v) for k, v in before.items())
    export(after, tmp_path / "out", card=CARD)
    again = load(str(tmp_path / "out"))
    assert again.fingerprint == after.fingerprint
    assert (again.scale, again.bias) == (after.scale, after.bias)
    assert torch.allclose(again.encode_images(pixels), after.encode_images(pixels), atol=1e-6)
