"""The experiment `pretraining`: tiny dual encoders trained from scratch.

The arms are three model sizes on the same batches, and streams with and without captions that share
all their words with another caption ("collisions"). Of a base only the number at the end of its
name is used, as the seed. An interrupted run resumes: an arm whose weights are in the
folder is only measured, and an arm with a result is skipped.

Arms with the same knobs train on the same batches. A stream with collisions has more captions that
bind or relate than one without; `without_collisions` gives a stream with as many of each kind in
which captions share words by chance alone, so that the two differ in nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from itertools import chain
from types import MappingProxyType

import numpy as np

from unbag.errors import unknown_name
from unbag.models.tiny import TinyConfig
from unbag.training.data.loader import load
from unbag.training.optim import shared_memory
from unbag.training.trainer import Trainer
from unbag.world.grammar import Rel, words
from unbag.world.stream import Knobs, Mixture, collision_rate, incentive
from unbag_lab.bases import OnDevice, Pretraining, PretrainSettings, Steps, seed_of
from unbag_lab.claims import ArmKey
from unbag_lab.plan import Order, Say
from unbag_lab.questions import Questions
from unbag_lab.results import ArmResult, Extent, Size, result_path
from unbag_lab.scheduler import Share, run_shares
from unbag_lab.training import TrainedArm, precision_of, run_arms, train_together

NAME = "pretraining"
_SECONDS = {"small": 9.0, "large": 24.0}
_SECONDS_OF_BASE = 14.0


@dataclass(frozen=True)
class PretrainingExperiment:
    """Arms trained from scratch, side by side; see `Experiment`."""

    steps: int = 2_000
    batch_size: int = 512
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
        """Return nothing: every arm starts from scratch."""
        find_arm(arm)
        return ()

    def seconds(self, arm: str) -> float:
        """Estimate the seconds from the number of weights, with a share of rendering scenes."""
        find_arm(arm)
        return _SECONDS.get(arm, _SECONDS_OF_BASE)

    def extent(self, arm: str, *, size: Size) -> Extent:
        """Return the extent, the same for all arms."""
        find_arm(arm)
        sized = self.sized(size)
        return Extent(sized.steps, sized.batch_size, sized.times)

    def sized(self, size: Size) -> PretrainingExperiment:
        """Return the experiment, shortened to a trial run for small sizes."""
        return self if size == "full" else replace(self, steps=6, batch_size=16, times=1)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run seeds in parallel if the order allows several processes."""
        for arm in order.arms:
            find_arm(arm)
        for base in order.bases:
            seed_of(base)
        sized = self.sized(order.size)
        # Seeds share the processes that render scenes, so that there are no more than requested.
        at_once = max(1, min(order.processes, len(order.bases)))
        workers = min(order.workers, max(1, order.workers // at_once))
        shares = []
        for base in order.bases:
            base_order = replace(order, bases=(base,), processes=1, workers=workers)
            shares.append(Share(base.stem, partial(_run_seed, sized, base_order, say=say)))
        # Fork even for one seed if several processes are allowed: others may be forked after it.
        run_shares(shares, processes=order.processes, say=say)


PRETRAINING = PretrainingExperiment()


@dataclass(frozen=True)
class PretrainingArm:
    """One model trained from scratch."""

    about: str
    config: TinyConfig
    knobs: Knobs
    masks: bool = True
    """Whether off-diagonal pairs that are also true are left out of the loss."""


def without_collisions(knobs: Knobs) -> Knobs:
    """Return knobs with the same expected number of captions of each kind, drawn independently.

    With probability q a draw gives two partners, else one sample, so 2q / (1 + q) of all samples
    are partners; these bind or relate, and none of them negates.
    """
    partners = 2 * knobs.collision / (1 + knobs.collision)
    alone = 1 - partners
    one_thing, counted = alone * knobs.one_thing, alone * knobs.counted
    two_alone = alone * (1 - knobs.one_thing - knobs.counted)
    # Single captions of two things, and partners, which only bind or relate.
    composed = ("both_bound", "relation")
    of_composed = sum(getattr(knobs.mixture, kind) for kind in composed)
    shares = {}
    for field in fields(knobs.mixture):
        share = getattr(knobs.mixture, field.name)
        joined = partners * share / of_composed if field.name in composed else 0.0
        shares[field.name] = two_alone * (1 - knobs.negated) * share + joined
    total = sum(shares.values())
    mixture = Mixture(**{kind: share / total for kind, share in shares.items()})
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
    """Return an arm by name."""
    if name not in ARMS:
        raise unknown_name("arm of pretraining", name, ARMS)
    return ARMS[name]


def smaller(arm: PretrainingArm) -> PretrainingArm:
    """Return the arm with a few thousand weights, for trial runs."""
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


def _run_seed(experiment: PretrainingExperiment, order: Order, *, say: Say) -> None:
    """Train and measure the missing arms of one seed."""
    base = order.bases[0]
    seed = seed_of(base)
    unmeasured = [
        ArmResult(
            experiment=NAME,
            base=base.stem,
            # The base is not read: arms of a seed are compared whatever its weights are.
            fingerprint=f"{NAME}-{seed}",
            arm=arm,
            steps=experiment.steps,
            batch_size=experiment.batch_size,
            seed=seed,
            times=experiment.times,
            precision=precision_of(order.device),
            loss=None,
            numbers={},
            size=order.size,
        )
        for arm in order.arms
    ]

    def train(missing: Sequence[ArmResult]) -> dict[str, TrainedArm]:
        arms = {
            result.arm: find_arm(result.arm)
            if order.size == "full"
            else smaller(find_arm(result.arm))
            for result in missing
        }
        settings = PretrainSettings(
            seed=seed, steps=experiment.steps, batch_size=experiment.batch_size
        )
        return train_side_by_side(
            arms,
            settings,
            device=order.device,
            workers=order.workers,
            say=lambda line: say(f"{base.stem}: {line}"),
        )

    run_arms(
        unmeasured,
        result_path(order.out, NAME, base.stem, "").parent,
        train,
        partial(_questions, order.size, experiment.times),
        device=order.device,
        say=say,
    )


def train_side_by_side(
    arms: Mapping[str, PretrainingArm],
    settings: PretrainSettings,
    *,
    device: str,
    workers: int,
    say: Say,
) -> dict[str, TrainedArm]:
    """Train arms from scratch; on the same kind of machine the weights are reproducible."""
    start = time.monotonic()
    chosen = {
        name: replace(settings, knobs=arm.knobs, mask_also_true=arm.masks)
        for name, arm in arms.items()
    }
    streams = {stream.knobs: stream for stream in chosen.values()}
    config = next(iter(arms.values())).config
    flow = load(
        Steps(list(streams.values()), config),
        first=0,
        workers=workers,
        device=device,
    )
    # Workers are forked at the first batch; only from then on may the device be touched.
    first = next(flow)
    tasks = {
        name: Pretraining(chosen[name], arm.config, device=device) for name, arm in arms.items()
    }
    # One arm draws a stream for all: the noise must not depend on the other arms.
    drawers = {
        knobs: next(t for t in tasks.values() if t.settings.knobs == knobs) for knobs in streams
    }

    def batches() -> Iterator[Mapping[str, OnDevice]]:
        for scene_batches in chain([first], flow):
            drawn = {
                knobs: drawers[knobs].drawn(scenes)
                for knobs, scenes in zip(streams, scene_batches, strict=True)
            }
            yield {name: drawn[task.settings.knobs] for name, task in tasks.items()}

    memory = shared_memory() if device.startswith("cuda") else None
    trainers = {name: Trainer(task, memory=memory) for name, task in tasks.items()}
    losses = train_together(trainers, batches(), say=say)
    seconds = (time.monotonic() - start) / len(arms)
    measured = {knobs: measure(stream) for knobs, stream in streams.items()}
    return {
        name: TrainedArm(
            task.module.eval(), losses[name], seconds, {"batch": measured[task.settings.knobs]}
        )
        for name, task in tasks.items()
    }


_MEASURED = 4
"""Batches to measure a stream."""


def measure(settings: PretrainSettings) -> dict[str, float]:
    """Measure the collision rate, incentive and share of relations of a stream."""
    batches = [settings.samples(step) for step in range(_MEASURED)]
    return {
        "collision": float(np.mean([collision_rate(batch) for batch in batches])),
        "incentive": float(np.mean([incentive(batch) for batch in batches])),
        "relations": float(np.mean([isinstance(s.ast, Rel) for batch in batches for s in batch])),
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
    """Return the benchmarks, made once in a process."""
    if size == "small":
        return Questions(_SMALL_QUESTIONS, every=_SMALL_EVERY)
    return Questions(times=times)
