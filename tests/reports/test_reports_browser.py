"""The page in a real browser: no errors, no requests, no sideways scroll, dark mode, print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from unbag.metrics.definitions import DEFINITIONS
from unbag.reports.page import render_page
from unbag.types import Published, Reference, RunContents

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed, so no page can be opened"
)
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def files(
    run: RunContents, hostile_run: RunContents, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    beside = replace(run, references=published(run), warnings=("It has seen these pictures.",))
    made = {"run": run, "hostile": hostile_run, "beside": beside}
    for name, contents in made.items():
        (folder / f"{name}.html").write_text(render_page(contents, DEFINITIONS), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


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


class Watched:
    """An open page and everything it said, asked for or popped up."""

    def __init__(self, browser: Browser, file: Path, width: int, scheme: Scheme) -> None:
        self.page: Page = browser.new_page(
            viewport={"width": width, "height": 800}, color_scheme=scheme
        )
        self.said: list[str] = []
        self.asked: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", self._dialog)
        self.page.goto(file.as_uri())
        self.own = file.as_uri()

    def _dialog(self, dialog: object) -> None:
        self.dialogs.append(str(dialog))

    @property
    def outside(self) -> list[str]:
        return [url for url in self.asked if url != self.own and not url.startswith("data:")]


@pytest.mark.parametrize("name", ["run", "hostile", "beside"])
@pytest.mark.parametrize("width", [360, 1280])
def test_quiet_alone_and_no_wider_than_the_screen(
    browser: Browser, files: dict[str, Path], name: str, width: int
) -> None:
    seen = Watched(browser, files[name], width, "light")
    assert seen.said == []
    assert seen.outside == []
    assert seen.dialogs == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    seen.page.close()


def test_a_hostile_caption_is_shown_as_text(
    browser: Browser, files: dict[str, Path], hostile_text: str
) -> None:
    seen = Watched(browser, files["hostile"], 1280, "light")
    caption = seen.page.locator("p.caption").first
    assert caption.inner_text() == hostile_text
    assert seen.page.locator("script").count() == 0
    assert seen.page.locator("article").count() == 12
    assert seen.dialogs == []
    seen.page.close()


def test_pictures_are_enlarged_without_smoothing(browser: Browser, files: dict[str, Path]) -> None:
    seen = Watched(browser, files["run"], 1280, "light")
    picture = seen.page.locator(".single img").first
    shown = picture.evaluate("p => [p.naturalWidth, p.width, getComputedStyle(p).imageRendering]")
    assert shown == [64, 128, "pixelated"]
    seen.page.close()


CONTRAST = """() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = node => {
    for (; node; node = node.parentElement) {
      const found = getComputedStyle(node).backgroundColor;
      if (!found.endsWith(', 0)')) return found;
    }
  };
  return [...document.querySelectorAll('p, th, td, dd, dt, a, h1, h2, h3, span, small, li')]
    .filter(node => node.innerText.trim())
    .map(node => {
      const both = [light(getComputedStyle(node).color), light(behind(node))];
      return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    }).reduce((a, b) => Math.min(a, b));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(
    browser: Browser, files: dict[str, Path], scheme: Scheme
) -> None:
    seen = Watched(browser, files["run"], 1280, scheme)
    body = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert body == {"light": "rgb(255, 254, 251)", "dark": "rgb(21, 24, 28)"}[scheme]
    assert seen.page.evaluate(CONTRAST) >= 4.5
    seen.page.close()


def test_print_gives_pages_with_folded_parts_open(browser: Browser, files: dict[str, Path]) -> None:
    seen = Watched(browser, files["run"], 700, "light")
    folded = seen.page.get_by_text("mean_negative").first
    assert not folded.is_visible()
    seen.page.emulate_media(media="print")
    assert folded.bounding_box() is not None
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 700
    assert seen.page.locator("nav").first.is_hidden()
    pdf = seen.page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") > 3
    seen.page.close()


def test_published_numbers_are_read_and_their_scale_is_folded(
    browser: Browser, files: dict[str, Path]
) -> None:
    seen = Watched(browser, files["beside"], 390, "dark")
    table = seen.page.locator("table.beside")
    assert table.locator(".verdict").all_inner_texts() == ["inside", "outside", "not comparable"]
    assert table.evaluate("t => t.scrollWidth <= t.parentElement.clientWidth")
    assert seen.page.locator("#warnings p").count() == 1
    model = seen.page.get_by_text("model 11")
    assert not model.is_visible()
    seen.page.locator("summary", has_text="published models").click()
    assert model.is_visible()
    assert seen.page.evaluate(CONTRAST) >= 4.5
    seen.page.close()
