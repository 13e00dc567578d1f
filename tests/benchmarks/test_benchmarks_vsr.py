"""VSR from self-made lines in the official schema, and the real zero-shot split."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.vsr import VSR
from unbag.errors import UnbagError
from unbag.types import Estimate

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def line(n: int, label: object = 1, part: str = "train2017") -> dict[str, object]:
    name = f"{n:012d}.jpg"
    return {
        "image": name,
        "image_link": f"http://images.cocodataset.org/{part}/{name}",
        "caption": f"The car is behind the suitcase {n}.",
        "label": label,
        "relation": "behind",
    }


def write(folder: Path, dev: list[dict[str, object]], test: list[dict[str, object]]) -> Path:
    (folder / "zeroshot").mkdir(exist_ok=True)
    for split, rows in (("dev", dev), ("test", test)):
        text = "\n".join(json.dumps(row) for row in rows)
        (folder / "zeroshot" / f"{split}.jsonl").write_text(text)
    return folder


def test_a_line_is_a_statement(tmp_path: Path, photo: Callable[[Path], None]) -> None:
    photo(tmp_path / "coco/val2017/000000000002.jpg")
    root = tmp_path / "vsr"
    root.mkdir()
    items = VSR.load(write(root, [line(1)], [line(2, 0, "val2017")]))
    assert [item.id for item in items] == ["dev/1", "test/1"]
    assert [np.asarray(item.truth).tolist() for item in items] == [[[True]], [[False]]]
    assert items[1].tags == {"split": "test", "relation": "behind"}


def test_images_come_from_the_official_folder_or_a_shared_one(
    tmp_path: Path, photo: Callable[[Path], None]
) -> None:
    root = tmp_path / "vsr"
    root.mkdir()
    write(root, [line(1)], [line(2, 0, "val2017")])
    photo(tmp_path / "coco/val2017/000000000002.jpg")
    assert VSR.load(root)[1].images[0].open().mode == "RGB"
    photo(root / "images/000000000001.jpg")
    assert VSR.load(root)[0].images[0].open().mode == "RGB"


def test_known_scorers(tmp_path: Path, numbers: Numbers) -> None:
    rows = [line(n, n % 2) for n in range(1500)]
    items = VSR.load(write(tmp_path, rows[:500], rows[500:]))
    found = numbers(VSR, items, "perfect")["micro"]
    assert (found["auc"].value, found["threshold_accuracy"].value) == (1, 1)
    assert found["auc"].n == 1000
    assert numbers(VSR, items, "constant")["micro"]["auc"].value == 0
    theirs = numbers(VSR, items, "constant", ties=VSR.official_ties)["micro"]
    assert theirs["auc"].value == pytest.approx(0.5)
    # One answer for all: half of them are true.
    assert theirs["threshold_accuracy"].value == pytest.approx(0.5)
    found = numbers(VSR, items, "random")["micro"]
    for metric in ("auc", "threshold_accuracy"):
        assert found[metric].value == pytest.approx(0.5, abs=0.05)
        assert found[metric].chance == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 2}, r"line 1\.label is 2"),
        ({"label": True}, r"line 1\.label is True"),
        ({"label": "1"}, r"line 1\.label is '1'"),
        ({"caption": ""}, "line 1: caption is empty"),
        ({"image_link": "x.jpg"}, "line 1: image_link is 'x.jpg'"),
        ({"relation": None}, r"line 1\.relation is null"),
    ],
)
def test_bad_lines_are_named(change: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=message):
        VSR.load(write(tmp_path, [line(1) | change], [line(2)]))


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, [line(1)], [line(2)])
    path = tmp_path / "zeroshot/test.jsonl"
    path.write_text(path.read_text()[:-5])
    with pytest.raises(UnbagError, match=r"zeroshot/test\.jsonl, line 1 of vsr cannot be read"):
        VSR.load(tmp_path)


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
    found = numbers(VSR, items, "constant", ties="half")["micro"]
    # The development split has more false statements, so a constant calls all of them false.
    assert found["threshold_accuracy"].value == pytest.approx(593 / 1222)
    assert found["auc"].value == pytest.approx(0.5)
