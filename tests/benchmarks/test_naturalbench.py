"""NaturalBench from self-made rows in the official schema, and the real test set."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from unbag.benchmarks.naturalbench import NATURALBENCH
from unbag.types import Estimate

from .small import naturalbench, write

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def test_always_yes_is_right_half_the_time_and_never_for_a_pair(
    tmp_path: Path, numbers: Numbers
) -> None:
    items = NATURALBENCH.load(write(tmp_path, naturalbench(1)))
    results = numbers(NATURALBENCH, items, lambda item: np.array([[1.0, 0.0]]))["micro"]
    values = {metric: estimate.value for metric, estimate in results.items()}
    assert values == {"accuracy": 0.5, "question_pair": 0, "image_pair": 0, "all_four": 0}


def test_the_real_test_set(official: Path, numbers: Numbers) -> None:
    items = NATURALBENCH.load(official / "naturalbench")
    assert len(items) == 3800
    assert len({item.group for item in items}) == 950
    assert sum(item.tags["type"] == "mcq" for item in items) == 428
    results = numbers(NATURALBENCH, items, "perfect")["micro"]
    assert (results["all_four"].value, results["all_four"].n) == (1, 950)
