"""Measure our evaluation against a plain loop: python perf/engine.py [--share 0.2]

The data have SugarCrepe's shape (7,511 items over 1,560 images, two captions an item), or a share
of it with the same repeats. The model is a ViT-S/32 with random weights: speed does not depend on
what weights say. Every figure that matters is a ratio within this run.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from unbag.data import FileImage
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.metrics.choice import Choice
from unbag.models.tiny import Tiny, TinyConfig, untrained
from unbag.scorers import Cosine
from unbag.types import Benchmark, Item
from unbag.world.grammar import words
from unbag.world.quads import quads
from unbag.world.rendering import draw
from unbag.world.vocabulary import DEFAULT

ITEMS, IMAGES = 7_511, 1_560
BATCH = 64


class Timed(Tiny):
    """Counts the seconds of its forward passes."""

    forward = 0.0

    def encode_images(self, pixels: torch.Tensor) -> torch.Tensor:
        start = time.perf_counter()
        vectors = super().encode_images(pixels)
        self.forward += time.perf_counter() - start
        return vectors

    def encode_texts(self, captions: Sequence[str]) -> torch.Tensor:
        start = time.perf_counter()
        vectors = super().encode_texts(captions)
        self.forward += time.perf_counter() - start
        return vectors


def make_items(folder: Path, share: float) -> list[Item]:
    """JPEG files of COCO's size, and items that repeat them as SugarCrepe does."""
    count, images = round(ITEMS * share), round(IMAGES * share)
    all_quads = quads("swap", DEFAULT, n=images, seed=7)
    for i, quad in enumerate(all_quads):
        image = Image.fromarray(draw(quad.scenes[0])).resize((640, 480), Image.Resampling.NEAREST)
        image.save(folder / f"{i}.jpg", quality=90)
    items = []
    for k in range(count):
        quad, i = all_quads[k % images], k % images
        true = quad.captions[0][k // images % 2]
        false = f"{quad.captions[1][0]} and {words()[k % 200]}"
        source = FileImage(folder / f"{i}.jpg")
        items.append(Item(str(k), (source,), (true, false), np.array([[True, False]])))
    return items


def plain_loop(model: Tiny, items: Sequence[Item]) -> list[float]:
    """What a researcher writes first: open, encode and compare item by item."""
    margins = []
    for item in items:
        image = model.encode_images(model.prepare(item.images[0].open())[None])
        captions = model.encode_texts([str(caption) for caption in item.captions])
        score = image @ captions.T
        margins.append(float(score[0, 0] - score[0, 1]))
    return margins


def timed(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def open_all(model: Tiny, items: Sequence[Item]) -> None:
    """Open and prepare the unique images in threads, and do nothing with them."""
    images = {item.images[0].name: item.images[0] for item in items}.values()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda image: model.prepare(image.open()), images))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.2, help="of SugarCrepe's size")
    share = parser.parse_args().share
    config = TinyConfig(
        pixels=224,
        patch=32,
        picture_width=384,
        picture_depth=12,
        caption_width=256,
        caption_depth=8,
        joint=256,
        context=77,
        words=words(),
    )
    model = Timed(untrained(config, seed=0), name="vit-s/32")
    root = Path(tempfile.mkdtemp(prefix="unbag-perf-"))
    try:
        compare(model, root, share)
    finally:
        shutil.rmtree(root)


def compare(model: Timed, root: Path, share: float) -> None:
    items = make_items(root, share)

    def ours(out: str, subset: Sequence[Item]) -> None:
        toy = Benchmark("shaped", "", lambda folder: subset, (Choice(),), "accuracy")
        cache = root / ("cache-start" if out == "start" else "cache")
        run(Job([Cosine(model)], [toy], root / out, cache=cache, batch_size=BATCH))

    # Libraries are loaded and threads started before anything is timed.
    ours("start", items[:64])
    plain_loop(model, items[:8])
    model.forward = 0.0
    cold = timed(lambda: ours("cold", items))
    forward = model.forward
    warm = timed(lambda: ours("warm", items))
    opening = timed(lambda: open_all(model, items))
    loop = timed(lambda: plain_loop(model, items))
    rest = max(0.0, cold - opening - forward)
    unique = len({item.images[0].name for item in items})
    print(f"{len(items):,} items over {unique:,} images, batches of {BATCH}, two threads")
    for name, seconds, note in (
        ("plain loop", loop, "opens and encodes every item on its own"),
        ("ours, cold", cold, f"{loop / cold:.1f} times faster than the loop (target: 4)"),
        ("ours, warm", warm, f"{cold / warm:.1f} times faster than cold (target: 20)"),
        ("forward passes", forward, "of the cold run, unique inputs: the ceiling"),
        ("opening images", opening, "unique ones, in threads, done again alone"),
        (
            "everything else",
            rest,
            f"{100 * rest / cold:.0f} % of the cold run (target: at most 20)",
        ),
    ):
        print(f"{name:<18}{seconds:8.2f} s   {note}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
