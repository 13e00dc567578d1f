"""What tests of pages look at in a browser: what a page says and asks for, and its contrast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]

CONTRAST = """() => {
  const light = colour => {
    const whole = colour.startsWith('color(') ? 1 : 255;
    const [r, g, b] = colour.match(/[\\d.]+/g).map(v => v / whole)
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
    def contrast(self) -> float:
        """The least of any text."""
        return float(self.page.evaluate(CONTRAST))

    @property
    def outside(self) -> list[str]:
        return [url for url in self.asked if url != self.own and not url.startswith("data:")]


Open: TypeAlias = Callable[[Path, int, Scheme], Watched]
"""A file, a width in pixels, light or dark."""
