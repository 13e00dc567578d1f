"""PACL and SPARC by name: found, learning what they are shown, written, read and scored again."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import pytest
import torch

from unbag.errors import UnbagError
from unbag.models.tiny import Tiny
from unbag.readouts.base import find_readout
from unbag.readouts.data import Pool, pool_of
from unbag.readouts.pacl import Pacl, PaclSettings
from unbag.readouts.reader import FILE, ReaderHeader, save_head
from unbag.readouts.scorer import ReaderScorer
from unbag.readouts.training import ReaderReadout, ReaderTask, accuracy, sizes_of
from unbag.runs.progress import Silent
from unbag.training.settings import choose
from unbag.training.trainer import Trainer
from unbag.types import Query

from .core_encoder import rows
from .core_encoder import small as small_encoder
from .reader_batches import Bare, pool, run_losses

NAMES = ("pacl", "pacl_uniform", "pacl_fixed", "pacl_rotary", "sparc", "sparc_fixed")


def reader_readout(name: str) -> ReaderReadout:
    return cast("ReaderReadout", find_readout(name))


def pooled(name: str, encoder: Tiny, cache: Path) -> Pool:
    readout = reader_readout(name)
    view = readout.view(readout.settings)
    return pool_of(rows(), encoder, view, cache=cache, progress=Silent(), about="halves")


def learned(name: str, changed: dict[str, object]) -> tuple[float, float]:
    """How much of the loss is left, and the share of captions above their negative."""
    readout, known = reader_readout(name), pool(12)
    effort = replace(readout.settings, steps=60, batch_size=12, learning_rate=1e-2, warmup_steps=5)
    effort = replace(effort, dropout=0.0, **changed)  # type: ignore[call-arg, arg-type]
    reader = readout.fresh(effort, sizes_of(known), seed=0)
    losses = run_losses(Trainer(ReaderTask(reader, known, effort, device="cpu")))
    return losses[-1] / losses[0], accuracy(reader, known, device="cpu")


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_read_out_whose_reader_has_that_name(name: str, tmp_path: Path) -> None:
    readout = reader_readout(name)
    found = pooled(name, small_encoder(), tmp_path)
    reader = readout.fresh(readout.settings, sizes_of(found), seed=1)
    assert (readout.name, reader.name) == (name, name)
    again = readout.fresh(readout.settings, sizes_of(found), seed=1).state_dict()
    assert all(torch.equal(value, again[key]) for key, value in reader.state_dict().items())


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("pacl", {}),
        ("pacl_fixed", {"rope": "2d"}),
        ("pacl_rotary", {}),
        ("pacl_uniform", {"taught": "uniform"}),
        ("sparc", {}),
        ("sparc_fixed", {"pairs": 1.0}),
    ],
)
def test_a_few_examples_are_learned_by_heart(name: str, changed: dict[str, object]) -> None:
    left, share = learned(name, changed)
    assert left < 0.1
    assert share == 1.0


def test_reading_leaves_the_encoder_as_it_is(tmp_path: Path) -> None:
    encoder = small_encoder()
    before = {key: value.clone() for key, value in encoder.network.state_dict().items()}
    for name in ("pacl", "sparc", "sparc_fixed"):
        readout, found = reader_readout(name), pooled(name, encoder, tmp_path)
        effort = replace(readout.settings, steps=2, batch_size=12)
        reader = readout.fresh(effort, sizes_of(found), seed=0)
        Trainer(ReaderTask(reader, found, effort, device="cpu")).run()
    after = encoder.network.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


def written(folder: Path, encoder: Tiny, name: str) -> Path:
    readout, found = reader_readout(name), pooled(name, encoder, folder)
    reader = readout.fresh(readout.settings, sizes_of(found), seed=3)
    head = ReaderHeader(
        name, asdict(readout.settings), sizes_of(found), encoder.name, encoder.fingerprint
    )
    save_head(reader, folder / FILE, head, dtype=torch.float32)
    return folder


def test_even_weights_are_scored_from_the_folder_of_any_pacl(tmp_path: Path) -> None:
    encoder, row = small_encoder(), rows()[0]
    query = Query(row.image, row.caption)
    for name in ("pacl", "pacl_rotary", "pacl_uniform"):
        folder = written(tmp_path / name, encoder, name)
        (even,) = find_readout("pacl_uniform").scorers(encoder, folder)
        (own,) = find_readout(name).scorers(encoder, folder)
        assert isinstance(own, ReaderScorer)
        reader = cast("Pacl", own.reader)
        found = pooled(name, encoder, tmp_path)
        flat = Pacl(replace(reader.settings, pool="uniform"), sizes_of(found)).eval()
        flat.load_state_dict(reader.state_dict())
        both = [cast("ReaderScorer", even), ReaderScorer(encoder, flat), own]
        for one in both:
            one.precompute([row.image], [row.caption], cache=tmp_path, progress=Silent())
        scored = [one.score([query]).item() for one in both]
        assert scored[0] == scored[1]
        assert (scored[0] == scored[2]) == (name == "pacl_uniform")
        assert even.name == "tiny:small0+pacl_uniform"
        is_same = even.fingerprint == own.fingerprint
        assert is_same == (name == "pacl_uniform")


def test_a_folder_of_another_read_out_is_refused(tmp_path: Path) -> None:
    encoder = small_encoder()
    folder = written(tmp_path / "sparc", encoder, "sparc")
    for name in ("pacl", "pacl_uniform", "sparc_fixed"):
        with pytest.raises(UnbagError, match="holds the read-out 'sparc'"):
            find_readout(name).scorers(encoder, folder)


def test_even_weights_need_a_folder_too() -> None:
    with pytest.raises(UnbagError, match="needs a trained reader, and no folder is named"):
        find_readout("pacl_uniform").scorers(small_encoder(), None)


def test_settings_are_those_of_the_papers() -> None:
    assert PaclSettings().temperature == 0.1
    released, fixed = (reader_readout(n).settings for n in ("sparc", "sparc_fixed"))
    assert asdict(released) | {"padding": False, "fallback": True} == asdict(fixed)
    assert asdict(reader_readout("pacl").settings) | {"taught": "each"} == asdict(
        reader_readout("pacl_fixed").settings
    )


@pytest.mark.parametrize("name", ["pacl", "sparc"])
@pytest.mark.parametrize(
    "wrong",
    [
        "a reader with width=-1",
        "a reader with dropout=1.0",
        "a reader with temperature=0",
        "rope=3d",
    ],
)
def test_wrong_settings_are_told_before_anything_is_computed(name: str, wrong: str) -> None:
    with pytest.raises(UnbagError, match=wrong):
        choose(reader_readout(name).settings, [wrong.split()[-1]], readout=name)


def test_a_model_without_patches_is_refused() -> None:
    view = reader_readout("pacl").view(PaclSettings())
    with pytest.raises(UnbagError, match="bare shows one vector for an image"):
        view.encode_images(Bare(), torch.zeros((1, 3, 2, 2)))
