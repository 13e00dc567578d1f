"""Blind baselines: what each prefers, that it never looks, and that a random one is a fair coin."""

from dataclasses import dataclass

import numpy as np
import pytest
from PIL.Image import Image

from unbag.errors import UnbagError
from unbag.models.baselines import ALL, Coin, load
from unbag.types import Caption, Ensemble, MatrixScorer, Query, Question, Scorer


@dataclass(frozen=True)
class Sealed:
    """An image that must not be looked at."""

    name: str

    @property
    def key(self) -> str:
        raise AssertionError("its content was asked for")

    def open(self) -> Image:
        raise AssertionError("it was opened")


def ask(name: str, *captions: str, image: str = "a.jpg") -> list[float]:
    queries = [Query(Sealed(image), caption) for caption in captions]
    return [float(v) for v in load(name).score(queries)]


def test_length_and_constant() -> None:
    short, long = ask("short", "a cat", "a large cat", "a dog"), ask("long", "a cat", "a large cat")
    assert short[0] > short[1]
    assert long[0] < long[1]
    assert short[0] != short[2]
    assert ask("constant", "a cat", "a dog") == [0.0, 0.0]


@pytest.mark.parametrize("spec", ALL)
def test_matrix_equals_pairs(spec: str) -> None:
    scorer = load(spec.removeprefix("caption:"))
    assert isinstance(scorer, Scorer)
    assert isinstance(scorer, MatrixScorer)
    assert scorer.is_blind
    assert scorer.name == spec
    images = [Sealed(name) for name in "pqr"]
    captions: list[Caption] = ["a cat", Ensemble("dog", ("a photo of a dog.",))]
    pairs = scorer.score([Query(p, c) for p in images for c in captions])
    matrix = scorer.score_matrix(images, captions).numpy()
    assert np.array_equal(matrix, np.asarray(pairs).reshape(3, 2))


def test_random_depends_on_the_query_without_the_folder() -> None:
    first = ask("random", "a cat")
    assert ask("random", "a cat", image="elsewhere/data/a.jpg") == first
    assert ask("random", "a dog") != first
    assert ask("random", "a cat", image="b.jpg") != first
    assert ask("random:1", "a cat") != first
    asked = [Query(Sealed("a.jpg"), "a cat", Question(text)) for text in ("Is it?", "Was it?")]
    assert len({*load("random").score(asked), *first}) == 3
    assert (
        load("random:0").fingerprint == load("random").fingerprint != load("random:1").fingerprint
    )


def test_random_is_fair_and_independent() -> None:
    # The worst case for a hash of captions: all items share the same two captions.
    images = [Sealed(f"{n}.jpg") for n in range(10_000)]
    score_PC = Coin("coin").score_matrix(images, ["the true one", "the false one"]).numpy()
    assert score_PC.min() >= 0
    assert score_PC.max() < 1
    right_P = score_PC[:, 0] > score_PC[:, 1]
    # Four standard errors of 10,000 fair throws.
    assert abs(right_P.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(score_PC[:, 0], score_PC[:, 1])[0, 1]) < 0.04
    assert abs(np.corrcoef(right_P[1:], right_P[:-1])[0, 1]) < 0.04
    assert np.allclose(np.histogram(score_PC, bins=10, range=(0, 1))[0] / 20_000, 0.1, atol=0.01)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("random:x", r"caption:random:x: 'x' is not a seed"),
        ("random:-1", r"'-1' is not a seed"),
        ("shrt", r"did you mean 'caption:short'"),
        ("likelihood", r"there is no language model at ''"),
    ],
)
def test_bad_names(name: str, message: str) -> None:
    with pytest.raises(UnbagError) as error:
        load(name)
    assert message in str(error.value)
