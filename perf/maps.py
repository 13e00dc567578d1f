"""Readers of patches and words: scoring and training from parts that were kept, against encoding.

python perf/maps.py [--pictures 200] [--readout dcsm_fixed] [--model clip] [--device cpu]

Data has the shape of SugarCrepe (`--pictures 1560`): about five captions an image, each item the
true one beside a changed one. Three questions, each a ratio within this run:

1. Scoring all pairs from nothing, against encoding pair by pair (wanted: 8) and, which is what a
   careful user would do, 32 pairs at a time.
2. Scoring from a warm cache on disk, against cosine, per thousand pairs (wanted on a GPU: 2.5); and
   what of it is reading, arithmetic and the rest.
3. A step of training from a pool, against a step that encodes its batch (wanted: 5).
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple, cast
from unittest.mock import patch

import numpy as np
import torch
from random_clip import make
from timed import wait
from torch import Tensor

from unbag.data import PixelImage
from unbag.evaluation.embedding import embed
from unbag.evaluation.plan import Plan, make_plan
from unbag.evaluation.scoring import QueryScoring, in_chunks, score_by_vectors
from unbag.models.features import stacked
from unbag.models.loading import choose_device, load_model
from unbag.readouts.base import find_readout
from unbag.readouts.data import WorldRows, world_pool, world_rows
from unbag.readouts.reader import Reader, ReaderBatch
from unbag.readouts.scorer import ReaderScorer
from unbag.readouts.training import ReaderReadout, ReaderTask, sizes_of
from unbag.runs.progress import Silent
from unbag.scorers import Cosine
from unbag.training.trainer import Trainer
from unbag.types import DualEncoder, Item, TokenFeatures
from unbag.world.rendering import draw

TOGETHER = 32
BENCHMARK = "shaped"


EACH = 5
"""Items of an image: SugarCrepe has 7,512 on 1,560 images."""


def items_of(rows: Sequence[WorldRows], images: int) -> list[Item]:
    """Captions with their negatives, some pairs an image; truth does not matter to speed."""
    said = [
        (caption, text)
        for step in rows
        for caption, negatives in zip(step.captions, step.negatives, strict=True)
        for text in negatives
        if text is not None
    ]
    scenes = [scene for step in rows for scene in step.scenes][:images]
    seen = [PixelImage(draw(scene)) for scene in scenes]
    truth = np.array([[True, False]])
    return [
        Item(f"{at:06}", (seen[at // EACH],), said[at % len(said)], truth)
        for at in range(EACH * len(seen))
    ]


def timed(do: Callable[[], object], device: str) -> float:
    """Seconds until the device is done."""
    start = perf_counter()
    do()
    wait(device)
    return perf_counter() - start


def by_reader(scorer: ReaderScorer, items: Sequence[Item], plan: Plan, cache: Path | None) -> None:
    """As the evaluation does it."""
    scorer.precompute(plan.images, plan.prompts, cache=cache, progress=Silent())
    asking = QueryScoring(scorer)
    for chunk in in_chunks(items, scorer):
        asking.chunk(chunk)


class Spent(NamedTuple):
    """Seconds of one scoring from a warm cache."""

    reading: float
    """From files to arrays on the device."""
    arithmetic: float
    """The reader's network."""
    rest: float
    """Queries, row numbers, gathering of rows, scores."""


