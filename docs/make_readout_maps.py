"""Write the first maps of a diagnosis with a read-out into docs/images.

A second word is the name of the image, and a third which caption of the page is shown, from 0.

.venv/bin/unbag train --model tiny:base --readout sparc_fixed --pairs world --out runs/sparc_fixed \
    --set steps=300 scenes=2000 batch_size=64
.venv/bin/unbag diagnose --model tiny:base --scorer sparc_fixed@runs/sparc_fixed --probes profile
.venv/bin/python docs/make_readout_maps.py unbag-diagnosis/tiny-base+sparc_fixed

.venv/bin/unbag diagnose --model tiny:base --scorer vlm2vec --probes profile
.venv/bin/python docs/make_readout_maps.py unbag-diagnosis/tiny-base+vlm2vec vlm2vec-map.png

Of a decoder as docs/background/decoder.md trains it:

.venv/bin/unbag diagnose --model decoder:dec
.venv/bin/python docs/make_readout_maps.py unbag-diagnosis/decoder-dec decoder-map.png 2
"""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
CHROMIUM = "/usr/bin/chromium"


def photograph(page: Path, caption: int) -> bytes:
    """The words of one caption, before and after."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        shown.goto(page.resolve().as_uri())
        png = shown.locator("#maps figure").nth(caption).screenshot()
        browser.close()
    return png


if __name__ == "__main__":
    folder, name, caption = (
        *sys.argv[1:],
        *("", "diagnosis-readout.png", "0")[len(sys.argv) - 1 :],
    )
    image = IMAGES / name
    png = photograph(Path(folder) / "diagnosis.html", int(caption))
    Image.open(BytesIO(png)).convert("RGB").save(image, optimize=True)
    print(f"{image.name}: {image.stat().st_size // 1000} KB")
