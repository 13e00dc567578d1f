"""Folders that hold no decoder, or parts of two, are refused in words."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from unbag.errors import UserError
from unbag.readouts.decoder import load as load_decoder
from unbag.readouts.trained import train_readout
from unbag.scorers.resolve import make_scorers

from .decoder_made import encoder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("decoder")
    settings = ("scenes=24", "steps=1", "batch=8", "width=16", "depth=1", "heads=2", "warm_up=1")
    train_readout("decoder", encoder(), "world", out, spec="small", settings=settings)
    return out


def test_folders_that_hold_no_decoder(tmp_path: Path, small: Path) -> None:
    with pytest.raises(UserError, match=r"is not a decoder: .*No such file"):
        load_decoder(str(tmp_path))
    (tmp_path / "config.json").write_text('{"kind": "clip"}')
    with pytest.raises(UserError, match=r"its config\.json is of the kind 'clip'"):
        load_decoder(str(tmp_path))
    with pytest.raises(UserError, match="scores with a trained decoder, and none is named"):
        make_scorers(encoder(), "decoder")


def test_folders_with_parts_of_two_decoders_or_without_one(tmp_path: Path, small: Path) -> None:
    copy = shutil.copytree(small, tmp_path / "copy")
    weights = load_file(copy / "connector.safetensors")
    wide = {name: torch.cat([value, value]) for name, value in weights.items()}
    save_file(wide, copy / "connector.safetensors")
    with pytest.raises(UserError, match=r"does not fit its language model: 0\.weight is \(32,"):
        load_decoder(str(copy))
    del weights["2.bias"]
    save_file(weights, copy / "connector.safetensors")
    with pytest.raises(UserError, match=r"language model: 2\.bias is not there"):
        load_decoder(str(copy))
    shutil.rmtree(copy / "language")
    with pytest.raises(UserError, match="is not a decoder: it has no language/"):
        load_decoder(str(copy))
