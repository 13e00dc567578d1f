"""An order comes in; decoders that were taught with an answer prior, and scored with M3ID, go out.

Two decoders on frozen patches learn where things are from the same pictures and as many questions.
For one of them 70 of 100 answers are left, above, on or in front of; for the other 50. Each is
scored plainly and with M3ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from unbag.errors import unknown_name
from unbag.lab.arm_result import Extent, Size
from unbag.lab.claim import ArmKey
from unbag.lab.experiment import Order, Say

M3ID_ENDING = "-m3id"
SHARES: Mapping[str, float] = MappingProxyType({"even": 0.5, "prior": 0.7})
"""Decoders, and how many of their answers are frequent ones."""
_SECONDS = 70.0


@dataclass(frozen=True)
class PriorExperiment:
    """Two decoders, two ways to score each."""

    name: str = "priors"
    reads_bases: bool = True
    on_processor: bool = False
    most_processes: int = 2
    about: str = "decoders on frozen patches, taught with and without an answer prior; M3ID"
    arms: tuple[str, ...] = tuple(
        f"{taught}{ending}" for taught in SHARES for ending in ("", M3ID_ENDING)
    )

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """M3ID is another way to score a decoder."""
        if arm not in self.arms:
            raise unknown_name("arm", arm, self.arms)
        taught = arm.removesuffix(M3ID_ENDING)
        return () if arm == taught else ((self.name, taught),)

    def seconds(self, arm: str) -> float:
        """Nothing is trained for M3ID."""
        return 5.0 if self.needs(arm) else _SECONDS

    def extent(self, arm: str, *, size: Size) -> Extent:
        """That of the other decoders; nothing is trained for M3ID."""
        from unbag.lab.prior_run import decoder_settings, sized

        settings = sized(size)
        taught = decoder_settings(settings.steps, size)
        return Extent(0 if self.needs(arm) else taught.steps, taught.batch, settings.times)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run what is missing; the same order goes on after a stop."""
        # Everything that needs torch, which a list of arms does not.
        from unbag.lab.prior_run import run_priors

        for arm in order.arms:
            self.needs(arm)
        run_priors(order, self, say=say)


PRIORS = PriorExperiment()
