"""What is in the package's weights is found by the read-out's name and the encoder's bits."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from unbag.api import make_scorer
from unbag.errors import UnbagError
from unbag.models.loading import load_model
from unbag.models.shipped import WEIGHTS, shipped_like
from unbag.readouts.pooled import POOLED, PooledSettings
from unbag.readouts.reader import (
    ReaderHeader,
    Sizes,
    read_head,
    save_head,
    shipped_reader,
)
from unbag.readouts.scorer import ReaderScorer
from unbag.types import DualEncoder, Query
from unbag.world.benchmarks import triple_items

from .core_encoder import small

SETTINGS = PooledSettings(width=8)


def ship(folder: Path, name: str, *, seed: int = 0, readout: str = "pooled") -> Path:
    encoder, sizes = small(seed), Sizes(patches=0, picture_width=16, caption_width=12)
    reader = POOLED.fresh(SETTINGS, sizes, seed=seed)
    head = ReaderHeader(readout, asdict(SETTINGS), sizes, encoder.name, encoder.fingerprint)
    save_head(reader, folder / name, head)
    return folder / name


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the only one with shipped weights."""
    monkeypatch.setattr("unbag.models.shipped.weight_folders", lambda: (tmp_path,))
    return tmp_path


def test_it_is_found_for_its_encoder_and_no_other(weights: Path) -> None:
    other = ship(weights, "a.pooled.reader.safetensors", seed=1)
    own = ship(weights, "b.pooled.reader.safetensors", seed=0)
    assert shipped_reader("pooled", small(0)) == own
    assert shipped_reader("pooled", small(1)) == other
    assert shipped_reader("pooled", small(2)) is None
    assert shipped_reader("pacl", small(0)) is None


def test_a_file_with_the_wrong_name_is_not_taken(weights: Path) -> None:
    ship(weights, "a.pacl.reader.safetensors")
    assert shipped_reader("pacl", small()) is None


def test_a_read_out_without_a_folder_is_the_shipped_one(weights: Path) -> None:
    path = ship(weights, "tiny-small.pooled.reader.safetensors")
    found = make_scorer(small(), "pooled")
    assert isinstance(found, ReaderScorer)
    assert found.name == f"{small().name}+pooled (shipped)"
    assert make_scorer(small(), f"pooled@{path}").name == f"{small().name}+pooled"
    assert found.fingerprint == make_scorer(small(), f"pooled@{path}").fingerprint
    with pytest.raises(UnbagError, match="'pooled' needs a trained reader, and no folder is named"):
        make_scorer(small(seed=1), "pooled")


def test_what_is_shipped_is_found_for_the_model_it_names() -> None:
    assert (WEIGHTS / "tiny-base.safetensors").is_file()
    for path in shipped_like("*.reader.safetensors"):
        head, _ = read_head(path)
        encoder = load_model(head.encoder)
        assert isinstance(encoder, DualEncoder)
        assert shipped_reader(head.readout, encoder) == path


def test_the_reader_that_ships_scores_without_a_folder() -> None:
    """Of exchanged colours, 97.2 % by the card."""
    base = load_model("tiny:base")
    items = triple_items(["swap"], n=100)[::8]
    scorer = make_scorer(base, "dcsm_fixed")
    asked = [Query(item.images[0], str(item.captions[k])) for item in items for k in (0, 1)]
    true_N, false_N = np.asarray(scorer.score(asked)).reshape(-1, 2).T
    assert len(true_N) == 100
    assert float((true_N > false_N).mean()) > 0.9
