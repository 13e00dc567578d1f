"""Official files where they are at hand, and benchmarks measured with known scores."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from unbag.metrics.aggregate import measure
from unbag.metrics.cases import true_cells
from unbag.types import Benchmark, Case, Estimate, EvalProtocol, FloatArray, Item, Scores, TieRule
from unbag.world.benchmarks import triple_items

Score = Callable[[Item], FloatArray]


@pytest.fixture(scope="session")
def official(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real annotation files, unpacked; tests that need them are skipped elsewhere."""
    beside = Path(__file__).parents[3] / "shared" / "data"
    archive = Path(os.environ.get("UNBAG_SHARED_DATA", beside)) / "annotations.tar.gz"
    if not archive.is_file():
        pytest.skip(f"needs the official annotation files: no {archive.name} beside the checkout")
    folder = tmp_path_factory.mktemp("annotations")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder


def perfect(item: Item) -> FloatArray:
    return true_cells(item.truth, item.id).astype(np.float64)


def constant(item: Item) -> FloatArray:
    return np.zeros(item.truth.shape)


def random(item: Item) -> FloatArray:
    seed = [ord(letter) for letter in item.id]
    return np.random.default_rng(seed).standard_normal(item.truth.shape)


SCORES: Mapping[str, Score] = {"perfect": perfect, "constant": constant, "random": random}


def measured(
    benchmark: Benchmark, items: Sequence[Item], score: str | Score, *, ties: TieRule = "wrong"
) -> Mapping[str, Mapping[str, Estimate]]:
    """Every number of a benchmark, by averaging rule and metric."""
    of = SCORES[score] if isinstance(score, str) else score
    cases = [Case(item, Scores(item.id, of(item))) for item in items]
    return measure(
        benchmark, cases, protocol=EvalProtocol(ties=ties, resamples=100), seed=0
    ).overall


@pytest.fixture(scope="session")
def numbers() -> Callable[..., Mapping[str, Mapping[str, Estimate]]]:
    return measured


def save_photo(path: Path) -> None:
    """An image of the world as a file."""
    image = triple_items(["swap"], n=1)[0].images[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    image.open().save(path)


@pytest.fixture(scope="session")
def photo() -> Callable[[Path], None]:
    return save_photo
