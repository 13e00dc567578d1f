"""NaturalBench from self-made rows in the official schema, and the real test set."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.naturalbench import FILE, NATURALBENCH
from unbag.errors import UnbagError
from unbag.types import Estimate

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]


def group(n: int, kind: str = "yes_no") -> list[list[object]]:
    first, second = ("Yes", "No") if kind == "yes_no" else ("A", "B")
    return [
        [f"Does it climb {way}? ({n})", f"{n}_{i}.jpg", answer, kind]
        for way, answers in (("up", (first, second)), ("down", (second, first)))
        for i, answer in enumerate(answers)
    ]


def write(folder: Path, rows: object) -> Path:
    (folder / FILE).write_text(json.dumps(rows))
    return folder


def test_four_rows_are_a_group(tmp_path: Path, photo: Callable[[Path], None]) -> None:
    photo(tmp_path / "images/0_0.jpg")
    items = NATURALBENCH.load(write(tmp_path, group(0) + group(1, "mcq")))
    assert [item.group for item in items] == ["group/0"] * 4 + ["group/1"] * 4
    assert items[0].images[0] is items[2].images[0]
    assert items[0].images[0].open().mode == "RGB"
    assert items[0].captions == ("Yes", "No")
    assert items[4].captions == ("A", "B")
    questions = [item.question for item in items]
    assert questions[0] is not None
    assert questions[0].text == "Does it climb up? (0)"
    assert questions[0].options == ()
    assert questions[4] is not None
    assert questions[4].options == ("A", "B")
    truth = [np.asarray(item.truth).tolist() for item in items[:4]]
    assert truth == [[[True, False]], [[False, True]], [[False, True]], [[True, False]]]


def test_known_scorers(tmp_path: Path, numbers: Numbers) -> None:
    items = NATURALBENCH.load(write(tmp_path, [row for n in range(500) for row in group(n)]))
    for score, value in (("perfect", 1), ("constant", 0)):
        found = numbers(NATURALBENCH, items, score)["micro"]
        assert {estimate.value for estimate in found.values()} == {value}
    found = numbers(NATURALBENCH, items, "random")["micro"]
    assert [found[m].n for m in ("accuracy", "question_pair", "image_pair", "all_four")] == [
        2000,
        1000,
        1000,
        500,
    ]
    for estimate in found.values():
        assert estimate.chance is not None
        assert estimate.value == pytest.approx(estimate.chance, abs=0.05)


def test_always_yes_is_right_half_the_time_and_never_for_a_pair(
    tmp_path: Path, numbers: Numbers
) -> None:
    items = NATURALBENCH.load(write(tmp_path, group(0)))
    found = numbers(NATURALBENCH, items, lambda item: np.array([[1.0, 0.0]]))["micro"]
    values = {metric: estimate.value for metric, estimate in found.items()}
    assert values == {"accuracy": 0.5, "question_pair": 0, "image_pair": 0, "all_four": 0}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda r: r.pop(), "has 7 rows"),
        (lambda r: r.insert(0, r.pop(1)), "record 0 and the next three|no group"),
        (lambda r: r[5].__setitem__(2, "Maybe"), "record 5: answer 'Maybe' of a question of type"),
        (
            lambda r: r[5].__setitem__(3, "free"),
            "record 5: answer 'No' of a question of type 'free'",
        ),
        (lambda r: r[4].__setitem__(0, " "), "record 4: question is empty"),
        (lambda r: r[4].__setitem__(1, 3), r"record 4\.image is 3"),
        (lambda r: r.__setitem__(4, ["q", "i", "Yes"]), "record 4 is a list of 3"),
    ],
)
def test_bad_rows_are_named(
    spoil: Callable[[list[list[object]]], object], message: str, tmp_path: Path
) -> None:
    rows = group(0) + group(1)
    spoil(rows)
    with pytest.raises(UnbagError, match=message):
        NATURALBENCH.load(write(tmp_path, rows))


def test_the_real_test_set(official: Path, numbers: Numbers) -> None:
    items = NATURALBENCH.load(official / "naturalbench")
    assert len(items) == 3800
    assert len({item.group for item in items}) == 950
    assert sum(item.tags["type"] == "mcq" for item in items) == 428
    found = numbers(NATURALBENCH, items, "perfect")["micro"]
    assert (found["all_four"].value, found["all_four"].n) == (1, 950)
