"""Encoders of open_clip that are trained: vectors, gradients, locks, LoRA, snapshots, workers."""

import pickle
import warnings
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

from unbag.errors import UnbagError
from unbag.models.open_clip.encoder import in_bytes
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.base import Trainable, apply_freeze, set_training, weights_of
from unbag.training.encoders.lora import SplitAttention, add_lora, merged
from unbag.training.recipes import Freeze, Lora

pytest.importorskip("open_clip")

KINDS = ["clip", "custom", "last-top", "siglip", "convnext", "resnet", "coca", "bert-mean"]
CAPTIONS = ["a red cube", "a red dog left of a red cube on a cube", "a"]
Loaded = Callable[[str], Any]


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
def test_vectors_equal_the_encoder(loaded: Loaded, kind: str) -> None:
    encoder = loaded(kind)
    trainable = make_trainable(encoder, device="cpu")
    if kind != "bert-mean":
        assert trainable.module.training
    # Text encoders of transformers have dropout; batch norms stay as locks set them.
    set_training(trainable, Freeze(text="all" if kind == "bert-mean" else 0))
    found_ND = trainable.embed_images(pixels(trainable.reads))
    expected_ND = encoder.encode_images(pixels(encoder))
    torch.testing.assert_close(found_ND, expected_ND, rtol=0, atol=1e-6)
    expected_ND = encoder.encode_texts(CAPTIONS)
    torch.testing.assert_close(captions(trainable), expected_ND, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_gets_a_gradient(loaded: Loaded, kind: str) -> None:
    trainable = make_trainable(loaded(kind), device="cpu")
    loss(trainable).backward()  # type: ignore[no-untyped-call]
    weights = dict(trainable.module.named_parameters())
    closed = {name for name, weight in weights.items() if not weight.requires_grad}
    assert closed == {name for name in weights if name.startswith("text_decoder.")}
    assert {name for name, weight in weights.items() if weight.grad is None} == closed


@pytest.mark.parametrize(
    ("kind", "eyes", "words"),
    [("clip", 4, 4), ("deep", 5, 5), ("siglip", 8, 4), ("resnet", 6, 4), ("coca", 4, 4),
     ("convnext", 6, 4), ("bert-mean", 4, 4)],
)  # fmt: skip
def test_layers_have_every_weight_once(loaded: Loaded, kind: str, eyes: int, words: int) -> None:
    trainable = make_trainable(loaded(kind), device="cpu")
    assert (len(trainable.image_layers), len(trainable.text_layers)) == (eyes, words)
    layers = (*trainable.image_layers, *trainable.text_layers, trainable.temperature)
    held = sorted(id(weight) for weight in weights_of(layers))
    assert held == sorted(id(weight) for weight in trainable.module.parameters())


def test_first_and_last_layer(loaded: Loaded) -> None:
    trainable = make_trainable(loaded("clip"), device="cpu")

    def names(layer: Any) -> set[str]:
        held = {id(weight) for weight in weights_of([layer])}
        return {name for name, w in trainable.module.named_parameters() if id(w) in held}

    norms = ("visual.ln_pre", "visual.ln_post", "ln_final")
    before, after, final = ({f"{norm}.weight", f"{norm}.bias"} for norm in norms)
    embedding = {"visual.conv1.weight", "visual.class_embedding", "visual.positional_embedding"}
    assert names(trainable.image_layers[0]) == embedding | before
    assert names(trainable.image_layers[-1]) == after | {"visual.proj"}
    assert names(trainable.text_layers[0]) == {"token_embedding.weight", "positional_embedding"}
    assert names(trainable.text_layers[-1]) == final | {"text_projection"}


@pytest.mark.parametrize("kind", ["clip", "siglip", "coca"])
def test_reads_can_be_pickled(loaded: Loaded, kind: str) -> None:
    reads = make_trainable(loaded(kind), device="cpu").reads
    again = pickle.loads(pickle.dumps(reads))
    for image in images():
        assert torch.equal(again.prepare(image), reads.prepare(image))
    found, expected = again.tokenize(CAPTIONS), reads.tokenize(CAPTIONS)
    assert torch.equal(found["token_NL"], expected["token_NL"])
    assert again.count_tokens(CAPTIONS) == loaded(kind).count_tokens(CAPTIONS)


def test_padding_is_removed_where_exact(loaded: Loaded) -> None:
    lengths = {
        kind: make_trainable(loaded(kind), device="cpu").reads.tokenize(["a red cube"])["token_NL"]
        for kind in ("clip", "bert-mean", "siglip", "coca", "last-top")
    }
    found = {kind: token_NL.shape[1] for kind, token_NL in lengths.items()}
    # Start, three words and end; three words and end.
    assert found == {"clip": 5, "bert-mean": 4, "siglip": 20, "coca": 20, "last-top": 77}


def test_images_as_bytes(loaded: Loaded) -> None:
    whole = loaded("clip")
    encoder = copy(whole)
    parts = in_bytes(encoder._prepare)
    assert parts is not None
    encoder._prepare, encoder._levels = parts
    trainable = make_trainable(encoder, device="cpu")
    level_NCHW = pixels(pickle.loads(pickle.dumps(trainable.reads)))
    assert level_NCHW.dtype == torch.uint8
    found_ND = trainable.embed_images(level_NCHW)
    expected_ND = whole.encode_images(pixels(whole))
    torch.testing.assert_close(found_ND, expected_ND, rtol=0, atol=1e-6)


def test_step_changes_only_trainable_weights(loaded: Loaded) -> None:
    trainable = make_trainable(loaded("clip"), device="cpu")
    apply_freeze(trainable, Freeze(image="all", text=3, scale=True))
    before = {name: value.clone() for name, value in trainable.module.state_dict().items()}
    step(trainable)
    after = trainable.module.state_dict()
    changed = {name for name in after if (after[name] != before[name]).any()}
    assert changed == {"ln_final.weight", "ln_final.bias", "text_projection"}
    start = loaded("clip").model.state_dict()
    assert all(torch.equal(start[name], before[name]) for name in start)


def test_batch_norms_keep_their_averages(loaded: Loaded) -> None:
    trainable = make_trainable(loaded("resnet"), device="cpu")
    apply_freeze(trainable, Freeze())
    before = {name: value.clone() for name, value in trainable.module.named_buffers()}
    step(trainable)
    assert trainable.module.training
    assert all(torch.equal(before[name], b) for name, b in trainable.module.named_buffers())
    assert trainable.module.get_parameter("visual.bn1.weight").requires_grad


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_snapshot_equals_the_saved_model(loaded: Loaded, kind: str, tmp_path: Path) -> None:
    from unbag.models.open_clip.loading import load

    trainable = make_trainable(loaded(kind), device="cpu")
    step(trainable)
    snapshot: Any = trainable.encoder("after")
    assert snapshot.fingerprint != trainable.fingerprint
    save_file(snapshot.model.state_dict(), tmp_path / "a.safetensors")
    found_ND, shown_ND = (
        snapshot.encode_texts(CAPTIONS),
        snapshot.encode_images(pixels(snapshot)),
    )
    step(trainable)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        saved = load(f"tiny-{kind}@{tmp_path / 'a.safetensors'}")
    assert torch.equal(saved.encode_texts(CAPTIONS), found_ND)
    assert torch.equal(saved.encode_images(pixels(saved)), shown_ND)
    assert torch.equal(snapshot.encode_texts(CAPTIONS), found_ND)
    assert (saved.scale, saved.bias) == (snapshot.scale, snapshot.bias)
    assert (saved.bias != 0.0) == (kind == "siglip")
    assert trainable.encoder("later").fingerprint != snapshot.fingerprint


@pytest.mark.parametrize("kind", ["clip", "siglip", "coca", "resnet", "bert-mean"])
def test_lora_merges_into_the_original_names(loaded: Loaded, kind: str) -> None:
    trainable = make_trainable(loaded(kind), device="cpu")
    start = {name: value.clone() for name, value in trainable.module.state_dict().items()}
    freeze = Freeze(text="all" if kind == "bert-mean" else 0)
    apply_freeze(trainable, freeze)
    expected_ND = captions(trainable).detach()
    said = add_lora(trainable, Lora(rank=2))
    assert said.startswith("lora of rank 2 in ")
    # Both matrices of a fresh pair multiply to nothing.
    torch.testing.assert_close(captions(trainable).detach(), expected_ND, rtol=0, atol=1e-6)
    for _ in range(3):
        step(trainable)
    plain = merged(trainable.module)
    assert list(plain.state_dict()) == list(start)
    snapshot = trainable.encoder("lora")
    found_ND = trainable.embed_images(pixels(trainable.reads)).detach()
    shown_ND = snapshot.encode_images(pixels(snapshot))
    torch.testing.assert_close(shown_ND, found_ND, rtol=0, atol=1e-5)
    found_ND = captions(trainable).detach()
    torch.testing.assert_close(snapshot.encode_texts(CAPTIONS), found_ND, rtol=0, atol=1e-5)
    changed = {name for name, value in plain.state_dict().items() if (value != start[name]).any()}
    scale = {"logit_scale", "logit_bias"} & set(start)
    assert changed > scale
    ends = ("in_proj_weight", "out_proj.weight", "c_fc.weight", "c_proj.weight", "fc1.weight",
            "fc2.weight", "qkv.weight", "proj.weight")  # fmt: skip
    assert all(name.endswith(ends) for name in changed - scale)
    closed = trainable.image_layers[0] + trainable.image_layers[-1]  # type: ignore[operator]
    assert not any(weight.requires_grad for weight in weights_of([closed]))


def test_lora_trains_every_matrix_of_trainable_blocks(loaded: Loaded) -> None:
    trainable = make_trainable(loaded("clip"), device="cpu")
    apply_freeze(trainable, Freeze(image=2))
    start = {name: value.clone() for name, value in trainable.module.state_dict().items()}
    assert add_lora(trainable, Lora(rank=2)).startswith("lora of rank 2 in 12 linear layers;")
    for _ in range(2):
        step(trainable)
    after = merged(trainable.module).state_dict()
    changed = {name for name in start if (after[name] != start[name]).any()}
    blocks = ("visual.transformer.resblocks.1", "transformer.resblocks.0",
              "transformer.resblocks.1")  # fmt: skip
    parts = ("attn.in_proj_weight", "attn.out_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
    matrices = {f"{block}.{part}" for block in blocks for part in parts}
    assert changed == matrices | {"logit_scale"}


def test_lora_without_a_trainable_matrix(loaded: Loaded) -> None:
    trainable = make_trainable(loaded("clip"), device="cpu")
    apply_freeze(trainable, Freeze(image="all", text=3))
    with pytest.raises(UnbagError) as error:
        add_lora(trainable, Lora())
    assert str(error.value) == (
        f"{trainable.name} has no linear layer in a trainable block\n"
        "  expected: attention or MLP layers to add small matrices to\n"
        "  hint:     freeze fewer layers, or train without lora"
    )


@pytest.mark.parametrize("is_batch_first", [True, False])
def test_split_attention_equals_attention(is_batch_first: bool) -> None:
    torch.manual_seed(0)
    whole = nn.MultiheadAttention(8, 2, batch_first=is_batch_first)
    nn.init.normal_(whole.in_proj_bias)
    hidden = torch.randn(3, 3, 8)
    mask_LL = torch.full((3, 3), float("-inf")).triu(1)
    mask_BLL = mask_LL.repeat(6, 1, 1) + torch.randn(6, 3, 3)
    split = SplitAttention(whole)
    for mask in (None, mask_LL, mask_BLL):
        expected, _ = whole(hidden, hidden, hidden, need_weights=False, attn_mask=mask)
        found, _ = split(hidden, hidden, hidden, attn_mask=mask)
        torch.testing.assert_close(found, expected)
    again = split.whole().state_dict()
    assert all(torch.equal(value, again[name]) for name, value in whole.state_dict().items())


def test_bfloat16(loaded: Loaded) -> None:
    trainable = make_trainable(loaded("clip"), device="cpu")
    exact_ND = captions(trainable)
    with torch.autocast("cpu", torch.bfloat16):
        found_ND = captions(trainable)
        shown_ND = trainable.embed_images(pixels(trainable.reads))
    assert found_ND.dtype == shown_ND.dtype == torch.float32
    torch.testing.assert_close(found_ND, exact_ND, rtol=0, atol=0.05)
    torch.testing.assert_close(shown_ND.norm(dim=-1), torch.ones(3), rtol=0, atol=1e-6)
