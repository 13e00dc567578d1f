"""Trainable encoders: vectors, gradients, layers, LoRA, snapshots, workers."""

import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from unbag.errors import UnbagError
from unbag.models.baselines import load as load_caption_only
from unbag.models.huggingface.dual import HfDual
from unbag.models.huggingface.loading import load
from unbag.models.tiny import Tiny, TinyConfig, untrained
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.base import Trainable, apply_freeze, set_training, weights_of
from unbag.training.encoders.lora import add_lora, merged
from unbag.training.recipes import Freeze, Lora

WORDS = ("a", "red", "blue", "cube", "ball", "left", "of")
CAPTIONS = ["a red cube", "a blue ball left of a red cube", "a GREEN ball", ""]
CONFIG = TinyConfig(
    pixels=32, patch=8, picture_width=16, picture_depth=2, caption_width=8, caption_depth=3,
    joint=8, heads=2, context=8, words=WORDS,
)  # fmt: skip


@pytest.fixture
def encoder() -> Tiny:
    return Tiny(untrained(CONFIG, seed=1), name="tiny:small")


def images() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    shapes = ((32, 32, 3), (40, 20, 3), (64, 64, 3))
    return [Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)) for shape in shapes]


def pixels(of: Trainable) -> Tensor:
    return torch.stack([of.reads.prepare(image) for image in images()])


def loss(of: Trainable) -> Tensor:
    caption_ND = of.embed_texts(of.reads.tokenize(CAPTIONS[:3]))
    logit_NN = of.temperature[0].exp() * of.embed_images(pixels(of)) @ caption_ND.T
    return torch.nn.functional.cross_entropy(logit_NN, torch.arange(3))


def step(of: Trainable) -> None:
    loss(of).backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD([w for w in of.module.parameters() if w.requires_grad], lr=0.1).step()


def test_vectors_are_those_of_the_encoder(encoder: Tiny) -> None:
    trainable = make_trainable(encoder, device="cpu")
    wanted_ND = encoder.encode_images(torch.stack([encoder.prepare(i) for i in images()]))
    found_ND = trainable.embed_images(pixels(trainable))
    torch.testing.assert_close(found_ND, wanted_ND, rtol=0, atol=1e-6)
    assert found_ND.dtype == torch.float32
    found_ND = trainable.embed_texts(trainable.reads.tokenize(CAPTIONS))
    torch.testing.assert_close(found_ND, encoder.encode_texts(CAPTIONS), rtol=0, atol=1e-6)


def test_levels_become_the_numbers_that_evaluation_sees(encoder: Tiny) -> None:
    trainable = make_trainable(encoder, device="cpu")
    level_NCHW = pixels(trainable)
    number_NCHW = torch.stack([encoder.prepare(image) for image in images()])
    assert level_NCHW.dtype == torch.uint8
    assert torch.equal(trainable.embed_images(level_NCHW), trainable.embed_images(number_NCHW))


def test_reads_survive_the_way_to_a_worker(encoder: Tiny) -> None:
    reads = make_trainable(encoder, device="cpu").reads
    sent = pickle.dumps(reads)
    assert len(sent) < 2_000
    again = pickle.loads(sent)
    for image in images():
        assert torch.equal(again.prepare(image), reads.prepare(image))
    found, wanted = again.tokenize(CAPTIONS), reads.tokenize(CAPTIONS)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)
    assert again.count_tokens(CAPTIONS) == encoder.count_tokens(CAPTIONS) == [4, 9, 4, 1]


def test_layers_hold_every_weight_once(encoder: Tiny) -> None:
    trainable = make_trainable(encoder, device="cpu")
    assert [len(trainable.image_layers), len(trainable.text_layers)] == [4, 5]
    layers = (*trainable.image_layers, *trainable.text_layers, trainable.temperature)
    held = [id(weight) for weight in weights_of(layers)]
    assert sorted(held) == sorted(id(weight) for weight in trainable.module.parameters())
    first = {id(weight) for weight in weights_of(trainable.image_layers[:1])}
    eyes = trainable.module.get_submodule("picture")
    names = {name for name, weight in eyes.named_parameters() if id(weight) in first}
    assert names == {"cls", "position", "patches.weight", "patches.bias"}


