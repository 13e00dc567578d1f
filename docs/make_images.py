"""Make the images of README and documentation from a finished demo run.

.venv/bin/unbag demo --out unbag-demo && .venv/bin/python docs/make_images.py unbag-demo
"""

from __future__ import annotations

import sys
from base64 import b64encode
from html import escape
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, FloatRect, Page, sync_playwright

import unbag as ub
from unbag.cli.demo import READOUT_FOLDER
from unbag.types import ImageSource

IMAGES = Path(__file__).parent / "images"
CHROMIUM = "/usr/bin/chromium"
# Benchmark, item and image; the strip shows each with its true caption and a false one.
STRIP = (
    ("world-binding", 11, 0),
    ("world-binding", 11, 1),
    ("world-pairs-a", 3, 0),
    ("world-pairs-a", 3, 2),
    ("world-count", 18, 0),
    ("world-negation", 6, 1),
)
STYLE = """
body { margin: 0; padding: 14px; display: flex; gap: 14px; width: max-content; background: #fff;
       font: 13px/1.35 system-ui, "DejaVu Sans", sans-serif; color: #222 }
figure { margin: 0; width: 150px } img { width: 150px; image-rendering: pixelated; display: block }
p { margin: 6px 0 0 } .false { color: #a33000 } .true { color: #00664a }
"""


def save(png: bytes, name: str) -> None:
    """In full colour: with a small palette a purple star comes out grey."""
    image = Image.open(BytesIO(png)).convert("RGB")
    path = IMAGES / name
    image.save(path, optimize=True)
    print(f"{path.name}: {image.size[0]} x {image.size[1]}, {path.stat().st_size // 1000} KB")


def address(image: ImageSource) -> str:
    """The image as a data: address, without loss."""
    file = BytesIO()
    image.open().save(file, format="PNG")
    return "data:image/png;base64," + b64encode(file.getvalue()).decode()


def strip_html() -> str:
    """Images of the world, each with a true and a false caption."""
    parts = []
    for name, number, place in STRIP:
        item = ub.load_benchmark(name).load(None)[number]
        # Image i belongs to caption i, and its opposite stands beside it.
        own, other = item.captions[place], item.captions[place ^ 1]
        parts.append(
            f'<figure><img src="{address(item.images[place])}">'
            f'<p class="true">✓ {escape(str(own))}</p><p class="false">✗ {escape(str(other))}</p>'
            "</figure>"
        )
    return f"<!DOCTYPE html><meta charset=utf-8><style>{STYLE}</style>{''.join(parts)}"


def overview(page: Page) -> FloatRect:
    """Legend and chart, without the table below them."""
    top = page.locator("#overview h2").bounding_box()
    chart = page.locator("figure.overview").bounding_box()
    assert top is not None
    assert chart is not None
    start = top["y"] + top["height"]
    height = chart["y"] + chart["height"] - start
    return {"x": chart["x"] - 14, "y": start, "width": chart["width"] + 28, "height": height + 10}


def photograph(browser: Browser, report: Path) -> None:
    """The top of the report, two galleries of failures, another read-out, and the strip."""
    page = browser.new_page(viewport={"width": 1280, "height": 1420}, color_scheme="light")
    page.goto(report.resolve().as_uri())
    save(page.screenshot(), "report-top.png")
    for name, rows in (("world-relation", 2), ("world-pairs-a", 1)):
        cards = page.locator("article", has=page.locator(f"h3:text-is('{name}')")).locator(
            ".cards > .card"
        )
        boxes = [box for i in range(2 * rows) if (box := cards.nth(i).bounding_box())]
        left, top = boxes[0]["x"], boxes[0]["y"]
        right = max(box["x"] + box["width"] for box in boxes)
        bottom = max(box["y"] + box["height"] for box in boxes)
        png = page.screenshot(
            clip={"x": left, "y": top, "width": right - left, "height": bottom - top},
            full_page=True,
        )
        save(png, f"failures-{name}.png")
    page.goto((report.parent / READOUT_FOLDER / report.name).resolve().as_uri())
    save(page.screenshot(clip=overview(page), full_page=True), "another-readout.png")
    page.set_content(strip_html())
    save(page.locator("body").screenshot(), "world-strip.png")


if __name__ == "__main__":
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        photograph(chromium, Path(sys.argv[1]) / "report.html")
        chromium.close()
