"""Checkpoints in all forms of trainers and exports, damaged files, and downloads."""

from __future__ import annotations

import json
import logging
import math
import pickle
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from unbag.errors import UnbagError
from unbag.models.open_clip import checkpoint
from unbag.models.open_clip.library import library, parse
from unbag.models.open_clip.loading import find_source, label_of_file, load

Made = Callable[[str], Any]
CAPTIONS = ["a red dog", "a dog left of a cube"]
pytestmark = pytest.mark.filterwarnings("ignore:.*no metadata states the activation")


@pytest.fixture
def state(saved: Made) -> dict[str, torch.Tensor]:
    return load_file(saved("clip"))


def trainer(state: dict[str, torch.Tensor]) -> dict[str, Any]:
    """As open_clip_train saves an epoch under distributed training."""
    wrapped = {f"module.{key}": value for key, value in state.items()}
    return {"epoch": 3, "name": "run", "state_dict": wrapped, "optimizer": {"state": {}}}


@pytest.mark.parametrize("form", ["bare", "trainer", "compiled", "model", "custom", "old"])
def test_all_forms_of_a_checkpoint_give_the_same_vectors(
    form: str, state: dict[str, torch.Tensor], tmp_path: Path, loaded: Made
) -> None:
    forms: dict[str, Any] = {
        "bare": state,
        "trainer": trainer(state),
        "compiled": {f"module._orig_mod.{key}": value for key, value in state.items()},
        "model": {"model": state},
        "custom": {k if k.startswith(("visual", "logit")) else f"text.{k}": v
                   for k, v in state.items()},
        "old": {**state, "input_resolution": torch.tensor(32), "vocab_size": torch.tensor(49408)},
    }  # fmt: skip
    torch.save(forms[form], tmp_path / "weights.pt")
    found = load(f"tiny-clip@{tmp_path / 'weights.pt'}")
    expected = loaded("clip").encode_texts(CAPTIONS)
    assert torch.equal(found.encode_texts(CAPTIONS), expected)
    assert found.fingerprint == loaded("clip").fingerprint


def test_text_encoder_without_prefix(saved: Made, tmp_path: Path, loaded: Made) -> None:
    state = {key.removeprefix("text."): v for key, v in load_file(saved("custom")).items()}
    save_file(state, tmp_path / "first.safetensors")
    found = load(f"tiny-custom@{tmp_path / 'first.safetensors'}")
    assert torch.equal(found.encode_texts(CAPTIONS), loaded("custom").encode_texts(CAPTIONS))


def test_half_precision_and_old_pickles(
    state: dict[str, torch.Tensor], tmp_path: Path, loaded: Made
) -> None:
    half = {key: value.half() for key, value in state.items()}
    torch.save(half, tmp_path / "half.pt", _use_new_zipfile_serialization=False)
    found = load(f"tiny-clip@{tmp_path / 'half.pt'}")
    difference = found.encode_texts(CAPTIONS) - loaded("clip").encode_texts(CAPTIONS)
    assert difference.abs().max() < 0.01
    assert found.fingerprint != loaded("clip").fingerprint


def test_bias_of_the_sigmoid_loss(state: dict[str, torch.Tensor], tmp_path: Path) -> None:
    torch.save({**state, "logit_bias": torch.tensor([-7.5])}, tmp_path / "sigmoid.pt")
    assert load(f"tiny-clip@{tmp_path / 'sigmoid.pt'}").bias == -7.5


def test_folder_of_checkpoints(state: dict[str, torch.Tensor], tmp_path: Path) -> None:
    save_file(state, tmp_path / "mine.safetensors")
    assert load(f"tiny-clip@{tmp_path}").name == "tiny-clip@mine"
    save_file(state, tmp_path / "other.safetensors")
    with pytest.raises(UnbagError, match=r"holds 2 checkpoints: mine.safetensors, other.safetens"):
        load(f"tiny-clip@{tmp_path}")
    save_file(state, tmp_path / "open_clip_model.safetensors")
    assert load(f"tiny-clip@{tmp_path}").name == f"tiny-clip@{tmp_path.name}/open_clip_model"