def test_gradient_reaches_every_weight(encoder: Tiny) -> None:
    trainable = make_trainable(encoder, device="cpu")
    loss(trainable).backward()  # type: ignore[no-untyped-call]
    assert all(w.grad is not None and w.grad.abs().sum() > 0 for w in trainable.module.parameters())


def test_a_step_changes_only_what_is_open(encoder: Tiny) -> None:
    trainable = make_trainable(encoder, device="cpu")
    said = apply_freeze(trainable, Freeze(image="all", text=2, scale=True))
    assert said == (
        "trainable parameters: image encoder 0 of 10,096, text encoder 1,824 of 2,840, "
        "temperature 0 of 1"
    )
    before = {name: value.clone() for name, value in trainable.module.state_dict().items()}
    step(trainable)
    after = trainable.module.state_dict()
    changed = {name.split(".blocks.")[-1] for name in after if (after[name] != before[name]).any()}
    parts = ("norm1", "qkv", "out", "norm2", "mlp.0", "mlp.2")
    blocks = {f"{n}.{part}.{end}" for n in (1, 2) for part in parts for end in ("weight", "bias")}
    rest = {"caption.norm.weight", "caption.norm.bias", "caption.project.weight"}
    assert changed == blocks | rest
    assert torch.equal(encoder.network.caption.project.weight, before["caption.project.weight"])


def test_locked_layers_stay_in_eval_mode(encoder: Tiny) -> None:
    trainable = make_trainable(encoder, device="cpu")
    freeze = Freeze(image=2)
    apply_freeze(trainable, freeze)
    trainable.module.train()
    set_training(trainable, freeze)
    eyes = trainable.module.get_submodule("picture")
    modes = {name: module.training for name, module in eyes.named_modules()}
    assert (modes["patches"], modes["blocks.0.mlp.0"]) == (False, False)
    assert (modes["blocks.1"], modes["norm"], modes["project"]) == (True, True, True)
    assert trainable.module.get_submodule("caption").training


@pytest.mark.parametrize("count", [5, -1, 1.5, "some", True])
def test_too_many_locks_name_the_number_of_layers(encoder: Tiny, count: Any) -> None:
    trainable = make_trainable(encoder, device="cpu")
    with pytest.raises(UnbagError) as raised:
        apply_freeze(trainable, Freeze(image=count))
    assert str(raised.value) == (
        f"{count} layers of the image encoder of tiny:small are to be frozen\n"
        "  expected: 0 to 4: embedding, 2 blocks, and what follows\n"
        "  hint:     --set freeze.image=all freezes all of it, =part all but its "
        "last layer"
    )


def test_a_snapshot_is_not_moved_by_later_steps(encoder: Tiny) -> None:
    trainable = make_trainable(encoder, device="cpu")
    step(trainable)
    snapshot = trainable.encoder("tiny:after-1")
    assert isinstance(snapshot, Tiny)
    assert snapshot.name == "tiny:after-1"
    assert snapshot.scale == float(trainable.temperature[0].detach().exp())
    assert snapshot.fingerprint not in (encoder.fingerprint, trainable.fingerprint)
    wanted_ND = trainable.embed_texts(trainable.reads.tokenize(CAPTIONS)).detach()
    found_ND = snapshot.encode_texts(CAPTIONS)
    torch.testing.assert_close(found_ND, wanted_ND, rtol=0, atol=1e-6)
    step(trainable)
    assert torch.equal(snapshot.encode_texts(CAPTIONS), found_ND)
    assert trainable.module.training
    assert trainable.encoder("tiny:after-2").fingerprint != snapshot.fingerprint


def test_bfloat16_is_close_and_gives_unit_vectors_in_float32(encoder: Tiny) -> None:
    trainable = make_trainable(encoder, device="cpu")
    exact_ND = trainable.embed_images(pixels(trainable))
    with torch.autocast("cpu", torch.bfloat16):
        found_ND = trainable.embed_images(pixels(trainable))
        caption_ND = trainable.embed_texts(trainable.reads.tokenize(CAPTIONS))
    assert found_ND.dtype == caption_ND.dtype == torch.float32
    assert not torch.equal(found_ND, exact_ND)
    torch.testing.assert_close(found_ND, exact_ND, rtol=0, atol=0.03)
    torch.testing.assert_close(caption_ND.norm(dim=-1), torch.ones(4), rtol=0, atol=1e-6)


