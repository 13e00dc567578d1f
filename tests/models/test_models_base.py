"""The shipped checkpoint is what its card says: it knows words, not how they belong together."""

from collections.abc import Mapping
from importlib.resources import files

import pytest

from unbag.api import evaluate
from unbag.benchmarks.names import benchmark
from unbag.models.tiny import load
from unbag.scorers import Cosine
from unbag.types import Estimate, EvalProtocol, Result
from unbag.world.grammar import words

QUICK = EvalProtocol(resamples=500)


@pytest.fixture(scope="module")
def base() -> Mapping[str, Result]:
    scorer = Cosine(load("base"))
    names = ("world-replace", "world-relation", "world-pairs-a", "world-retrieval")
    return {name: evaluate(scorer, benchmark(name), protocol=QUICK)[0] for name in names}


def value(result: Result, metric: str) -> float:
    return result.overall[metric].value


def test_it_knows_the_words(base: Mapping[str, Result]) -> None:
    assert value(base["world-replace"], "original") > 0.85
    assert value(base["world-retrieval"], "text_to_image@1") > 0.9
    assert value(base["world-retrieval"], "image_to_text@1") > 0.9


def test_it_does_not_know_how_they_belong_together(base: Mapping[str, Result]) -> None:
    relation: Estimate = base["world-relation"].overall["original"]
    assert 0.45 < relation.value < 0.55
    sides = base["world-pairs-a"].by_tag["relation=left/right"]
    assert sides["pair"].value <= 0.25
    assert 0.4 < sides["individual"].value < 0.6


def test_it_finds_images_as_well_when_all_words_are_shuffled(base: Mapping[str, Result]) -> None:
    assert value(base["world-retrieval"], "retention") > 0.95


def test_its_untrained_twin_is_at_chance_and_below() -> None:
    random_model = load("random")
    assert random_model.config == load("base").config
    pairs = evaluate(Cosine(random_model), benchmark("world-pairs-a"), protocol=QUICK)[0]
    assert value(pairs, "pair") < 0.06
    assert 0.4 < value(pairs, "individual") < 0.6


def test_it_ships_small_in_half_precision_with_a_card_and_all_words() -> None:
    folder = files("unbag.models") / "weights"
    assert len((folder / "tiny-base.safetensors").read_bytes()) < 7e6
    model = load("base")
    assert model.config.words == words()
    assert model.fingerprint in (folder / "README.md").read_text()
