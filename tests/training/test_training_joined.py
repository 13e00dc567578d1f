"""Joined models in training: what is locked stays, what is open is trained and exported."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from unbag.data.pairs import Pairs
from unbag.errors import UnbagError
from unbag.models.joined import JoinedEncoder, load
from unbag.models.loading import model_name
from unbag.training.data.world import WorldBatches
from unbag.training.encoders.adapters import JoinedTrainable, make_trainable
from unbag.training.encoders.base import apply_freeze
from unbag.training.export.export import export
from unbag.training.fine_tuning import TrainJob, train
from unbag.training.merge import mix
from unbag.training.recipes import Freeze, Lora, make_recipe

from .joined_runs import (
    CAPTIONS,
    CARD,
    PART,
    is_same,
    part,
    recipe,
    save_eyes,
    save_pairs,
    trainable_of,
    trained,
)
from .small_runs import fast, weights

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("joined")


@pytest.fixture(scope="module")
def image(folder: Path) -> str:
    return save_eyes(folder)


@pytest.fixture(scope="module")
def joined(image: str, text_folder: Callable[[str], Path]) -> JoinedEncoder:
    return load(f"{image}+{text_folder('llama')}")


@pytest.fixture(scope="module")
def pairs(folder: Path) -> Pairs:
    return save_pairs(folder)


def test_vectors_are_those_of_the_encoder(joined: JoinedEncoder) -> None:
    network = trainable_of(joined)
    assert isinstance(network, JoinedTrainable)
    network.module.eval()
    assert torch.allclose(
        network.embed_texts(network.reads.tokenize(CAPTIONS)), joined.encode_texts(CAPTIONS),
        atol=1e-6,
    )  # fmt: skip
    image = Image.new("RGB", (32, 32), (200, 30, 90))
    seen = network.embed_images(network.reads.prepare(image)[None])
    assert torch.allclose(seen, joined.encode_images(joined.prepare(image)[None]), atol=1e-6)
    again = network.encoder("again")
    assert again.fingerprint == joined.fingerprint
    assert again.image is joined.image
    assert again.text is joined.text


def test_what_locks_leave_open(joined: JoinedEncoder) -> None:
    network = trainable_of(joined)
    # Embedding, two blocks, the last norm, the connector.
    assert [len(layer) for layer in network.text_layers] == [1, 1, 1, 2, 1]
    connector = 17 * 16 + 17 * 8
    told = apply_freeze(network, PART)
    assert "image encoder 0 of " in told
    assert f"text encoder {connector:,} of " in told
    opened = [name for name, w in network.module.named_parameters() if w.requires_grad]
    assert {name.split(".")[0] for name in opened} == {"picture", "connector"}
    assert [name for name in opened if name.startswith("picture")] == ["picture.log_scale"]


def test_the_text_encoder_that_was_there_is_closed(joined: JoinedEncoder) -> None:
    network = trainable_of(joined)
    opened = {name for name, w in network.module.named_parameters() if w.requires_grad}
    assert not any(name.startswith("picture.caption.") for name in opened)
    assert any(name.startswith("picture.picture.") for name in opened)
    assert any(name.startswith("text.") for name in opened)


@pytest.mark.parametrize(
    ("freeze", "changes"),
    [
        (PART, ("connector",)),
        (Freeze("all"), ("text", "connector")),
        (Freeze(0, "part"), ("picture", "connector")),
        (Freeze(), ("picture", "text", "connector")),
    ],
)
def test_only_what_is_open_changes_and_is_exported(
    freeze: Freeze, changes: tuple[str, ...], joined: JoinedEncoder, pairs: Pairs, tmp_path: Path
) -> None:
    before = trainable_of(joined).module.state_dict()
    network = trained(joined, tmp_path / "run", pairs, recipe("hard_negative", freeze))
    after = weights(tmp_path / "run")
    parts = {"picture": "picture.picture.", "text": "text.", "connector": "connector."}
    moved = {
        name
        for name, start in parts.items()
        if not is_same(part(before, start), part(after, start))
    }
    assert moved == {*changes}
    encoder = network.encoder("after")
    assert encoder.fingerprint != joined.fingerprint
    assert encoder.scale != joined.scale
    found = export(encoder, tmp_path / "out", card=CARD)
    assert found.folders[0].agreement.vectors < 1e-6
    again = load(str(tmp_path / "out"))
    assert again.fingerprint == encoder.fingerprint
    assert again.scale == encoder.scale
    assert torch.equal(again.encode_texts(CAPTIONS), encoder.encode_texts(CAPTIONS))
    held = load_file(tmp_path / "out" / "joined" / "joined.safetensors")
    assert {name.split(".")[0] for name in held} == {*changes}
    # Goes on from there, with the same temperature and parts.
    assert make_trainable(again, device="cpu").encoder("x").fingerprint == encoder.fingerprint
    note = json.loads((tmp_path / "out" / "unbag.json").read_text())["notes"][0]
    assert joined.origin.image_fingerprint in note
    assert ("trained parameters" in note) is (len(changes) > 1)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "import unbag.models.joined\n" in card
    assert model_name(str(tmp_path / "out")) == f"joined:{tmp_path / 'out'}/joined"


@pytest.mark.parametrize("name", ["clip_ft", "ce_clip_fixed", "hard_positive", "svlc"])
def test_recipes_on_the_world(name: str, joined: JoinedEncoder, tmp_path: Path) -> None:
    """By the text part's own tokens; svlc brings LoRA, which leaves the connector open."""
    if name == "svlc":
        pytest.importorskip("peft")
    asked = replace(fast(name, "epochs=1", "distil=0.5"), freeze=Freeze("all"))
    network = trainable_of(joined)
    batches = WorldBatches(asked, network.reads, seed=0, per_epoch=2)
    before = {n: w.clone() for n, w in network.module.state_dict().items()}
    train(TrainJob(network, batches, asked, tmp_path / "run"))
    after = network.module.state_dict()
    assert is_same(part(before, "picture.picture."), part(after, "picture.picture."))
    assert not is_same(part(before, "connector."), part(after, "connector."))
    found = network.encoder("after")
    assert found.changed.text
    assert not found.changed.image
    export(found, tmp_path / "out", card=CARD)


