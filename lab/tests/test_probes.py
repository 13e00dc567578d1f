"""Models that exist are asked on the world: what arms are, what they are asked, what comes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from unbag.data.images import ShuffledImage
from unbag.errors import UnbagError
from unbag.models import tiny
from unbag.models.tiny import TinyConfig, untrained, write
from unbag.probes.classifiers import Effort, read
from unbag.probes.extract_data import Label
from unbag.probes.reference_spaces import bag_of_words_space, perfect_space
from unbag.probes.space import EncoderSpace
from unbag.world.benchmarks import pair_items
from unbag_lab.experiments.probes import (
    AMOUNTS,
    ARMS,
    MODELS,
    PROBES,
    REPAIRED,
    CaptionContrast,
    PhraseReader,
    load_arm,
    runs,
    seed_of,
    taught,
)
from unbag_lab.experiments.probes_measuring import (
    TinySpace,
    geometry,
    make_probe_questions,
    order_free,
    read_linear,
)
from unbag_lab.plan import Order, find_experiment
from unbag_lab.questions import Questions
from unbag_lab.results import ArmResult, read_results, result_path

PENALTIES = (1e-3, 1e-2)


@pytest.fixture(scope="module")
def out(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which another experiment left repairs of the base."""
    found = tmp_path_factory.mktemp("lab")
    folder = result_path(found, "default", base.stem, "any").parent
    folder.mkdir(parents=True)
    config = tiny.read(base, name="base").config
    for seed, arm in enumerate(REPAIRED, start=1):
        write(untrained(config, seed=seed), folder / f"{arm}.safetensors")
    return found


@pytest.fixture(scope="module")
def results(base: Path, out: Path) -> dict[str, ArmResult]:
    arms = ("base", "blind")
    PROBES.run(Order(bases=(base,), arms=arms, out=out, size="small"), say=lambda line: None)
    found = read_results(out / "probes")
    return {one.arm: one for one in found}


def test_arms_and_what_they_need() -> None:
    assert find_experiment("probes") is PROBES
    assert PROBES.arms == ARMS
    assert PROBES.needs("base") == PROBES.needs("random") == PROBES.needs("blind") == ()
    assert (
        PROBES.needs("mix-0.25") == PROBES.needs("hard_negative") == (("default", "hard_negative"),)
    )
    assert PROBES.needs("ce_clip_fixed") == (("default", "ce_clip_fixed"),)
    with pytest.raises(UnbagError, match="unknown arm 'mix-1'"):
        PROBES.seconds("mix-1")


def test_weights_that_are_not_there(base: Path, tmp_path: Path) -> None:
    with pytest.raises(UnbagError) as error:
        load_arm("neg_clip", base, tmp_path, seed=0, device="cpu")
    path = tmp_path / "default" / "small" / "neg_clip.safetensors"
    assert f"the weights of neg_clip are missing: {path}" in str(error.value)
    assert "run its arm neg_clip on small into the same folder first" in str(error.value)


def test_a_mix_lies_between(base: Path, out: Path) -> None:
    first, tuned, mixed = (
        load_arm(arm, base, out, seed=0, device="cpu")
        for arm in ("base", "hard_negative", "mix-0.25")
    )
    weights = [one.network.picture.cls.detach() for one in (first, tuned, mixed)]
    assert np.allclose(weights[2], 0.75 * weights[0] + 0.25 * weights[1], atol=1e-6)
    random = load_arm("random", base, out, seed=7, device="cpu")
    assert random.fingerprint not in {first.fingerprint, tuned.fingerprint, mixed.fingerprint}


def test_a_space_gives_what_the_evaluation_gives(base: Path) -> None:
    encoder = tiny.read(base, name="base")
    ours, usual = TinySpace(encoder), EncoderSpace(encoder)
    images = [image for item in pair_items("swap", n=2) for image in item.images]
    captions = ["a red star", "no star", "a red star and a blue cup"]
    assert np.allclose(ours.captions(captions), usual.captions(captions), atol=1e-6)
    assert np.allclose(ours.images(images), usual.images(images), atol=1e-6)
    cut = [ShuffledImage(image, "rows_4", 3) for image in images]
    assert np.allclose(ours.images(cut), usual.images(cut), atol=1e-6)
    assert not np.allclose(ours.images(cut), ours.images(images), atol=1e-6)
    cls_NW, patch_NLW = ours.last_layer(images)
    assert cls_NW.shape == (4, 16)
    assert patch_NLW.shape == (4, 16, 16)


