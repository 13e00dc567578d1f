"""Winoground and ColorSwap from self-made files, and the published score matrix."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.colorswap import COLORSWAP
from unbag.benchmarks.winoground import WHY_FILE, WINOGROUND
from unbag.errors import UnbagError
from unbag.types import Benchmark, Estimate, FloatArray, Item

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def winoground(n: int) -> list[dict[str, object]]:
    return [
        {
            "id": i,
            "image_0": f"ex_{i}_img_0",
            "image_1": f"ex_{i}_img_1",
            "caption_0": "an old person kisses a young person",
            "caption_1": "a young person kisses an old person",
            "tag": "Adjective-Age",
            "secondary_tag": "",
            "num_main_preds": 1,
            "collapsed_tag": "Relation",
        }
        for i in range(n)
    ]


def colorswap(n: int) -> list[dict[str, object]]:
    return [
        {
            "id": i,
            "caption_1": "a yellow umbrella and a white dress",
            "caption_2": "a white umbrella and a yellow dress",
            "image_1": f"images/img_{i}_1.png",
            "image_2": f"images/img_{i}_2.png",
            "image_source": "midjourney",
            "caption_source": "human",
        }
        for i in range(n)
    ]


def write(folder: Path, benchmark: Benchmark, rows: list[dict[str, object]]) -> Path:
    lines = "\n".join(json.dumps(row) for row in rows)
    (folder / benchmark.files[0]).write_text(lines if benchmark is WINOGROUND else json.dumps(rows))
    return folder


def test_an_example_of_winoground(tmp_path: Path, photo: Callable[[Path], None]) -> None:
    photo(tmp_path / "images/ex_0_img_1.png")
    (item,) = WINOGROUND.load(write(tmp_path, WINOGROUND, winoground(1)))
    assert item.id == "example/0"
    assert item.captions[1] == "a young person kisses an old person"
    assert item.images[1].open().mode == "RGB"
    assert item.tags == {"tag": "Adjective-Age", "collapsed_tag": "Relation"}


def test_reasons_become_tags_when_their_file_is_there(tmp_path: Path) -> None:
    reasons = {"0": [], "1": ["Unusual Text", "Complex Reasoning"], "2": ["Non Minimal"]}
    (tmp_path / WHY_FILE).write_text(json.dumps(reasons))
    items = WINOGROUND.load(write(tmp_path, WINOGROUND, winoground(4)))
    why = [item.tags["why"] for item in items]
    assert why == ["clean", "Complex Reasoning, Unusual Text", "Non Minimal", "clean"]
    assert [item.tags["why unusual text"] for item in items] == ["no", "yes", "no", "no"]


def test_an_example_of_colorswap(tmp_path: Path, photo: Callable[[Path], None]) -> None:
    photo(tmp_path / "images/img_0_2.png")
    (item,) = COLORSWAP.load(write(tmp_path, COLORSWAP, colorswap(1)))
    assert item.id == "test/0"
    assert item.images[1].open().mode == "RGB"
    assert item.tags == {"image_source": "midjourney", "caption_source": "human"}


@pytest.mark.parametrize(("benchmark", "rows"), [(WINOGROUND, winoground), (COLORSWAP, colorswap)])
def test_known_scorers(
    benchmark: Benchmark,
    rows: Callable[[int], list[dict[str, object]]],
    tmp_path: Path,
    numbers: Numbers,
) -> None:
    items = benchmark.load(write(tmp_path, benchmark, rows(1000)))
    for ties in ("wrong", benchmark.official_ties or "wrong"):
        for score, value in (("perfect", 1), ("constant", 0)):
            found = numbers(benchmark, items, score, ties=ties)["micro"]
            assert {estimate.value for estimate in found.values()} == {value}
    found = numbers(benchmark, items, "random")["micro"]
    for metric, chance in (("text", 1 / 4), ("image", 1 / 4), ("group", 1 / 6)):
        assert found[metric].value == pytest.approx(chance, abs=0.04)
        assert found[metric].chance == pytest.approx(chance)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"caption_0": " "}, "line 2: caption_0 is empty"),
        ({"caption_1": None}, r"line 2\.caption_1 is null"),
        ({"id": "0"}, r"line 2\.id is '0'"),
        ({"image_0": ""}, "line 2: image_0 is empty"),
        ({"image_0": "/etc/x"}, "is not an image name"),
    ],
)
def test_bad_examples_are_named(change: dict[str, object], message: str, tmp_path: Path) -> None:
    first, second = winoground(2)
    with pytest.raises(UnbagError, match=message):
        WINOGROUND.load(write(tmp_path, WINOGROUND, [first, second | change]))


def test_other_bad_files(tmp_path: Path) -> None:
    (tmp_path / "examples.jsonl").write_text(json.dumps(winoground(1)[0])[:-9])
    with pytest.raises(UnbagError, match="line 1 of winoground cannot be read"):
        WINOGROUND.load(tmp_path)
    (tmp_path / WHY_FILE).write_text('{"0": "Non Minimal"}')
    with pytest.raises(UnbagError, match=r"new_tag_assignments.json.0 is 'Non Minimal'"):
        WINOGROUND.load(write(tmp_path, WINOGROUND, winoground(1)))
    with pytest.raises(UnbagError, match="record 0: caption_2 is empty"):
        COLORSWAP.load(write(tmp_path, COLORSWAP, [colorswap(1)[0] | {"caption_2": ""}]))
    broken = colorswap(1)
    del broken[0]["image_2"]
    with pytest.raises(UnbagError, match=r"record 0\.image_2 is missing"):
        COLORSWAP.load(write(tmp_path, COLORSWAP, broken))


def test_the_published_score_matrix(official: Path, tmp_path: Path, numbers: Numbers) -> None:
    published = json.loads((official / "winoground/clip_vitb32_scores.json").read_text())
    scores = {f"example/{row['id']}": row for row in published}
    items = WINOGROUND.load(write(tmp_path, WINOGROUND, winoground(400)))

    def matrix(item: Item) -> FloatArray:
        row = scores[item.id]
        return np.array([[row[f"c{c}_i{i}"] for c in (0, 1)] for i in (0, 1)])

    found = numbers(WINOGROUND, items, matrix)["micro"]
    percent = {metric: 100 * found[metric].value for metric in ("text", "image", "group")}
    assert percent == pytest.approx({"text": 31.25, "image": 11.25, "group": 9.0})
    ours = {p.metric: p.value for p in WINOGROUND.published if "score matrix" in p.source}
    assert ours == pytest.approx({metric: found[metric].value for metric in ours})
