"""Trainable encoders: vectors, gradients, layers, LoRA, snapshots, workers."""

import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from unbag.errors import UnbagError
from unbag.models.baselines import load as load_caption_only
from unbag.models.huggingface.loading import load
from unbag.models.tiny import Tiny, TinyConfig, untrained
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.base import Trainable, apply_freeze, set_training, weights_of
from unbag.training.encoders.lora import add_lora, merged
from unbag.training.recipes import Freeze, Lora

HF_KINDS = ["clip", "siglip", "siglip2", "align", "altclip", "vision-text-dual-encoder"]
each_kind = pytest.mark.parametrize("kind", ["tiny", *HF_KINDS])
CAPTIONS = ["a red cube", "a dog eats a horse left of a red ball", "a"]
CONFIG = TinyConfig(
    pixels=32, patch=8, picture_width=16, picture_depth=2, caption_width=8, caption_depth=3,
    joint=8, heads=2, context=16, words=("a", "red", "blue", "cube", "ball", "left", "of"),
)  # fmt: skip
EncoderOf = Callable[[str], Any]


@pytest.fixture(scope="module")
def encoder_of(request: pytest.FixtureRequest) -> EncoderOf:
    """Load each kind once; training copies it."""
    encoders: dict[str, Any] = {"tiny": Tiny(untrained(CONFIG, seed=1), name="tiny:small")}

    def get(kind: str) -> Any:
        if kind not in encoders:
            pytest.importorskip("transformers")
            encoders[kind] = load(str(request.getfixturevalue("hf_folder")(kind)))
        return encoders[kind]

    return get


def images() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    shapes = ((32, 32, 3), (40, 20, 3), (64, 64, 3))
    return [Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)) for shape in shapes]


def pixels(reads: Any) -> Tensor:
    return torch.stack([reads.prepare(image) for image in images()])


def captions(trainable: Trainable) -> Tensor:
    return trainable.embed_texts(trainable.reads.tokenize(CAPTIONS))


def loss(trainable: Trainable) -> Tensor:
    """The sigmoid loss, for which a bias has an effect."""
    image_ND = trainable.embed_images(pixels(trainable.reads))
    logit_NN = image_ND @ captions(trainable).T * trainable.temperature[0].exp()
    logit_NN = logit_NN + sum(trainable.temperature[1:])
    return -nn.functional.logsigmoid(logit_NN * (2 * torch.eye(3) - 1)).mean()


def step(trainable: Trainable) -> None:
    loss(trainable).backward()  # type: ignore[no-untyped-call]
    weights = [w for w in trainable.module.parameters() if w.requires_grad]
    torch.optim.SGD(weights, lr=0.05).step()
    trainable.module.zero_grad()


