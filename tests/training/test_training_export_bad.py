"""What an export refuses, what it leaves out, and that a failed one leaves nothing behind."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from unbag.cli import main
from unbag.errors import UnbagError
from unbag.models.loading import load_model
from unbag.models.open_clip.encoder import OpenClip
from unbag.models.tiny import Tiny, load, untrained
from unbag.reports.cards import Card, LeftOut, card_of_copy
from unbag.training.export import formats as export_forms
from unbag.training.export.clip import to_transformers
from unbag.training.export.export import export

from .export_models import open_clip_config, save_open_clip

CARD = card_of_copy("tiny:base", name="tiny:base")
RESNET = {"vision": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "head_width": 32}}


@pytest.fixture
def small(tmp_path: Path) -> OpenClip:
    pytest.importorskip("open_clip")
    # Few tokens: its tokenizer is CLIP's own whatever the context.
    name = save_open_clip(tmp_path / "small", open_clip_config(text={"context_length": 16}))
    encoder = load_model(name)
    assert isinstance(encoder, OpenClip)
    return encoder


def test_the_tiny_encoder_is_written_in_full_precision(tmp_path: Path) -> None:
    config = load("base").config
    encoder = Tiny(untrained(config, seed=5), name="tiny:mine")
    found = export(encoder, tmp_path / "out", card=CARD)
    again = load(str(found.path / "tiny.safetensors"))
    assert again.fingerprint == encoder.fingerprint
    assert found.folders[0].model_name(found.path) == f"tiny:{found.path}/tiny.safetensors"
    why = "the tiny encoder is an architecture of unbag's own"
    assert found.left_out == (LeftOut("open_clip", why), LeftOut("transformers", why))


def test_a_resnet_is_left_out_for_transformers_with_the_reason(tmp_path: Path) -> None:
    pytest.importorskip("open_clip")
    encoder = load_model(save_open_clip(tmp_path / "resnet", open_clip_config(**RESNET)))
    assert isinstance(encoder, OpenClip)
    found = export(encoder, tmp_path / "out", card=CARD)
    assert [one.library for one in found.folders] == ["open_clip"]
    assert found.left_out == (LeftOut("transformers", "its image encoder is a ResNet"),)
    card = (found.path / "README.md").read_text(encoding="utf-8")
    assert "Not exported to transformers: its image encoder is a ResNet." in card
    assert not (found.path / "transformers").exists()


def test_a_library_that_is_not_there_is_the_reason(
    small: OpenClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_forms, "find_spec", lambda name: None)
    found = export(small, tmp_path / "out", card=CARD)
    why = "the package 'transformers' is not installed"
    assert found.left_out == (LeftOut("transformers", why),)


@pytest.mark.parametrize(("file", "said"), [("unbag.json", " and is an export"), ("x.txt", "")])
def test_a_folder_that_is_not_empty_is_refused(file: str, said: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("mine")
    with pytest.raises(UnbagError) as raised:
        export(load("base"), tmp_path, card=CARD)
    assert raised.value.message == f"{tmp_path} exists{said}"
    assert raised.value.hint == "name another with --out, or remove this one"
    assert (tmp_path / file).read_text() == "mine"


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    found = export(load("base"), tmp_path, card=CARD)
    assert (found.path / "unbag.json").is_file()


def test_a_model_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    class Mine:
        name = "mine"

    mine: Any = Mine()
    with pytest.raises(UnbagError, match="mine is a Mine"):
        export(mine, tmp_path / "out", card=CARD)
    assert not list(tmp_path.iterdir())


def test_rounded_weights_are_refused(tmp_path: Path, small: OpenClip) -> None:
    small.model.to(torch.bfloat16)
    with pytest.raises(UnbagError, match=r"the weights of small are torch\.bfloat16"):
        export(small, tmp_path / "out", card=CARD)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    encoder = load("random")
    with torch.no_grad():
        next(encoder.network.parameters()).view(-1)[0] = float("nan")
    with pytest.raises(UnbagError, match="hold NaN or infinity"):
        export(encoder, tmp_path / "out", card=CARD)
    assert not list(tmp_path.iterdir())


def test_other_vectors_stop_the_export_and_leave_nothing(
    small: OpenClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")

    def wrong(state: Any) -> Any:
        found = to_transformers(state)
        found["visual_projection.weight"] = found["visual_projection.weight"].flip(0)
        return found

    monkeypatch.setattr(export_forms, "to_transformers", wrong)
    with pytest.raises(UnbagError) as raised:
        export(small, tmp_path / "out", card=CARD)
    start = "the form of small for transformers gives other vectors: a number differs by"
    assert raised.value.message.startswith(start)
    assert [one.name for one in tmp_path.iterdir()] == ["small"]


def test_a_wrong_activation_would_be_found(
    small: OpenClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    assert small.config is not None
    small.config = {**small.config, "quick_gelu": True}
    with pytest.raises(UnbagError, match="the form of small for open_clip gives other vectors"):
        export(small, tmp_path / "out", card=CARD)


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), SafetensorError("I/O error: no space")]
)
def test_a_full_disk_leaves_nothing(
    error: Exception, small: OpenClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(export_forms, "save_file", full)
    with pytest.raises(UnbagError, match=r"out cannot be written: .*space"):
        export(small, tmp_path / "out", card=CARD)
    assert [one.name for one in tmp_path.iterdir()] == ["small"]


def test_a_model_without_its_config_is_refused(small: OpenClip, tmp_path: Path) -> None:
    small.config = None
    with pytest.raises(UnbagError, match="small does not say open_clip's config"):
        export(small, tmp_path / "out", card=CARD)


def test_what_open_clip_cannot_read_is_said(
    small: OpenClip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unbag.models.open_clip.library import library

    def old(name: str, **_: Any) -> None:
        raise RuntimeError(f"Model config for {name[:10]} not found")

    monkeypatch.setattr(library(), "create_model_and_transforms", old)
    with pytest.raises(UnbagError) as raised:
        export(small, tmp_path / "out", card=CARD)
    said = "open_clip cannot read what was written for it: Model config for local-dir: not found"
    assert raised.value.message == said
    assert "open_clip_torch 3 or later" in raised.value.expected


def test_the_command_says_how_each_form_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "--model", "tiny:base", "--out", "out"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tiny:base, written to out"
    assert lines[-3:] == [
        "evaluate it:",
        "  unbag run --model tiny:out/tiny.safetensors",
        "model card: out/README.md",
    ]
    assert main(["export", "--model", "tiny:base", "--out", "out"]) == 1
    assert "unbag: out exists and is an export" in capsys.readouterr().err
    assert main(["export", "--model", "caption:short", "--out", "other"]) == 1
    said = "unbag: caption:short has no image and text embeddings"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("weights", ["last", "best"])
def test_weights_of_a_model_that_is_no_run_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], weights: str
) -> None:
    out = tmp_path / "out"
    words = ["export", "--model", "tiny:base", "--checkpoint", weights, "--out", str(out)]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert f"unbag: --checkpoint {weights} was given with --model tiny:base\n" in said
    assert "with --run" in said
    assert not out.exists()


def test_the_help_names_every_kind_of_model(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "open_clip:, hf:, photo:, joined: or tiny:" in shown


@pytest.fixture
def narrow() -> Iterator[None]:
    """Files of a user that a group may read."""
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("narrow")
def test_files_can_be_read_by_those_whom_the_umask_allows(small: OpenClip, tmp_path: Path) -> None:
    for encoder, at in ((small, "small"), (load("base"), "tiny")):
        found = export(encoder, tmp_path / "out" / at, card=CARD)
        files = [path for path in found.path.rglob("*") if path.is_file()]
        assert any(path.suffix == ".safetensors" for path in files)
        assert {path.name: path.stat().st_mode & 0o777 for path in files} == {
            path.name: 0o640 for path in files
        }
        assert ".mode" not in {path.name for path in files}


def test_the_card_of_a_copy_says_that_nothing_was_trained(tmp_path: Path) -> None:
    found = export(load("base"), tmp_path / "out", card=Card("t", "tiny:base", command="unbag x"))
    card = (found.path / "README.md").read_text(encoding="utf-8")
    assert "An export of `tiny:base` with unchanged weights: nothing was trained" in card
    assert "## Made by\n\n```\nunbag x\n```" in card
