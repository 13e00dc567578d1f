"""Progress of long jobs, and a graceful stop on Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from unbag.runs.distributed import Distributed

Advance = Callable[[int], None]
ProgressBar = Callable[[str, int], AbstractContextManager[Advance]]
"""The `task` method of a `Progress`: a label and the number of steps, 0 if unknown."""


class Progress(Protocol):
    """Shows bars and messages, or nothing."""

    def task(self, what: str, total: int) -> AbstractContextManager[Advance]:
        """Show a bar for `total` steps; the function it yields advances the bar."""

    def say(self, message: str) -> None:
        """Print a message."""


class Silent:
    """Shows nothing; collects messages in `said`."""

    def __init__(self) -> None:
        self.said: list[str] = []

    @contextmanager
    def task(self, what: str, total: int) -> Iterator[Advance]:
        """Show nothing."""
        yield lambda steps: None

    def say(self, message: str) -> None:
        """Collect the message."""
        self.said.append(message)


unseen: ProgressBar = Silent().task


@dataclass
class Stopping:
    """Whether the user asked to stop."""

    team: Distributed
    is_asked: bool = False

    def agreed(self) -> bool:
        """Return whether any process was asked to stop, so that all stop after the same step."""
        if self.team.size == 1:
            return self.is_asked
        import torch
        from torch import distributed

        votes = torch.tensor([int(self.is_asked)])
        distributed.all_reduce(votes)
        return bool(votes.item())


@contextmanager
def stops_gently(team: Distributed) -> Iterator[Stopping]:
    """Stop after the current step on the first signal, and at once on the second."""
    stopping = Stopping(team)
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may handle signals.
        yield stopping
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stopping.is_asked:
            raise KeyboardInterrupt
        stopping.is_asked = True

    old_handlers = {n: signal.signal(n, on_signal) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