def test_lora_trains_small_matrices_and_merges_into_the_old_names(encoder: Tiny) -> None:
    trainable = make_trainable(encoder, device="cpu")
    names = list(trainable.module.state_dict())
    start = {name: value.clone() for name, value in trainable.module.state_dict().items()}
    apply_freeze(trainable, Freeze(image=3))
    said = add_lora(trainable, Lora(rank=2, alpha=4.0))
    # Three blocks of the text encoder; every image block is locked. Rank 2 of four matrices:
    # 2 (8 + 24) + 2 (8 + 8) + 2 (8 + 32) + 2 (32 + 8) = 256 a block.
    assert said.startswith(
        "lora of rank 2 in 12 linear layers; trainable parameters: image encoder"
    )
    assert "text encoder 768 of 3,608, temperature 1 of 1" in said
    for _ in range(3):
        step(trainable)
    wanted_ND = trainable.embed_texts(trainable.reads.tokenize(CAPTIONS)).detach()
    plain = merged(trainable.module)
    assert list(plain.state_dict()) == names
    found_ND = trainable.encoder("tiny:lora").encode_texts(CAPTIONS)
    torch.testing.assert_close(found_ND, wanted_ND, rtol=0, atol=1e-5)
    assert (found_ND - encoder.encode_texts(CAPTIONS)).abs().max() > 1e-4
    changed = {n for n, value in plain.state_dict().items() if (value != start[n]).any()}
    parts = ("qkv", "out", "mlp.0", "mlp.2")
    matrices = {f"caption.blocks.{n}.{part}.weight" for n in range(3) for part in parts}
    assert changed == matrices | {"log_scale"}


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("rank", 0, "a recipe with lora.rank=0\n  expected: at least 1\n"),
        ("alpha", 0.0, "a recipe with lora.alpha=0.0\n  expected: above 0\n"),
        ("dropout", 1.0, "a recipe with lora.dropout=1.0\n  expected: at least 0 and below 1\n"),
        ("rank", "many", "the setting lora.rank=many\n  expected: a whole number\n"),
    ],
)
def test_lora_of_no_rank_is_refused(part: str, value: object, said: str) -> None:
    with pytest.raises(UnbagError) as raised:
        replace(Lora(), **{part: value})  # type: ignore[arg-type]
    assert str(raised.value).startswith(said)
    assert f"--set lora.{part}=" in raised.value.hint


def test_what_is_no_dual_encoder_says_what_can_be_trained() -> None:
    with pytest.raises(UnbagError) as raised:
        make_trainable(load_caption_only("short"), device="cpu")
    assert str(raised.value) == (
        "caption:short cannot be trained: it is no dual encoder of a known library\n"
        "  expected: tiny:..., photo:..., open_clip:..., or a dual encoder of hf:... (CLIP, "
        "SigLIP, ALIGN ...)\n"
        "  hint:     `unbag list models` shows what each name is"
    )


pytest.importorskip("transformers")

KINDS = ["clip", "siglip", "siglip2", "align", "altclip", "vision-text-dual-encoder"]
CAPTIONS = ["a red cube", "a dog eats a horse left of a red ball", "a"]
Folder = Callable[[str], Path]


@pytest.fixture(scope="module")
def encoder_of(hf_folder: Folder) -> Callable[[str], HfDual]:
    """Loaded once; training copies, so none of them changes."""
    known: dict[str, HfDual] = {}

    def get(kind: str) -> HfDual:
        if kind not in known:
            found = load(str(hf_folder(kind)))
            assert isinstance(found, HfDual)
            known[kind] = found
        return known[kind]

    return get


EncoderOf = Callable[[str], HfDual]


def images() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    shapes = ((32, 32, 3), (40, 20, 3), (64, 64, 3))
    return [Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)) for shape in shapes]


def pixels(of: Any) -> Tensor:
    return torch.stack([of.prepare(image) for image in images()])


def captions(of: Trainable) -> Tensor:
    return of.embed_texts(of.reads.tokenize(CAPTIONS))


def loss(of: Trainable) -> Tensor:
    """The bias shifts the sigmoid of every pair."""
    logit_NN = of.embed_images(pixels(of.reads)) @ captions(of).T * of.temperature[0].exp()
    logit_NN = logit_NN + sum(of.temperature[1:])
    return -nn.functional.logsigmoid(logit_NN * (2 * torch.eye(3) - 1)).mean()


