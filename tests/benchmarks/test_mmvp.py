"""MMVP and MMVP-VLM from self-made files in the official schema."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from unbag.benchmarks.mmvp import MMVP, MMVP_VLM, load_corrected
from unbag.types import Estimate, Item

from .small import mmvp, mmvp_vlm, write

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def test_errata_exchange_the_reported_answers(tmp_path: Path) -> None:
    official = MMVP.load(write(tmp_path, mmvp(300)))
    changed = [
        int(a.id.partition("/")[2])
        for a, b in zip(official, load_corrected(tmp_path), strict=True)
        if not np.array_equal(a.truth, b.truth)  # type: ignore[arg-type]
    ]
    assert changed == [99, 100, 279, 280]


def test_an_official_tie_goes_to_the_second_image(tmp_path: Path, numbers: Numbers) -> None:
    items = MMVP_VLM.load(write(tmp_path, mmvp_vlm(1)))

    def second_statement_tied(item: Item) -> object:
        return np.array([[0.9, 0.5], [0.1, 0.5]])

    for ties, value in (("wrong", 0), (MMVP_VLM.official_ties, 1)):
        results = numbers(MMVP_VLM, items, second_statement_tied, ties=ties)["micro"]
        assert results["image"].value == value
