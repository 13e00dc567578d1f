"""VSR from self-made lines in the official schema, and the real zero-shot split."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.vsr import VSR
from unbag.types import Estimate

from .small import vsr_row, write

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def test_images_come_from_the_official_folder_or_a_shared_one(
    tmp_path: Path, photo: Callable[[Path], None]
) -> None:
    root = tmp_path / "vsr"
    root.mkdir()
    rows = {"dev": [vsr_row(1)], "test": [vsr_row(2, 0, "val2017")]}
    write(root, {f"zeroshot/{split}.jsonl": part for split, part in rows.items()})
    photo(tmp_path / "coco/val2017/000000000002.jpg")
    assert VSR.load(root)[1].images[0].open().mode == "RGB"
    photo(root / "images/000000000001.jpg")
    assert VSR.load(root)[0].images[0].open().mode == "RGB"


def test_the_real_split(official: Path, numbers: Numbers) -> None:
    items = VSR.load(official / "vsr")
    truths = [(item.tags["split"], bool(np.asarray(item.truth)[0, 0])) for item in items]
    counts = {key: truths.count(key) for key in set(truths)}
    assert counts == {
        ("dev", True): 167,
        ("dev", False): 173,
        ("test", True): 629,
        ("test", False): 593,
    }
    results = numbers(VSR, items, "constant", ties="half")["micro"]
    # The development split has more false statements, so a constant calls all of them false.
    assert results["threshold_accuracy"].value == pytest.approx(593 / 1222)
    assert results["auc"].value == pytest.approx(0.5)
