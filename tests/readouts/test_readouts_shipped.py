"""What is in the package's weights is found by the read-out's name and the encoder's bits."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from unbag.api import make_scorer
from unbag.errors import UserError
from unbag.lab.ship_head import ship_head
from unbag.models.loading import load_model
from unbag.models.tiny import write
from unbag.readouts.decoder.saving import Origin, read_decoder, save_decoder
from unbag.readouts.pooled import POOLED, PooledSettings
from unbag.readouts.reader import (
    WEIGHTS,
    Head,
    Sizes,
    read_head,
    save_head,
    shipped_decoder,
    shipped_reader,
)
from unbag.readouts.scorer import ReaderScorer
from unbag.types import DualEncoder, Query
from unbag.world.benchmarks import triple_items

from .core_encoder import small
from .decoder_made import begun, encoder, pictures

SETTINGS = PooledSettings(width=8)


def ship(folder: Path, name: str, *, seed: int = 0, readout: str = "pooled") -> Path:
    encoder, sizes = small(seed), Sizes(patches=0, picture_width=16, caption_width=12)
    reader = POOLED.fresh(SETTINGS, sizes, seed=seed)
    head = Head(readout, asdict(SETTINGS), sizes, encoder.name, encoder.fingerprint)
    save_head(reader, folder / name, head)
    return folder / name


def test_it_is_found_for_its_encoder_and_no_other(tmp_path: Path) -> None:
    other = ship(tmp_path, "a.pooled.reader.safetensors", seed=1)
    own = ship(tmp_path, "b.pooled.reader.safetensors", seed=0)
    assert shipped_reader("pooled", small(0), weights=tmp_path) == own
    assert shipped_reader("pooled", small(1), weights=tmp_path) == other
    assert shipped_reader("pooled", small(2), weights=tmp_path) is None
    assert shipped_reader("pacl", small(0), weights=tmp_path) is None


def test_a_file_with_the_wrong_name_is_not_taken(tmp_path: Path) -> None:
    ship(tmp_path, "a.pacl.reader.safetensors")
    assert shipped_reader("pacl", small(), weights=tmp_path) is None


def test_a_read_out_without_a_folder_is_the_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ship(tmp_path, "tiny-small.pooled.reader.safetensors")
    monkeypatch.setattr(
        "unbag.readouts.training.shipped_reader", partial(shipped_reader, weights=tmp_path)
    )
    found = make_scorer(small(), "pooled")
    assert isinstance(found, ReaderScorer)
    assert found.name == f"{small().name}+pooled (shipped)"
    assert make_scorer(small(), f"pooled@{path}").name == f"{small().name}+pooled"
    assert found.fingerprint == make_scorer(small(), f"pooled@{path}").fingerprint
    with pytest.raises(UserError, match="'pooled' scores with a trained reader, and none is named"):
        make_scorer(small(seed=1), "pooled")


def test_what_is_shipped_is_found_for_the_model_it_names() -> None:
    assert (WEIGHTS / "tiny-base.safetensors").is_file()
    for path in WEIGHTS.glob("*.reader.safetensors"):
        head, _ = read_head(path)
        encoder = load_model(head.encoder)
        assert isinstance(encoder, DualEncoder)
        assert shipped_reader(head.readout, encoder) == path


@pytest.mark.parametrize(
    ("readout", "least"), [("pacl_fixed", 0.9), ("sparc_fixed", 0.7), ("dcsm_fixed", 0.9)]
)
def test_readers_of_tiny_base_score_without_a_folder(readout: str, least: float) -> None:
    """Of exchanged colours, 97.8, 83.8 and 97.2 % by the card."""
    base = load_model("tiny:base")
    items = triple_items(["swap"], n=100)[::8]
    scorer = make_scorer(base, readout)
    asked = [Query(item.pictures[0], str(item.captions[k])) for item in items for k in (0, 1)]
    true_N, false_N = np.asarray(scorer.score(asked)).reshape(-1, 2).T
    assert len(true_N) == 100
    assert least < float((true_N > false_N).mean())


def test_what_ships_is_on_the_card_and_small() -> None:
    card = (WEIGHTS / "README.md").read_text(encoding="utf-8")
    readers = sorted(WEIGHTS.glob("*.reader.safetensors"))
    assert len(readers) == 3
    for path in readers:
        assert f"`{path.name}`" in card
        head, _ = read_head(path)
        assert (head.encoder, head.version) == ("tiny:base", "0.1.0")
    every = [*WEIGHTS.glob("tiny-*"), *WEIGHTS.glob("tiny-*/**/*")]
    assert sum(path.stat().st_size for path in every if path.is_file()) < 30e6


def test_a_decoder_that_ships_is_found_and_scored_without_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(encoder().towers, tmp_path / "small.safetensors", dtype=torch.float32)
    spec = f"tiny:{tmp_path}/small.safetensors"
    own = load_model(spec)
    assert isinstance(own, DualEncoder)
    save_decoder(tmp_path / "taught", begun().made, Origin(spec, own.name, own.fingerprint))
    ship_head(tmp_path / "taught", spec, tmp_path / "tiny-small.decoder")
    assert not read_decoder(tmp_path / "tiny-small.decoder").made.embeds
    queries = [Query(picture, "a red star") for picture in pictures(2)]
    wanted = make_scorer(own, f"decoder@{tmp_path}/taught").score(queries)
    with pytest.raises(UserError, match=f"none is named nor shipped for {own.name}"):
        make_scorer(own, "decoder")
    monkeypatch.setattr(
        "unbag.readouts.decoder.readout.shipped_decoder", partial(shipped_decoder, weights=tmp_path)
    )
    monkeypatch.setattr("unbag.readouts.decoder.language.read_weights", None)
    found = make_scorer(own, "decoder")
    assert (found.name, found.scoring) == (f"{own.name}+decoder (shipped)", "yes-probability")
    # Weights were rounded to half precision.
    assert np.asarray(found.score(queries)) == pytest.approx(np.asarray(wanted), abs=2e-3)
