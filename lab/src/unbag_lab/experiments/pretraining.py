"""The experiment `pretraining`: tiny dual encoders trained from scratch, arm by arm.

    python -m unbag_lab pretraining --seeds 0 1 2 3 4 --out runs/pretraining --device cuda

The arms are three model sizes on the same batches, and streams with and without captions that share
all their words with another caption ("collisions"). Nothing is read of a base except the number at
the end of its name, which is the seed. A stopped run resumes with the same command: an arm whose
weights are in the folder is only measured, and one whose result is there is left alone.

Arms with the same knobs train on the same batches. A stream with collisions has more captions that
bind or relate than one without; `without_collisions` gives a stream with as many of each kind in
which captions share words by chance alone, so that the two differ in nothing else.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch.utils.data import Dataset

from unbag.errors import unknown_name
from unbag.models.tiny import TinyConfig, WordTokenizer, read, write
from unbag.runs.files import paused_collector, write_atomically
from unbag.training.optim import shared_memory
from unbag.training.towers.adapters import TinyTrainable
from unbag.world.grammar import Rel, words
from unbag.world.rendering import sprite_table
from unbag.world.stream import Knobs, Mixture, batch, collision_rate, incentive, split_seed
from unbag.world.vocabulary import DEFAULT
from unbag_lab.bases import (
    OnDevice,
    PretrainingArm,
    SceneBatch,
    Schedule,
    Training,
    load,
    put_on,
    seed_of,
    show,
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

NAME = "pretraining"
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


def without_collisions(knobs: Knobs) -> Knobs:
    """As many captions of each kind, on average, each drawn for itself.

    With chance q a draw gives two partners and else one sample, so that 2q / (1 + q) of all
    samples are partners; these bind or relate, and none of them denies.
    """
    partners = 2 * knobs.collision / (1 + knobs.collision)
    alone = 1 - partners
    one_thing, counted = alone * knobs.one_thing, alone * knobs.counted
    two_alone = alone * (1 - knobs.one_thing - knobs.counted)
    mixture = _joined(knobs.mixture, two_alone * (1 - knobs.negated), partners)
    unsaid = two_alone * (1 - knobs.mixture.relation)
    return replace(
        knobs,
        mixture=mixture,
        one_thing=one_thing,
        counted=counted,
        negated=alone * (1 - knobs.counted) * knobs.negated / (1 - counted),
        related=knobs.related * unsaid / ((two_alone + partners) * (1 - mixture.relation)),
        collision=0.0,
    )


def _joined(mixture: Mixture, alone: float, partners: float) -> Mixture:
    """Captions of two things that come alone, and partners, which only bind or relate."""
    composed = ("both_bound", "relation")
    of_composed = sum(getattr(mixture, kind) for kind in composed)
    found = {}
    for field in fields(mixture):
        share = getattr(mixture, field.name)
        joined = partners * share / of_composed if field.name in composed else 0.0
        found[field.name] = alone * share + joined
    total = sum(found.values())
    return Mixture(**{kind: share / total for kind, share in found.items()})


_PLAIN = Knobs(withheld_combinations=0.2)
"""The stream of `tiny:base`: a fifth of the shape-colour combinations is never shown."""
_COLLIDE = replace(_PLAIN, collision=0.5)
_RELATE = replace(_COLLIDE, mixture=Mixture(two_plain=0.02, relation=0.40))
_BASE = TinyConfig(words=words())
_SMALL = replace(
    _BASE, picture_width=128, picture_depth=4, caption_width=128, caption_depth=3, joint=128
)
_LARGE = replace(
    _BASE, picture_width=256, picture_depth=6, caption_width=256, caption_depth=4, joint=256
)
ARMS: Mapping[str, PretrainingArm] = MappingProxyType(
    {
        "small": PretrainingArm("1.5 million weights", _SMALL, _PLAIN),
        "base": PretrainingArm("the size of tiny:base, 3 million weights", _BASE, _PLAIN),
        "large": PretrainingArm("8 million weights", _LARGE, _PLAIN),
        "collide": PretrainingArm(
            "half of all draws are two captions of the same words", _BASE, _COLLIDE
        ),
        "mixed": PretrainingArm(
            "as many captions of each kind, drawn alone", _BASE, without_collisions(_COLLIDE)
        ),
        "relations_collide": PretrainingArm(
            "collisions, most of them of relations", _BASE, _RELATE
        ),
        "relations": PretrainingArm(
            "as many relations, drawn alone", _BASE, without_collisions(_RELATE)
        ),
        "unmasked": PretrainingArm(
            "as base; pairs that are true as well are negatives", _BASE, _PLAIN, masks=False
        ),
    }
)
"""In the order in which tables show them."""


def find_arm(name: str) -> PretrainingArm:
    """By name."""
    if name not in ARMS:
        raise unknown_name("arm of pretraining", name, ARMS)
    return ARMS[name]


def smaller(arm: PretrainingArm) -> PretrainingArm:
    """The same arm with a few thousand weights, for a run that only shows that the code works."""
    width = arm.config.picture_width // 16
    return replace(
        arm,
        config=replace(
            arm.config,
            patch=16,
            picture_width=width,
            picture_depth=1,
            caption_width=width,
            caption_depth=1,
            joint=width,
            heads=2,
        ),
    )


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


_SAID_EVERY = 100


def train_side_by_side(
    arms: Mapping[str, PretrainingArm],
    schedule: Schedule,
    *,
    device: str,
    workers: int,
    say: Say,
) -> dict[str, Training]:
    """From scratch; the same arms on the same kind of machine come to the same weights."""
    streams = list(dict.fromkeys(arm.knobs for arm in arms.values()))
    batches = load(Streams(streams, schedule, next(iter(arms.values()))), workers=workers)
    # Workers are forked by now; only from here on may the device be touched.
    table = torch.from_numpy(sprite_table(DEFAULT)).to(device)
    # One for each stream: noise must not depend on which other arms are trained.
    noise = [torch.Generator(device=device).manual_seed(schedule.seed) for _ in streams]
    memory = shared_memory() if device.startswith("cuda") else None
    found = {name: Training(arm, schedule, device, memory=memory) for name, arm in arms.items()}
    shown_to = [[found[n] for n, arm in arms.items() if arm.knobs == knobs] for knobs in streams]
    places: list[OnDevice | None] = [None] * len(streams)
    context = next(iter(arms.values())).config.context
    start = time.monotonic()
    for number, step in enumerate(batches):
        for at, (shown, trainings, own) in enumerate(zip(step, shown_to, noise, strict=True)):
            there = put_on(shown, table, own)
            if trainings[0].is_recorded:
                there = places[at] = there.copied_to(places[at], context=context)
            for training in trainings:
                training.step(there, schedule.rate(number))
        if (number + 1) % _SAID_EVERY == 0:
            losses = "  ".join(f"{name} {one.loss.item():.3f}" for name, one in found.items())
            rate = (number + 1) / (time.monotonic() - start)
            left = (schedule.steps - number - 1) / rate
            say(f"step {number + 1}: {losses}; {rate:.1f} steps/s, {left:.0f} s left")
    return found


class Streams(Dataset[tuple[SceneBatch, ...]]):
    """The batches of step i, one for each stream; they depend on the seed and i alone."""

    def __init__(self, streams: Sequence[Knobs], schedule: Schedule, arm: PretrainingArm) -> None:
        """`arm` has the vocabulary, which all share."""
        self._streams = tuple(streams)
        self._schedule = schedule
        self._tokenize = WordTokenizer(arm.config.words, context=arm.config.context)

    def __len__(self) -> int:
        """As many as there are steps."""
        return self._schedule.steps

    @paused_collector()
    def __getitem__(self, step: int) -> tuple[SceneBatch, ...]:
        """Sample, say, encode; drawing is left to the device."""
        return tuple(self._shown(knobs, step) for knobs in self._streams)

    def _shown(self, knobs: Knobs, step: int) -> SceneBatch:
        seed, size = split_seed("train", self._schedule.seed), self._schedule.batch
        samples = batch(DEFAULT, knobs, seed=seed, step=step, size=size)
        return show(samples, self._tokenize)


_MEASURED = 4
"""Batches over which a stream is measured."""


def measure(knobs: Knobs, schedule: Schedule) -> dict[str, float]:
    """What the first batches of a stream ask of a model."""
    seed = split_seed("train", schedule.seed)
    found = [
        batch(DEFAULT, knobs, seed=seed, step=step, size=schedule.batch)
        for step in range(_MEASURED)
    ]
    return {
        "collision": float(np.mean([collision_rate(one) for one in found])),
        "incentive": float(np.mean([incentive(one) for one in found])),
        "relations": float(np.mean([isinstance(s.ast, Rel) for one in found for s in one])),
    }


_SMALL_QUESTIONS = (
    "world-swap",
    "world-replace",
    "world-relation",
    "world-pairs-a",
    "world-retrieval",
)
_SMALL_EVERY = 20


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
