"""Winoground and ColorSwap from self-made files, and the published score matrix."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.winoground import WHY_FILE, WINOGROUND
from unbag.types import Estimate, FloatArray, Item

from .small import winoground, write

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def test_reasons_become_tags_when_their_file_is_there(tmp_path: Path) -> None:
    reasons = {"0": [], "1": ["Unusual Text", "Complex Reasoning"], "2": ["Non Minimal"]}
    (tmp_path / WHY_FILE).write_text(json.dumps(reasons))
    items = WINOGROUND.load(write(tmp_path, winoground(4)))
    why = [item.tags["why"] for item in items]
    assert why == ["clean", "Complex Reasoning, Unusual Text", "Non Minimal", "clean"]
    assert [item.tags["why unusual text"] for item in items] == ["no", "yes", "no", "no"]


def test_the_published_score_matrix(official: Path, tmp_path: Path, numbers: Numbers) -> None:
    published = json.loads((official / "winoground/clip_vitb32_scores.json").read_text())
    scores = {f"example/{row['id']}": row for row in published}
    items = WINOGROUND.load(write(tmp_path, winoground(400)))

    def matrix(item: Item) -> FloatArray:
        row = scores[item.id]
        return np.array([[row[f"c{c}_i{i}"] for c in (0, 1)] for i in (0, 1)])

    results = numbers(WINOGROUND, items, matrix)["micro"]
    percent = {metric: 100 * results[metric].value for metric in ("text", "image", "group")}
    assert percent == pytest.approx({"text": 31.25, "image": 11.25, "group": 9.0})
    ours = {p.metric: p.value for p in WINOGROUND.published if "score matrix" in p.source}
    assert ours == pytest.approx({metric: results[metric].value for metric in ours})
