"""SugarCrepe and SugarCrepe++: official counts, and the row that was taken out again."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.sugarcrepe import KINDS, SUGARCREPE, load, load_corrected
from unbag.benchmarks.sugarcrepe_pp import SUGARCREPE_PP
from unbag.types import Estimate

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def test_the_official_files_have_their_counts(official: Path) -> None:
    items = load(official / "sugarcrepe")
    assert Counter(item.tags["kind"] for item in items) == {
        "add_att": 692,
        "add_obj": 2062,
        "replace_att": 788,
        "replace_obj": 1652,
        "replace_rel": 1406,
        "swap_att": 666,
        "swap_obj": 245,
    }
    assert len(items) == 7511
    assert len({item.images[0].name for item in items}) == 1560
    assert len(load_corrected(official / "sugarcrepe")) == 7511


def test_the_removed_row_is_left_out_when_corrected(tmp_path: Path) -> None:
    removed = {"filename": "000000310622.jpg", "caption": "a", "negative_caption": "b"}
    for kind in KINDS:
        (tmp_path / f"{kind}.json").write_text(json.dumps({"0": removed}))
    assert len(load(tmp_path)) == 7
    assert {item.tags["kind"] for item in load_corrected(tmp_path)} == set(KINDS) - {"swap_obj"}


def test_families_and_types_are_averaged_as_the_papers_do(tmp_path: Path, numbers: Numbers) -> None:
    # methods.md 3.7: CLIP's seven accuracies in tenths of a percent, as rows of 1000.
    right = {
        "replace_obj": 909,
        "replace_att": 800,
        "replace_rel": 692,
        "swap_obj": 614,
        "swap_att": 640,
        "add_obj": 772,
        "add_att": 682,
    }
    for kind in KINDS:
        rows = {
            str(i): {"filename": "1.jpg", "caption": "a", "negative_caption": str(i < right[kind])}
            for i in range(1000)
        }
        (tmp_path / f"{kind}.json").write_text(json.dumps(rows))
    score = {"a": 1.0, "True": 0.0, "False": 2.0}
    results = numbers(
        SUGARCREPE, load(tmp_path), lambda item: np.array([[score[str(c)] for c in item.captions]])
    )
    value = {rule: round(100 * metrics["accuracy"].value, 2) for rule, metrics in results.items()}
    assert value["macro7"] == 72.99
    assert value["macro3"] == 71.81
    assert value["macro replace"] == 80.03
    assert value["macro swap"] == 62.7
    assert value["macro add"] == 72.7


def test_sugarcrepe_pp_has_its_counts_and_three_triples_that_repeat(official: Path) -> None:
    items = SUGARCREPE_PP.load(official / "sugarcrepe_pp")
    assert Counter(item.tags["kind"] for item in items) == {
        "replace_att": 788,
        "replace_obj": 1652,
        "replace_rel": 1406,
        "swap_att": 666,
        "swap_obj": 245,
    }
    assert len(items) == 4757
    assert sum(len(set(item.captions)) < 3 for item in items) == 3


def test_both_captions_of_sugarcrepe_pp_must_beat_the_negative(
    tmp_path: Path, numbers: Numbers
) -> None:
    row = {"filename": "1.jpg", "caption": "p", "caption2": "q", "negative_caption": "n"}
    for kind in KINDS:
        (tmp_path / f"{kind}.json").write_text(json.dumps([{"id": 4, **row}]))
    items = SUGARCREPE_PP.load(tmp_path)
    assert items[0].captions == ("p", "n", "q")
    results = numbers(SUGARCREPE_PP, items, lambda item: np.array([[3.0, 2.0, 1.0]]))["macro5"]
    assert results["original"].value == 1
    assert results["augmented"].value == pytest.approx(0)
