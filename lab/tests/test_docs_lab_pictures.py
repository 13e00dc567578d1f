"""Images of the lab in a real browser: no label lies on another or beyond the edge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = sorted((Path(__file__).parents[1] / "docs" / "images" / "claims").glob("*.svg"))
CLASHES = """() => {
  const whole = document.documentElement.getBoundingClientRect();
  const texts = [...document.querySelectorAll('text')].map(node =>
    ({ said: node.textContent, box: node.getBoundingClientRect() }));
  const found = texts.filter(({ box }) => box.left < whole.left || box.right > whole.right
    || box.top < whole.top || box.bottom > whole.bottom).map(({ said }) => said);
  // Line boxes are higher than letters: a pixel or two of them may meet.
  const meet = (a, b) => a.left < b.right && b.left < a.right
    && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
  texts.forEach((a, k) => texts.slice(k + 1).forEach(b => {
    if (meet(a.box, b.box)) found.push(a.said + ' / ' + b.said);
  }));
  return found;
}"""
COLOURS = "() => getComputedStyle(document.querySelector('.paper')).fill"


def test_labels_keep_apart(browser: Browser) -> None:
    assert IMAGES
    page = browser.new_page(viewport={"width": 760, "height": 900})
    for image in IMAGES:
        page.goto(image.as_uri())
        assert page.evaluate(CLASHES) == [], image.name
    page.close()


def test_dark_pages_have_dark_images(browser: Browser) -> None:
    found = []
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto(IMAGES[0].as_uri())
        found.append(page.evaluate(COLOURS))
        page.close()
    assert found == ["rgb(255, 255, 255)", "rgb(30, 33, 41)"]
