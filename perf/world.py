"""Measure scenes of the world per second against the training step that uses them.

python perf/world.py [--device cuda] [--batch-size 512] [--rounds 12] [--workers 15] [--arms 1],
with `unbag-lab` installed

Workers make scenes: drawn by chance, said, and put in numbers. The device draws the images, finds
which captions are true of which, and takes a step of the model of `tiny:base`, forward, backward
and optimiser. Scenes are never the bottleneck if all workers make at least as many a second as the
device is trained on, drawing included. Arms that share batches (`--arms`) want fewer scenes each.
Other work on the machine lowers every rate, that of many processes most.
"""

from __future__ import annotations

import argparse
import os
from itertools import permutations
from time import perf_counter

import torch
from timed import seconds

from unbag.training.data.loader import AHEAD, load
from unbag.training.trainer import Trainer
from unbag.world.placement import depth_steps
from unbag.world.rendering import draw_batch, sprite_table
from unbag.world.vocabulary import DEFAULT, SIZES
from unbag_lab.bases import OnDevice, Pretraining, PretrainSettings, SceneBatch, Steps, put_on
from unbag_lab.experiments.pretraining import ARMS

ARM = ARMS["base"]
MOST_DRAWN = 0.1
"""Share of a step that drawing may take."""


def remember_steps() -> float:
    """Seconds until every worker knows where one shape stands in front of another, once a run."""
    start = perf_counter()
    for first, second in permutations(DEFAULT.shapes, 2):
        for size in SIZES:
            depth_steps(DEFAULT.name, first, second, size)
    return perf_counter() - start


def made(streams: Steps, *, workers: int, batch_size: int) -> float:
    """Scenes a second of so many processes, their start left out."""
    batches = load(streams, first=0, workers=workers, device="cpu")
    # As many as are made ahead and more, so that what is timed was made while the clock ran.
    ahead = (AHEAD + 1) * workers if workers else 1
    for _ in range(ahead):
        next(batches)
    start = perf_counter()
    count = sum(1 for _ in batches)
    return count * batch_size / (perf_counter() - start)


def settings(arguments: argparse.Namespace, steps: int = 5_000) -> PretrainSettings:
    return PretrainSettings(steps=steps, batch_size=arguments.batch_size, knobs=ARM.knobs)


def of_device(shown: SceneBatch, arguments: argparse.Namespace) -> tuple[float, float, float]:
    """Seconds to draw a batch, to bring it to the device altogether, and to train on it."""
    table = torch.from_numpy(sprite_table(DEFAULT)).to(arguments.device)
    noise = torch.Generator(device=arguments.device).manual_seed(0)
    trainer = Trainer(Pretraining(settings(arguments), ARM.config, device=arguments.device))
    there: OnDevice = put_on(shown, table, noise)

    def draw() -> object:
        return draw_batch(table, shown.packed, pixels=DEFAULT.pixels, generator=noise)

    return (
        seconds(draw, arguments.device, arguments.rounds),
        seconds(lambda: put_on(shown, table, noise), arguments.device, arguments.rounds),
        seconds(lambda: trainer.train_step(there), arguments.device, arguments.rounds),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--arms", type=int, default=1, help="models that share each batch")
    arguments = parser.parse_args()
    once = remember_steps()
    streams = Steps([settings(arguments, max(30, 12 * arguments.workers))], ARM.config)
    short = Steps([settings(arguments, arguments.rounds + 1)], ARM.config)
    alone = made(short, workers=0, batch_size=arguments.batch_size)
    # Before the device is touched: workers are forked.
    together = made(streams, workers=arguments.workers, batch_size=arguments.batch_size)
    draw, put, step = of_device(streams[0][0], arguments)
    whole = put + arguments.arms * step
    trained = arguments.batch_size / whole
    print(f"batches of {arguments.batch_size}, {arguments.arms} x tiny:base on {arguments.device}")
    print(f"where shapes overlap     {once:12.1f} s, once in a process")
    print(f"scenes, one process      {alone:12,.0f} a second")
    print(f"scenes, {arguments.workers:2d} processes     {together:12,.0f} a second")
    print(f"drawn on the device      {arguments.batch_size / draw:12,.0f} a second")
    print(f"trained on               {trained:12,.0f} a second")
    print(f"made against trained on  {together / trained:12.2f} times as many (target: at least 1)")
    print(
        f"drawing                  {100 * draw / whole:12.1f} % of a step "
        f"(target: at most {100 * MOST_DRAWN:.0f})"
    )


if __name__ == "__main__":
    main()
