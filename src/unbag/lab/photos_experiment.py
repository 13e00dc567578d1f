"""An order comes in; heads of photographs, repairs of them, and a reader of captions go out.

Both pretrained parts stay as they are installed, so what they make of photographs and captions is
computed once and arms take minutes on a CPU. Nothing is read of a base but the seed in its name.
"""

from __future__ import annotations

from dataclasses import dataclass

from unbag.errors import unknown_name
from unbag.lab.arm_result import Extent, Size
from unbag.lab.claim import ArmKey
from unbag.lab.experiment import Order, Say

NAME = "photos"
START, BLIND = "heads", "blind"
REPAIRS = ("clip_ft", "neg_clip", "hard_negative", "hard_positive", "ce_clip_fixed")
_EXTENTS = {START: Extent(180, 512, 1), BLIND: Extent(0, 0, 1)}
_REPAIRED = Extent(190, 256, 1)
"""As many steps for any number of photographs; twenty and ten epochs of five thousand."""
_SMALL = 3
_HEADS, _REPAIR, _BLIND = 30.0, 30.0, 30.0
"""Seconds on one core of a CPU: nothing here needs a GPU."""


@dataclass(frozen=True)
class PhotosExperiment:
    """Arms on photographs of the user's own; see `unbag.lab.experiment.Experiment`."""

    name: str = NAME
    reads_bases: bool = False
    on_processor: bool = True
    most_processes: int = 1
    about: str = "heads on two frozen parts, on photographs: repairs, and a reader of captions"
    arms: tuple[str, ...] = (START, *REPAIRS, BLIND)

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Repairs go on from the heads of their seed."""
        if arm not in self.arms:
            raise unknown_name("arm", arm, self.arms)
        return ((self.name, START),) if arm in REPAIRS else ()

    def seconds(self, arm: str) -> float:
        """On one core, features not counted."""
        self.needs(arm)
        return {START: _HEADS, BLIND: _BLIND}.get(arm, _REPAIR)

    def extent(self, arm: str, *, size: Size) -> Extent:
        """Whatever the number of photographs; a reader takes no steps."""
        self.needs(arm)
        found = _EXTENTS.get(arm, _REPAIRED)
        return found if size == "full" or arm == BLIND else Extent(_SMALL, 64, 1)

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run what is missing; the same order goes on after a stop."""
        # Everything that needs torch, which a list of arms does not.
        from unbag.lab.photos_run import run_photos

        for arm in order.arms:
            self.needs(arm)
        run_photos(order, self, say=say)


PHOTOS = PhotosExperiment()
