"""Oracles: scores by hand, names, and errors."""

from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

from unbag.errors import UnbagError
from unbag.types import Ensemble, Item, Query, Scorer, Sparse
from unbag.world.oracles import (
    Oracle,
    bag_of_words,
    best_blind,
    detector,
    load,
    position_blind,
    semantic,
)
from unbag.world.rendering import SceneImage
from unbag.world.scenes import Scene, Thing

SCENE = Scene(
    (
        Thing("circle", "red", "small", "plain", 16, 32, (220, 40, 40)),
        Thing("square", "blue", "large", "striped", 46, 32, (50, 90, 230)),
    ),
    1,
)
IMAGE = SceneImage(SCENE, "scene")


@dataclass(frozen=True)
class Photo:
    key: str = "photo"
    name: str = "photo.png"

    def open(self) -> Image.Image:
        return Image.new("RGB", (4, 4))


def score(oracle: Oracle, text: str) -> float:
    return float(oracle.score([Query(IMAGE, text)])[0])


@pytest.mark.parametrize(
    ("text", "truth", "bag"),
    [
        ("a red circle and a blue square", 1.0, 1.0),
        ("a blue circle and a red square", 0.0, 1.0),
        ("a crimson disc", 1.0, 1.0),
        ("a green circle", 0.0, 0.5),
        ("a large lime checkered star", 0.0, 0.25),
        ("a star", 0.0, 0.0),
        ("a red thing", 1.0, 1.0),
        ("a red circle left of a blue square", 1.0, 1.0),
        ("a red circle right of a blue square", 0.0, 1.0),
        ("a red circle but no blue square", 0.0, 1.0),
        ("a red circle but no star", 1.0, 2 / 3),
        ("three red circles", 0.0, 1.0),
        ("one red circle", 1.0, 1.0),
    ],
)
def test_truth_and_bag_by_hand(text: str, truth: float, bag: float) -> None:
    assert score(semantic(), text) == truth
    assert score(bag_of_words(), text) == bag


def test_texts_outside_the_grammar() -> None:
    for text in ("a red dog", "circle red a", ""):
        assert score(semantic(), text) == 0.0
    bag = bag_of_words()
    assert score(bag, "square blue a circle and a red") == 1.0
    assert score(bag, "square green a circle and a red") == 0.75
    assert score(bag, "the of and") == 0.0


def test_an_ensemble_is_the_mean_of_its_prompts() -> None:
    caption = Ensemble("mixed", ("a red circle", "a green circle"))
    assert semantic().score([Query(IMAGE, caption)]).tolist() == [0.5]


def test_scores_are_independent_of_the_batch() -> None:
    queries = [Query(IMAGE, text) for text in ("a red circle", "a star", "two circles")]
    for oracle in (semantic(), bag_of_words(), position_blind()):
        alone = [float(oracle.score([query])[0]) for query in queries]
        assert oracle.score(queries).tolist() == alone
        assert oracle.score(queries[::-1]).tolist() == alone[::-1]
    assert semantic().score([]).shape == (0,)


def test_blind_scores_do_not_depend_on_the_image() -> None:
    blind = position_blind()
    # Scores are cached on disk, so the hash must be stable.
    assert score(blind, "a red circle") == score(position_blind(), "a red circle")
    values = blind.score([Query(Photo(), f"a {n}") for n in range(200)])
    assert len(set(values.tolist())) == 200
    assert 0.0 <= values.min() < 0.05 < 0.95 < values.max() < 1.0


def test_best_blind_knows_how_often_each_caption_is_true() -> None:
    def item(name: str, captions: tuple[str, ...], truth: list[list[bool]]) -> Item:
        return Item(name, (Photo(),), captions, np.array(truth))

    items = [
        item("1", ("always", "half"), [[True, True]]),
        item("2", ("always", "half"), [[True, False]]),
        item("3", ("always", "never"), [[True, False]]),
    ]
    oracle = best_blind(items)
    texts = ("always", "half", "never", "unheard")
    found = oracle.score([Query(Photo(), text) for text in texts])
    np.testing.assert_allclose(found, [1.0, 0.5, 0.0, 0.5], atol=2e-9)
    assert oracle.is_blind
    assert len(set(found.tolist())) == 4
    assert oracle.fingerprint != best_blind(items[:2]).fingerprint


def test_best_blind_reads_sparse_truth() -> None:
    truth = Sparse((2, 2), np.array([0, 1, 0]), np.array([0, 0, 1]))
    item = Item("r", (Photo("a"), Photo("b")), ("both", "one"), truth)
    found = best_blind([item]).score([Query(Photo(), "both"), Query(Photo(), "one")])
    np.testing.assert_allclose(found, [1.0, 0.5], atol=2e-9)


def test_detector_knows_originals_by_image_and_caption() -> None:
    item = Item("1", (IMAGE,), ("original", "edit"), np.array([[True, False]]))
    oracle = detector([item])
    assert score(oracle, "original") == 1.0
    assert score(oracle, "edit") == 0.0
    assert oracle.score([Query(Photo(), "original")]).tolist() == [0.0]
    noisy = [detector([item], epsilon=0.1, seed=seed) for seed in (0, 1)]
    assert score(noisy[0], "edit") != score(noisy[1], "edit")
    assert 0 < score(noisy[0], "edit") < 0.1
    assert 1 < score(noisy[0], "original") < 1.1
    assert len({o.fingerprint for o in (oracle, *noisy)}) == 3


def test_oracles_are_scorers_and_load_by_name() -> None:
    for name, is_blind in [("semantic", False), ("bag-of-words", False), ("blind", True)]:
        oracle = load(name, device="cpu")
        assert isinstance(oracle, Scorer)
        assert oracle.name == f"oracle:{name}"
        assert oracle.is_blind is is_blind
        assert oracle.scoring
    names = {load(n, device="cpu").fingerprint for n in ("semantic", "bag-of-words", "blind")}
    assert len(names) == 3


def test_an_unknown_oracle() -> None:
    with pytest.raises(UnbagError, match="unknown oracle 'semantics'") as caught:
        load("semantics", device="cpu")
    assert "'semantic'" in caught.value.expected
    assert "oracle:semantic" in caught.value.hint


@pytest.mark.parametrize("oracle", [semantic(), bag_of_words()])
def test_a_photo_has_no_scene(oracle: Oracle) -> None:
    with pytest.raises(UnbagError) as caught:
        oracle.score([Query(Photo(), "a red circle")])
    assert caught.value.message == "image 'photo.png' has no scene"
    assert "built-in world" in caught.value.expected
