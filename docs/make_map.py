"""Draw the map that DCSM reads of a scene and a caption of the world.

python docs/make_map.py
"""

from __future__ import annotations

from base64 import b64encode
from html import escape
from io import BytesIO
from pathlib import Path

import torch
from playwright.sync_api import sync_playwright

import unbag as ub
from unbag.models.tiny import load
from unbag.readouts.dcsm import END, Dcsm, DcsmSettings
from unbag.readouts.reader import Sizes
from unbag.types import ImageSource

FILE = Path(__file__).parent / "images" / "dcsm-map.png"
CHROMIUM = "/usr/bin/chromium"
ITEM = 24
"""Of world-relation: its first caption is true."""
LENGTH, PATCHES = 12, 64
SIDE, CELL, ROW, LEFT, TOP = 256, 30, 7, 330, 74
MARKED = "#00664a"


def colour(value: float) -> str:
    """Blue below the mean, white at it, orange above."""
    share = max(-1.0, min(1.0, value / 3))
    far = (255, 122, 0) if share > 0 else (40, 90, 200)
    return "#" + "".join(f"{round(255 + (end - 255) * abs(share)):02x}" for end in far)


def scene(image: ImageSource) -> str:
    """The image with the lines between its patches."""
    file = BytesIO()
    image.open().save(file, format="PNG")
    step = SIDE // 8
    lines = "".join(
        f'<path d="M{at * step} 0V{SIDE}M0 {at * step}H{SIDE}" stroke="#fff" stroke-opacity=".45"/>'
        for at in range(1, 8)
    )
    address = b64encode(file.getvalue()).decode()
    return (
        f'<g transform="translate(16 {TOP})"><image href="data:image/png;base64,{address}" '
        f'width="{SIDE}" height="{SIDE}" image-rendering="pixelated"/>{lines}</g>'
    )


def cells(map_RL: list[list[float]]) -> str:
    """One rectangle a cell; CLS stands a little apart."""
    return "".join(
        f'<rect x="{LEFT + at * CELL}" y="{top(row)}" width="{CELL}" height="{ROW}" '
        f'fill="{colour(value)}"/>'
        for row, values in enumerate(map_RL)
        for at, value in enumerate(values)
    )


def top(row: int) -> int:
    """Of a row of the map."""
    return TOP + row * ROW + (6 if row else 0)


def words(caption: str, marks: list[int]) -> str:
    """The tokens above their columns, turned; marked words in green with a frame around."""
    said = [*caption.split(), "end", *["pad"] * LENGTH][:LENGTH]
    found = []
    for at, (word, mark) in enumerate(zip(said, marks, strict=True)):
        is_marked = mark % END > 0
        x = LEFT + at * CELL
        fill, weight = (MARKED, "700") if is_marked else ("#222", "400")
        found.append(
            f'<text transform="translate({x + CELL * 0.6:g} {TOP - 8}) rotate(-45)" fill="{fill}" '
            f'font-weight="{weight}">{escape(word)}</text>'
        )
        if is_marked:
            found.append(
                f'<rect x="{x}" y="{TOP}" width="{CELL}" height="{top(PATCHES) + ROW - TOP}" '
                f'fill="none" stroke="{MARKED}" stroke-width="2"/>'
            )
    return "".join(found)


def side_text() -> str:
    """What the rows are."""
    notes = [f'<text x="{LEFT - 8}" y="{TOP + 8}" text-anchor="end">CLS</text>']
    for line in range(8):
        y = top(1 + 8 * line) + 12
        notes.append(
            f'<text x="{LEFT - 8}" y="{y}" text-anchor="end" font-size="10">row {line + 1}</text>'
        )
    return "".join(notes)


def save(drawing: str, width: int, height: int) -> None:
    """As a browser shows it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_content(f"<style>body {{ margin: 0 }}</style>{drawing}")
        page.screenshot(path=FILE)
        browser.close()


@torch.inference_mode()
def main() -> None:
    """Draw."""
    encoder = load("base")
    item = ub.load_benchmark("world-relation").load(None)[ITEM]
    caption, image = str(item.captions[0]), item.images[0]
    reader = Dcsm(DcsmSettings(length=LENGTH), Sizes(PATCHES, 128, 128))
    said = reader.view.encode_texts(encoder, [caption])
    assert said.mark_NL is not None
    shown = reader.view.encode_images(encoder, encoder.prepare(image.open())[None])
    map_RL = reader.maps(shown, said)[0].tolist()
    width, height = LEFT + LENGTH * CELL + 16, top(PATCHES) + ROW + 16
    save(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="system-ui, DejaVu Sans, sans-serif" font-size="12" fill="#222">'
        f'<rect width="100%" height="100%" fill="#fff"/>{scene(image)}'
        f'<text x="16" y="{TOP + SIDE + 20}">{escape(caption)}</text>{side_text()}'
        f"{cells(map_RL)}{words(caption, said.mark_NL[0].tolist())}</svg>",
        width,
        height,
    )
    print(f"{FILE.name}: {caption}, {FILE.stat().st_size // 1000} KB")


if __name__ == "__main__":
    main()
