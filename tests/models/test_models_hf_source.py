"""Checkpoints of transformers that are not there, not whole or not what they say: every message."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from unbag.errors import UnbagError
from unbag.models.huggingface.loading import HfSource, load, parse_source
from unbag.models.loading import folder_name, load_model

transformers: Any = pytest.importorskip("transformers")
HfFolder = Callable[[str], Path]


@pytest.fixture
def clip(hf_folder: HfFolder, tmp_path: Path) -> Path:
    """A CLIP that a test may break."""
    return Path(copytree(hf_folder("clip"), tmp_path / "clip"))


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def change_weights(folder: Path, rewrite: Callable[[dict[str, torch.Tensor]], object]) -> None:
    state = load_file(folder / "model.safetensors")
    rewrite(state)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def fails(name: str | Path) -> str:
    with pytest.raises(UnbagError) as caught:
        load(str(name))
    return str(caught.value)


def test_a_source_is_a_folder_or_a_name_with_a_revision(
    clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parse_source("openai/clip") == HfSource("openai/clip")
    assert parse_source("openai/clip@v1.0") == HfSource("openai/clip", "v1.0")
    assert parse_source("openai/clip@v1.0").name == "clip@v1.0"
    monkeypatch.chdir(clip.parent)
    assert parse_source("clip") == HfSource("clip")
    assert HfSource("clip").is_folder
    at = clip.rename(clip.parent / "clip@home")
    assert parse_source("clip@home") == HfSource(at.name)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("runs/clip", "clip"),
        ("runs/clip-900", "clip-900"),
        ("runs/one/checkpoint-900", "one/checkpoint-900"),
        ("runs/one/step_20", "one/step_20"),
        ("runs/one/Final", "one/Final"),
        ("runs/one/open_clip", "one/open_clip"),
        ("runs/one/export/transformers", "one/export/transformers"),
        ("runs/one/checkpoints/best", "one/checkpoints/best"),
        ("/best", "best"),
    ],
)
def test_what_every_run_calls_its_folders_names_no_model(folder: str, name: str) -> None:
    assert folder_name(Path(folder)) == name


def test_two_checkpoints_of_one_name_are_two_models(clip: Path) -> None:
    folders = [clip.parent / run / "checkpoint-900" for run in ("one", "two")]
    found = [load(str(copytree(clip, folder))) for folder in folders]
    assert [one.name for one in found] == ["one/checkpoint-900", "two/checkpoint-900"]
    # Where the weights are the same, so are the vectors, which are cached by fingerprint.
    assert found[0].fingerprint == found[1].fingerprint


@pytest.mark.parametrize(
    "name", ["", "./nowhere", "runs/clip/final", "~/nowhere", "~no-such-user/clip", "clip@"]
)
def test_a_folder_that_is_not_there(name: str) -> None:
    said = fails(name)
    assert f"there is no folder {name!r}" in said
    assert "owner/name[@revision]" in said


def test_a_folder_has_no_revisions(clip: Path) -> None:
    assert "is on disk, and 'main' is a revision" in fails(f"{clip}@main")


def test_a_folder_without_a_checkpoint(tmp_path: Path) -> None:
    assert "has no config.json" in fails(tmp_path)
    (tmp_path / "model.pt").write_bytes(b"x")
    said = fails(tmp_path / "model.pt")
    assert "is a file" in said
    assert "open_clip:ARCH@FILE" in said


def test_a_config_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert "its configuration cannot be read: Unrecognized model" in fails(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "no-such-kind"}')
    said = fails(tmp_path)
    assert "its configuration cannot be read" in said
    assert "a newer version of transformers may know the kind" in said
    (tmp_path / "config.json").write_text("{")
    assert "that file is no JSON: take it again" in fails(tmp_path)


@pytest.mark.parametrize("heads", [3, "CLIPModel", [3]])
def test_architectures_are_a_list_of_names(clip: Path, heads: object) -> None:
    change(clip / "config.json", architectures=heads)
    said = fails(clip)
    assert f"the configuration says architectures: {heads!r}" in said
    assert "mend config.json" in said


@pytest.mark.parametrize("name", ["a" * 5000, "own er/name", "a..b", "-a/b", "x/" + "a" * 95])
def test_a_name_that_the_hub_cannot_have(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    said = fails(name)
    assert "is no folder, and no name that the hub can have" in said
    assert "HF_HUB_OFFLINE" not in said
    assert len(said) < 400


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("model.safetensors", "its weights cannot be read"),
        ("preprocessor_config.json", "its image processor cannot be read"),
    ],
)
def test_a_part_that_is_missing(clip: Path, file: str, said: str) -> None:
    (clip / file).unlink()
    found = fails(clip)
    assert said in found
    assert "check that the folder is complete" in found


@pytest.mark.parametrize("kind", ["clip", "chinese_clip", "blip"])
def test_a_tokenizer_without_files_knows_no_words(
    kind: str, hf_folder: HfFolder, tmp_path: Path
) -> None:
    # transformers makes an empty one, for which all captions of a length are the same.
    folder = Path(copytree(hf_folder(kind), tmp_path / kind))
    (folder / "tokenizer.json").unlink()
    said = fails(folder)
    assert "knows no words: 'a red cube' and 'a big ball' become the same tokens" in said
    assert "save the tokenizer into the model's folder" in said


def test_a_damaged_tokenizer(clip: Path) -> None:
    (clip / "tokenizer.json").write_text("{")
    said = fails(clip)
    assert "its tokenizer cannot be read" in said
    assert "that file is no JSON" in said


def test_a_tokenizer_without_padding(hf_folder: HfFolder, tmp_path: Path) -> None:
    folder = Path(copytree(hf_folder("chinese_clip"), tmp_path / "chinese"))
    words = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    words.save_pretrained(folder)
    assert "has no padding token" in fails(folder)


def test_damaged_weights(clip: Path) -> None:
    (clip / "model.safetensors").write_bytes(b"not weights at all")
    assert "its weights cannot be read" in fails(clip)


def test_weights_that_are_not_whole(clip: Path) -> None:
    file = clip / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-50])
    assert "damaged or not whole: copy or download it again" in fails(clip)


def test_missing_weights_are_named_and_counted(clip: Path) -> None:
    def rewrite(state: dict[str, torch.Tensor]) -> None:
        for key in [k for k in state if k.startswith("text_model.encoder.layers.1.")]:
            state[f"elsewhere.{key}"] = state.pop(key)

    change_weights(clip, rewrite)
    said = fails(clip)
    assert "do not fill CLIPModel: 16 missing (text_model.encoder.layers.1." in said
    assert "and 12 more); 16 not known to it" in said
    assert "the rest would be random numbers" in said


def test_weights_of_another_shape_are_named(clip: Path) -> None:
    change_weights(clip, lambda state: state.update({"text_projection.weight": torch.ones(3, 16)}))
    assert "1 of another shape (text_projection.weight (3, 16) for (12, 16))" in fails(clip)


def test_weights_that_are_too_many_do_no_harm(clip: Path, hf_folder: HfFolder) -> None:
    change_weights(clip, lambda state: state.update({"a.head.of.training": torch.ones(2)}))
    found, plain = load(str(clip)), load(str(hf_folder("clip")))
    assert found.fingerprint == plain.fingerprint


def test_only_the_text_encoder_is_no_dual_encoder(clip: Path, tmp_path: Path) -> None:
    text = transformers.CLIPTextModel.from_pretrained(clip)
    text.save_pretrained(tmp_path / "text")
    said = fails(tmp_path / "text")
    assert "is a 'clip_text_model' (CLIPTextModel)" in said
    assert "dual encoders (CLIP, SigLIP" in said


@pytest.mark.parametrize("kind", ["owlvit", "flava", "bert"])
def test_other_kinds_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    transformers.AutoConfig.for_model(kind).save_pretrained(tmp_path)
    assert f"is a {kind!r} (no architecture named)" in fails(tmp_path)


def test_a_name_that_cannot_be_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    said = fails("nobody/nothing@v9")
    assert "nobody/nothing: its configuration cannot be read: there is no such folder, and" in said
    assert "check the name, the revision and the connection" in said
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "if a folder is meant: models has no clip" in fails("models/clip")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE is set: only downloaded models are found" in fails("nobody/nothing")


def test_a_tokenizer_with_another_end_would_pool_at_the_start(clip: Path) -> None:
    config = json.loads((clip / "config.json").read_text())
    change(clip / "config.json", text_config=config["text_config"] | {"eos_token_id": 5})
    said = fails(clip)
    assert "and the model looks for 5" in said
    assert "all captions would get the same vector" in said


def test_the_old_end_token_asks_for_the_largest_number(hf_folder: HfFolder, tmp_path: Path) -> None:
    folder = Path(copytree(hf_folder("clip-legacy"), tmp_path / "legacy"))
    words = transformers.AutoTokenizer.from_pretrained(folder)
    words.add_tokens(["<new>"])
    words.save_pretrained(folder)
    assert f"looks for {len(words) - 1}" in fails(folder)


def test_a_tokenizer_of_another_model(clip: Path) -> None:
    words = transformers.AutoTokenizer.from_pretrained(clip)
    words.add_tokens(["cube"])
    words.save_pretrained(clip)
    assert "the tokenizer gives token 66, and the model knows 66" in fails(clip)


def test_pixels_of_many_shapes_are_refused(clip: Path) -> None:
    change(clip / "preprocessor_config.json", do_center_crop=False)
    assert "(3, 32, 42) for a wide image and (3, 42, 32) for a high one" in fails(clip)


def test_a_fingerprint_knows_all_that_decides_a_number(clip: Path, hf_folder: HfFolder) -> None:
    first = load(str(hf_folder("clip")))
    assert load(str(clip)).fingerprint == first.fingerprint
    assert load(str(clip), dtype="bfloat16").fingerprint != first.fingerprint
    change(clip / "preprocessor_config.json", image_mean=[0.1, 0.2, 0.3])
    second = load(str(clip))
    assert second.fingerprint != first.fingerprint
    config = json.loads((clip / "config.json").read_text())
    vision = config["vision_config"] | {"hidden_act": "gelu"}
    change(clip / "config.json", vision_config=vision)
    third = load(str(clip))
    assert third.fingerprint != second.fingerprint
    change_weights(clip, lambda state: state["visual_projection.weight"].add_(1e-3))
    assert load(str(clip)).fingerprint != third.fingerprint


@pytest.mark.parametrize("spec", ["hf:openai/clip", "caption:sentence:all-MiniLM"])
def test_without_transformers_it_says_what_to_install(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UnbagError, match="needs the package 'transformers'") as caught:
        load_model(spec)
    assert "pip install 'unbag[transformers]'" in str(caught.value)


def test_nothing_is_printed_and_settings_are_put_back(
    clip: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logging = transformers.utils.logging
    level = logging.get_verbosity()
    load(str(clip))
    assert capfd.readouterr() == ("", "")
    assert logging.get_verbosity() == level
    assert logging.is_progress_bar_enabled()
