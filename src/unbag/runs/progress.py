"""Progress of long jobs, whoever shows it, and an orderly stop on Ctrl-C or SIGTERM."""

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
"""The `task` of a `Progress`: what is done, and how many steps it has; 0 if unknown."""


class Progress(Protocol):
    """Shows bars and messages, or nothing."""

    def task(self, what: str, total: int) -> AbstractContextManager[Advance]:
        """A bar for `total` steps; the function it gives moves it on."""

    def say(self, message: str) -> None:
        """Print a line that stays."""


class Silent:
    """Shows nothing; messages are collected in `said`."""

    def __init__(self) -> None:
        self.said: list[str] = []

    @contextmanager
    def task(self, what: str, total: int) -> Iterator[Advance]:
        """No bar."""
        yield lambda steps: None

    def say(self, message: str) -> None:
        """Collect the message."""
        self.said.append(message)


unseen: ProgressBar = Silent().task


@dataclass
class Stopping:
    """Whether somebody asked to stop."""

    team: Distributed
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
def stops_gently(team: Distributed) -> Iterator[Stopping]:
    """The first signal waits until the step is finished and saved; a second one stops at once."""
    found = Stopping(team)
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may listen to signals.
        yield found
        return

    def keep(number: int, frame: FrameType | None) -> None:
        if found.is_asked:
            raise KeyboardInterrupt
        found.is_asked = True

    before = {n: signal.signal(n, keep) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
