"""Photographs on disk against the encoder alone, against the cache, and heads on kept features.

python perf/photos.py [--images 512] [--heads 5000] [--epochs 20] [--batch-size 1024] [--device cpu]

It draws its own JPEG files. Four questions:

1. Decoded and encoded photographs a second, against the encoder on pixels that are ready.
2. The share of the time that goes into opening and preparing them, if one thread did it.
3. A second run from the cache against the first.
4. Seconds for heads trained on kept features.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from random_clip import captions, save_images

from unbag.data import FileImage
from unbag.data.pairs import Pairs
from unbag.data.readers import open_pairs
from unbag.models.loading import choose_device
from unbag.models.photo import WIDE, WORDS_WIDE, Photo, load
from unbag.runs.cache import VECTOR, FeatureTable
from unbag.runs.progress import Silent
from unbag.training.data.pairs import PairBatches
from unbag.training.encoders.adapters import make_trainable
from unbag.training.encoders.cached_features import SLICE, SLICE_CUDA, CachedEncoders, cache_frozen
from unbag.training.fine_tuning import TrainJob, train
from unbag.training.recipes import Freeze, Recipe, clip_ft

LOCKED = Freeze("part", "part")


def drawn(folder: Path, count: int) -> Pairs:
    """Photographs of COCO's size with a caption each."""
    paths = save_images(folder / "images", count)
    rows = zip(paths, captions(count), strict=True)
    lines = [json.dumps({"image": path.name, "caption": text}) for path, text in rows]
    (folder / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return open_pairs(str(folder / "pairs.jsonl"), images=folder / "images")


def plain(arguments: argparse.Namespace) -> Recipe:
    return replace(
        clip_ft(),
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        learning_rate=1e-3,
        freeze=LOCKED,
    )


def features(model: Photo, pairs: Pairs, recipe: Recipe, cache: Path) -> float:
    """Seconds from files to heads that are ready to train."""
    start = perf_counter()
    trainable = make_trainable(model, device=model.device)
    cache_frozen(model, trainable, pairs, recipe, cache=cache, progress=Silent())
    return perf_counter() - start


def encoder_alone(model: Photo, count: int) -> float:
    """Photographs a second with pixels that lie on the device."""
    size = SLICE if model.device == "cpu" else SLICE_CUDA
    pixels = torch.randn(size, 3, 224, 224).to(model.device)
    model.image_features(pixels)
    start = perf_counter()
    for _ in range(max(1, count // size)):
        model.image_features(pixels)
    return size * max(1, count // size) / (perf_counter() - start)


def opening_alone(model: Photo, pairs: Pairs, count: int) -> float:
    """Photographs a second, opened and prepared by one thread."""
    start = perf_counter()
    for at in range(count):
        image = pairs[at].image
        assert isinstance(image, FileImage)
        model.prepare(image.open())
    return count / (perf_counter() - start)


def known(pairs: Pairs, model: Photo) -> CachedEncoders:
    """Features of any numbers: training takes as long."""
    names = [pairs[at].image.name for at in range(len(pairs))]
    texts = list(dict.fromkeys(text for at in range(len(pairs)) for text in pairs[at].captions))
    random = np.random.default_rng(0)

    def some(keys: list[str], width: int) -> FeatureTable:
        vector_NC = random.standard_normal((len(keys), width), dtype=np.float32)
        row_of = {key: n for n, key in enumerate(keys)}
        return FeatureTable(row_of, {VECTOR: torch.from_numpy(vector_NC)})

    network = make_trainable(model, device=model.device)
    return CachedEncoders(network, images=some(names, WIDE), texts=some(texts, WORDS_WIDE))


def heads(model: Photo, arguments: argparse.Namespace, folder: Path) -> float:
    """Seconds of a run, checkpoints and log included; names of images are enough."""
    rows = zip(range(arguments.heads), captions(arguments.heads), strict=True)
    (folder / "heads").mkdir()
    for i in range(arguments.heads):
        (folder / "heads" / f"{i}.jpg").touch()
    path = folder / "heads" / "pairs.jsonl"
    lines = [json.dumps({"image": f"{i}.jpg", "caption": text}) for i, text in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    pairs, recipe = open_pairs(str(path)), plain(arguments)
    start = perf_counter()
    trainable = known(pairs, model)
    batches = PairBatches(pairs, recipe, trainable.reads, 0)
    train(TrainJob(trainable, batches, recipe, folder / "run", device=model.device))
    return perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--heads", type=int, default=5_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=1_024)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    model = load("random", device=choose_device(arguments.device))
    with tempfile.TemporaryDirectory(prefix="unbag-perf-") as name:
        folder = Path(name)
        pairs = drawn(folder, arguments.images)
        alone = encoder_alone(model, arguments.images)
        opened = opening_alone(model, pairs, min(arguments.images, 128))
        # Captions are left open, so that only images are counted.
        recipe = replace(plain(arguments), batch_size=1, freeze=Freeze(image="part"))
        first = features(model, pairs, recipe, folder / "cache")
        second = features(model, pairs, recipe, folder / "cache")
        share = (1 / opened) / (1 / opened + 1 / alone)
        print(f"{arguments.images:,} JPEG files of 640 x 480, {arguments.device}")
        print(f"encoder alone            {alone:10,.1f} photographs/s")
        print(f"decoded and encoded    {arguments.images / first:10,.1f} photographs/s")
        print(f"of the encoder alone     {100 * arguments.images / first / alone:10.1f} %")
        print(f"opening, one thread    {opened:10,.1f} photographs/s")
        print(f"share of opening       {100 * share:10.1f} % of the work")
        print(f"second run, cached     {first / second:10.1f} times faster (target: 20)")
        took = heads(model, arguments, folder)
        print(
            f"heads                  {took:10.1f} s: {arguments.epochs} epochs of "
            f"{arguments.heads:,} images, batch size {arguments.batch_size:,} "
            "(target: 120 at 20 epochs of 5,000)"
        )


if __name__ == "__main__":
    main()
