"""Ctrl-C and SIGTERM during training: the step is finished and saved before the run stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from unbag.engine.team import Team

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Stopping:
    """Whether somebody asked to stop."""

    team: Team
    is_asked: bool = False

    def agreed(self) -> bool:
        """Asked of any process; all must leave after the same step, or one waits for ever."""
        if self.team.size == 1:
            return self.is_asked
        import torch
        from torch import distributed

        votes = torch.tensor([int(self.is_asked)])
        distributed.all_reduce(votes)
        return bool(votes.item())


@contextmanager
def stops_gently(team: Team) -> Iterator[Stopping]:
    """The first signal is kept for the end of the step; a second one stops at once."""
    found = Stopping(team)
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may listen to signals.
        yield found
        return

    def keep(number: int, frame: FrameType | None) -> None:
        if found.is_asked:
            raise KeyboardInterrupt
        found.is_asked = True

    before = {number: signal.signal(number, keep) for number in _SIGNALS}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
