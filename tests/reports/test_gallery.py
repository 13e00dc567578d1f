"""Failures as cards: what is true, what was wrongly preferred, and which images are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unbag.reports.formatting import score_text
from unbag.reports.page import failure_card, safe_image
from unbag.types import Failure

PIXEL = "data:image/png;base64,iVBORw0KGgo="
NAN = float("nan")
TRIPLE = Failure(
    "swap", "m", "7", "original", (PIXEL,), ("c", "n", "p"),
    ("original", "swap_attributes", "conjunct_swap"), ((True, False, True),),
    ((0.25, 0.75, 0.5),), {"what": "colour"},
)  # fmt: skip


def faults(failure: Failure) -> list[list[str]]:
    """Row a caption, column an image."""
    return [[cell.fault for cell in line.cells] for line in failure_card(failure).lines]


def test_a_triple_shows_scores_truth_and_the_wrong_preference() -> None:
    shown = failure_card(TRIPLE)
    assert [line.cells[0].share for line in shown.lines] == [0.0, 1.0, 0.5]
    assert [line.cells[0].is_true for line in shown.lines] == [True, False, True]
    assert faults(TRIPLE) == [[""], ["above"], [""]]
    assert [line.kind for line in shown.lines] == ["original", "swap attributes", "conjunct swap"]
    assert (shown.tags, shown.rival, shown.is_matrix) == ("what colour", "caption", False)


@pytest.mark.parametrize(
    ("scores", "fault"),
    [
        ((0.9, 0.5, 0.1), "above"),  # above the hard positive although below the original
        ((0.9, 0.5, 0.5), "tied"),
        ((0.9, 0.1, 0.5), ""),
        ((0.9, NAN, 0.5), ""),
        ((NAN, 0.5, NAN), ""),
    ],
)
def test_a_false_caption_is_held_against_the_weakest_true_one(
    scores: tuple[float, float, float], fault: str
) -> None:
    assert faults(replace(TRIPLE, scores=(scores,)))[1] == [fault]


def test_retrieval_is_held_against_the_best_true_one() -> None:
    failure = replace(TRIPLE, metric="image_to_text@1", scores=((0.9, 0.5, 0.1),))
    assert faults(failure)[1] == [""]


def test_two_by_two_compares_captions_of_an_image() -> None:
    pair = Failure(
        "binding", "m", "3", "text", (PIXEL, PIXEL), ("a", "b"), (),
        ((True, False), (False, True)), ((0.4, 0.5), (0.1, 0.3)),
    )  # fmt: skip
    assert failure_card(pair).is_matrix
    assert faults(pair) == [["", ""], ["above", ""]]
    by_image = replace(pair, metric="image", scores=((0.1, 0.5), (0.4, 0.3)))
    assert failure_card(by_image).rival == "image"
    assert faults(by_image) == [["", "above"], ["above", ""]]


def test_one_caption_compares_images() -> None:
    query = Failure(
        "retrieval", "m", "4", "text_to_image@1", (PIXEL, PIXEL), ("a",), (),
        ((False,), (True,)), ((0.5,), (0.4,)),
    )  # fmt: skip
    assert faults(query) == [["above", ""]]


def test_scores_have_enough_decimals_to_be_told_apart() -> None:
    assert score_text(0.25, [0.25, 0.5]) == "0.250"
    assert score_text(0.43121, [0.43121, 0.43122]) == "0.43121"
    assert score_text(1 / 3, [1 / 3, 1 / 3 + 1e-12]) == repr(1 / 3)
    assert score_text(NAN, [0.25]) == "no score"


def test_equal_scores_have_empty_bars_and_many_captions_have_letters() -> None:
    many = replace(
        TRIPLE, captions=("x",) * 28, kinds=(), truth=((True,) * 28,), scores=((0.5,) * 28,)
    )
    lines = failure_card(many).lines
    assert {line.cells[0].share for line in lines} == {0.0}
    assert [lines[at].letter for at in (0, 25, 26)] == ["A", "Z", "27"]


@pytest.mark.parametrize(
    "address",
    [
        "https://example.com/a.png",
        "//example.com/a.png",
        "javascript:alert(1)",
        "data:text/html;base64,AAAA",
        "data:image/svg+xml;base64,AAAA",
        'data:image/png;base64,AA" onload="alert(1)',
        "",
    ],
)
def test_only_images_that_are_in_the_page_are_shown(address: str) -> None:
    assert safe_image(address) == ""
    assert safe_image(PIXEL) == PIXEL
