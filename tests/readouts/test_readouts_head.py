"""A reader's file: written and read back, and refused where it would mean nothing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from unbag.errors import UnbagError
from unbag.readouts.pooled import Pooled, PooledSettings
from unbag.readouts.reader import (
    FILE,
    Reader,
    ReaderHeader,
    Sizes,
    load_reader,
    read_head,
    reader_fingerprint,
    save_head,
)
from unbag.runs.checkpoint import LAST

from .core_encoder import small
from .reader_batches import SIZES, captions, images

SETTINGS = PooledSettings(width=8, steps=7)


def reader() -> Pooled:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Pooled(SETTINGS, SIZES)


def written(folder: Path, given: Reader | None = None, *, name: str = "pooled") -> Path:
    encoder = small()
    head = ReaderHeader(name, asdict(SETTINGS), SIZES, encoder.name, encoder.fingerprint)
    save_head(given or reader(), folder / FILE, head)
    return folder


def loaded(folder: Path, *, seed: int = 0) -> tuple[Reader, ReaderHeader]:
    return load_reader(folder, small(seed), readout="pooled", settings=PooledSettings, build=Pooled)


def test_what_is_read_is_what_was_written_in_half_precision(tmp_path: Path) -> None:
    first = reader()
    again, head = loaded(written(tmp_path, first))
    assert head.sizes == SIZES
    assert again.settings == SETTINGS
    assert not again.training
    for key, value in first.state_dict().items():
        found = again.state_dict()[key]
        assert found.dtype == torch.float32
        assert torch.equal(found, value.half().float())
    difference = again.compare(images(3), captions(3)) - first.compare(images(3), captions(3))
    assert difference.abs().max() < 1e-3
    file, _ = loaded(tmp_path / FILE)
    assert reader_fingerprint(file, small()) == reader_fingerprint(again, small())


def test_a_fingerprint_is_of_weights_settings_and_encoder() -> None:
    one = reader()
    found = {reader_fingerprint(one, small()), reader_fingerprint(one, small(seed=1))}
    with torch.no_grad():
        one.picture[1].bias += 1  # type: ignore[index]
    found.add(reader_fingerprint(one, small()))
    one.settings = PooledSettings(width=8, steps=8)
    found.add(reader_fingerprint(one, small()))
    assert len(found) == 4


def test_a_reader_of_another_encoder_is_refused_with_both_fingerprints(tmp_path: Path) -> None:
    with pytest.raises(UnbagError) as caught:
        loaded(written(tmp_path), seed=1)
    assert small().fingerprint in caught.value.message
    assert small(seed=1).fingerprint in caught.value.message
    assert caught.value.hint == "--model tiny:small0, or train a reader for this model"


def test_a_file_of_another_read_out_says_its_own_name(tmp_path: Path) -> None:
    with pytest.raises(UnbagError) as caught:
        loaded(written(tmp_path, name="pacl"))
    assert caught.value.message == f"{tmp_path / FILE} holds the read-out 'pacl'"
    assert caught.value.hint == f"--scorer pacl@{tmp_path}"


def test_a_torn_a_foreign_and_a_missing_file_are_no_readers(tmp_path: Path) -> None:
    path = written(tmp_path) / FILE
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"{}"):
        path.write_bytes(content)
        with pytest.raises(UnbagError, match="is not a reader"):
            loaded(tmp_path)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(UnbagError) as caught:
        loaded(tmp_path)
    assert caught.value.expected == (
        "a folder that `unbag train --readout ...` wrote, with reader.safetensors"
    )
    with pytest.raises(UnbagError, match="is not a reader"):
        loaded(tmp_path / "nowhere")
    path.unlink()
    (tmp_path / LAST).touch()
    with pytest.raises(UnbagError, match="holds an unfinished training run") as caught:
        loaded(tmp_path)
    assert caught.value.hint == "run the same `unbag train` command again to resume it"


def test_weights_that_are_no_numbers_are_neither_written_nor_read(tmp_path: Path) -> None:
    bad = reader()
    with torch.no_grad():
        bad.picture[1].bias[0] = torch.nan  # type: ignore[index]
    with pytest.raises(
        UnbagError, match=r"the reader pooled hold NaN or infinity: picture\.1\.bias"
    ):
        written(tmp_path, bad)
    with torch.no_grad():
        # Beyond half precision.
        bad.picture[1].bias[0] = 1e6  # type: ignore[index]
    with pytest.raises(UnbagError, match="hold NaN or infinity"):
        written(tmp_path, bad)
    assert not list(tmp_path.iterdir())
    path = written(tmp_path) / FILE
    head, state = read_head(path)
    assert head.readout == "pooled"
    state["picture.1.bias"][0] = torch.nan
    with safe_open(path, framework="pt") as file:
        header = file.metadata()
    save_file(state, path, metadata=header)
    with pytest.raises(UnbagError, match="hold NaN or infinity"):
        loaded(tmp_path)


def test_settings_that_build_no_reader_ask_for_training_again(tmp_path: Path) -> None:
    encoder = small()
    settings = asdict(SETTINGS) | {"width": "wide"}
    head = ReaderHeader("pooled", settings, SIZES, encoder.name, encoder.fingerprint)
    save_head(reader(), tmp_path / FILE, head)
    with pytest.raises(UnbagError, match="does not fit the read-out 'pooled'") as caught:
        loaded(tmp_path)
    assert caught.value.hint == "train it again with this version"


def test_weights_of_another_shape_ask_for_training_again(tmp_path: Path) -> None:
    written(tmp_path)

    def wider(settings: PooledSettings, sizes: Sizes) -> Pooled:
        return Pooled(PooledSettings(width=9), sizes)

    with pytest.raises(UnbagError) as caught:
        load_reader(tmp_path, small(), readout="pooled", settings=PooledSettings, build=wider)
    assert "does not fit the read-out 'pooled'" in caught.value.message
    assert caught.value.hint == "train it again with this version"
