"""The page in a real browser: no errors, no requests, no sideways scroll, dark mode, print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from unbag.metrics.definitions import DEFINITIONS
from unbag.reports.page import render_page
from unbag.types import Published, Reference, RunContents

if TYPE_CHECKING:
    from tests.pages import Open, Scheme


@pytest.fixture(scope="module")
def files(
    run: RunContents, hostile_run: RunContents, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    beside = replace(run, references=published(run), warnings=("It has seen these images.",))
    made = {"run": run, "hostile": hostile_run, "beside": beside, "long": with_long_names(run)}
    for name, contents in made.items():
        (folder / f"{name}.html").write_text(render_page(contents, DEFINITIONS), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


def with_long_names(run: RunContents) -> RunContents:
    """Names as those of published models and benchmarks with an averaging rule."""
    results = (
        replace(
            r, scorer=r.scorer.replace("tiny:", "ViT-S-32-"), benchmark=f"{r.benchmark}, macro rule"
        )
        for r in run.results
    )
    return replace(run, results=tuple(results))


def published(run: RunContents) -> tuple[Reference, ...]:
    """Numbers of the very model with doubts, and a scale long enough to be folded."""
    ours = run.results[0].overall[run.results[0].headline]
    name = run.results[0].benchmark
    long = "a long doubt about individual_results.csv of ytaek-oh/vl_compo " * 3
    theirs = Published("CLIP ViT-B/32 (openai)", "original", 0.4, "a paper, table 1", "micro")
    same = [
        Reference(name, "tiny:base", replace(theirs, value=v), ours, True, ok, (long, long))
        for v, ok in ((ours.value, True), (0.01, True), (0.5, False))
    ]
    others = [
        Reference(name, "tiny:base", replace(theirs, model=f"model {i}", value=i / 12), ours, False)
        for i in range(12)
    ]
    return (*same, *others)


@pytest.mark.parametrize("name", ["run", "hostile", "beside", "long"])
@pytest.mark.parametrize("width", [360, 1280])
def test_quiet_alone_and_no_wider_than_the_screen(
    open_page: Open, files: dict[str, Path], name: str, width: int
) -> None:
    seen = open_page(files[name], width, "light")
    assert seen.said == []
    assert seen.outside == []
    assert seen.dialogs == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("width", [1250, 1300, 1600])
def test_a_table_uses_the_room_beside_the_text(
    open_page: Open, files: dict[str, Path], width: int
) -> None:
    seen = open_page(files["long"], width, "light")
    table = seen.page.locator("#overview .wide")
    shown, needed = table.evaluate("t => [t.clientWidth, t.scrollWidth]")
    text = seen.page.locator("#overview").evaluate("t => t.clientWidth")
    assert text < shown == needed
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width


def test_a_hostile_caption_is_shown_as_text(
    open_page: Open, files: dict[str, Path], hostile_text: str
) -> None:
    seen = open_page(files["hostile"], 1280, "light")
    caption = seen.page.locator("p.caption").first
    assert caption.inner_text() == hostile_text
    assert seen.page.locator("script").count() == 0
    assert seen.page.locator("article").count() == 12
    assert seen.dialogs == []


def test_images_are_enlarged_without_smoothing(open_page: Open, files: dict[str, Path]) -> None:
    seen = open_page(files["run"], 1280, "light")
    image = seen.page.locator(".single img").first
    shown = image.evaluate("p => [p.naturalWidth, p.width, getComputedStyle(p).imageRendering]")
    assert shown == [64, 128, "pixelated"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(
    open_page: Open, files: dict[str, Path], scheme: Scheme
) -> None:
    seen = open_page(files["run"], 1280, scheme)
    body = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert body == {"light": "rgb(255, 254, 251)", "dark": "rgb(21, 24, 28)"}[scheme]
    assert seen.contrast >= 4.5


def test_print_gives_pages_with_folded_parts_open(open_page: Open, files: dict[str, Path]) -> None:
    seen = open_page(files["run"], 700, "light")
    folded = seen.page.get_by_text("mean_negative").first
    assert not folded.is_visible()
    seen.page.emulate_media(media="print")
    assert folded.bounding_box() is not None
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 700
    assert seen.page.locator("nav").first.is_hidden()
    pdf = seen.page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") > 3


def test_published_numbers_are_read_and_their_scale_is_folded(
    open_page: Open, files: dict[str, Path]
) -> None:
    seen = open_page(files["beside"], 390, "dark")
    table = seen.page.locator("table.published")
    assert table.locator(".verdict").all_inner_texts() == ["inside", "outside", "not comparable"]
    assert table.evaluate("t => t.scrollWidth <= t.parentElement.clientWidth")
    assert seen.page.locator("#warnings p").count() == 1
    model = seen.page.get_by_text("model 11")
    assert not model.is_visible()
    seen.page.locator("summary", has_text="published models").click()
    assert model.is_visible()
    assert seen.contrast >= 4.5
