"""Measure our evaluation against a plain loop on JPEG files with a ViT-B/32.

python perf/evaluate.py [--share 0.1] [--library transformers] [--device cuda] [--dtype bfloat16]

The data have SugarCrepe's shape: 7,511 items over 1,560 images, 11,844 different captions among
15,022; a share of it keeps the repeats. The plain loop takes 64 items at a time, opens every
image, and encodes everything at 77 tokens. What each idea brings is measured by adding one at a
time. The ceiling opens every image once and runs the forward passes of the unique inputs once.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import numpy as np
import torch
from random_clip import (
    captions,
    clock,
    forget,
    make,
    options,
    plain_captions,
    plain_images,
    plain_prepare,
    save_images,
)

from unbag.data import FileImage
from unbag.evaluation.embedding import caption_batch
from unbag.evaluation.loading import Job
from unbag.evaluation.run import run
from unbag.evaluation.store import Key, ScoreStore
from unbag.metrics.choice import Choice
from unbag.models.features import READERS, Carrier, ahead
from unbag.scorers import Cosine
from unbag.types import Benchmark, DualEncoder, Item

ITEMS, IMAGES, TRUE = 7_511, 1_560, 4_345
ITEMS_AT_ONCE = 64
FASTER, ABOVE_CEILING, SHARE = 4.5, 1.15, 85
Scored: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def shaped(folder: Path, share: float) -> list[Item]:
    """Images and true captions repeat, false captions do not."""
    count, images, true = (round(n * share) for n in (ITEMS, IMAGES, TRUE))
    files = save_images(folder, images)
    texts = captions(true + count)
    return [_item(n, files[n % images], texts[n % true], texts[true + n]) for n in range(count)]


def without_repeats(folder: Path, count: int) -> list[Item]:
    files, texts = save_images(folder, count), captions(2 * count, seed=5)
    return [_item(n, files[n], texts[2 * n], texts[2 * n + 1]) for n in range(count)]


def _item(number: int, file: Path, true: str, false: str) -> Item:
    return Item(str(number), (FileImage(file),), (true, false), np.array([[True, False]]))


@dataclass
class Way:
    """One way to score all items, and how fast it was."""

    name: str
    score: Callable[[], Callable[[], Scored] | None]
    """Gives a way to look at the scores, which is not timed."""
    seconds: float = float("inf")
    scores: Scored | None = field(default=None, repr=False)

    def time(self, now: Callable[[], float]) -> None:
        start = now()
        found = self.score()
        self.seconds = min(self.seconds, now() - start)
        self.scores = found() if found else None


def loop(model: DualEncoder, items: Sequence[Item], *, at_once: int) -> Callable[[], Scored]:
    """What a researcher writes first."""
    rows = []
    for at in range(0, len(items), at_once):
        block = items[at : at + at_once]
        pixels = torch.stack([plain_prepare(model, item.images[0].open()) for item in block])
        image_ND = plain_images(model, pixels).cpu()
        texts = [str(caption) for item in block for caption in item.captions]
        caption_NCD = plain_captions(model, texts).reshape(len(block), 2, -1)
        rows.append((image_ND[:, None].double() * caption_NCD.double()).sum(dim=-1))
    scores = torch.cat(rows).numpy()
    return lambda: scores


def unique(model: DualEncoder, items: Sequence[Item], *, trims: bool) -> Callable[[], Scored]:
    """The loop, over every image and caption once; with `trims` captions at their length."""
    forget(model)
    files = {item.images[0].name: item.images[0] for item in items}
    texts = list(dict.fromkeys(str(caption) for item in items for caption in item.captions))
    if trims:
        tokens = dict(zip(texts, model.count_tokens(texts), strict=True))
        texts.sort(key=lambda text: tokens[text])
    encode = model.encode_texts if trims else lambda block: plain_captions(model, block)
    step = 2 * ITEMS_AT_ONCE
    caption = torch.cat([encode(texts[at : at + step]) for at in range(0, len(texts), step)])
    names, step = list(files), ITEMS_AT_ONCE
    parts = []
    for at in range(0, len(names), step):
        block = [plain_prepare(model, files[n].open()) for n in names[at : at + step]]
        pixels = torch.stack(block)
        parts.append(plain_images(model, pixels).cpu())
    scores = _compare(items, dict(zip(names, torch.cat(parts), strict=True)),
                      dict(zip(texts, caption, strict=True)))  # fmt: skip
    return lambda: scores


def _compare(
    items: Sequence[Item], image: dict[str, torch.Tensor], caption: dict[str, torch.Tensor]
) -> Scored:
    return np.array(
        [
            [float(image[item.images[0].name].double() @ caption[str(c)].double())
             for c in item.captions]
            for item in items
        ]
    )  # fmt: skip


def ours(model: DualEncoder, items: Sequence[Item], root: Path) -> Callable[[], Scored]:
    """A cold run of the evaluation: plan, embed, score, measure, write."""
    forget(model)
    out = Path(tempfile.mkdtemp(dir=root))
    toy = Benchmark("shaped", "", lambda folder: items, (Choice(),), "accuracy")
    finished = run(Job([Cosine(model)], [toy], out / "run", cache=out / "cache"))

    def scores() -> Scored:
        stored = ScoreStore(finished.folder.scores).get(Key("shaped", model.name))
        return np.array([np.asarray(stored[item.id].values, dtype=np.float64)[0] for item in items])

    return scores


def ceiling(model: DualEncoder, items: Sequence[Item], *, batch_size: int = 256) -> None:
    """Open the unique images in threads, and run every unique input once at its length."""
    forget(model)
    files = {item.images[0].name: item.images[0] for item in items}
    texts = list(dict.fromkeys(str(caption) for item in items for caption in item.captions))
    texts.sort(key=lambda text: len(text.split()))
    with ThreadPoolExecutor(min(READERS, os.cpu_count() or 1)) as pool:
        prepared = list(pool.map(lambda image: model.prepare(image.open()), files.values()))
    for at in range(0, len(prepared), batch_size):
        model.encode_images(torch.stack(prepared[at : at + batch_size]))
    step = caption_batch(model.device, batch_size)
    for at in range(0, len(texts), step):
        model.encode_texts(texts[at : at + step])


def compare(
    model: DualEncoder, items: Sequence[Item], root: Path, arguments: argparse.Namespace
) -> None:
    # One at a time is slow and steady: a part of the items tells how slow.
    sample = items[: max(16, len(items) // 10)]
    ways = [
        Way("one item at a time", lambda: loop(model, sample, at_once=1)),
        Way("plain loop", lambda: loop(model, items, at_once=ITEMS_AT_ONCE)),
        Way("unique inputs", lambda: unique(model, items, trims=False)),
        Way("real length", lambda: unique(model, items, trims=True)),
        Way("ours, cold", lambda: ours(model, items, root)),
        Way("ceiling", lambda: ceiling(model, items)),
    ]
    now = clock(arguments)
    for _ in range(arguments.rounds):
        for way in ways:
            way.time(now)
    ways[0].seconds *= len(items) / len(sample)
    _table(ways, items)


def _table(ways: Sequence[Way], items: Sequence[Item]) -> None:
    _, plain, alone, trimmed, cold, best = ways
    images = len({item.images[0].name for item in items})
    texts = len({caption for item in items for caption in item.captions})
    assert plain.scores is not None
    assert cold.scores is not None
    apart = float(np.abs(plain.scores - cold.scores).max())
    print(f"\n{len(items):,} items, {images:,} images, {texts:,} captions")
    target = f" (target: {FASTER})" if images < len(items) else ""
    notes = {
        plain.name: f"{ways[0].seconds / plain.seconds:.2f} times from batches of 64",
        alone.name: f"{plain.seconds / alone.seconds:.2f} times from doing nothing twice",
        trimmed.name: f"{alone.seconds / trimmed.seconds:.2f} times from real caption lengths",
        cold.name: f"{trimmed.seconds / cold.seconds:.2f} times from batches of 256 and readers; "
        f"{plain.seconds / cold.seconds:.1f} times the plain loop{target}",
        best.name: f"ours takes {cold.seconds / best.seconds:.2f} times as long "
        f"(target: at most {ABOVE_CEILING})",
    }
    for way in ways:
        print(f"{way.name:<20}{way.seconds:8.2f} s   {notes.get(way.name, '')}")
    print(f"{'largest difference':<20}{apart:8.1e}     of a score, ours and the plain loop")


def rates(model: DualEncoder, items: Sequence[Item], cold: float) -> None:
    """What a device could do, and what it did, in images a second."""
    image = items[0].images[0].open()
    count, batch = (64, 64) if model.device == "cpu" else (32 * 256, 256)
    pixels = plain_prepare(model, image).to(model.device).expand(batch, -1, -1, -1).contiguous()
    one = model.prepare(image)
    images = list(one.expand(count, *one.shape).clone())
    batches = [images[at : at + batch] for at in range(0, count, batch)]

    def rate(job: Callable[[], object]) -> float:
        job()
        seconds = []
        for _ in range(3):
            start = perf_counter()
            job()
            seconds.append(perf_counter() - start)
        return count / min(seconds)

    def from_memory() -> None:
        """As the evaluation does it once images are prepared."""
        with ahead(Carrier(model.device), batches) as carried:
            for some in carried:
                model.encode_images(some)

    forward = rate(lambda: torch.cat([plain_images(model, pixels) for _ in batches]).cpu())
    memory = rate(from_memory)
    print(f"\nforward passes, pixels on the device   {forward:10,.0f} images/s")
    print(
        f"ours, pixels in memory                 {memory:10,.0f} ({100 * memory / forward:.0f} %; "
        f"target: {SHARE})"
    )
    print(f"ours, a whole cold run from JPEG files {len(items) / cold:10,.0f} images/s")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--share", type=float, default=0.1, help="of SugarCrepe's size")
    parser.add_argument("--rates", action="store_true", help="also images a second by stage")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="unbag-perf-") as folder:
        measure(arguments, Path(folder))


def measure(arguments: argparse.Namespace, root: Path) -> None:
    model = make(arguments, root)
    print(
        f"ViT-B/32 of {arguments.library} with random weights, {model.device}, {arguments.dtype}, "
        f"{arguments.clock} time"
    )
    items = shaped(root / "repeated", arguments.share)
    # Libraries are loaded, threads started and kernels chosen before anything is timed.
    ours(model, items[:32], root)
    loop(model, items[:4], at_once=2)
    compare(model, items, root, arguments)
    alone = without_repeats(root / "single", round(IMAGES * arguments.share))
    compare(model, alone, root, arguments)
    if arguments.rates:
        way = Way("", lambda: ours(model, alone, root))
        way.time(clock(arguments))
        rates(model, alone, way.seconds)


if __name__ == "__main__":
    main()
