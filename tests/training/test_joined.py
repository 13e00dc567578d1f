"""Joined models: freezing, cached features, tables, and image models of every library."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from unbag.data.pairs import Pairs
from unbag.errors import UnbagError
from unbag.models.joined import JoinedEncoder, load, module_of
from unbag.models.loading import model_name
from unbag.models.text_encoders import write_table
from unbag.models.tiny import write
from unbag.reports.cards import Card
from unbag.runs.progress import Silent
from unbag.training.data.world import WorldBatches
from unbag.training.encoders.adapters import JoinedTrainable, make_trainable
from unbag.training.encoders.base import Trainable, apply_freeze
from unbag.training.encoders.cached_features import CachedEncoders, cache_frozen
from unbag.training.export.export import export
from unbag.training.fine_tuning import TrainJob, train
from unbag.training.merge import mix
from unbag.training.recipes import Freeze, Lora, make_recipe
from unbag.training.repair import repair

from .export_models import open_clip_config, save_open_clip
from .frozen_runs import recipe, save_pairs, trained
from .small_runs import fast, same, weights
from .small_world import SWAP, small

pytest.importorskip("transformers")
CAPTIONS = ("a red cube", "a blue ball on a dog")
PART = Freeze("all", "part")
CARD = Card(title="t", base="b", recipe="r", settings="", data="d")


def part(state: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    return {name.removeprefix(start): v for name, v in state.items() if name.startswith(start)}


def trainable_of(joined: JoinedEncoder) -> JoinedTrainable:
    trainable = make_trainable(joined, device="cpu")
    assert isinstance(trainable, JoinedTrainable)
    return trainable


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("joined")


@pytest.fixture(scope="module")
def image(folder: Path) -> str:
    write(small(1).network, folder / "image.safetensors", dtype=torch.float32)
    return f"tiny:{folder / 'image.safetensors'}"


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
    image_ND = network.embed_images(network.reads.prepare(image)[None])
    assert torch.allclose(image_ND, joined.encode_images(joined.prepare(image)[None]), atol=1e-6)
    loaded = network.encoder("again")
    assert loaded.fingerprint == joined.fingerprint
    assert loaded.image is joined.image
    assert loaded.text is joined.text


def test_what_is_trainable(joined: JoinedEncoder) -> None:
    network = trainable_of(joined)
    # Embedding, two blocks, the last norm, the connector.
    assert [len(layer) for layer in network.text_layers] == [1, 1, 1, 2, 1]
    connector = 17 * 16 + 17 * 8
    summary = apply_freeze(network, PART)
    assert "image encoder 0 of " in summary
    assert f"text encoder {connector:,} of " in summary
    trainable_names = [name for name, w in network.module.named_parameters() if w.requires_grad]
    assert {name.split(".")[0] for name in trainable_names} == {"picture", "connector"}
    assert [name for name in trainable_names if name.startswith("picture")] == ["picture.log_scale"]


def test_the_original_text_encoder_is_frozen(joined: JoinedEncoder) -> None:
    network = trainable_of(joined)
    trainable_names = {name for name, w in network.module.named_parameters() if w.requires_grad}
    assert not any(name.startswith("picture.caption.") for name in trainable_names)
    assert any(name.startswith("picture.picture.") for name in trainable_names)
    assert any(name.startswith("text.") for name in trainable_names)


@pytest.mark.parametrize(
    ("freeze", "changes"),
    [
        (PART, ("connector",)),
        (Freeze("all"), ("text", "connector")),
        (Freeze(0, "part"), ("picture", "connector")),
        (Freeze(), ("picture", "text", "connector")),
    ],
)
def test_only_trainable_parts_change_and_are_exported(
    freeze: Freeze, changes: tuple[str, ...], joined: JoinedEncoder, pairs: Pairs, tmp_path: Path
) -> None:
    before = trainable_of(joined).module.state_dict()
    network = trained(
        joined, tmp_path / "run", pairs, recipe("hard_negative", freeze), caches=False
    )
    after = weights(tmp_path / "run")
    parts = {"picture": "picture.picture.", "text": "text.", "connector": "connector."}
    changed_parts = {
        name for name, start in parts.items() if not same(part(before, start), part(after, start))
    }
    assert changed_parts == {*changes}
    encoder = network.encoder("after")
    assert encoder.fingerprint != joined.fingerprint
    assert encoder.scale != joined.scale
    result = export(encoder, tmp_path / "out", card=CARD)
    assert result.folders[0].agreement.vectors < 1e-6
    loaded = load(str(tmp_path / "out"))
    assert loaded.fingerprint == encoder.fingerprint
    assert loaded.scale == encoder.scale
    assert torch.equal(loaded.encode_texts(CAPTIONS), encoder.encode_texts(CAPTIONS))
    tensors = load_file(tmp_path / "out" / "joined" / "joined.safetensors")
    assert {name.split(".")[0] for name in tensors} == {*changes}
    # Goes on from there, with the same temperature and parts.
    assert make_trainable(loaded, device="cpu").encoder("x").fingerprint == encoder.fingerprint
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
    config = replace(fast(name, "epochs=1", "distil=0.5"), freeze=Freeze("all"))
    network = trainable_of(joined)
    batches = WorldBatches(config, network.reads, seed=0, per_epoch=2)
    before = {n: w.clone() for n, w in network.module.state_dict().items()}
    train(TrainJob(network, batches, config, tmp_path / "run"))
    after = network.module.state_dict()
    assert same(part(before, "picture.picture."), part(after, "picture.picture."))
    assert not same(part(before, "connector."), part(after, "connector."))
    result = network.encoder("after")
    assert result.changed.text
    assert not result.changed.image
    export(result, tmp_path / "out", card=CARD)


def test_lora_keeps_the_frozen_weights(joined: JoinedEncoder, pairs: Pairs, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    config = recipe("clip_ft", Freeze("all"), lora=Lora(rank=2))
    network = trained(joined, tmp_path / "run", pairs, config, caches=False)
    trainable_names = {n for n, w in network.module.named_parameters() if w.requires_grad}
    assert {n for n in trainable_names if "lora" not in n} == {
        "picture.log_scale", "connector.0.weight", "connector.0.bias", "connector.2.weight",
        "connector.2.bias",
    }  # fmt: skip
    encoder = network.encoder("after")
    assert isinstance(encoder, JoinedEncoder)
    start = joined.text.module.state_dict()
    assert encoder.text.module.state_dict().keys() == start.keys()
    assert all(".layers." in f".{name}" for name in encoder.changed.text)


def test_sides_with_the_image_encoder_frozen(joined: JoinedEncoder, tmp_path: Path) -> None:
    settings = ["sides=true", "batch_size=4", "epochs=1", "warmup_steps=1", "freeze.text=part"]
    config = make_recipe("locked_image", settings)
    network = trainable_of(joined)
    train(TrainJob(network, WorldBatches(config, network.reads, per_epoch=2), config, tmp_path))
    encoder = network.encoder("after")
    assert isinstance(encoder, JoinedEncoder)
    assert not encoder.changed.text


def test_an_encoder_of_text_and_its_pooler(image: str, text_folder: Callable[[str], Path]) -> None:
    network = trainable_of(load(f"{image}+{text_folder('bert')}"))
    # transformers makes a pooler that the checkpoint has no weights for; no vector needs it.
    assert [len(layer) for layer in network.text_layers] == [1, 1, 1, 1, 1]
    trainable_names = [name for name, w in network.module.named_parameters() if w.requires_grad]
    assert not any("pooler" in name for name in trainable_names)


def test_joined_models_are_not_merged(joined: JoinedEncoder) -> None:
    with pytest.raises(
        UnbagError, match="is a joined model, whose connector was untrained"
    ) as caught:
        mix(joined, joined, [0.5])
    assert caught.value.expected == "a model that was trained before it was fine-tuned"


def test_half_precision_is_not_exported(joined: JoinedEncoder, tmp_path: Path) -> None:
    half = load(f"{joined.origin.image}+{joined.origin.text}", dtype="bfloat16")
    with pytest.raises(UnbagError, match=r"are torch.bfloat16, torch.float32"):
        export(half, tmp_path / "out", card=CARD)


def test_training_on_cached_features_is_training(
    joined: JoinedEncoder, pairs: Pairs, tmp_path: Path
) -> None:
    config = recipe("hard_negative", PART, epsilon=1e-4)
    plain = trained(joined, tmp_path / "plain", pairs, config, caches=False)
    cached = trained(joined, tmp_path / "cached", pairs, config)
    assert isinstance(cached, CachedEncoders)
    one, other = weights(tmp_path / "plain"), weights(tmp_path / "cached")
    assert one.keys() == other.keys()
    # Passes of another size round in another way; nothing else differs.
    assert all(torch.allclose(one[k], other[k], atol=1e-4) for k in one)
    assert same(part(other, "text."), joined.text.module.state_dict())
    vectors = [t.encoder("x").encode_texts(CAPTIONS) for t in (plain, cached)]
    assert torch.allclose(vectors[0], vectors[1], atol=1e-3)
    assert not torch.allclose(vectors[0], joined.encode_texts(CAPTIONS), atol=0.05)


def test_what_is_cached(joined: JoinedEncoder, pairs: Pairs) -> None:
    network = trainable_of(joined)

    def cached(freeze: Freeze, name: str = "clip_ft") -> Trainable:
        config = recipe(name, freeze)
        return cache_frozen(joined, network, pairs, config, cache=None, progress=Silent())

    assert cached(Freeze()) is network
    # A head of the image encoder that learns needs its pixels.
    assert cached(Freeze("part")) is network
    image_ND = cached(Freeze("all"))
    assert isinstance(image_ND, CachedEncoders)
    assert "input_ids" in image_ND.reads.tokenize(CAPTIONS)
    assert torch.allclose(
        image_ND.embed_images(torch.tensor([3])),
        joined.encode_images(joined.prepare(pairs[3].image.open())[None]), atol=1e-6,
    )  # fmt: skip
    text_part = cached(Freeze(0, "part"), "hard_negative")
    assert set(text_part.reads.tokenize([pairs[0].captions[0]])) == {"place_N"}
    start = recipe("clip_ft", PART)
    assert isinstance(cached(start.freeze), CachedEncoders)


def test_a_table_of_features(
    joined: JoinedEncoder, image: str, pairs: Pairs, tmp_path: Path
) -> None:
    texts = [text for at in range(8) for text in pairs[at].captions]
    texts += [edit.text for at in range(8) for edits in pairs[at].edits for edit in edits]
    write_table(tmp_path / "t.safetensors", texts, joined.text_features(texts))
    table = load(f"{image}+features:{tmp_path / 't.safetensors'}")
    config = recipe("hard_negative", Freeze("all", 0), epsilon=1e-4)
    result = trained(table, tmp_path / "table", pairs, config)
    config = replace(config, freeze=PART)
    expected = trained(joined, tmp_path / "plain", pairs, config, caches=False)
    one, other = (t.encoder("x").encode_texts(texts[:4]) for t in (result, expected))
    assert torch.allclose(one, other, atol=1e-3)
    export(result.encoder("x"), tmp_path / "out", card=CARD)
    assert torch.equal(load(str(tmp_path / "out")).encode_texts(texts[:4]), one)


def test_benchmarks_that_a_table_does_not_know(
    joined: JoinedEncoder, image: str, tmp_path: Path
) -> None:
    """Before the first step, not after the last."""
    write_table(tmp_path / "t.safetensors", CAPTIONS, joined.text_features(CAPTIONS))
    table = load(f"{image}+features:{tmp_path / 't.safetensors'}")
    with pytest.raises(
        UnbagError, match="small-swap cannot be measured before and after"
    ) as caught:
        repair(table, "world", recipe(freeze=PART), tmp_path / "run", benchmarks=(SWAP,))
    assert "has no vector of the caption" in caught.value.message
    assert caught.value.hint.endswith("name benchmarks that it knows with --bench")
    assert not (tmp_path / "run").exists()


def test_reads_can_be_sent_to_a_worker(joined: JoinedEncoder) -> None:
    import pickle

    reads = trainable_of(joined).reads
    expected = reads.tokenize(CAPTIONS)
    loaded = pickle.loads(pickle.dumps(reads))
    assert loaded.count_tokens(CAPTIONS) == [3, 6]
    assert loaded.count_tokens([]) == []
    assert same(dict(loaded.tokenize(CAPTIONS)), dict(expected))


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
    image_ND = network.embed_images(network.reads.prepare(IMAGE)[None]).detach()
    assert torch.allclose(network.embed_images(pixels), joined.encode_images(pixels), atol=1e-5)
    assert image_ND.shape == joined.encode_texts(CAPTIONS)[:1].shape
    name = "siglip_hn" if kind == "siglip" else "hard_negative"
    config = recipe(name, Freeze(0, "part"))
    train(
        TrainJob(
            network,
            WorldBatches(config, network.reads, seed=0, per_epoch=1),
            config,
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
    loaded = load(str(tmp_path / "out"))
    assert loaded.fingerprint == after.fingerprint
    assert (loaded.scale, loaded.bias) == (after.scale, after.bias)
    assert torch.allclose(loaded.encode_images(pixels), after.encode_images(pixels), atol=1e-6)
