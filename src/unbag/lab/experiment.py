"""What an experiment of the lab is: arms that can be run on base models, each kept as a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from unbag.errors import unknown_name
from unbag.lab.arm_result import Extent, Size
from unbag.lab.claim import ArmKey

Say = Callable[[str], None]


@dataclass(frozen=True)
class Order:
    """What a run of the lab wants of an experiment."""

    bases: tuple[Path, ...]
    """Weights of tiny models, `tiny-0.safetensors` and so on: the stem names the base."""
    arms: tuple[str, ...]
    """One that another needs stands before it."""
    out: Path
    """Results go to `result_path`, weights beside them; an arm whose result is there is left
    alone."""
    size: Size = "full"
    device: str = "cpu"
    workers: int = 0
    """Processes that make scenes."""
    processes: int = 1
    """In which arms may be run side by side."""
    photos: Path | None = None
    """Photographs with captions, for experiments that need some; small runs draw their own."""


class Experiment(Protocol):
    """Arms that share bases, data and questions."""

    @property
    def name(self) -> str:
        """Under which results are kept."""

    @property
    def about(self) -> str:
        """What is done to a base, in one line."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Every arm, controls too, in the order in which tables show them."""

    @property
    def reads_bases(self) -> bool:
        """Whether it reads the weights of bases, or takes their names alone."""

    @property
    def on_processor(self) -> bool:
        """Whether its time is that of one core of a CPU, whatever the device."""

    @property
    def most_processes(self) -> int:
        """In how many processes its arms gain from being run side by side.

        Those of one base, if it reads bases: other bases have processes of their own. Else no more
        than one for each base.
        """

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Arms of this or another experiment whose weights an arm reads; they are run before."""

    def seconds(self, arm: str) -> float:
        """Roughly, of one arm on one base, for the price that is said before.

        On one H200, or on one core of a CPU if it is `on_processor`.
        """

    def extent(self, arm: str, *, size: Size) -> Extent:
        """How far this version trains and asks an arm; results of another extent are refused."""

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run what is missing; the same order goes on after a stop."""


EXPERIMENTS = MappingProxyType(
    {
        "default": "unbag.lab.repair_experiment:DEFAULT",
        "ordered": "unbag.lab.repair_experiment:ORDERED",
        "held_out": "unbag.lab.repair_experiment:HELD_OUT",
        "readouts": "unbag.lab.readout_experiment:READOUTS",
        "pretraining": "unbag.lab.pretraining:PRETRAINING",
        "probes": "unbag.lab.probe_experiment:PROBES",
        "priors": "unbag.lab.prior_experiment:PRIORS",
        "photos": "unbag.lab.photos_experiment:PHOTOS",
    }
)
"""By name, where each is defined: only those that are asked for are imported."""


def find_experiment(name: str) -> Experiment:
    """By name."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    module, _, attribute = EXPERIMENTS[name].partition(":")
    found: Experiment = getattr(import_module(module), attribute)
    return found
