"""A plan and the folder that fills come in; how long the rest will take goes out."""

from __future__ import annotations

import time
from pathlib import Path

from unbag.lab.arm_result import result_path
from unbag.lab.experiment import Say
from unbag.lab.plan import Plan
from unbag.lab.run_folder import base_path

_EVERY = 30.0
"""Seconds between two lines about the whole."""
_ENOUGH = 0.1
"""Of what is planned, for a pace: where much runs at once, the short ends long before the rest."""


class Clock:
    """Goes by how much of the planned time stands in the folder as results.

    The pace is that since the first of them: what is made before, features or scenes, is made once
    and may take longer than all results together.
    """

    def __init__(self, plan: Plan, out: Path, *, say: Say) -> None:
        self._say = say
        self._planned = {base_path(out, name): each for name, each in plan.untrained.items()}
        for part in plan.parts:
            for base, arm in part.missing:
                self._planned[result_path(out, part.experiment, base, arm)] = part.each[arm]
        self._results = plan.count
        self._told = time.monotonic()
        self._first: tuple[float, float] | None = None

    def indented(self, line: str) -> None:
        """A line of the work itself."""
        self._say(f"  {line}")

    def told(self, line: str) -> None:
        """The same, and now and then one about the whole."""
        self.indented(line)
        if self._first is None:
            self._done()
        if time.monotonic() - self._told >= _EVERY:
            self._told = time.monotonic()
            self._say(f"  {self.so_far()}")

    def so_far(self) -> str:
        """How many results of all are there."""
        count = sum(path.suffix == ".json" and path.exists() for path in self._planned)
        return f"{count} of {self._results} results{self.left()}"

    def left(self) -> str:
        """At the pace so far; nothing before there is one."""
        done, whole = self._done(), sum(self._planned.values())
        if self._first is None:
            return ""
        since, before = self._first
        if done == whole or done - before < _ENOUGH * (whole - before):
            return ""
        pace = (time.monotonic() - since) / (done - before)
        return f"; about {duration((whole - done) * pace)} left in all"

    def _done(self) -> float:
        """Planned seconds of what stands in the folder; remembers when the first did."""
        done = sum(each for path, each in self._planned.items() if path.exists())
        if done and self._first is None:
            self._first = time.monotonic(), done
        return done


def duration(seconds: float) -> str:
    """For people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def counted(count: int, what: str) -> str:
    """One arm, two arms."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