def test_label_of_file() -> None:
    assert label_of_file(Path("/logs/first/checkpoints/epoch_5.pt")) == "first/epoch_5"
    assert label_of_file(Path("/logs/second/checkpoints/epoch_5.pt")) == "second/epoch_5"
    assert label_of_file(Path("/logs/neg_clip.pt")) == "neg_clip"


def test_exported_folder(saved: Made, home: Path, tmp_path: Path, loaded: Made) -> None:
    folder = exported(saved("clip"), home / "tiny-clip.json", tmp_path / "mine")
    found = load(f"local-dir:{folder}")
    assert found.name == "mine"
    assert torch.equal(found.encode_texts(CAPTIONS), loaded("clip").encode_texts(CAPTIONS))
    assert repr(found._prepare).count("0.25") == 3


def exported(weights: Path, config: Path, folder: Path, **changes: Any) -> Path:
    """As open_clip pushes a model to the hub: weights, and a config with the preparation."""
    folder.mkdir()
    save_file(load_file(weights), folder / "open_clip_model.safetensors")
    said = {
        "model_cfg": {**json.loads(config.read_text()), **changes},
        "preprocess_cfg": {"mean": [0.25, 0.25, 0.25], "resize_mode": "squash"},
    }
    (folder / "open_clip_config.json").write_text(json.dumps(said))
    return folder


def test_config_beside_the_file_sets_the_preparation(
    saved: Made, home: Path, tmp_path: Path
) -> None:
    folder = exported(saved("clip"), home / "tiny-clip.json", tmp_path / "mine")
    found = load(f"tiny-clip@{folder}")
    assert "Resize(size=(32, 32)" in repr(found._prepare)
    assert "mean=[0.25, 0.25, 0.25]" in repr(found._prepare)


