"""The experiment `probes`: models that exist are asked where things lie and what can be read.

Nothing is trained but readers. Every arm that is a model has the numbers of `probe_geometry`
(`intra`, `gap`, `conditions`, `superposition`, `cone`, `agreement`), of `probe_order`
(`order-free`), of `probe_reading` (`extract`) and of every benchmark of the world by its name; the
arms `blind` and `blind-ordered` have those of `probe_blind` (`caption-only` and others). Arms of
one base are asked the same; seeds follow from its name.

    python -m unbag.lab.probe_experiment --bases tiny-0.safetensors --out runs/lab --processes 2

Weights of repairs are those that the experiment `default` left in the same folder.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from functools import cached_property, partial
from math import isfinite
from pathlib import Path
from zlib import crc32

import numpy as np

from unbag.lab.arm_result import ArmResult, Extent, Size, result_path, write_result
from unbag.lab.arms_left import arms_left
from unbag.lab.at_once import each_apart, shares
from unbag.lab.claim import ArmKey
from unbag.lab.experiment import Order, Say
from unbag.lab.probe_arms import ARMS, BLIND, load_arm, needs
from unbag.lab.probe_blind import blind_numbers
from unbag.lab.probe_geometry import Numbers, geometry
from unbag.lab.probe_material import AMOUNTS, Amount, Asked, make_asked
from unbag.lab.probe_order import order_free
from unbag.lab.probe_reading import readings
from unbag.lab.probe_space import TinySpace
from unbag.lab.questions import Questions
from unbag.lab.script import run_script
from unbag.models.tiny import read
from unbag.probes.space import Space
from unbag.types import FloatArray, IntArray, Item


class Probes:
    """Models that exist, asked."""

    name = "probes"
    about = "models that exist are asked where pictures and captions lie and what can be read"
    arms = ARMS
    reads_bases = True
    on_processor = True
    most_processes = 4

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """The repair whose weights an arm reads."""
        return needs(arm)

    def seconds(self, arm: str) -> float:
        """Readers are fitted on a processor, whatever encodes."""
        needs(arm)
        return 30.0 if arm in BLIND else 45.0

    def extent(self, arm: str, *, size: Size) -> Extent:
        """Nothing is trained here."""
        needs(arm)
        return Extent(steps=0, batch=0, times=AMOUNTS[size].times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Base by base, the arms of each in as many processes as are allowed."""
        amount = AMOUNTS[order.size]
        left = {path: arms_left(order, self, path, seed=seed_of(path)) for path in order.bases}
        if not any(left.values()):
            return
        questions = Questions(amount.benchmarks, times=amount.times, every=amount.every)
        for path, arms in left.items():
            base = _Base(path, questions, amount, order)
            count = max(1, min(order.processes, len(arms)))
            groups = [arms[at::count] for at in range(count)]
            work = shares(partial(_run_arms, base, count, say), groups)
            each_apart(work, processes=count, say=say)


PROBES = Probes()


def seed_of(base: Path) -> int:
    """Each base has scenes of its own, whatever stands beside it."""
    return crc32(f"{Probes.name}/{base.stem}".encode()) & 0x7FFF_FFFF


class _Base:
    """What arms of a base share."""

    def __init__(self, path: Path, questions: Questions, amount: Amount, order: Order) -> None:
        self.path, self.questions, self.amount, self.order = path, questions, amount, order
        self.seed = seed_of(path)

    @cached_property
    def asked(self) -> Asked:
        """What every model is asked."""
        return make_asked(self.questions, self.amount, seed=self.seed)

    @cached_property
    def fingerprint(self) -> str:
        """Of the base itself."""
        return read(self.path, name=self.path.stem).fingerprint


def _run_arms(base: _Base, processes: int, say: Say, arms: Sequence[str]) -> None:
    """One after the other; each result is written as soon as it is there."""
    if processes > 1:
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 1) // processes))
    for arm in arms:
        started = time.monotonic()
        numbers = _numbers(base, arm)
        seconds = time.monotonic() - started
        result = ArmResult(
            experiment=Probes.name,
            base=base.path.stem,
            fingerprint=base.fingerprint,
            arm=arm,
            steps=0,
            batch=0,
            seed=base.seed,
            times=base.amount.times,
            precision="float32",
            loss=None,
            numbers=numbers,
            size=base.order.size,
            seconds=seconds,
        )
        path = result_path(base.order.out, Probes.name, base.path.stem, arm)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_result(path, result)
        say(f"{base.path.stem}: {arm} asked in {seconds:.0f} s")


def _numbers(base: _Base, arm: str) -> Numbers:
    if arm in BLIND:
        return blind_numbers(BLIND[arm], base.amount, seed=base.seed)
    device = base.order.device
    encoder = load_arm(arm, base.path, base.order.out, seed=base.seed, device=device)
    return ask(TinySpace(encoder), base.asked)


def ask(space: TinySpace, asked: Asked) -> Numbers:
    """All numbers of one model; one that means nothing, such as a share of nothing, is left out."""
    found = {
        **benchmarks(space, asked.questions),
        **geometry(space, asked),
        "order-free": order_free(space, asked),
        "extract": readings(space, asked),
    }
    return {
        name: {metric: value for metric, value in row.items() if isfinite(value)}
        for name, row in found.items()
    }


def benchmarks(space: Space, questions: Questions) -> Numbers:
    """By benchmark and metric, by the cosine."""

    def cosine(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        space.pictures([picture for item in items for picture in item.pictures])
        space.captions([str(caption) for item in items for caption in item.captions])
        parts = [
            space.pictures(item.pictures) @ space.captions(list(map(str, item.captions))).T
            for item in items
        ]
        return np.concatenate([part.ravel() for part in parts])

    return questions.measured(cosine)


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--bases", type=Path, nargs="+", required=True, help=".safetensors files")
    parser.add_argument("--out", type=Path, required=True, help="folder with results and weights")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--size", choices=tuple(AMOUNTS), default="full")
    # Asking whether there is a GPU would forbid processes to fork.
    parser.add_argument("--device", default="cpu")
    text = "processes in which the arms of a base are asked side by side"
    parser.add_argument("--processes", type=int, default=1, help=text)
    given = parser.parse_args()
    order = Order(
        bases=tuple(given.bases),
        arms=tuple(given.arms),
        out=given.out,
        size=given.size,
        device=given.device,
        processes=given.processes,
    )
    PROBES.run(order, say=partial(print, flush=True))
    print(f"every arm is in {given.out / PROBES.name}")


if __name__ == "__main__":
    run_script(main)
