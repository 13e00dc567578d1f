"""Flickr8k judgements from self-made files in the official layout."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.flickr8k import CROWD, EXPERTS, FLICKR8K, FLICKR8K_CROWD, TOKENS
from unbag.errors import UnbagError
from unbag.types import Benchmark, Estimate, FloatArray, Item

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def write(folder: Path, **files: str) -> Path:
    names = {"tokens": TOKENS, "experts": EXPERTS, "crowd": CROWD}
    for name, text in files.items():
        (folder / names[name]).write_text(text)
    return folder


def tokens(n: int) -> str:
    return "".join(f"{i}_a.jpg#{k}\tcaption {k} of {i} .\n" for i in range(n) for k in range(5))


def many(n: int) -> dict[str, str]:
    rng = np.random.default_rng(0)
    experts, crowd = "", ""
    for i in range(n):
        one, two, three = rng.integers(1, 5, size=3)
        experts += f"{i}_a.jpg\t{(i + 1) % n}_a.jpg#2\t{one}\t{two}\t{three}\n"
        yes = int(rng.integers(4))
        crowd += f"{i}_a.jpg\t{(i + 1) % n}_a.jpg#2\t{yes / 3}\t{yes}\t{3 - yes}\n"
    return {"tokens": tokens(n), "experts": experts, "crowd": crowd}


def rating(item: Item) -> FloatArray:
    return np.asarray(item.truth, dtype=np.float64)


def test_three_experts_are_three_ratings_of_one_pair(
    tmp_path: Path, photo: Callable[[Path], None]
) -> None:
    photo(tmp_path / "Flicker8k_Dataset/0_a.jpg")
    lines = "0_a.jpg\t1_a.jpg#2\t1\t2\t4\n1_a.jpg\t0_a.jpg#0\t3\t3\t3\n"
    items = FLICKR8K.load(write(tmp_path, tokens=tokens(2), experts=lines))
    assert [item.id for item in items][:3] == ["expert 1/1", "expert 2/1", "expert 3/1"]
    assert [float(rating(item)[0, 0]) for item in items] == [1, 2, 4, 3, 3, 3]
    assert {item.captions for item in items[:3]} == {("caption 2 of 1 .",)}
    assert {item.group for item in items} == {"0_a.jpg", "1_a.jpg"}
    assert items[0].images[0] is items[1].images[0]
    assert items[0].images[0].open().mode == "RGB"


def test_experts_do_not_judge_captions_written_for_the_image(tmp_path: Path) -> None:
    # The second line is such a caption by its words, though it is another image's by name.
    captions = "0.jpg#0\ta dog\n0.jpg.1#1\ta cat\n1.jpg#0\ta dog\n1.jpg#1\ta cow\n"
    lines = "0.jpg\t1.jpg#1\t1\t1\t2\n0.jpg\t1.jpg#0\t4\t4\t4\n0.jpg\t0.jpg.1#1\t4\t4\t4\n"
    items = FLICKR8K.load(write(tmp_path, tokens=captions, experts=lines))
    assert [item.captions for item in items] == [("a cow",)] * 3
    crowd = "0.jpg\t1.jpg#0\t1\t3\t0\n"
    assert len(FLICKR8K_CROWD.load(write(tmp_path, crowd=crowd))) == 1


def test_the_crowd_rates_by_its_share_of_yes(tmp_path: Path) -> None:
    lines = "0_a.jpg\t1_a.jpg#2\t0.333333333333\t1\t2\n"
    (item,) = FLICKR8K_CROWD.load(write(tmp_path, tokens=tokens(2), crowd=lines))
    assert rating(item)[0, 0] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("benchmark", "most"), [(FLICKR8K, {"tau_b": 0.2, "tau_c": 0.2}), (FLICKR8K_CROWD, None)]
)
def test_known_scorers(
    benchmark: Benchmark, most: Mapping[str, float] | None, tmp_path: Path, numbers: Numbers
) -> None:
    items = benchmark.load(write(tmp_path, **many(300)))
    perfect = numbers(benchmark, items, rating)["micro"]
    assert perfect["tau_b"].value == pytest.approx(1)
    assert perfect["tau_c"].value > 0.9
    reverse = numbers(benchmark, items, lambda item: -rating(item))["micro"]
    assert reverse["tau_b"].value == pytest.approx(-1)
    for found in numbers(benchmark, items, "constant")["micro"].values():
        assert (found.value, found.chance) == (0, 0)
    for found in numbers(benchmark, items, "random")["micro"].values():
        assert found.value == pytest.approx(0, abs=0.08)
        assert found.low < 0 < found.high


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"experts": "0_a.jpg\t1_a.jpg#2\t1\t2\n"}, r"ExpertAnnotations\.txt, line 1 .*4 cells"),
        ({"experts": "0_a.jpg\t1_a.jpg#2\t1\t2\t5\n"}, "line 1: '5' is not a rating"),
        ({"experts": "\n0_a.jpg\t1_a.jpg#2\t1\tx\t3\n"}, "line 2: 'x' is not a rating"),
        ({"experts": "0_a.jpg\t9_a.jpg#2\t1\t2\t3\n"}, "line 1: there is no caption '9_a.jpg#2'"),
        ({"experts": "../x\t1_a.jpg#2\t1\t2\t3\n"}, "'../x' is not an image name"),
        ({"tokens": "0_a.jpg#0 no tab\n"}, r"Flickr8k\.token\.txt, line 1 .*1 cells"),
        ({"tokens": "a#0\tx\na#0\ty\n"}, "line 2: 'a#0' stands twice"),
    ],
)
def test_bad_lines_of_experts(files: dict[str, str], message: str, tmp_path: Path) -> None:
    good = {"tokens": tokens(2), "experts": "0_a.jpg\t1_a.jpg#2\t1\t2\t3\n"}
    with pytest.raises(UnbagError, match=message):
        FLICKR8K.load(write(tmp_path, **(good | files)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0_a.jpg\t1_a.jpg#2\t0.5\t1\t2", "a share of 0.5 with 1 yes and 2 no"),
        ("0_a.jpg\t1_a.jpg#2\t0\t0\t0", "a share of 0 with 0 yes and 0 no"),
        ("0_a.jpg\t1_a.jpg#2\t-1\t0\t3", "'-1' is not a rating"),
    ],
)
def test_bad_lines_of_the_crowd(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=message):
        FLICKR8K_CROWD.load(write(tmp_path, tokens=tokens(2), crowd=line))


def test_both_share_a_folder() -> None:
    assert FLICKR8K.folder == FLICKR8K_CROWD.folder == "flickr8k"
    assert (FLICKR8K.headline, FLICKR8K_CROWD.headline) == ("tau_c", "tau_b")
