"""Experiment `pretraining`: seeds come in; tiny dual encoders, trained from scratch, go out.

    python -m unbag_lab pretraining --seeds 0 1 2 3 4 --out runs/pretraining --device cuda

Three sizes on the same batches, and streams with and without captions that meet their own words.
Nothing is read of a base but the number at the end of its name, which is the seed. The same command
goes on after a stop: an arm whose weights are in the folder is only asked, and one whose result is
there is left alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from unbag.models.tiny import read, write
from unbag.runs.files import write_atomically
from unbag.training.towers.adapters import TinyTrainable
from unbag_lab.bases import (
    ARMS,
    PretrainingArm,
    Schedule,
    find_arm,
    measure,
    seed_of,
    smaller,
    train_side_by_side,
)
from unbag_lab.claim import ArmKey
from unbag_lab.plan import Order, Say
from unbag_lab.questions import Questions
from unbag_lab.results import (
    ArmResult,
    Extent,
    Size,
    find_same,
    read_results,
    result_path,
    write_result,
)
from unbag_lab.scheduler import Share, each_apart, say_now

"""Experiment `pretraining`: seeds come in; tiny dual encoders, trained from scratch, go out.

    python -m unbag_lab pretraining --seeds 0 1 2 3 4 --out runs/pretraining --device cuda