class Harmful:
    """Would write a file if it were unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    torch.save({"state_dict": Harmful(tmp_path / "ran")}, tmp_path / "evil.pt")
    with pytest.raises(UnbagError, match=r"(?s)evil.pt holds more than weights.*safetensors"):
        checkpoint.read_state(tmp_path / "evil.pt")
    (tmp_path / "old.pt").write_bytes(pickle.dumps(Harmful(tmp_path / "ran"), protocol=2))
    with pytest.raises(UnbagError, match=r"old\.pt"):
        checkpoint.read_state(tmp_path / "old.pt")
    assert not (tmp_path / "ran").exists()


def saved_bytes(content: object, *, is_zip: bool = True) -> bytes:
    buffer = BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=is_zip)
    return buffer.getvalue()


NOT_READ = "cannot be read as a checkpoint: "
TENSORS = {"w": torch.zeros(1000)}
BAD_FILES: dict[str, tuple[str, bytes, str]] = {
    "text": ("a.pt", b"hello", f"{NOT_READ}it is no file of PyTorch"),
    "bytes": ("a.pt", bytes(range(7, 250)), f"{NOT_READ}it is no file of PyTorch"),
    "JSON": ("a.pt", b"{}", f"{NOT_READ}it is no file of PyTorch"),
    "empty": ("a.pt", b"", f"{NOT_READ}it is empty"),
    "truncated": ("a.pt", saved_bytes(TENSORS)[:2000], f"{NOT_READ}its end is missing"),
    "truncated pickle": (
        "a.pt", saved_bytes(TENSORS, is_zip=False)[:60], f"{NOT_READ}its end is missing"
    ),
    "model": (
        "a.pt",
        saved_bytes(torch.nn.Linear(2, 2)),
        "holds more than weights: torch.nn.modules.linear.Linear",
    ),
    "pickle": (
        "a.pt",
        pickle.dumps({"a": Path("x")}, protocol=4),
        "holds more than weights: a pickle of other things",
    ),
    "no weights": ("a.pt", saved_bytes({"epoch": 3}), "holds no state dict: epoch"),
    "list": ("a.pt", saved_bytes([1, 2]), "holds no state dict: <class 'list'>"),
    "safetensors": ("a.safetensors", b"hello", NOT_READ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_are_no_checkpoint(tmp_path: Path, name: str) -> None:
    file, content, message = BAD_FILES[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(UnbagError) as error:
        checkpoint.read_state(tmp_path / file)
    assert f"{file} {message}" in error.value.message
    # The advice of PyTorch would run the code.
    assert "\x1b" not in str(error.value)
    assert "weights_only" not in str(error.value)


def test_folders_and_paths_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=r"no checkpoint at .*gone.pt"):
        load(f"ViT-B-32@{tmp_path / 'gone.pt'}")
    with pytest.raises(UnbagError, match=r"holds 0 checkpoints: none"):
        checkpoint.find_weights(tmp_path)


def test_torchscript_archives(tmp_path: Path) -> None:
    with pytest.warns(FutureWarning, match="torch.jit"):
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "ViT-B-32.pt")
    with pytest.raises(UnbagError, match=r"(?s)TorchScript archive.*ViT-B-32-quickgelu/openai"):
        checkpoint.read_state(tmp_path / "ViT-B-32.pt")


def test_checkpoint_of_another_architecture(saved: Made) -> None:
    with pytest.raises(UnbagError) as error:
        load(f"tiny-deep@{saved('clip')}")
    assert error.value.message == (
        "clip.safetensors does not fit tiny-deep: 24 missing (visual.transformer.resblocks.2.ln_1"
        ".weight, visual.transformer.resblocks.2.ln_1.bias, visual.transformer.resblocks.2.attn."
        "in_proj_weight ...)"
    )
    assert error.value.hint == "name the architecture it was trained with before the @"


def test_other_tensors_and_shapes(saved: Made) -> None:
    with pytest.raises(UnbagError, match=r"24 not part of it \(transformer.resblocks.2.*\.\.\.\)"):
        load(f"tiny-clip@{saved('deep')}")
    with pytest.raises(UnbagError) as error:
        load(f"tiny-clip@{saved('resnet')}")
    # Class token, places, projection, two layer norms, and two blocks of twelve.
    assert "31 missing (visual.class_embedding, " in error.value.message
    assert "not part of it (visual.attnpool.c_proj.bias, " in error.value.message
    assert "1 of another shape (visual.conv1.weight is (4, 3, 3, 3), not (32, 3, 8, 8))" in (
        error.value.message
    )


def test_hint_of_the_trainers_parameters(saved: Made, tmp_path: Path) -> None:
    (tmp_path / "params.txt").write_text("force_quick_gelu: False\nmodel: tiny-clip\n")
    save_file(load_file(saved("clip")), tmp_path / "epoch_1.safetensors")
    with pytest.raises(UnbagError) as error:
        load(f"tiny-deep@{tmp_path / 'epoch_1.safetensors'}")
    assert error.value.hint == "the trainer's params.txt says model: tiny-clip"


def test_missing_and_wrong_config(saved: Made, home: Path, tmp_path: Path) -> None:
    (tmp_path / "only").mkdir()
    save_file(load_file(saved("clip")), tmp_path / "only" / "one.safetensors")
    with pytest.raises(UnbagError, match=r"has no open_clip_config.json"):
        load(f"local-dir:{tmp_path / 'only'}")
    folder = exported(saved("clip"), home / "tiny-deep.json", tmp_path / "lies")
    with pytest.raises(UnbagError, match=r"does not fit lies: 24 missing") as error:
        load(f"local-dir:{folder}")
    assert "does not describe these weights" in error.value.hint
    (folder / "open_clip_config.json").write_text("[]")
    with pytest.raises(UnbagError, match=r"is no config of open_clip: TypeError"):
        load(f"local-dir:{folder}")


@pytest.mark.parametrize("revision", ["", "@1a2b3c"])
def test_hub_files_are_of_one_revision(
    revision: str, saved: Made, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = exported(saved("clip"), home / "tiny-clip.json", tmp_path / "mine")
    asked: list[str | None] = []

    def fetch(model: str, file: str | None, *, revision: str | None) -> str:
        asked.append(revision)
        return str(folder / (file or "open_clip_model.safetensors"))

    monkeypatch.setattr(library().pretrained, "download_pretrained_from_hf", fetch)
    found = find_source(parse(f"hf-hub:me/mine{revision}"))
    assert found.name == f"me/mine{revision}"
    assert asked == [revision[1:] or None] * 2
    assert found.tokenizer == (f"local-dir:{folder}" if revision else "hf-hub:me/mine")


@pytest.mark.parametrize("named", ["me/mine", "google/t5"])
def test_hub_tokenizer_is_of_the_same_revision(
    named: str, saved: Made, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.loads((home / "tiny-clip.json").read_text())["text_cfg"]
    text_cfg = {**text, "hf_tokenizer_name": named}
    folder = exported(saved("clip"), home / "tiny-clip.json", tmp_path / "mine", text_cfg=text_cfg)
    asked: list[tuple[str, str]] = []

    def fetch(model: str, file: str | None, *, revision: str | None) -> str:
        return str(folder / (file or "open_clip_model.safetensors"))

    def snapshot(repo: str, *, revision: str, allow_patterns: list[str]) -> str:
        asked.append((repo, revision))
        return str(folder)

    monkeypatch.setattr(library().pretrained, "download_pretrained_from_hf", fetch)
    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    found = find_source(parse("hf-hub:me/mine@1a2b3c"))
    is_own = named == "me/mine"
    assert asked == ([("me/mine", "1a2b3c")] if is_own else [])
    assert found.tokenizer == (f"local-dir:{folder}" if is_own else "hf-hub:me/mine")


def test_pinned_tag_has_its_own_name(saved: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = str(saved("clip"))
    monkeypatch.setattr(
        library().pretrained, "download_pretrained_from_hf", lambda *args, **where: fetched
    )
    found = find_source(parse("ViT-B-32/laion2b_s34b_b79k@1a2b3c"))
    assert found.name == "ViT-B-32/laion2b_s34b_b79k@1a2b3c"


def test_folder_of_transformers(saved: Made, tmp_path: Path) -> None:
    save_file(load_file(saved("clip")), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "clip"}))
    with pytest.raises(UnbagError, match="is a model of transformers, not of OpenCLIP") as error:
        checkpoint.find_weights(tmp_path)
    assert error.value.hint == f"write hf:{tmp_path}"
    # Folders of the hub often hold both.
    (tmp_path / "open_clip_config.json").write_text("{}")
    assert checkpoint.find_weights(tmp_path) == tmp_path / "model.safetensors"


def test_run_of_the_trainer(tmp_path: Path) -> None:
    below = tmp_path / "checkpoints"
    below.mkdir()
    (tmp_path / "params.txt").write_text("model: RN50\n")
    for epoch in (1, 9, 10):
        (below / f"epoch_{epoch}.pt").touch()
    with pytest.raises(UnbagError) as error:
        checkpoint.find_weights(tmp_path)
    listed = "epoch_1.pt, epoch_9.pt, epoch_10.pt"
    assert error.value.message == f"the folder {below} holds 3 checkpoints: {listed}"
    assert error.value.hint == f"name the file, as in ...@{below / 'epoch_10.pt'}"


def test_weights_with_nan(saved: Made, tmp_path: Path) -> None:
    state = load_file(saved("clip"))
    state["visual.proj"][0, 0] = math.nan
    save_file(state, tmp_path / "diverged.safetensors")
    with pytest.raises(UnbagError, match=r"diverged.safetensors hold NaN .*: visual\.proj"):
        load(f"tiny-clip@{tmp_path / 'diverged.safetensors'}")


def test_download_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The hub client logs each attempt; we raise one error in whole sentences."""
    reason = "Failed to download. The hub cannot be reached. " + "Check the connection. " * 20

    def offline(*args: object, **kwargs: object) -> str:
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s [Retry 1/5].")
        raise OSError(reason)

    monkeypatch.setattr(library(), "download_pretrained", offline)
    with pytest.raises(UnbagError) as error:
        load("RN50-quickgelu/openai")
    assert capfd.readouterr().err == ""
    message = error.value.message
    assert message.startswith("the weights of open_clip:RN50-quickgelu/openai could not be down")
    assert message.endswith("Check the connection.")
    assert len(message) < 500
