"""MMVP and MMVP-VLM from self-made files in the official schema."""

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from unbag.benchmarks.mmvp import MMVP, MMVP_VLM, load_corrected
from unbag.errors import UnbagError
from unbag.types import Estimate, Item

Numbers = Callable[..., Mapping[str, Mapping[str, Estimate]]]
QUESTIONS = ("Index", "Question", "Options", "Correct Answer")
STATEMENTS = ("Question ID", "Type", "Statement")


def write(folder: Path, head: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    with (folder / "Questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return folder


def questions(n: int) -> list[list[object]]:
    return [
        [i, "Is the door open, or closed?", "(a) Open (b) Closed", "(a)" if i % 2 else "(b)"]
        for i in range(1, n + 1)
    ]


def statements(patterns: int, pairs: int) -> list[list[object]]:
    return [
        [i + 1, f"Pattern {i // (2 * pairs)}", f"a door, {'open' if i % 2 else 'closed'}"]
        for i in range(2 * patterns * pairs)
    ]


def test_a_question_is_an_item_and_two_are_a_group(
    tmp_path: Path, photo: Callable[[Path], None]
) -> None:
    photo(tmp_path / "MMVP Images/2.jpg")
    items = MMVP.load(write(tmp_path, QUESTIONS, questions(4)))
    assert [item.group for item in items] == ["pair/1", "pair/1", "pair/2", "pair/2"]
    assert items[0].captions == ("Open", "Closed")
    assert items[0].question is not None
    assert items[0].question.text == "Is the door open, or closed?"
    assert items[0].question.options == ("(a) Open", "(b) Closed")
    assert np.asarray(items[0].truth).tolist() == [[True, False]]
    assert np.asarray(items[1].truth).tolist() == [[False, True]]
    assert items[1].images[0].open().mode == "RGB"


def test_known_answers(tmp_path: Path, numbers: Numbers) -> None:
    items = MMVP.load(write(tmp_path, QUESTIONS, questions(1200)))
    found = numbers(MMVP, items, "perfect")["micro"]
    assert (found["accuracy"].value, found["pair"].value, found["pair"].n) == (1, 1, 600)
    assert numbers(MMVP, items, "constant")["micro"]["pair"].value == 0
    found = numbers(MMVP, items, "random")["micro"]
    assert found["accuracy"].value == pytest.approx(0.5, abs=0.05)
    assert found["pair"].value == pytest.approx(0.25, abs=0.05)
    assert found["pair"].chance == 0.25


def test_errata_exchange_the_reported_answers(tmp_path: Path) -> None:
    official = MMVP.load(write(tmp_path, QUESTIONS, questions(300)))
    changed = [
        int(a.id.partition("/")[2])
        for a, b in zip(official, load_corrected(tmp_path), strict=True)
        if not np.array_equal(a.truth, b.truth)  # type: ignore[arg-type]
    ]
    assert changed == [99, 100, 279, 280]


def test_a_pair_of_statements_is_an_item(tmp_path: Path, photo: Callable[[Path], None]) -> None:
    photo(tmp_path / "MLLM_VLM Images/Pattern 1/4.jpg")
    items = MMVP_VLM.load(write(tmp_path, STATEMENTS, statements(2, 1)))
    assert [item.id for item in items] == ["pair/1-2", "pair/3-4"]
    assert items[1].captions == ("a photo of a door, closed", "a photo of a door, open")
    assert items[1].tags == {"pattern": "Pattern 1"}
    assert items[1].images[1].open().mode == "RGB"


def test_known_statements(tmp_path: Path, numbers: Numbers) -> None:
    items = MMVP_VLM.load(write(tmp_path, STATEMENTS, statements(9, 60)))
    found = numbers(MMVP_VLM, items, "perfect")["macro(pattern)"]
    assert found["image"].value == pytest.approx(1)
    for ties in ("wrong", MMVP_VLM.official_ties):
        found = numbers(MMVP_VLM, items, "constant", ties=ties)["macro(pattern)"]
        assert found["image"].value == 0
    found = numbers(MMVP_VLM, items, "random")["macro(pattern)"]
    assert found["image"].value == pytest.approx(0.25, abs=0.05)


def test_an_official_tie_goes_to_the_second_image(tmp_path: Path, numbers: Numbers) -> None:
    items = MMVP_VLM.load(write(tmp_path, STATEMENTS, statements(1, 1)))

    def second_statement_tied(item: Item) -> object:
        return np.array([[0.9, 0.5], [0.1, 0.5]])

    for ties, value in (("wrong", 0), (MMVP_VLM.official_ties, 1)):
        found = numbers(MMVP_VLM, items, second_statement_tied, ties=ties)["micro"]
        assert found["image"].value == value


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1, "Is it?", "(a) Yes", "(a)"], "row 1: Options is"),
        ([1, "Is it?", "(a) Yes (b) ", "(a)"], "row 1: Options is"),
        ([1, "Is it?", "(a) Yes (b) No", "(c)"], "row 1: Correct Answer is"),
        ([1, " ", "(a) Yes (b) No", "(a)"], "row 1: Question is empty"),
        ([1, "Is it?"], r"row 1\.Options is null"),
    ],
)
def test_bad_questions_are_named(row: Sequence[object], message: str, tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match=message):
        MMVP.load(write(tmp_path, QUESTIONS, [row, *questions(1)]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[2, "A", "x"], [3, "A", "y"]], "have ids 2 and 3"),
        ([[1, "A", "x"], [2, "B", "y"]], "types 'A' and 'B'"),
        ([["x", "A", "x"], [2, "A", "y"]], "row 1: Question ID is 'x'"),
        ([[1, "A", "x"], [2, "A", ""]], "row 2: Statement is empty"),
        ([[1, "A", "x"]], "has 1 rows"),
    ],
)
def test_bad_statements_are_named(
    rows: Sequence[Sequence[object]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UnbagError, match=message):
        MMVP_VLM.load(write(tmp_path, STATEMENTS, rows))


def test_another_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnbagError, match="has no column 'Options'"):
        MMVP.load(write(tmp_path, ("Index", "Question"), []))
