"""Folders that hold no decoder, or parts of two, are refused in words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from unbag.api import make_scorers
from unbag.errors import UnbagError
from unbag.models.loading import load_model
from unbag.readouts.base import train_readout
from unbag.readouts.decoder.readout import load as load_decoder

from .decoder_made import encoder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("decoder")
    settings = (
        "scenes=24",
        "steps=1",
        "batch_size=8",
        "width=16",
        "depth=1",
        "heads=2",
        "warmup_steps=1",
    )
    train_readout("decoder", encoder(), "world", out, spec="small", settings=settings)
    return out


def test_folders_that_hold_no_decoder(tmp_path: Path, small: Path) -> None:
    (tmp_path / "config.json").write_text('{"kind": "clip"}')
    with pytest.raises(UnbagError, match=r"its config\.json has the kind 'clip'"):
        load_decoder(str(tmp_path))
    with pytest.raises(UnbagError, match="needs a trained decoder; no folder is named"):
        make_scorers(encoder(), "decoder")


def none(place: Path) -> None:
    """Nothing is there."""


def file(place: Path) -> None:
    place.touch()


def says(text: str) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        place.mkdir()
        (place / "config.json").write_text(text)

    return write


@pytest.mark.parametrize("named", ["decoder:{}", "decoder@{}", "vlm2vec@{}", "vlm2vec:{}"])
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (none, "there is no such folder"),
        (file, "it is a file"),
        (Path.mkdir, "it has no config.json"),
        (says("{"), "its config.json cannot be read: Expecting property name"),
        (says("[]"), "its config.json has no kind"),
        (says('{"model_type": "clip"}'), "its config.json has no kind"),
        (says('{"kind": "toast"}'), "its config.json has the kind 'toast'"),
    ],
)
def test_what_is_missing_is_told_with_the_files_and_how_to_make_them(
    tmp_path: Path, named: str, make: Callable[[Path], None], why: str
) -> None:
    place = tmp_path / "place"
    make(place)
    text = named.format(place)
    with pytest.raises(UnbagError) as caught:
        make_scorers(encoder(), text) if "@" in named else load_model(text)
    is_adapter = named.startswith("vlm2vec:")
    what = "holds no trained VLM2Vec" if is_adapter else "is not a decoder"
    assert caught.value.message.startswith(f"{place} {what}: {why}")
    files = "adapter.safetensors and config.json" if is_adapter else "config.json, connector.saf"
    assert caught.value.expected.startswith(f"a folder with {files}")
    recipe = "vlm2vec" if is_adapter else "decoder"
    assert caught.value.hint.startswith("check the path, or train one")
    assert f"`unbag train --readout {recipe}" in caught.value.hint


def test_files_that_a_decoder_lacks_are_named(tmp_path: Path, small: Path) -> None:
    copy = shutil.copytree(small, tmp_path / "copy")
    (copy / "connector.safetensors").write_bytes(b"x")
    with pytest.raises(UnbagError, match=r"its connector\.safetensors cannot be read: "):
        load_decoder(str(copy))
    save_file({"0.bias": torch.zeros(1)}, copy / "connector.safetensors")
    with pytest.raises(UnbagError, match=r"its connector\.safetensors has no matrix 0\.weight"):
        load_decoder(str(copy))
    (copy / "connector.safetensors").unlink()
    with pytest.raises(UnbagError, match=r"is not a decoder: it has no connector\.safetensors"):
        load_decoder(str(copy))
    said = json.loads((copy / "config.json").read_text())
    del said["settings"]
    (copy / "config.json").write_text(json.dumps(said))
    with pytest.raises(UnbagError, match=r"its config\.json has no 'settings'"):
        load_decoder(str(copy))
    (copy / "config.json").unlink()
    (copy / "last.safetensors").touch()
    with pytest.raises(UnbagError, match="an unfinished training run") as caught:
        load_decoder(str(copy))
    assert caught.value.hint == "run the same `unbag train` command again to resume it"


def test_folders_with_parts_of_two_decoders_or_without_one(tmp_path: Path, small: Path) -> None:
    copy = shutil.copytree(small, tmp_path / "copy")
    weights = load_file(copy / "connector.safetensors")
    wide = {name: torch.cat([value, value]) for name, value in weights.items()}
    save_file(wide, copy / "connector.safetensors")
    with pytest.raises(UnbagError, match=r"does not fit its language model: 0\.weight is \(32,"):
        load_decoder(str(copy))
    del weights["2.bias"]
    save_file(weights, copy / "connector.safetensors")
    with pytest.raises(UnbagError, match=r"language model: 2\.bias is missing"):
        load_decoder(str(copy))
    shutil.rmtree(copy / "language")
    with pytest.raises(UnbagError, match="is not a decoder: it has no language/"):
        load_decoder(str(copy))
