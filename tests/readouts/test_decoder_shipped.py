"""The decoder that ships for tiny:base: found by the encoder's bits, scores as the lab measured."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from unbag.api import make_scorer
from unbag.errors import UnbagError
from unbag.metrics.intervals import wilson
from unbag.models.loading import load_model
from unbag.models.shipped import WEIGHTS
from unbag.readouts.decoder.readout import load
from unbag.readouts.reader import shipped_decoder
from unbag.types import DualEncoder, FloatArray, Item, Query, Scorer
from unbag.world.benchmarks import RELATION

FOLDER = WEIGHTS / "tiny-base.decoder"


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    return make_scorer(load_model("tiny:base"), "decoder")


def relation_items(every: int) -> list[Item]:
    return [item for item in RELATION.load(None) if int(item.id.split("/")[1]) % every == 0]


def scores(scorer: Scorer, items: list[Item]) -> FloatArray:
    """True caption and false one of the first image of each."""
    asked = [Query(item.images[0], text) for item in items for text in item.captions[:2]]
    return np.asarray(scorer.score(asked)).reshape(-1, 2)


def test_the_package_holds_it_in_half_precision() -> None:
    names = ("config.json", "README.md", "connector.safetensors", "language/config.json")
    assert all((FOLDER / name).is_file() for name in names)
    every = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in every) < 4.2e6
    state = load_file(FOLDER / "language" / "model.safetensors")
    state |= load_file(FOLDER / "connector.safetensors")
    assert {value.dtype for value in state.values()} == {torch.float16}
    assert sum(value.numel() for value in state.values()) == 2_059_584
    said = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    assert (said["settings"]["steps"], said["settings"]["scenes"]) == (20_000, 40_000)
    assert said["embeds"] is False


def test_it_is_found_for_its_encoder_and_no_other(scorer: Scorer) -> None:
    base, other = load_model("tiny:base"), load_model("tiny:random")
    assert isinstance(base, DualEncoder)
    assert isinstance(other, DualEncoder)
    assert shipped_decoder("decoder", base) == FOLDER
    assert shipped_decoder("decoder", other) is None
    assert (scorer.name, scorer.scoring) == ("tiny:base+decoder (shipped)", "yes-probability")
    with pytest.raises(UnbagError, match="none is shipped for tiny:random"):
        make_scorer(other, "decoder")
    with pytest.raises(UnbagError, match="was trained for tiny:base") as error:
        make_scorer(other, f"decoder@{FOLDER}")
    assert other.fingerprint in error.value.message


def test_it_scores_as_its_card_says_the_lab_measured(scorer: Scorer) -> None:
    items = relation_items(every=3)
    true_N, false_N = scores(scorer, items).T
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    (line,) = (
        one for one in card.splitlines() if one.startswith("| world-relation | original | 5")
    )
    measured = float(line.strip("| ").rpartition("|")[2]) / 100
    is_right_N = true_N > false_N
    found = wilson(int(is_right_N.sum()), len(items))
    assert len(items) == 320
    assert found.low < measured < found.high
    assert found.low > 0.75
    # Not all relations alike: the card says so.
    is_sideways_N = np.array([item.tags["relation"] == "left/right" for item in items])
    assert 0 < is_sideways_N.sum() < len(items)
    assert is_right_N[~is_sideways_N].all()
    assert 0.6 < is_right_N[is_sideways_N].mean() < 0.85


def test_it_needs_no_transformers_and_has_the_same_bits_of_identity(scorer: Scorer) -> None:
    code = (
        "import sys; from unbag.models.loading import load_model; "
        "from unbag.api import make_scorer; "
        "from unbag.types import Query; from unbag.world.benchmarks import set_items; "
        "s = make_scorer(load_model('tiny:base'), 'decoder'); "
        "s.score([Query(set_items('a', n=1)[0].images[0], 'a star')]); "
        "assert 'transformers' not in sys.modules; print(s.fingerprint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == scorer.fingerprint
    # `decoder:FOLDER` and `decoder@FOLDER` are read by transformers.
    theirs = make_scorer(load_model("tiny:base"), f"decoder@{FOLDER}")
    assert theirs.fingerprint == scorer.fingerprint
    assert load(str(FOLDER)).name == "decoder:tiny-base.decoder"
    items = relation_items(every=60)[:4]
    np.testing.assert_allclose(scores(scorer, items), scores(theirs, items), atol=2e-5)