def step(of: Trainable) -> None:
    loss(of).backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD([w for w in of.module.parameters() if w.requires_grad], lr=0.05).step()
    of.module.zero_grad()


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_are_those_of_the_encoder(encoder_of: EncoderOf, kind: str) -> None:
    encoder = encoder_of(kind)
    trainable = make_trainable(encoder, device="cpu")
    # Without dropout, which some of these encoders have.
    set_training(trainable, Freeze(image="all", text="all"))
    found_ND = trainable.embed_images(pixels(trainable.reads))
    wanted_ND = encoder.encode_images(pixels(encoder))
    torch.testing.assert_close(found_ND, wanted_ND, rtol=0, atol=1e-6)
    wanted_ND = encoder.encode_texts(CAPTIONS)
    torch.testing.assert_close(captions(trainable), wanted_ND, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_reaches_every_weight_of_an_encoder(encoder_of: EncoderOf, kind: str) -> None:
    trainable = make_trainable(encoder_of(kind), device="cpu")
    assert trainable.module.training
    loss(trainable).backward()  # type: ignore[no-untyped-call]
    weights = dict(trainable.module.named_parameters())
    closed = {name for name, weight in weights.items() if not weight.requires_grad}
    # ALIGN reads the first token, before BERT's pooler.
    pooler = {"text_model.pooler.dense.weight", "text_model.pooler.dense.bias"}
    assert closed == (pooler if kind == "align" else set())
    assert {name for name, weight in weights.items() if weight.grad is None} == closed
    assert len(trainable.temperature) == (2 if kind.startswith("siglip") else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_hold_every_weight_once(encoder_of: EncoderOf, kind: str) -> None:
    trainable = make_trainable(encoder_of(kind), device="cpu")
    # Two blocks each.
    assert (len(trainable.image_layers), len(trainable.text_layers)) == (4, 4)
    layers = (*trainable.image_layers, *trainable.text_layers, trainable.temperature)
    held = sorted(id(weight) for weight in weights_of(layers))
    assert held == sorted(id(weight) for weight in trainable.module.parameters())


@pytest.mark.parametrize("kind", ["clip", "siglip2", "align"])
def test_reads_survive_the_way_to_a_worker(encoder_of: EncoderOf, kind: str) -> None:
    encoder = encoder_of(kind)
    reads = make_trainable(encoder, device="cpu").reads
    sent = pickle.dumps(reads)
    # A tokenizer of some forty words: what was tokenized before stays behind.
    reads.tokenize([f"a {n}" for n in range(1000)])
    assert len(pickle.dumps(reads)) == len(sent) < 10_000
    again = pickle.loads(sent)
    for image in images():
        assert torch.equal(again.prepare(image), reads.prepare(image))
    found, wanted = again.tokenize(CAPTIONS), reads.tokenize(CAPTIONS)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)
    assert again.count_tokens(CAPTIONS) == encoder.count_tokens(CAPTIONS)


def test_captions_are_padded_only_where_the_encoder_sees_it(encoder_of: EncoderOf) -> None:
    found = {
        kind: make_trainable(encoder_of(kind), device="cpu").reads.tokenize(CAPTIONS)["input_ids"]
        for kind in ("clip", "siglip")
    }
    assert found["clip"].shape[1] == max(encoder_of("clip").count_tokens(CAPTIONS))
    assert found["siglip"].shape[1] == 64


def test_a_step_changes_only_what_is_open(encoder_of: EncoderOf) -> None:
    trainable = make_trainable(encoder_of("siglip"), device="cpu")
    apply_freeze(trainable, Freeze(image=3, text="all"))
    before = {name: value.clone() for name, value in trainable.module.state_dict().items()}
    step(trainable)
    after = trainable.module.state_dict()
    changed = {name for name in after if (after[name] != before[name]).any()}
    last = ("vision_model.post_layernorm.", "vision_model.head.")
    assert changed == {n for n in after if n.startswith(last)} | {"logit_scale", "logit_bias"}


@pytest.mark.parametrize("kind", ["clip", "siglip", "align"])
def test_a_snapshot_is_what_would_be_saved(
    encoder_of: EncoderOf, kind: str, tmp_path: Path
) -> None:
    trainable = make_trainable(encoder_of(kind), device="cpu")
    apply_freeze(trainable, Freeze())
    step(trainable)
    snapshot: Any = trainable.encoder("after")
    assert snapshot.fingerprint != trainable.fingerprint
    snapshot.model.save_pretrained(tmp_path)
    snapshot.captions.tokenizer.save_pretrained(tmp_path)
    snapshot.images.processor.save_pretrained(tmp_path)
    caption_ND = snapshot.encode_texts(CAPTIONS)
    image_ND = snapshot.encode_images(pixels(snapshot))
    step(trainable)
    saved: Any = load(str(tmp_path))
    assert torch.equal(saved.encode_texts(CAPTIONS), caption_ND)
    assert torch.equal(saved.encode_images(pixels(saved)), image_ND)
    assert torch.equal(snapshot.encode_texts(CAPTIONS), caption_ND)
    assert saved.scale == pytest.approx(snapshot.scale, rel=1e-6)
    assert saved.bias == snapshot.bias
    assert saved.model.state_dict().keys() == encoder_of(kind).model.state_dict().keys()
    assert trainable.encoder("later").fingerprint != snapshot.fingerprint


def test_the_scale_of_align_is_one_over_its_temperature(encoder_of: EncoderOf) -> None:
    encoder = encoder_of("align")
    trainable = make_trainable(encoder, device="cpu")
    with torch.no_grad():
        trainable.temperature[0].fill_(float(np.log(20.0)))
    snapshot: Any = trainable.encoder("warm")
    assert snapshot.scale == pytest.approx(20.0, rel=1e-6)
    assert float(snapshot.model.temperature) == pytest.approx(0.05, rel=1e-6)
    assert encoder.scale == pytest.approx(1.0 / float(encoder.model.temperature))


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_lora_merges_into_the_old_names(encoder_of: EncoderOf, kind: str) -> None:
    trainable = make_trainable(encoder_of(kind), device="cpu")
    start = {name: value.clone() for name, value in trainable.module.state_dict().items()}
    apply_freeze(trainable, Freeze(scale=True))
    said = add_lora(trainable, Lora(rank=2))
    # Two encoders of two blocks with four matrices of attention and two of the MLP.
    assert said.startswith("lora of rank 2 in 24 linear layers;")
    assert f"temperature 0 of {len(trainable.temperature)}" in said
    for _ in range(3):
        step(trainable)
    after = merged(trainable.module).state_dict()
    assert list(after) == list(start)
    changed = {name for name in after if (after[name] != start[name]).any()}
    ends = ("proj.weight", "fc1.weight", "fc2.weight")
    assert changed == {n for n in after if ".encoder.layers." in n and n.endswith(ends)}
    snapshot = trainable.encoder("lora")
    wanted_ND = captions(trainable).detach()
    torch.testing.assert_close(snapshot.encode_texts(CAPTIONS), wanted_ND, rtol=0, atol=1e-5)


def test_lora_without_peft_names_the_extra(
    encoder_of: EncoderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainable = make_trainable(encoder_of("clip"), device="cpu")

    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr("unbag.training.encoders.lora.import_module", missing)
    with pytest.raises(UnbagError) as raised:
        add_lora(trainable, Lora())
    assert str(raised.value) == (
        "lora needs the package 'peft' (No module named 'peft')\n"
        "  hint:     pip install 'unbag[train]'"
    )


def test_a_model_without_a_temperature_is_refused(encoder_of: EncoderOf) -> None:
    encoder = copy(encoder_of("clip"))
    encoder.model = deepcopy(encoder.model)
    del encoder.model.logit_scale
    with pytest.raises(UnbagError) as raised:
        make_trainable(encoder, device="cpu")
    assert str(raised.value) == (
        "tiny-clip cannot be trained: a 'clip' has no logit_scale\n"
        "  expected: two encoders and a temperature, as CLIP, SigLIP and ALIGN have them"
    )


def test_bfloat16_is_close(encoder_of: EncoderOf) -> None:
    trainable = make_trainable(encoder_of("siglip"), device="cpu")
    exact_ND = captions(trainable)
    with torch.autocast("cpu", torch.bfloat16):
        found_ND = captions(trainable)
        shown_ND = trainable.embed_images(pixels(trainable.reads))
    assert found_ND.dtype == shown_ND.dtype == torch.float32
    torch.testing.assert_close(found_ND, exact_ND, rtol=0, atol=0.05)
    torch.testing.assert_close(shown_ND.norm(dim=-1), torch.ones(3), rtol=0, atol=1e-6)