def split(scorer: ReaderScorer, items: Sequence[Item], plan: Plan, cache: Path) -> Spent:
    """A scoring that waits for the device around every comparison, so it is slower than others."""
    reader, device = scorer.reader, scorer.read_from.device
    compare, compared = reader.compare, [0.0]

    def waited(image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        wait(device)
        found: list[Tensor] = []
        compared.append(timed(lambda: found.append(compare(image, caption)), device))
        return found[0]

    reading = timed(
        lambda: scorer.precompute(plan.images, plan.prompts, cache=cache, progress=Silent()),
        device,
    )
    with patch.object(reader, "compare", waited):
        asking = QueryScoring(scorer)
        asked = timed(lambda: [asking.chunk(c) for c in in_chunks(items, scorer)], device)
    return Spent(reading, sum(compared), asked - sum(compared))


def by_cosine(encoder: DualEncoder, items: Sequence[Item], plan: Plan, cache: Path) -> None:
    """As the evaluation does it."""
    vectors = embed(
        encoder,
        plan,
        cache=cache,
        batch_plans={},
        save_batch_plans=lambda: None,
        batch_size=256,
        progress=Silent(),
    )
    for _ in score_by_vectors(Cosine(encoder), items, plan.rows[BENCHMARK], vectors):
        pass


@torch.inference_mode()
def encoded(encoder: DualEncoder, reader: Reader, items: Sequence[Item], at_once: int) -> None:
    """Images and captions of every pair anew."""
    pairs = [(one.images[0], str(text)) for one in items for text in one.captions]
    for start in range(0, len(pairs), at_once):
        some = pairs[start : start + at_once]
        pixels = torch.stack([encoder.prepare(image.open()) for image, _ in some])
        seen = reader.view.encode_images(encoder, pixels).to(encoder.device)
        read = reader.view.encode_texts(encoder, [text for _, text in some]).to(encoder.device)
        reader.compare(seen, read).cpu()


def step_anew(
    trainer: Trainer[Tensor], encoder: DualEncoder, step: WorldRows, pixels: Tensor
) -> None:
    """A step whose features are encoded for it, from images that are prepared."""
    task = trainer.task
    assert isinstance(task, ReaderTask)
    view, device, size = task.reader.view, task.device, len(pixels)
    texts = [text or "" for row in step.negatives[:size] for text in row]
    mask_BK = torch.tensor([[text is not None for text in row] for row in step.negatives[:size]])

    def read(captions: Sequence[str]) -> TokenFeatures:
        return _normal(view.encode_texts(encoder, captions)).to(device)

    batch = ReaderBatch(
        image=_normal(view.encode_images(encoder, pixels)).to(device),
        caption=read(step.captions[:size]),
        negative=read(texts),
        negative_mask_BK=mask_BK.to(device),
        also_true_BB=torch.zeros((size, size), dtype=torch.bool, device=device),
    )
    task.reader.train()
    torch.autograd.backward(task.reader.loss(batch, contrast_size=task.settings.contrast_size))
    trainer.optimizer.step()
    trainer.optimizer.zero_grad(set_to_none=True)


def _normal(parts: TokenFeatures) -> TokenFeatures:
    """Copied out of inference mode, whose tensors no gradient may need."""
    return stacked([parts])


def peak(device: str) -> str:
    """Of this process, and of the device."""
    most = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB"
    if device.startswith("cuda"):
        most += f", {torch.cuda.max_memory_allocated() / 2**30:.2f} GB on the device"
    return most


def scoring(
    encoder: DualEncoder, reader: Reader, items: Sequence[Item], said: argparse.Namespace
) -> None:
    """The first two questions."""
    plan, device = make_plan({BENCHMARK: items}), encoder.device
    pairs = len({(id(one.images[0]), text) for one in items for text in one.captions})
    some = items[: said.slow]
    encoded(encoder, reader, some[:2], TOGETHER)
    before = peak(device)
    apart = timed(lambda: encoded(encoder, reader, some, 1), device) / (2 * len(some))
    together = timed(lambda: encoded(encoder, reader, some, TOGETHER), device) / (2 * len(some))
    with tempfile.TemporaryDirectory(prefix="unbag-perf-") as name:
        cache = Path(name)
        scorer = ReaderScorer(encoder, reader)
        first = timed(lambda: by_reader(scorer, items, plan, cache), device) / pairs
        by_cosine(encoder, items, plan, cache)
        # Fresh objects, so that everything comes from disk.
        warm, cosine, spent = [], [], []
        for _ in range(said.repeats):
            again = ReaderScorer(encoder, reader)
            warm.append(timed(lambda: by_reader(again, items, plan, cache), device))  # noqa: B023
            cosine.append(timed(lambda: by_cosine(encoder, items, plan, cache), device))
            spent.append(split(again, items, plan, cache))
    print(f"{len(plan.images):,} images, {len(plan.prompts):,} captions, {pairs:,} pairs")
    print(f"one pair at a time     {1e3 * apart:10.3f} ms a pair ({2 * len(some):,} of them)")
    print(f"{TOGETHER} pairs at a time    {1e3 * together:10.3f} ms a pair")
    print(f"each input once        {1e3 * first:10.3f} ms a pair, written to the cache")
    print(f"  against one pair     {apart / first:10.1f} times faster (wanted: 8)")
    print(f"  against {TOGETHER} pairs     {together / first:10.1f} times faster")
    print(f"warm cache, reader     {1e6 * median(warm) / pairs:10.1f} ms a thousand pairs")
    reading, arithmetic, rest = (1e6 * median(one) / pairs for one in zip(*spent, strict=True))
    print(f"  reading {reading:.1f}, arithmetic {arithmetic:.1f}, the rest {rest:.1f} (medians)")
    print(f"warm cache, cosine     {1e6 * median(cosine) / pairs:10.1f} ms a thousand pairs")
    ratio = median(warm) / median(cosine)
    print(f"  reader / cosine      {ratio:10.2f} (wanted on a GPU: 2.5 at most)")
    print(f"peak memory            {peak(device)}, {before} before scoring")


def training(
    encoder: DualEncoder, readout: ReaderReadout, rows: Sequence[WorldRows], steps: int
) -> None:
    """The third question."""
    device, effort = encoder.device, readout.settings
    found: list[Trainer[Tensor]] = []
    view = readout.view(effort)
    pooling = timed(lambda: found.append(_trainer(encoder, readout, rows)), device)
    trainer, size = found[0], min(effort.batch_size, len(rows[0].captions))
    task = trainer.task
    task.set_training(True)

    def from_pool(count: int) -> None:
        for _ in range(count):
            trainer.train_step(task.batch(trainer.state.step))

    from_pool(1)
    kept = timed(lambda: from_pool(steps), device) / steps
    images = [PixelImage(draw(scene)).open() for scene in rows[0].scenes[:size]]
    pixels = torch.stack([encoder.prepare(image) for image in images])
    step_anew(trainer, encoder, rows[0], pixels)
    slow = max(1, steps // 5)

    def encode_each() -> None:
        for _ in range(slow):
            step_anew(trainer, encoder, rows[0], pixels)

    anew = timed(encode_each, device) / slow
    count = sum(len(one.captions) for one in rows)
    print(f"step, {size} images     {1e3 * kept:10.1f} ms from the pool ({view.name})")
    print(f"                       {1e3 * anew:10.1f} ms with encoding")
    print(f"  a step is            {anew / kept:10.1f} times faster (wanted: 5)")
    print(f"  once, before         {1e3 * pooling / count:10.1f} ms an image for the pool")


def loaded(name: str, device: str) -> DualEncoder:
    """By name; `clip` is a ViT-B/32 of transformers with random weights."""
    if name == "clip":
        with tempfile.TemporaryDirectory(prefix="unbag-perf-") as folder:
            wanted = argparse.Namespace(library="transformers", device=device, dtype="auto")
            return make(wanted, Path(folder))
    model = load_model(name, device=device)
    assert isinstance(model, DualEncoder)
    return model


def _trainer(
    encoder: DualEncoder, readout: ReaderReadout, rows: Sequence[WorldRows]
) -> Trainer[Tensor]:
    effort = readout.settings
    pool = world_pool(encoder, readout.view(effort), rows, device=encoder.device)
    reader = readout.fresh(effort, sizes_of(pool), seed=0)
    return Trainer(ReaderTask(reader, pool, effort, device=encoder.device))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=200)
    parser.add_argument("--readout", default="dcsm_fixed")
    parser.add_argument("--model", default="tiny:base")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--slow", type=int, default=32, help="items encoded pair by pair")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="images of a step")
    parser.add_argument("--repeats", type=int, default=3)
    said = parser.parse_args()
    encoder = loaded(said.model, choose_device(said.device))
    readout = cast("ReaderReadout", find_readout(said.readout))
    readout = replace(readout, settings=replace(readout.settings, batch_size=said.batch_size))
    # Two negatives a scene, on average.
    rows = world_rows(max(EACH * said.images // 2, readout.settings.batch_size))
    task = _trainer(encoder, readout, rows).task
    assert isinstance(task, ReaderTask)
    reader = task.reader.eval()
    print(f"{said.readout} on {said.model}, {said.device}, {torch.get_num_threads()} threads")
    scoring(encoder, reader, items_of(rows, said.images), said)
    training(encoder, readout, rows, said.steps)


if __name__ == "__main__":
    main()
