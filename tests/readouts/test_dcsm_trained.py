"""DCSM from the command's side: trained on a frozen model, kept in a folder, scored from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from unbag.errors import UnbagError
from unbag.models.tiny import load
from unbag.readouts.base import find_readout, train_readout
from unbag.readouts.scorer import ItemReaderScorer, ReaderScorer
from unbag.types import Query
from unbag.world.benchmarks import triple_items

SMALL = (
    "steps=3",
    "scenes=40",
    "batch_size=16",
    "contrast_size=8",
    "length=12",
    "net=mlp",
    "warmup_steps=0",
)


@pytest.mark.parametrize(
    ("name", "more"),
    [("dcsm_fixed", ("opposites=true", "negatives=false")), ("dcsm", ())],
)
def test_a_reader_is_trained_and_scores(name: str, more: tuple[str, ...], tmp_path: Path) -> None:
    tiny = load("base")
    before = {key: value.clone() for key, value in tiny.network.state_dict().items()}
    trained = train_readout(name, tiny, "world", tmp_path, settings=(*SMALL, *more))
    assert trained.is_done
    assert all(torch.equal(value, before[key]) for key, value in tiny.network.state_dict().items())
    (scorer,) = find_readout(name).scorers(tiny, tmp_path)
    items = triple_items(("relation",), n=3)[:6]
    if name == "dcsm":
        # The candidates of an item are one call.
        assert isinstance(scorer, ItemReaderScorer)
        found, alone = scorer.score_items(items)[0].values, scorer.score_items(items[:1])[0].values
        assert found is not None
        assert alone is not None
        np.testing.assert_allclose(found, alone, atol=1e-6)
        said = scorer.score([Query(items[0].images[0], items[0].captions[0])])
        assert abs(float(said[0]) - found[0, 0]) > 1e-6
    else:
        assert isinstance(scorer, ReaderScorer)
        assert not isinstance(scorer, ItemReaderScorer)
        queries = [Query(i.images[0], c) for i in items for c in i.captions]
        whole = torch.as_tensor(scorer.score(queries))
        some = torch.as_tensor(scorer.score(queries[4:5]))
        torch.testing.assert_close(some, whole[4:5], atol=1e-5, rtol=0)
    with pytest.raises(UnbagError, match=tiny.fingerprint) as error:
        find_readout(name).scorers(load("random"), tmp_path)
    assert load("random").fingerprint in error.value.message


def test_settings_that_make_no_map_are_told_before_training(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="the setting only=patches"):
        train_readout("dcsm_fixed", load("base"), "world", tmp_path, settings=("only=patches",))
    with pytest.raises(UnbagError, match="length=1"):
        train_readout("dcsm", load("base"), "world", tmp_path, settings=("length=1", "scenes=4"))
