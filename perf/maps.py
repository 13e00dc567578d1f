"""Readers of patches and words: scoring and training from cached features, against encoding.

python perf/maps.py [--images 200] [--readout dcsm_fixed] [--model clip] [--device cpu]

The data has the shape of SugarCrepe (`--images 1560`): about five items per image, each with a true
and a changed caption. Three questions, each answered by a ratio within this run:

1. Scoring all pairs without a cache, against encoding pair by pair (target: 8) and, as a careful
   user would do, 32 pairs at a time.
2. Scoring from a warm cache on disk, against cosine, per thousand pairs (target on a GPU: 2.5), and
   the shares of reading, arithmetic and the rest.
3. A training step from a pool of features, against a step that encodes its batch (target: 5).
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
"""Items per image: SugarCrepe has 7,512 items on 1,560 images."""


def items_of(rows: Sequence[WorldRows], images: int) -> list[Item]:
    """Captions with their negatives, several pairs per image."""
    pairs = [
        (caption, text)
        for step in rows
        for caption, negatives in zip(step.captions, step.negatives, strict=True)
        for text in negatives
        if text is not None
    ]
    scenes = [scene for step in rows for scene in step.scenes][:images]
    images_drawn = [PixelImage(draw(scene)) for scene in scenes]
    truth = np.array([[True, False]])
    return [
        Item(f"{i:06}", (images_drawn[i // EACH],), pairs[i % len(pairs)], truth)
        for i in range(EACH * len(images_drawn))
    ]


def timed(do: Callable[[], object], device: str) -> float:
    """Seconds until the device is done."""
    start = perf_counter()
    do()
    wait(device)
    return perf_counter() - start


def by_reader(scorer: ReaderScorer, items: Sequence[Item], plan: Plan, cache: Path | None) -> None:
    """As in the evaluation."""
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
    """Score while synchronizing the device around every comparison, which is slower."""
    reader, device = scorer.reader, scorer.read_from.device
    compare, compare_seconds = reader.compare, [0.0]

    def waited(image: TokenFeatures, caption: TokenFeatures) -> Tensor:
        wait(device)
        score: list[Tensor] = []
        compare_seconds.append(timed(lambda: score.append(compare(image, caption)), device))
        return score[0]

    reading = timed(
        lambda: scorer.precompute(plan.images, plan.prompts, cache=cache, progress=Silent()),
        device,
    )
    with patch.object(reader, "compare", waited):
        asking = QueryScoring(scorer)
        seconds = timed(lambda: [asking.chunk(c) for c in in_chunks(items, scorer)], device)
    return Spent(reading, sum(compare_seconds), seconds - sum(compare_seconds))


def by_cosine(encoder: DualEncoder, items: Sequence[Item], plan: Plan, cache: Path) -> None:
    """As in the evaluation."""
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
    """Encode the image and caption of every pair again."""
    pairs = [(item.images[0], str(text)) for item in items for text in item.captions]
    for start in range(0, len(pairs), at_once):
        block = pairs[start : start + at_once]
        pixels = torch.stack([encoder.prepare(image.open()) for image, _ in block])
        image_features = reader.view.encode_images(encoder, pixels).to(encoder.device)
        caption_features = reader.view.encode_texts(encoder, [text for _, text in block]).to(
            encoder.device
        )
        reader.compare(image_features, caption_features).cpu()


def step_anew(
    trainer: Trainer[Tensor], encoder: DualEncoder, step: WorldRows, pixels: Tensor
) -> None:
    """Train one step whose features are encoded from preprocessed images."""
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
    """Copy out of inference mode, whose tensors cannot be part of a graph."""
    return stacked([parts])


def peak(device: str) -> str:
    """Peak memory of this process and of the device."""
    memory = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB"
    if device.startswith("cuda"):
        memory += f", {torch.cuda.max_memory_allocated() / 2**30:.2f} GB on the device"
    return memory


def scoring(
    encoder: DualEncoder, reader: Reader, items: Sequence[Item], arguments: argparse.Namespace
) -> None:
    """The first two questions."""
    plan, device = make_plan({BENCHMARK: items}), encoder.device
    pairs = len({(id(item.images[0]), text) for item in items for text in item.captions})
    slow_items = items[: arguments.slow]
    encoded(encoder, reader, slow_items[:2], TOGETHER)
    before = peak(device)
    alone = timed(lambda: encoded(encoder, reader, slow_items, 1), device) / (2 * len(slow_items))
    together = timed(lambda: encoded(encoder, reader, slow_items, TOGETHER), device) / (
        2 * len(slow_items)
    )
    with tempfile.TemporaryDirectory(prefix="unbag-perf-") as name:
        cache = Path(name)
        scorer = ReaderScorer(encoder, reader)
        first = timed(lambda: by_reader(scorer, items, plan, cache), device) / pairs
        by_cosine(encoder, items, plan, cache)
        # Fresh objects, so that everything comes from disk.
        warm, cosine, breakdown = [], [], []
        for _ in range(arguments.repeats):
            again = ReaderScorer(encoder, reader)
            warm.append(timed(lambda: by_reader(again, items, plan, cache), device))  # noqa: B023
            cosine.append(timed(lambda: by_cosine(encoder, items, plan, cache), device))
            breakdown.append(split(again, items, plan, cache))
    print(f"{len(plan.images):,} images, {len(plan.prompts):,} captions, {pairs:,} pairs")
    print(f"one pair at a time     {1e3 * alone:10.3f} ms a pair ({2 * len(slow_items):,} of them)")
    print(f"{TOGETHER} pairs at a time    {1e3 * together:10.3f} ms a pair")
    print(f"each input once        {1e3 * first:10.3f} ms a pair, written to the cache")
    print(f"  against one pair     {alone / first:10.1f} times faster (target: 8)")
    print(f"  against {TOGETHER} pairs     {together / first:10.1f} times faster")
    print(f"warm cache, reader     {1e6 * median(warm) / pairs:10.1f} ms a thousand pairs")
    reading, arithmetic, rest = (
        1e6 * median(item) / pairs for item in zip(*breakdown, strict=True)
    )
    print(f"  reading {reading:.1f}, arithmetic {arithmetic:.1f}, the rest {rest:.1f} (medians)")
    print(f"warm cache, cosine     {1e6 * median(cosine) / pairs:10.1f} ms a thousand pairs")
    ratio = median(warm) / median(cosine)
    print(f"  reader / cosine      {ratio:10.2f} (target on a GPU: 2.5 at most)")
    print(f"peak memory            {peak(device)}, {before} before scoring")


def training(
    encoder: DualEncoder, readout: ReaderReadout, rows: Sequence[WorldRows], steps: int
) -> None:
    """The third question."""
    device, settings = encoder.device, readout.settings
    trainers: list[Trainer[Tensor]] = []
    view = readout.view(settings)
    pooling = timed(lambda: trainers.append(_trainer(encoder, readout, rows)), device)
    trainer, size = trainers[0], min(settings.batch_size, len(rows[0].captions))
    task = trainer.task
    task.set_training(True)

    def from_pool(count: int) -> None:
        for _ in range(count):
            trainer.train_step(task.batch(trainer.state.step))

    from_pool(1)
    from_pool_seconds = timed(lambda: from_pool(steps), device) / steps
    images = [PixelImage(draw(scene)).open() for scene in rows[0].scenes[:size]]
    pixels = torch.stack([encoder.prepare(image) for image in images])
    step_anew(trainer, encoder, rows[0], pixels)
    slow = max(1, steps // 5)

    def encode_each() -> None:
        for _ in range(slow):
            step_anew(trainer, encoder, rows[0], pixels)

    anew = timed(encode_each, device) / slow
    count = sum(len(step.captions) for step in rows)
    print(f"step, {size} images     {1e3 * from_pool_seconds:10.1f} ms from the pool ({view.name})")
    print(f"                       {1e3 * anew:10.1f} ms with encoding")
    print(f"  a step is            {anew / from_pool_seconds:10.1f} times faster (target: 5)")
    print(f"  once, before         {1e3 * pooling / count:10.1f} ms an image for the pool")


def loaded(name: str, device: str) -> DualEncoder:
    """By name; `clip` is a ViT-B/32 of transformers with random weights."""
    if name == "clip":
        with tempfile.TemporaryDirectory(prefix="unbag-perf-") as folder:
            arguments = argparse.Namespace(library="transformers", device=device, dtype="auto")
            return make(arguments, Path(folder))
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
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--readout", default="dcsm_fixed")
    parser.add_argument("--model", default="tiny:base")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--slow", type=int, default=32, help="items encoded pair by pair")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64, help="images of a step")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    encoder = loaded(arguments.model, choose_device(arguments.device))
    readout = cast("ReaderReadout", find_readout(arguments.readout))
    readout = replace(readout, settings=replace(readout.settings, batch_size=arguments.batch_size))
    # Two negatives a scene, on average.
    rows = world_rows(max(EACH * arguments.images // 2, readout.settings.batch_size))
    task = _trainer(encoder, readout, rows).task
    assert isinstance(task, ReaderTask)
    reader = task.reader.eval()
    print(
        f"{arguments.readout} on {arguments.model}, {encoder.device}, "
        f"{torch.get_num_threads()} threads"
    )
    scoring(encoder, reader, items_of(rows, arguments.images), arguments)
    training(encoder, readout, rows, arguments.steps)


if __name__ == "__main__":
    main()
