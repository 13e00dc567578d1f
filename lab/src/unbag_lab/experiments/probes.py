"""The experiment `probes`: existing models are probed; nothing but linear readers is trained.

    python -m unbag_lab probes --bases tiny-0.safetensors --out runs/lab --processes 2

An arm is a base, the same network untrained, a repair whose weights the experiment `default` left
in the same folder, or weights interpolated between the base and such a repair. These arms have the
numbers of `probes_measuring`; the arms `blind` and `blind-ordered` have those of `probes_blind`.
All arms of a base get the same questions; their seed follows from its name.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from zlib import crc32

from unbag.errors import UserError, unknown_name
from unbag.models.tiny import Tiny, TinyTowers, read, untrained
from unbag.probes.classifiers import Effort
from unbag_lab.claims import ArmKey
from unbag_lab.experiments.probes_blind import blind_numbers
from unbag_lab.experiments.probes_measuring import (
    Amount,
    Numbers,
    ProbeQuestions,
    TinySpace,
    ask,
    make_asked,
)
from unbag_lab.experiments.repair_training import PUBLISHED_REPAIRS
from unbag_lab.plan import Order, Say, arms_left
from unbag_lab.questions import Questions
from unbag_lab.results import BEFORE, UNTRAINED, ArmResult, Extent, Size, result_path, write_result
from unbag_lab.scheduler import each_apart, shares

REPAIRS_OF = "default"
"""The experiment whose repairs are asked."""
REPAIRED = tuple(PUBLISHED_REPAIRS)
MIXED = "hard_negative"
"""The repair towards which weights are mixed."""
_MIX = "mix-"
WEIGHTS = (0.25, 0.5, 0.75)
MIXES = tuple(f"{_MIX}{weight:g}" for weight in WEIGHTS)
BLIND = {"blind": "default", "blind-ordered": "ordered"}
"""Readers of captions alone, with the preset of the captions that they are taught by."""
MODELS: tuple[str, ...] = (BEFORE, UNTRAINED, *REPAIRED, *MIXES)
ARMS: tuple[str, ...] = (*MODELS, *BLIND)


class Probes:
    """Existing models, probed; see `unbag_lab.plan.Experiment`."""

    name = "probes"
    about = "models that exist are asked where pictures and captions lie and what can be read"
    arms = ARMS
    reads_bases = True
    on_processor = True
    most_processes = 4

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """The repair whose weights an arm reads."""
        if arm not in ARMS:
            raise unknown_name("arm", arm, ARMS)
        if arm in MIXES:
            return ((REPAIRS_OF, MIXED),)
        return ((REPAIRS_OF, arm),) if arm in REPAIRED else ()

    def seconds(self, arm: str) -> float:
        """Readers are fitted on a processor, whatever encodes."""
        self.needs(arm)
        return 30.0 if arm in BLIND else 45.0

    def extent(self, arm: str, *, size: Size) -> Extent:
        """Nothing is trained here."""
        self.needs(arm)
        return Extent(steps=0, batch=0, times=AMOUNTS[size].times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Base by base, the arms of each in as many processes as are allowed."""
        amount = AMOUNTS[order.size]
        left = {path: arms_left(order, self, path, seed=seed_of(path)) for path in order.bases}
        if not any(left.values()):
            return
        questions = Questions(amount.benchmarks, times=amount.times, every=amount.every)
        for path, arms in left.items():
            base = _ProbedBase(path, questions, amount, order)
            count = max(1, min(order.processes, len(arms)))
            groups = [arms[at::count] for at in range(count)]
            work = shares(partial(_run_arms, base, count, say), groups)
            each_apart(work, processes=count, say=say)


PROBES = Probes()


def seed_of(base: Path) -> int:
    """Each base has scenes of its own, whatever stands beside it."""
    return crc32(f"{Probes.name}/{base.stem}".encode()) & 0x7FFF_FFFF


def load_arm(arm: str, base: Path, out: Path, *, seed: int, device: str) -> Tiny:
    """The model of an arm; `seed` is that of the untrained twin."""
    first = read(base, name=base.stem, device=device)
    if arm == BEFORE:
        return first
    if arm == UNTRAINED:
        return Tiny(untrained(first.config, seed=seed), name=arm, device=device)
    ((experiment, repair),) = PROBES.needs(arm)
    path = result_path(out, experiment, base.stem, repair).with_suffix(".safetensors")
    if not path.exists():
        raise UserError(
            f"no weights of {repair} at {path}",
            expected=f"those that the experiment {experiment!r} leaves there",
            way_out=f"run its arm {repair} on {base.stem} into the same folder first",
        )
    tuned = read(path, name=arm, device=device)
    return tuned if arm in REPAIRED else _mixed(first, tuned, arm)


def _mixed(first: Tiny, tuned: Tiny, arm: str) -> Tiny:
    # It imports all kinds of models, and PIL with them.
    from unbag.training.merge import interpolate

    weight = float(arm.removeprefix(_MIX))
    towers = TinyTowers(first.config)
    state = interpolate(first.towers.state_dict(), tuned.towers.state_dict(), weight)
    towers.load_state_dict(state)
    return Tiny(towers, name=arm, device=first.device)


AMOUNTS: Mapping[Size, Amount] = MappingProxyType(
    {
        "full": Amount(
            times=2,
            gallery=400,
            draws=3,
            rings=12,
            sets=512,
            edited=6_144,
            quads=200,
            effort=Effort(folds=4, inverse_strengths=(1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
            penalties=(1e-5, 1e-4, 1e-3, 1e-2),
        ),
        "small": Amount(
            times=1,
            gallery=24,
            draws=1,
            rings=2,
            sets=16,
            edited=384,
            quads=4,
            effort=Effort(inverse_strengths=(1e-3,)),
            penalties=(1e-3,),
            benchmarks=("world-relation", "world-pairs-a", "world-retrieval"),
            every=8,
        ),
    }
)


class _ProbedBase:
    """What arms of a base share."""

    def __init__(self, path: Path, questions: Questions, amount: Amount, order: Order) -> None:
        self.path, self.questions, self.amount, self.order = path, questions, amount, order
        self.seed = seed_of(path)

    @cached_property
    def asked(self) -> ProbeQuestions:
        """What every model is asked."""
        return make_asked(self.questions, self.amount, seed=self.seed)

    @cached_property
    def fingerprint(self) -> str:
        """Of the base itself."""
        return read(self.path, name=self.path.stem).fingerprint


def _run_arms(base: _ProbedBase, processes: int, say: Say, arms: Sequence[str]) -> None:
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


def _numbers(base: _ProbedBase, arm: str) -> Numbers:
    if arm in BLIND:
        return blind_numbers(BLIND[arm], base.amount, seed=base.seed)
    device = base.order.device
    encoder = load_arm(arm, base.path, base.order.out, seed=base.seed, device=device)
    return ask(TinySpace(encoder), base.asked)


def probes_script() -> None:
    """Run the experiment `probes` on existing bases."""
    parser = argparse.ArgumentParser(description=probes_script.__doc__)
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
