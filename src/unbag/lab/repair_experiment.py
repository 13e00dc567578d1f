"""The repair experiments as the lab runs them: an order comes in, results of its arms go out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from unbag.lab.arm_result import BEFORE, UNTRAINED, Extent, Size
from unbag.lab.claim import ArmKey
from unbag.lab.experiment import Order, Say
from unbag.lab.repair_arms import ARMS, EXPERIMENTS, LOCKED, VARIANTS
from unbag.lab.repair_bases import repair_bases
from unbag.lab.repair_leak import BLIND
from unbag.lab.repair_training import Settings

SMALL = Settings(steps=4, batch=16, times=1, size="small")
"""Shows that everything runs."""
SMALL_BENCH = (
    "world-swap",
    "world-replace",
    "world-relation",
    "world-pairs-a",
    "world-pairs-b",
)
"""What the claims about repairs ask."""
_OPEN = 12.0
_LOCKED = 6.0
_ASKED = 4.0
"""Seconds of one arm alone on one H200."""


@dataclass(frozen=True)
class RepairExperiment:
    """Arms of one kind of captions; see `unbag.lab.experiment.Experiment`."""

    name: str
    trained: tuple[str, ...]
    reads_bases: bool = True
    on_processor: bool = False
    most_processes: int = 1
    """Arms of a base share their scenes, which each process makes again."""

    @property
    def about(self) -> str:
        """What its arms are trained on."""
        return EXPERIMENTS[self.name].about

    @property
    def arms(self) -> tuple[str, ...]:
        """The network before any training, the base, the blind reader, and what was trained."""
        return (UNTRAINED, BEFORE, BLIND, *self.trained)

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Nothing: every arm begins with the base."""
        return ()

    def seconds(self, arm: str) -> float:
        """Of one arm alone; less for each where several processes share the device."""
        if arm not in self.trained:
            return _ASKED
        return _ASKED + (_LOCKED if arm.endswith(LOCKED) else _OPEN)

    def extent(self, arm: str, *, size: Size) -> Extent:
        """The same for all that are trained."""
        settings = _settings(size)
        steps = settings.steps if arm in self.trained else 0
        return Extent(steps, settings.batch, settings.times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Train and ask what is missing."""
        settings = replace(
            _settings(order.size),
            experiment=self.name,
            arms=order.arms,
            device=order.device,
            workers=order.workers,
        )
        bench = SMALL_BENCH if order.size == "small" else None
        repair_bases(
            order.bases, order.out, settings, bench=bench, processes=order.processes, say=say
        )


def _settings(size: Size) -> Settings:
    return SMALL if size == "small" else Settings()


DEFAULT = RepairExperiment(
    "default", (*ARMS, *(arm for arm in VARIANTS if arm != "rephrased")), most_processes=2
)
"""One process with all its arms would be the last to end."""
ORDERED = RepairExperiment(
    "ordered", ("clip_ft", "hard_negative", "hard_positive", "positives_only", "rephrased")
)
HELD_OUT = RepairExperiment("held_out", ("hard_positive",))
