"""The encoders of the tiny encoder: vectors, gradients, snapshots, what is sent to workers."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.baselines import load as load_caption_only
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
