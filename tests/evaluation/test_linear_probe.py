"""The linear probe: fitted to training items only, and measured like any scorer."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

import unbag as ub
from unbag.api import fit_linear_probe
from unbag.data import FileImage
from unbag.errors import UnbagError
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.metrics.choice import Classify
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.scorers.linear_probe import LinearProbe, fit_logistic, held_out
from unbag.types import Benchmark, DualEncoder, EvalProtocol, FittedScorer, Item, Query, Scorer
from unbag.world.placement import place_apart, sample_look
from unbag.world.rendering import SceneImage
from unbag.world.vocabulary import DEFAULT

SHAPES, COLOURS = DEFAULT.shapes[:8], DEFAULT.colours[:8]
QUICK = EvalProtocol(resamples=200)
STRENGTH = (1e-2,)


@cache
def items(split: str, n: int) -> tuple[Item, ...]:
    """One thing in an image, whose shape is the class. Captions name colours, which tell nothing:
    zero-shot is at chance, and a probe must find the shape in the vector."""
    captions = tuple(f"a {colour} thing" for colour in COLOURS)
    fitted = []
    for i in range(n):
        rng = np.random.default_rng((ord(split[1]), i))
        at = i % len(SHAPES)
        scene = place_apart(DEFAULT, (replace(sample_look(DEFAULT, rng), shape=SHAPES[at]),), rng)
        image = SceneImage(scene, f"{split}/{i}")
        truth = np.eye(1, len(SHAPES), at, dtype=np.bool_)
        fitted.append(Item(f"{split}/{i}", (image,), captions, truth, tags={"class": SHAPES[at]}))
    return tuple(fitted)


def training() -> tuple[Item, ...]:
    return items("train", 320)


def unseen() -> tuple[Item, ...]:
    return items("test", 160)


BENCHMARK = Benchmark(
    name="shapes",
    about="Which shape?",
    load=lambda root: unseen(),
    load_training=lambda root: training(),
    metrics=(Classify(),),
    headline="accuracy",
)


def encoder(name: str) -> DualEncoder:
    fitted = ub.load_model(name)
    assert isinstance(fitted, DualEncoder)
    return fitted


@cache
def probe(name: str) -> LinearProbe:
    return fit_linear_probe(encoder(name), training(), strengths=(1e-1, 1e-2, 1e-3))


def accuracy(scorer: Scorer) -> float:
    return ub.evaluate(scorer, BENCHMARK, protocol=QUICK)[0].overall["accuracy"].value


def test_a_probe_needs_no_words_but_a_trained_network() -> None:
    zero_shot = accuracy(Cosine(encoder("tiny:base")))
    base, random = accuracy(probe("tiny:base")), accuracy(probe("tiny:random"))
    assert zero_shot == pytest.approx(1 / 8, abs=0.08)
    assert base > 0.95
    assert random < 0.4


def test_evaluate_fits_a_probe_for_each_model_by_the_name_alone() -> None:
    models = ["tiny:base", "tiny:random"]
    fitted = ub.evaluate(models, BENCHMARK, scorer="linear-probe", protocol=QUICK)
    assert fitted[0].protocol.scoring == "linear probe"
    values = [fitted[name, "shapes"].overall["accuracy"].value for name in models]
    assert values[0] > 0.95
    assert values[1] < 0.5
    with pytest.raises(UnbagError, match="needs image embeddings, and 'caption:short' has none"):
        ub.evaluate("caption:short", BENCHMARK, scorer="linear-probe")


def test_it_is_a_protocol_of_its_own(tmp_path: Path) -> None:
    fitted = probe("tiny:base")
    assert isinstance(fitted, FittedScorer)
    [result] = ub.evaluate(fitted, BENCHMARK, protocol=QUICK)
    assert (result.scorer, result.protocol.scoring) == ("tiny:base", "linear probe")
    assert fitted.fingerprint != encoder("tiny:base").fingerprint
    assert fitted.held_out > 0.9
    job = Job(scorers=[fitted], benchmarks=[BENCHMARK], out=tmp_path, protocol=QUICK)
    first = run(job).contents.results
    assert run(job).contents.results[0].overall == first[0].overall


def test_shuffled_training_labels_are_at_chance() -> None:
    train = training()
    order = np.random.default_rng(0).permutation(len(train))
    mixed = [replace(a, truth=train[i].truth) for a, i in zip(train, order, strict=True)]
    blind = fit_linear_probe(encoder("tiny:base"), mixed, strengths=STRENGTH)
    assert accuracy(blind) == pytest.approx(1 / 8, abs=0.08)


def test_the_cache_of_other_runs_serves_the_probe(tmp_path: Path) -> None:
    inner, image_count = encoder("tiny:base"), 0

    class Counting:
        """The model, with a count of the images it is shown."""

        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def encode_images(self, pixels: Tensor) -> Tensor:
            nonlocal image_count
            image_count += len(pixels)
            return inner.encode_images(pixels)

    model: object = Counting()
    assert isinstance(model, DualEncoder)
    few = training()[:40]
    first = fit_linear_probe(model, few, cache=tmp_path, strengths=STRENGTH)
    again = fit_linear_probe(model, few, cache=tmp_path, strengths=STRENGTH)
    assert image_count == 40
    np.testing.assert_array_equal(first.weight_CE, again.weight_CE)
    assert first.fingerprint == again.fingerprint
    assert first.strength == 1e-2


def test_fingerprints_follow_the_training_split_and_the_seed() -> None:
    few = training()[:40]
    fitted = [
        fit_linear_probe(encoder("tiny:base"), subset, seed=seed, strengths=STRENGTH).fingerprint
        for subset, seed in ((few, 0), (few[:-4], 0), (few, 1))
    ]
    assert len(set(fitted)) == 3


def test_a_fifth_of_each_class_is_held_out_whatever_the_order() -> None:
    keys = [f"image {i}" for i in range(100)]
    class_N = np.array([0] * 90 + [1] * 7 + [2] * 2 + [3])
    held_N = held_out(keys, class_N, seed=0)
    assert [int(held_N[class_N == c].sum()) for c in range(4)] == [18, 1, 1, 0]
    order = np.random.default_rng(1).permutation(100)
    again_N = held_out([keys[i] for i in order], class_N[order], seed=0)
    np.testing.assert_array_equal(again_N, held_N[order])
    assert (held_out(keys, class_N, seed=1) != held_N).any()


def test_scores_without_the_evaluation_are_the_same() -> None:
    fitted = probe("tiny:base")
    subset = unseen()[:3]
    queries = [Query(item.images[0], caption) for item in subset for caption in item.captions]
    matrix = fitted.score_matrix([item.images[0] for item in subset], subset[0].captions)
    assert fitted.score(queries).tolist() == pytest.approx(matrix.ravel().tolist(), abs=1e-4)


def test_damaged_training_images_are_said_and_left_out(tmp_path: Path) -> None:
    messages: list[str] = []

    class Loud(Silent):
        def say(self, text: str) -> None:
            messages.append(text)

    few = list(training()[:40])
    few[3] = replace(few[3], images=(FileImage(tmp_path / "gone.jpg"),))
    fitted = fit_linear_probe(encoder("tiny:base"), few, strengths=STRENGTH, progress=Loud())
    assert np.isfinite(fitted.weight_CE).all()
    assert messages[0].startswith("1 of 40 training images cannot be opened and are left out")


def refused(subset: Sequence[Item], message: str) -> None:
    with pytest.raises(UnbagError, match=message):
        fit_linear_probe(encoder("tiny:base"), subset)


def test_what_cannot_be_fitted_is_named(tmp_path: Path) -> None:
    few = list(training()[:16])
    refused([], "has 0 images")
    refused(few[:1], "none of 7 of its 8 classes")
    refused(few[:8], "no image can be held out")
    other = replace(few[1], captions=tuple("abcdefgh"))
    refused([few[0], other], "other captions than the first item")
    both = replace(few[1], truth=np.arange(8)[None] < 2)
    refused([few[0], both], "'train/1' has 1 images and 2 true captions")
    gone = [replace(i, images=(FileImage(tmp_path / f"{i.id}.jpg"),)) for i in few]
    refused(gone, "0 images that can be opened")


def test_an_unknown_class_is_named() -> None:
    swap = ub.load_benchmark("world-swap")
    with pytest.raises(UnbagError, match="linear probe has no class 'a ") as error:
        ub.evaluate(probe("tiny:base"), swap, protocol=QUICK)
    assert "one of its 8: a red thing" in error.value.expected


def test_a_probe_that_did_not_converge_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = partial(fit_logistic, max_steps=1)
    monkeypatch.setattr("unbag.scorers.linear_probe.fit_logistic", stopped)
    with pytest.raises(UnbagError, match="did not converge: after 1 steps"):
        fit_linear_probe(encoder("tiny:base"), training()[:40])


def test_the_name_alone_says_what_is_missing() -> None:
    with pytest.raises(UnbagError, match="'linear-probe' must first be fitted"):
        ub.load_scorer("tiny:base", "linear-probe")
