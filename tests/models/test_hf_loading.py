"""Checkpoints of transformers that are missing, damaged or inconsistent."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from unbag.errors import UnbagError
from unbag.models.huggingface.loading import HfSource, load, parse_source
from unbag.models.loading import load_model

transformers: Any = pytest.importorskip("transformers")
HfFolder = Callable[[str], Path]
State = dict[str, torch.Tensor]


@pytest.fixture
def clip(hf_folder: HfFolder, tmp_path: Path) -> Path:
    """A CLIP that a test may change."""
    return Path(copytree(hf_folder("clip"), tmp_path / "clip"))


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def change_part(folder: Path, part: str, **fields: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(folder / "config.json", **{part: config[part] | fields})


def change_weights(folder: Path, rewrite: Callable[[State], object]) -> None:
    state = load_file(folder / "model.safetensors")
    rewrite(state)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def add_tokens(folder: Path, *tokens: str) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(list(tokens))
    tokenizer.save_pretrained(folder)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-50])


def set_architectures(folder: Path, heads: object) -> None:
    change(folder / "config.json", architectures=heads)


def hide_layer(state: State) -> None:
    for key in [k for k in state if k.startswith("text_model.encoder.layers.1.")]:
        state[f"elsewhere.{key}"] = state.pop(key)


def error_of(name: str | Path) -> str:
    with pytest.raises(UnbagError) as error:
        load(str(name))
    return str(error.value)


def test_source_is_a_folder_or_a_name_with_a_revision(
    clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parse_source("openai/clip") == HfSource("openai/clip")
    assert parse_source("openai/clip@v1.0") == HfSource("openai/clip", "v1.0")
    assert parse_source("openai/clip@v1.0").name == "clip@v1.0"
    monkeypatch.chdir(clip.parent)
    assert parse_source("clip") == HfSource("clip")
    assert HfSource("clip").is_folder
    folder = clip.rename(clip.parent / "clip@home")
    assert parse_source("clip@home") == HfSource(folder.name)
    assert "is on disk, and 'main' is a revision" in error_of("clip@home@main")


def test_checkpoints_of_two_runs_have_two_names(clip: Path) -> None:
    folders = [clip.parent / run / "checkpoint-900" for run in ("one", "two")]
    first, second = (load(str(copytree(clip, folder))) for folder in folders)
    assert (first.name, second.name) == ("one/checkpoint-900", "two/checkpoint-900")
    # The weights are the same, and so are the vectors, which are cached by fingerprint.
    assert first.fingerprint == second.fingerprint


@pytest.mark.parametrize(
    "name", ["", "./nowhere", "runs/clip/final", "~/nowhere", "~no-such-user/clip", "clip@"]
)
def test_folder_that_does_not_exist(name: str) -> None:
    message = error_of(name)
    assert f"there is no folder {name!r}" in message
    assert "owner/name[@revision]" in message


@pytest.mark.parametrize("name", ["a" * 5000, "own er/name", "a..b", "-a/b", "x/" + "a" * 95])
def test_invalid_name_on_the_hub(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    message = error_of(name)
    assert "is no folder, and no valid name on the hub" in message
    assert "HF_HUB_OFFLINE" not in message
    assert len(message) < 400


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("a.txt", "", ["has no config.json"]),
        ("config.json", "{}", ["its configuration cannot be read: Unrecognized model"]),
        ("config.json", '{"model_type": "no-such-kind"}', ["configuration", "newer version"]),
        ("config.json", "{", ["not valid JSON"]),
        ("config.json", '{"model_type": "owlvit"}', ["is a 'owlvit' (no architecture named)"]),
        ("config.json", '{"model_type": "flava"}', ["is a 'flava' (no architecture named)"]),
        ("config.json", '{"model_type": "bert"}', ["is a 'bert' (no architecture named)"]),
    ],
)
def test_folder_without_a_model(tmp_path: Path, file: str, content: str, words: list[str]) -> None:
    (tmp_path / file).write_text(content)
    message = error_of(tmp_path)
    assert all(word in message for word in words), message


CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    **{
        f"architectures {heads!r}": (
            partial(set_architectures, heads=heads),
            [f"has architectures: {heads!r}", "config.json"],
        )
        for heads in (3, "CLIPModel", [3])
    },
    "no weights": (
        lambda clip: (clip / "model.safetensors").unlink(),
        ["its weights cannot be read", "check that the folder is complete"],
    ),
    "no image processor": (
        lambda clip: (clip / "preprocessor_config.json").unlink(),
        ["its image processor cannot be read", "check that the folder is complete"],
    ),
    "damaged tokenizer": (
        lambda clip: (clip / "tokenizer.json").write_text("{"),
        ["its tokenizer cannot be read", "not valid JSON"],
    ),
    "damaged weights": (
        lambda clip: (clip / "model.safetensors").write_bytes(b"not weights at all"),
        ["its weights cannot be read"],
    ),
    "truncated weights": (
        lambda clip: cut(clip / "model.safetensors"),
        ["damaged or incomplete: copy or download it again"],
    ),
    "missing weights": (
        lambda clip: change_weights(clip, hide_layer),
        ["do not fill CLIPModel: 16 missing (text_model.encoder.layers.1.", "and 12 more)",
         "16 unknown to it", "missing weights would be random"],
    ),
    "other shapes": (
        lambda clip: change_weights(
            clip, lambda state: state.update({"text_projection.weight": torch.ones(3, 16)})
        ),
        ["1 of another shape (text_projection.weight (3, 16) for (12, 16))"],
    ),
    "other end token": (
        lambda clip: change_part(clip, "text_config", eos_token_id=5),
        ["and the model looks for 5", "all captions would get the same vector"],
    ),
    "other tokenizer": (
        lambda clip: add_tokens(clip, "cube"),
        ["the tokenizer gives token 66, and the model knows 66"],
    ),
    "images of several shapes": (
        lambda clip: change(clip / "preprocessor_config.json", do_center_crop=False),
        ["(3, 32, 42) for a wide image and (3, 42, 32) for a tall one"],
    ),
    "text encoder alone": (
        lambda clip: transformers.CLIPTextModel.from_pretrained(clip).save_pretrained(clip),
        ["is a 'clip_text_model' (CLIPTextModel)", "dual encoders (CLIP, SigLIP"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_damaged_or_inconsistent_checkpoint(clip: Path, name: str) -> None:
    damage, words = CHANGES[name]
    damage(clip)
    message = error_of(clip)
    assert all(word in message for word in words), message


@pytest.mark.parametrize("kind", ["clip", "chinese_clip", "blip"])
def test_tokenizer_without_files(kind: str, hf_folder: HfFolder, tmp_path: Path) -> None:
    # transformers makes an empty one, for which all captions of a length are the same.
    folder = Path(copytree(hf_folder(kind), tmp_path / kind))
    (folder / "tokenizer.json").unlink()
    message = error_of(folder)
    assert "has no vocabulary: 'a red cube' and 'a big ball' give the same tokens" in message
    assert "save the tokenizer into the model's folder" in message


def test_tokenizers_of_other_kinds(hf_folder: HfFolder, tmp_path: Path) -> None:
    folder = Path(copytree(hf_folder("chinese_clip"), tmp_path / "chinese"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    tokenizer.save_pretrained(folder)
    assert "has no padding token" in error_of(folder)
    # With the end token of old configs, the largest token id is pooled.
    folder = Path(copytree(hf_folder("clip-legacy"), tmp_path / "legacy"))
    add_tokens(folder, "<new>")
    largest = len(transformers.AutoTokenizer.from_pretrained(folder)) - 1
    assert f"looks for {largest}" in error_of(folder)


def test_file_of_weights(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"x")
    message = error_of(tmp_path / "model.pt")
    assert "is a file" in message
    assert "open_clip:ARCH@FILE" in message


def test_name_that_cannot_be_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    message = error_of("nobody/nothing@v9")
    assert "nobody/nothing: its configuration cannot be read: there is no such folder" in message
    assert "check the name, the revision and the connection" in message
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "if a folder is meant: models has no clip" in error_of("models/clip")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE is set: only downloaded models are found" in error_of("nobody/nothing")


def test_fingerprint_depends_on_all_that_decides_a_result(clip: Path, hf_folder: HfFolder) -> None:
    def fingerprint() -> str:
        return load(str(clip)).fingerprint

    fingerprints = [load(str(hf_folder("clip"))).fingerprint]
    # Additional weights have no effect.
    change_weights(clip, lambda state: state.update({"a.head.of.training": torch.ones(2)}))
    assert fingerprint() == fingerprints[0]
    fingerprints.append(load(str(clip), dtype="bfloat16").fingerprint)
    change(clip / "preprocessor_config.json", image_mean=[0.1, 0.2, 0.3])
    fingerprints.append(fingerprint())
    change_part(clip, "vision_config", hidden_act="gelu")
    fingerprints.append(fingerprint())
    change_weights(clip, lambda state: state["visual_projection.weight"].add_(1e-3))
    fingerprints.append(fingerprint())
    assert len(set(fingerprints)) == 5


@pytest.mark.parametrize("spec", ["hf:openai/clip", "caption:sentence:all-MiniLM"])
def test_transformers_is_not_installed(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UnbagError, match="needs the package 'transformers'") as error:
        load_model(spec)
    assert "pip install 'unbag[transformers]'" in error.value.hint


def test_loading_prints_nothing_and_restores_settings(
    clip: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logging = transformers.utils.logging
    settings = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load(str(clip))
    assert capfd.readouterr() == ("", "")
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == settings