@pytest.fixture(scope="module")
def known() -> dict[str, dict[str, dict[str, float]]]:
    """Numbers of spaces whose nature is known."""
    asked = make_probe_questions(Questions(["world-binding"]), AMOUNTS["small"], seed=1)
    return {
        space.name: {**geometry(space, asked), "order-free": order_free(space, asked)}
        for space in (bag_of_words_space(), perfect_space())
    }


def test_a_bag_of_words(known: dict[str, dict[str, dict[str, float]]]) -> None:
    found = known[bag_of_words_space().name]
    assert found["order-free"]["recall, text to image"] == 1
    assert found["order-free"]["retention all_words, text to image"] == 1
    assert found["order-free"]["retention nouns_and_adjectives, image to text"] == 1
    assert found["agreement"]["merged, left/right"] == found["agreement"]["merged, colours"] == 1
    assert found["gap"]["negatives, world-swap"] == pytest.approx(0)
    assert found["gap"]["negatives, world-replace"] > 0.05
    assert found["intra"]["negatives, world-swap"] == pytest.approx(1)
    assert found["conditions"]["1.1a"] == found["conditions"]["1.1b"] == 1
    assert found["conditions"]["2.3"] == found["conditions"]["3.2"] == 0
    assert found["superposition"]["sum"] > found["superposition"]["other pair"] + 0.2
    assert found["superposition"]["colours exchanged"] == pytest.approx(1)


def test_a_perfect_space(known: dict[str, dict[str, dict[str, float]]]) -> None:
    found = known[perfect_space().name]
    assert found["agreement"]["merged, left/right"] == 0
    assert found["conditions"]["2.3"] == found["conditions"]["3.2"] == 1
    assert found["gap"]["auc, world-swap"] == 1
    assert found["gap"]["ratio"] == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("wide", [8, 200])
def test_a_reader_of_wide_features_is_the_usual_one(wide: int) -> None:
    rng = np.random.default_rng(0)
    told_N: NDArray[np.int64] = np.tile([0, 1], 60)
    feature_NF = rng.normal(size=(120, wide))
    feature_NF[:, 3] += 3.0 * told_N
    groups = [f"pair {at // 2 % 6}" for at in range(120)]
    other_N: NDArray[np.int64] = rng.integers(2, size=120)
    effort = Effort(inverse_strengths=(1e-2,))
    labels = [Label("there", told_N, 0.5), Label("not", other_N, 0.5)]
    found = read_linear(feature_NF, labels, groups, effort=effort, seed=5)
    for label, (right_N, control_N) in zip(labels, found, strict=True):
        usual = read(feature_NF, label.class_N, groups, effort=effort, seed=5)
        # Both stop near the optimum, from different sides, so a borderline unit may differ.
        assert (right_N != usual.correct_N).sum() <= 2
        assert (control_N != usual.control_N).sum() <= 2
    assert found[0][0].mean() > found[1][0].mean() + 0.1


def test_runs_of_words() -> None:
    assert list(runs("a cup")) == [
        "^",
        "a",
        "cup",
        "$",
        "^ a",
        "a cup",
        "cup $",
        "^ a cup",
        "a cup $",
    ]


def test_a_reader_of_captions_learns_an_order_and_nothing_else() -> None:
    names = ["ant", "bee", "cup", "dog"]
    pairs = [(a, b) for at, a in enumerate(names) for b in names[at + 1 :]]
    reader = taught(
        [CaptionContrast(f"{a} and {b}", f"{b} and {a}") for a, b in pairs] * 5, PENALTIES
    )
    assert reader.score("ant and dog") > reader.score("dog and ant") + 0.1
    both = [
        CaptionContrast(f"{a} and {b}", f"{b} and {a}")
        for a, b in pairs + [(b, a) for a, b in pairs]
    ]
    blank = taught(both, PENALTIES)
    assert blank.score("ant and dog") == pytest.approx(blank.score("dog and ant"), abs=1e-6)


def test_without_a_preference_a_coin_decides() -> None:
    scores = {PhraseReader({}).score(f"caption {n}") for n in range(50)}
    assert len(scores) == 50
    assert max(scores) < 1e-8


def test_benchmarks_cannot_be_read(results: dict[str, ArmResult]) -> None:
    numbers = results["blind"].numbers
    for kind in ("caption-only", "caption-only own"):
        for name, value in numbers[kind].items():
            chance = 0.25 if name == "world-order" else 0.5
            assert value == pytest.approx(chance, abs=0.05), (kind, name)


def test_seeds_follow_from_names() -> None:
    assert seed_of(Path("x/tiny-0.safetensors")) == seed_of(Path("tiny-0.safetensors"))
    assert seed_of(Path("tiny-0.safetensors")) != seed_of(Path("tiny-1.safetensors"))
    assert len(MODELS) == 10
    assert TinyConfig().pixels == 64