Three sizes on the same batches, and streams with and without captions that meet their own words.
Nothing is read of a base but the number at the end of its name, which is the seed. The same command
goes on after a stop: an arm whose weights are in the folder is only asked, and one whose result is
there is left alone.
"""


NAME = "pretraining"
_SMALL_QUESTIONS = (
    "world-swap",
    "world-replace",
    "world-relation",
    "world-pairs-a",
    "world-retrieval",
)
_SMALL_EVERY = 20
_SECONDS = {"small": 9.0, "large": 24.0}
_SECONDS_OF_BASE = 14.0


@dataclass(frozen=True)
class Pretraining:
    """Arms from scratch, side by side; see `Experiment`."""

    steps: int = 2_000
    batch: int = 512
    times: int = 5
    name: str = NAME
    reads_bases: bool = False
    on_processor: bool = False
    most_processes: int = 5
    about: str = "trained from scratch: three sizes, and batches with and without collisions"

    @property
    def arms(self) -> tuple[str, ...]:
        """Sizes first, then streams."""
        return tuple(ARMS)

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Nothing: every arm begins from scratch."""
        find_arm(arm)
        return ()

    def seconds(self, arm: str) -> float:
        """Estimated from the numbers of weights, its share of making scenes included."""
        find_arm(arm)
        return _SECONDS.get(arm, _SECONDS_OF_BASE)

    def extent(self, arm: str, *, size: Size) -> Extent:
        """The same for all."""
        find_arm(arm)
        sized = self.sized(size)
        return Extent(sized.steps, sized.batch, sized.times)

    def sized(self, size: Size) -> Pretraining:
        """As it is, or so short that it only shows that the code runs."""
        return self if size == "full" else replace(self, steps=6, batch=16, times=1)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Seeds in processes of their own where the order allows several."""
        for arm in order.arms:
            find_arm(arm)
        for base in order.bases:
            seed_of(base)
        sized = self.sized(order.size)
        shares = [
            Share(one.bases[0].stem, partial(_run_seed, sized, one, say=say))
            for one in _by_seed(order)
        ]
        # Also one alone, where more are allowed: others may be forked after it.
        each_apart(shares, processes=order.processes, say=say)


PRETRAINING = Pretraining()


def _by_seed(order: Order) -> list[Order]:
    """One for each seed.

    They share the processes that make scenes, so that there are no more of these than were asked.
    """
    at_once = max(1, min(order.processes, len(order.bases)))
    workers = min(order.workers, max(1, order.workers // at_once))
    return [replace(order, bases=(one,), processes=1, workers=workers) for one in order.bases]


def _run_seed(experiment: Pretraining, order: Order, *, say: Say) -> None:
    """All arms of one seed that are missing."""
    base = order.bases[0]
    wanted = {arm: _wanted(experiment, order, base, arm) for arm in order.arms}
    paths = {arm: result_path(order.out, NAME, base.stem, arm) for arm in order.arms}
    missing = [arm for arm in order.arms if find_same(wanted[arm], paths[arm]) is None]
    if not missing:
        say(f"{base.stem}: every arm is in {order.out}")
        return
    states = {arm: paths[arm].with_suffix(".state") for arm in missing}
    rest = [arm for arm in missing if find_same(wanted[arm], states[arm]) is None]
    if rest:
        _train(experiment, order, {arm: wanted[arm] for arm in rest}, states, say=say)
    questions = _questions(order.size, experiment.times)
    for arm in missing:
        start = time.monotonic()
        trained = read_results(states[arm])[0]
        # The file is asked, not the model it was written from: it has half the digits.
        tiny = read(paths[arm].with_suffix(".safetensors"), name=arm)
        trainable = TinyTrainable(tiny, device=order.device)
        trainable.module.eval()
        answers = questions.answers(trainable, device=order.device)
        took = (trained.seconds or 0.0) + time.monotonic() - start
        numbers = {**trained.numbers, **answers}
        write_result(paths[arm], replace(trained, numbers=numbers, seconds=round(took, 1)))
        states[arm].unlink()
        say(f"{base.stem}: {arm} asked")


def _train(
    experiment: Pretraining,
    order: Order,
    wanted: Mapping[str, ArmResult],
    states: Mapping[str, Path],
    *,
    say: Say,
) -> None:
    """Weights, and beside them what is known before they are asked."""
    base = order.bases[0]
    schedule = Schedule(seed_of(base), steps=experiment.steps, batch=experiment.batch)
    arms = {name: _sized(find_arm(name), order) for name in wanted}
    start = time.monotonic()
    found = train_side_by_side(
        arms,
        schedule,
        device=order.device,
        workers=order.workers,
        say=lambda line: say(f"{base.stem}: {line}"),
    )
    each = (time.monotonic() - start) / len(arms)
    measured = {arm.knobs: measure(arm.knobs, schedule) for arm in arms.values()}
    for name, training in found.items():
        weights = states[name].with_suffix(".safetensors")
        weights.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(weights, partial(write, training.towers))
        result = replace(
            wanted[name],
            loss=training.loss.item(),
            seconds=each,
            numbers={"batch": measured[arms[name].knobs]},
        )
        write_result(states[name], result)


def _sized(arm: PretrainingArm, order: Order) -> PretrainingArm:
    return arm if order.size == "full" else smaller(arm)


def _wanted(experiment: Pretraining, order: Order, base: Path, arm: str) -> ArmResult:
    seed = seed_of(base)
    return ArmResult(
        experiment=NAME,
        base=base.stem,
        # Nothing of the base is read, so arms of a seed belong together whatever its weights are.
        fingerprint=f"{NAME}-{seed}",
        arm=arm,
        steps=experiment.steps,
        batch=experiment.batch,
        seed=seed,
        times=experiment.times,
        precision="float32" if order.device == "cpu" else "bfloat16",
        loss=None,
        numbers={},
        size=order.size,
    )


@cache
def _questions(size: Size, times: int) -> Questions:
    """Made once in a process, whatever number of seeds it trains."""
    if size == "small":
        return Questions(_SMALL_QUESTIONS, every=_SMALL_EVERY)
    return Questions(times=times)


def pretraining_script() -> None:
    """Run the experiment `pretraining`: tiny dual encoders trained from scratch, arm by arm."""
    parser = argparse.ArgumentParser(description=pretraining_script.__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for results and weights")
    parser.add_argument("--arms", nargs="+", choices=tuple(ARMS), default=tuple(ARMS))
    parser.add_argument("--steps", type=int, default=Pretraining.steps)
    parser.add_argument("--batch", type=int, default=Pretraining.batch)
    parser.add_argument("--times", type=int, default=Pretraining.times, help="test items, times")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--workers", type=int, default=1, help="processes that make scenes, for all seeds"
    )
    parser.add_argument("--processes", type=int, help="seeds at once; all, unless told")
    parser.add_argument("--small", action="store_true", help="only show that the code runs")
    options = parser.parse_args()
    order = Order(
        bases=tuple(Path(f"tiny-{seed}") for seed in options.seeds),
        arms=tuple(options.arms),
        out=options.out,
        size="small" if options.small else "full",
        device=options.device,
        workers=options.workers,
        processes=options.processes or len(options.seeds),
    )
    Pretraining(options.steps, options.batch, options.times).run(order, say=say_now)
