"""What ships with the study: readers and heads for tiny:base, found as those of the tool are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.readouts.decoder_made import begun, encoder, images

from unbag.api import make_scorer
from unbag.errors import UnbagError
from unbag.models.loading import load_model
from unbag.models.shipped import WEIGHTS, shipped_like
from unbag.models.tiny import write
from unbag.readouts.decoder.saving import DecoderOrigin, read_decoder, save_decoder
from unbag.readouts.reader import (
    read_head,
)
from unbag.types import DualEncoder, Query
from unbag.world.benchmarks import triple_items
from unbag_lab.experiments.readouts import ship_head


@pytest.mark.parametrize(("readout", "least"), [("pacl_fixed", 0.9), ("sparc_fixed", 0.7)])
def test_readers_of_tiny_base_score_without_a_folder(readout: str, least: float) -> None:
    """Of exchanged colours, 97.8 and 83.8 % by the card."""
    base = load_model("tiny:base")
    items = triple_items(["swap"], n=100)[::8]
    scorer = make_scorer(base, readout)
    asked = [Query(item.images[0], str(item.captions[k])) for item in items for k in (0, 1)]
    true_N, false_N = np.asarray(scorer.score(asked)).reshape(-1, 2).T
    assert len(true_N) == 100
    assert least < float((true_N > false_N).mean())


def test_what_ships_is_on_the_card_and_small() -> None:
    card = (WEIGHTS / "README.md").read_text(encoding="utf-8")
    readers = shipped_like("*.reader.safetensors")
    assert len(readers) == 3
    for path in readers:
        assert f"`{path.name}`" in card
        head, _ = read_head(path)
        assert (head.encoder, head.version) == ("tiny:base", "0.1.0")
    every = [*shipped_like("tiny-*"), *shipped_like("tiny-*/**/*")]
    assert sum(path.stat().st_size for path in every if path.is_file()) < 30e6


def test_a_decoder_that_ships_is_found_and_scored_without_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(encoder().network, tmp_path / "small.safetensors", dtype=torch.float32)
    spec = f"tiny:{tmp_path}/small.safetensors"
    own = load_model(spec)
    assert isinstance(own, DualEncoder)
    save_decoder(tmp_path / "taught", begun().made, DecoderOrigin(spec, own.name, own.fingerprint))
    ship_head(tmp_path / "taught", spec, tmp_path / "tiny-small.decoder")
    assert not read_decoder(tmp_path / "tiny-small.decoder").made.embeds
    queries = [Query(image, "a red star") for image in images(2)]
    wanted = make_scorer(own, f"decoder@{tmp_path}/taught").score(queries)
    with pytest.raises(UnbagError, match=f"none is shipped for {own.name}"):
        make_scorer(own, "decoder")
    monkeypatch.setattr("unbag.models.shipped.weight_folders", lambda: (tmp_path,))
    monkeypatch.setattr("unbag.readouts.decoder.language.read_weights", None)
    found = make_scorer(own, "decoder")
    assert (found.name, found.scoring) == (f"{own.name}+decoder (shipped)", "yes-probability")
    # Weights were rounded to half precision.
    assert np.asarray(found.score(queries)) == pytest.approx(np.asarray(wanted), abs=2e-3)
