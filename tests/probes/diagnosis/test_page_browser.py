"""The verdict page in a real browser: quiet, alone, as wide as the screen, readable, printable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from unbag.probes.base import Grid
from unbag.probes.diagnosis.page import render_diagnosis

from .made_diagnosis import HOSTILE, made

if TYPE_CHECKING:
    from tests.pages import Open, Scheme


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("diagnoses")
    for name, against in (("one", False), ("two", True)):
        page = render_diagnosis(made(against=against))
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in ("one", "two")}


@pytest.mark.parametrize("name", ["one", "two"])
@pytest.mark.parametrize("width", [360, 390, 1280])
def test_quiet_alone_and_no_wider_than_the_screen(
    open_page: Open, files: dict[str, Path], name: str, width: int
) -> None:
    seen = open_page(files[name], width, "light")
    assert (seen.said, seen.outside, seen.dialogs) == ([], [], [])
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    for fold in seen.page.locator("summary").all():
        fold.click()
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(
    open_page: Open, files: dict[str, Path], scheme: Scheme
) -> None:
    seen = open_page(files["two"], 1280, scheme)
    body = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert body == {"light": "rgb(255, 254, 251)", "dark": "rgb(21, 24, 28)"}[scheme]
    assert seen.contrast >= 4.5


def test_hostile_texts_are_texts(open_page: Open, files: dict[str, Path]) -> None:
    seen = open_page(files["two"], 1280, "light")
    assert seen.page.locator("script").count() == 0
    assert seen.page.locator(".said").first.inner_text().endswith(f"of {HOSTILE}.")
    assert seen.page.locator("#maps .plot-title").inner_text() == f"“{HOSTILE}”"
    assert seen.dialogs == []


def test_tones_are_words_and_signs(open_page: Open, files: dict[str, Path]) -> None:
    seen = open_page(files["one"], 1280, "light")
    tones = seen.page.locator("#verdicts .tone").all_inner_texts()
    assert tones == ["✗ fails", "✓ holds", "≈ mixed", "i fact"]


def test_marks_and_references_lie_where_their_numbers_say(
    open_page: Open, files: dict[str, Path]
) -> None:
    seen = open_page(files["one"], 1280, "light")
    card = seen.page.locator("#probe-order")
    strip = card.locator(".strip").first
    box = strip.bounding_box()
    assert box is not None
    mark = strip.locator(".mark").bounding_box()
    assert mark is not None
    assert (mark["x"] + mark["width"] / 2 - box["x"]) / box["width"] == pytest.approx(
        0.53, abs=0.01
    )
    lines = strip.locator("line.ref").all()
    kinds = [line.get_attribute("class") for line in lines]
    assert kinds == ["ref bag", "ref perfect"]
    places = [line.get_attribute("x1") for line in lines]
    assert places == ["50.00%", "100.00%"]
    labels = card.locator("text.reference").all_text_contents()
    assert labels == ["bag of words and chance 50.0", "perfect 100.0"]
    names = card.locator(".chart-name").all_inner_texts()
    assert ["tiny:base" in names[0], "random weights" in names[1]] == [True, True]


def test_two_models_stand_side_by_side_and_under_each_other_on_a_phone(
    open_page: Open, files: dict[str, Path]
) -> None:
    for width, are_beside in ((1280, True), (390, False)):
        seen = open_page(files["two"], width, "light")
        boxes = [one.bounding_box() for one in seen.page.locator("#probe-order .pair > div").all()]
        first, second = (one for one in boxes if one is not None)
        assert (first["y"] == second["y"]) is are_beside
    text = seen.page.locator("#probe-order .gap").inner_text()
    assert text == (
        "tiny:base is above tiny:hard_negative by +20.0 [+10.0, +30.0] points, which is better."
    )


def test_a_map_shows_the_image_under_every_word(open_page: Open, files: dict[str, Path]) -> None:
    seen = open_page(files["two"], 1280, "light")
    tiles = seen.page.locator("#maps .tiles li")
    # An image and two words, for each of two models.
    assert tiles.count() == 6
    assert [t.split("\n")[0] for t in tiles.all_inner_texts()][:2] == ["image", "star"]
    used = seen.page.locator("#maps use").first.bounding_box()
    assert used is not None
    assert used["width"] == pytest.approx(used["height"], abs=0.5)
    assert used["width"] > 50


def test_all_columns_of_parts_are_seen_without_scrolling(open_page: Open, tmp_path: Path) -> None:
    # What a repair did stands in the last columns: hidden, the table says the opposite.
    names = "tiny:base", "tiny:hard_negative"
    columns = tuple(f"text of {one}, read-out of {two}" for one in names for two in names)
    rows = tuple(f"images of {one}" for one in names)
    grid = Grid("Parts", rows, columns, ((0.5,) * 4,) * 2, "image encoder", "text and read-out")
    found = made(against=True)
    first = found.answers[0]
    first = replace(first, finding=replace(first.finding, plots=(grid,)), other=None)
    page = tmp_path / "parts.html"
    page.write_text(render_diagnosis(replace(found, answers=(first,))), encoding="utf-8")
    for width in (390, 1280):
        wide = open_page(page, width, "light").page.locator(".wide:has(.heat)").first
        assert wide.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_print_opens_every_fold(open_page: Open, files: dict[str, Path]) -> None:
    seen = open_page(files["two"], 700, "light")
    folded = seen.page.get_by_text("Formula of order").first
    assert not folded.is_visible()
    seen.page.emulate_media(media="print")
    assert folded.bounding_box() is not None
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 700
    assert seen.page.pdf(format="A4").startswith(b"%PDF")