def test_lora_keeps_the_frozen_weights(joined: JoinedEncoder, pairs: Pairs, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    asked = recipe("clip_ft", Freeze("all"), lora=Lora(rank=2))
    network = trained(joined, tmp_path / "run", pairs, asked)
    opened = {n for n, w in network.module.named_parameters() if w.requires_grad}
    assert {n for n in opened if "lora" not in n} == {
        "picture.log_scale", "connector.0.weight", "connector.0.bias", "connector.2.weight",
        "connector.2.bias",
    }  # fmt: skip
    encoder = network.encoder("after")
    assert isinstance(encoder, JoinedEncoder)
    start = joined.text.module.state_dict()
    assert encoder.text.module.state_dict().keys() == start.keys()
    assert all(".layers." in f".{name}" for name in encoder.changed.text)


def test_sides_with_the_image_encoder_locked(joined: JoinedEncoder, tmp_path: Path) -> None:
    settings = ["sides=true", "batch_size=4", "epochs=1", "warmup_steps=1", "freeze.text=part"]
    asked = make_recipe("locked_image", settings)
    network = trainable_of(joined)
    train(
        TrainJob(network, WorldBatches(asked, network.reads, seed=0, per_epoch=2), asked, tmp_path)
    )
    encoder = network.encoder("after")
    assert isinstance(encoder, JoinedEncoder)
    assert not encoder.changed.text


def test_an_encoder_of_text_and_its_pooler(image: str, text_folder: Callable[[str], Path]) -> None:
    network = trainable_of(load(f"{image}+{text_folder('bert')}"))
    # transformers makes a pooler that the checkpoint has no weights for; no vector needs it.
    assert [len(layer) for layer in network.text_layers] == [1, 1, 1, 1, 1]
    opened = [name for name, w in network.module.named_parameters() if w.requires_grad]
    assert not any("pooler" in name for name in opened)


def test_joined_models_are_not_merged(joined: JoinedEncoder) -> None:
    with pytest.raises(UnbagError, match="is a joined model, whose connector began") as caught:
        mix(joined, joined, [0.5])
    assert caught.value.expected == "a model that was trained before it was fine-tuned"


def test_half_precision_is_not_exported(joined: JoinedEncoder, tmp_path: Path) -> None:
    half = load(f"{joined.origin.image}+{joined.origin.text}", dtype="bfloat16")
    with pytest.raises(UnbagError, match=r"are torch.bfloat16, torch.float32"):
        export(half, tmp_path / "out", card=CARD)
