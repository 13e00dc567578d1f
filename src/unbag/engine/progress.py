"""How long work tells that it goes on, without knowing who listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """Shows bars and messages, or nothing."""

    def task(self, what: str, total: int) -> AbstractContextManager[Advance]:
        """A bar for `total` steps; the function it gives moves it on."""

    def say(self, message: str) -> None:
        """A line that stays."""


class Silent:
    """Shows nothing; keeps what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    @contextmanager
    def task(self, what: str, total: int) -> Iterator[Advance]:
        """No bar."""
        yield lambda steps: None

    def say(self, message: str) -> None:
        """Keep it."""
        self.said.append(message)