def copies(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def changed(before: dict[str, Tensor], module: nn.Module) -> set[str]:
    return {name for name, value in module.state_dict().items() if (value != before[name]).any()}


@each_kind
def test_vectors_are_those_of_the_encoder(encoder_of: EncoderOf, kind: str) -> None:
    encoder = encoder_of(kind)
    trainable = make_trainable(encoder, device="cpu")
    # Without dropout, which some of these encoders have.
    set_training(trainable, Freeze(image="all", text="all"))
    image_ND = trainable.embed_images(pixels(trainable.reads))
    texts = [*CAPTIONS, "a GREEN ball", ""]
    text_ND = trainable.embed_texts(trainable.reads.tokenize(texts))
    expected_ND = encoder.encode_images(pixels(encoder))
    torch.testing.assert_close(image_ND, expected_ND, rtol=0, atol=1e-6)
    torch.testing.assert_close(text_ND, encoder.encode_texts(texts), rtol=0, atol=1e-6)
    assert image_ND.dtype == torch.float32


def test_bytes_become_the_numbers_that_evaluation_sees(encoder_of: EncoderOf) -> None:
    encoder = encoder_of("tiny")
    trainable = make_trainable(encoder, device="cpu")
    byte_N3HW = pixels(trainable.reads)
    assert byte_N3HW.dtype == torch.uint8
    number_ND = trainable.embed_images(pixels(encoder))
    assert torch.equal(trainable.embed_images(byte_N3HW), number_ND)


@each_kind
def test_gradient_reaches_every_weight_of_an_encoder(encoder_of: EncoderOf, kind: str) -> None:
    trainable = make_trainable(encoder_of(kind), device="cpu")
    assert trainable.module.training
    loss(trainable).backward()  # type: ignore[no-untyped-call]
    weights = dict(trainable.module.named_parameters())
    frozen = {name for name, weight in weights.items() if not weight.requires_grad}
    # ALIGN reads the first token, before BERT's pooler.
    pooler = {"text_model.pooler.dense.weight", "text_model.pooler.dense.bias"}
    assert frozen == (pooler if kind == "align" else set())
    assert {name for name, weight in weights.items() if weight.grad is None} == frozen
    if kind == "tiny":
        assert all(weight.grad.abs().sum() > 0 for weight in weights.values())  # type: ignore[union-attr]
    assert len(trainable.temperature) == (2 if kind.startswith("siglip") else 1)


@each_kind
def test_layers_hold_every_weight_once(encoder_of: EncoderOf, kind: str) -> None:
    trainable = make_trainable(encoder_of(kind), device="cpu")
    # Two blocks each; the tiny text encoder has three.
    counts = (len(trainable.image_layers), len(trainable.text_layers))
    assert counts == ((4, 5) if kind == "tiny" else (4, 4))
    layers = (*trainable.image_layers, *trainable.text_layers, trainable.temperature)
    ids = sorted(id(weight) for weight in weights_of(layers))
    assert ids == sorted(id(weight) for weight in trainable.module.parameters())
    if kind == "tiny":
        first = {id(weight) for weight in weights_of(trainable.image_layers[:1])}
        named = trainable.module.get_submodule("picture").named_parameters()
        names = {name for name, weight in named if id(weight) in first}
        assert names == {"cls", "position", "patches.weight", "patches.bias"}


@pytest.mark.parametrize(
    ("kind", "size"), [("tiny", 2_000), ("clip", 10_000), ("siglip2", 10_000), ("align", 10_000)]
)
def test_reads_can_be_sent_to_a_worker(encoder_of: EncoderOf, kind: str, size: int) -> None:
    encoder = encoder_of(kind)
    reads = make_trainable(encoder, device="cpu").reads
    pickled = pickle.dumps(reads)
    # Cached tokens are left out.
    reads.tokenize([f"a {n}" for n in range(1000)])
    assert len(pickle.dumps(reads)) == len(pickled) < size
    again = pickle.loads(pickled)
    for image in images():
        assert torch.equal(again.prepare(image), reads.prepare(image))
    tokens, expected = again.tokenize(CAPTIONS), reads.tokenize(CAPTIONS)
    assert tokens.keys() == expected.keys()
    assert all(torch.equal(tokens[key], expected[key]) for key in expected)
    assert again.count_tokens(CAPTIONS) == encoder.count_tokens(CAPTIONS)
    if kind == "tiny":
        assert reads.count_tokens([*CAPTIONS, ""]) == [4, 11, 2, 1]


def test_captions_are_padded_only_where_the_encoder_sees_it(encoder_of: EncoderOf) -> None:
    lengths = {
        kind: make_trainable(encoder_of(kind), device="cpu").reads.tokenize(CAPTIONS)["input_ids"]
        for kind in ("clip", "siglip")
    }
    assert lengths["clip"].shape[1] == max(encoder_of("clip").count_tokens(CAPTIONS))
    assert lengths["siglip"].shape[1] == 64


def test_a_step_changes_only_trainable_layers(encoder_of: EncoderOf) -> None:
    trainable = make_trainable(encoder_of("siglip"), device="cpu")
    apply_freeze(trainable, Freeze(image=3, text="all"))
    before = copies(trainable.module)
    step(trainable)
    last = ("vision_model.post_layernorm.", "vision_model.head.")
    names = {name for name in before if name.startswith(last)}
    assert changed(before, trainable.module) == names | {"logit_scale", "logit_bias"}


def test_a_step_of_the_tiny_encoder_changes_only_trainable_layers(encoder_of: EncoderOf) -> None:
    encoder = encoder_of("tiny")
    trainable = make_trainable(encoder, device="cpu")
    assert apply_freeze(trainable, Freeze(image="all", text=2, scale=True)) == (
        "trainable parameters: image encoder 0 of 10,096, text encoder 1,824 of 2,904, "
        "temperature 0 of 1"
    )
    before = copies(trainable.module)
    step(trainable)
    names = {name.split(".blocks.")[-1] for name in changed(before, trainable.module)}
    parts = ("norm1", "qkv", "out", "norm2", "mlp.0", "mlp.2")
    blocks = {f"{n}.{part}.{end}" for n in (1, 2) for part in parts for end in ("weight", "bias")}
    rest = {"caption.norm.weight", "caption.norm.bias", "caption.project.weight"}
    assert names == blocks | rest
    assert torch.equal(encoder.network.caption.project.weight, before["caption.project.weight"])


def test_frozen_layers_stay_in_eval_mode(encoder_of: EncoderOf) -> None:
    trainable = make_trainable(encoder_of("tiny"), device="cpu")
    freeze = Freeze(image=2)
    apply_freeze(trainable, freeze)
    trainable.module.train()
    set_training(trainable, freeze)
    image_encoder = trainable.module.get_submodule("picture")
    modes = {name: module.training for name, module in image_encoder.named_modules()}
    assert (modes["patches"], modes["blocks.0.mlp.0"]) == (False, False)
    assert (modes["blocks.1"], modes["norm"], modes["project"]) == (True, True, True)
    assert trainable.module.get_submodule("caption").training


@pytest.mark.parametrize("count", [5, -1, 1.5, "some", True])
def test_a_wrong_number_of_frozen_layers(encoder_of: EncoderOf, count: Any) -> None:
    trainable = make_trainable(encoder_of("tiny"), device="cpu")
    with pytest.raises(UnbagError, match=f"{count} layers of the image encoder") as caught:
        apply_freeze(trainable, Freeze(image=count))
    assert caught.value.expected.startswith("0 to 4: embedding, 2 blocks")
    assert "--set freeze.image=all" in caught.value.hint


@pytest.mark.parametrize("kind", ["tiny", "clip", "siglip", "align"])
def test_a_snapshot_is_not_changed_by_later_steps(
    encoder_of: EncoderOf, kind: str, tmp_path: Path
) -> None:
    trainable = make_trainable(encoder_of(kind), device="cpu")
    apply_freeze(trainable, Freeze())
    step(trainable)
    snapshot: Any = trainable.encoder("after")
    assert snapshot.name == "after"
    assert snapshot.fingerprint not in (encoder_of(kind).fingerprint, trainable.fingerprint)
    text_ND, image_ND = snapshot.encode_texts(CAPTIONS), snapshot.encode_images(pixels(snapshot))
    if kind == "tiny":
        assert snapshot.scale == float(trainable.temperature[0].detach().exp())
        expected_ND = captions(trainable).detach()
        torch.testing.assert_close(text_ND, expected_ND, rtol=0, atol=1e-6)
    else:
        snapshot.model.save_pretrained(tmp_path)
        snapshot.captions.tokenizer.save_pretrained(tmp_path)
        snapshot.images.processor.save_pretrained(tmp_path)
        saved: Any = load(str(tmp_path))
        assert torch.equal(saved.encode_texts(CAPTIONS), text_ND)
        assert torch.equal(saved.encode_images(pixels(saved)), image_ND)
        assert saved.scale == pytest.approx(snapshot.scale, rel=1e-6)
        assert saved.bias == snapshot.bias
        assert saved.model.state_dict().keys() == encoder_of(kind).model.state_dict().keys()
    step(trainable)
    assert torch.equal(snapshot.encode_texts(CAPTIONS), text_ND)
    assert trainable.encoder("later").fingerprint != snapshot.fingerprint
    assert trainable.module.training


def test_the_scale_of_align_is_one_over_its_temperature(encoder_of: EncoderOf) -> None:
    encoder = encoder_of("align")
    trainable = make_trainable(encoder, device="cpu")
    with torch.no_grad():
        trainable.temperature[0].fill_(float(np.log(20.0)))
    snapshot: Any = trainable.encoder("warm")
    assert snapshot.scale == pytest.approx(20.0, rel=1e-6)
    assert float(snapshot.model.temperature) == pytest.approx(0.05, rel=1e-6)
    assert encoder.scale == pytest.approx(1.0 / float(encoder.model.temperature))


@pytest.mark.parametrize(
    ("kind", "freeze", "layers", "summary"),
    [
        # Two encoders of two blocks with four matrices of attention and two of the MLP.
        ("clip", Freeze(scale=True), 24, "temperature 0 of 1"),
        ("siglip", Freeze(scale=True), 24, "temperature 0 of 2"),
        # Three blocks of the text encoder. Rank 2 of four matrices: 2 (8 + 24) + 2 (8 + 8) +
        # 2 (8 + 32) + 2 (32 + 8) = 256 per block.
        ("tiny", Freeze(image=3), 12, "text encoder 768 of 3,672, temperature 1 of 1"),
    ],
)
def test_lora_merges_into_the_original_weights(
    encoder_of: EncoderOf, kind: str, freeze: Freeze, layers: int, summary: str
) -> None:
    trainable = make_trainable(encoder_of(kind), device="cpu")
    start = copies(trainable.module)
    apply_freeze(trainable, freeze)
    message = add_lora(trainable, Lora(rank=2, alpha=4.0))
    assert message.startswith(f"lora of rank 2 in {layers} linear layers; trainable parameters:")
    assert summary in message
    for _ in range(3):
        step(trainable)
    after = merged(trainable.module)
    assert list(after.state_dict()) == list(start)
    if kind == "tiny":
        parts = ("qkv", "out", "mlp.0", "mlp.2")
        names = {f"caption.blocks.{n}.{part}.weight" for n in range(3) for part in parts}
        names |= {"log_scale"}
    else:
        ends = ("proj.weight", "fc1.weight", "fc2.weight")
        names = {n for n in start if ".encoder.layers." in n and n.endswith(ends)}
    assert changed(start, after) == names
    text_ND = trainable.encoder("lora").encode_texts(CAPTIONS)
    torch.testing.assert_close(text_ND, captions(trainable).detach(), rtol=0, atol=1e-5)
    assert (text_ND - encoder_of(kind).encode_texts(CAPTIONS)).abs().max() > 1e-4


def test_lora_without_peft_names_the_extra(
    encoder_of: EncoderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainable = make_trainable(encoder_of("tiny"), device="cpu")

    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr("unbag.training.encoders.lora.import_module", missing)
    with pytest.raises(UnbagError, match=r"lora needs the package 'peft' \(No module") as caught:
        add_lora(trainable, Lora())
    assert caught.value.hint == "pip install 'unbag[train]'"


def test_models_that_cannot_be_trained(encoder_of: EncoderOf) -> None:
    with pytest.raises(UnbagError, match="caption:short cannot be trained") as caught:
        make_trainable(load_caption_only("short"), device="cpu")
    assert "a dual encoder of hf:..." in caught.value.expected
    assert "unbag list models" in caught.value.hint
    encoder = copy(encoder_of("clip"))
    encoder.model = deepcopy(encoder.model)
    del encoder.model.logit_scale
    with pytest.raises(UnbagError, match="trained: a 'clip' has no logit_scale") as caught:
        make_trainable(encoder, device="cpu")
    assert "two encoders and a temperature" in caught.value.expected


@pytest.mark.parametrize("kind", ["tiny", "siglip"])
def test_bfloat16_is_close_and_gives_unit_vectors_in_float32(
    encoder_of: EncoderOf, kind: str
) -> None:
    trainable = make_trainable(encoder_of(kind), device="cpu")
    exact_ND = captions(trainable)
    with torch.autocast("cpu", torch.bfloat16):
        text_ND, image_ND = captions(trainable), trainable.embed_images(pixels(trainable.reads))
    assert text_ND.dtype == image_ND.dtype == torch.float32
    assert not torch.equal(text_ND, exact_ND)
    torch.testing.assert_close(text_ND, exact_ND, rtol=0, atol=0.05)
    torch.testing.assert_close(image_ND.norm(dim=-1), torch.ones(3), rtol=0, atol=1e-6)
