"""The page of a diagnosis with a read-out comes in; its first maps go out, into docs/images.

.venv/bin/unbag train --model tiny:base --recipe sparc_fixed --pairs world --out runs/sparc_fixed \
    --set steps=300 scenes=2000 batch=64
.venv/bin/unbag diagnose --model tiny:base --scorer sparc_fixed@runs/sparc_fixed --probes profile
.venv/bin/python docs/make_readout_maps.py unbag-diagnosis/tiny-base+sparc_fixed
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGE = Path(__file__).parent / "images" / "diagnosis-readout.png"
CHROMIUM = "/usr/bin/chromium"


def photograph(page: Path) -> bytes:
    """The words of the first caption, before and after."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        shown.goto(page.resolve().as_uri())
        png = shown.locator("#maps figure").first.screenshot()
        browser.close()
    return png


if __name__ == "__main__":
    png = photograph(Path(sys.argv[1]) / "diagnosis.html")
    Image.open(BytesIO(png)).convert("RGB").save(IMAGE, optimize=True)
    print(f"{IMAGE.name}: {IMAGE.stat().st_size // 1000} KB")
