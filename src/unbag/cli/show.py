"""Progress bars with a rate and the time left, on the terminal or as plain lines in a log."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bars,
)
from rich.text import Text

from unbag.engine.progress import Advance

UNLIMITED = 10_000
"""Wider than any table or sentence."""


def output() -> Console:
    """Where tables go. A pipe has no width of its own, so nothing is broken or cut off there."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=UNLIMITED)


class _Rate(ProgressColumn):
    """Steps a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(rate_text(speed) if speed else "", style="dim")


def rate_text(speed: float) -> str:
    """Steps a second; slow ones the other way round, since `0/s` says nothing."""
    return f"{speed:,.0f}/s" if speed >= 1 else f"{1 / speed:,.1f} s each"


class Shown:
    """Bars that vanish when done, and lines that stay."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def task(self, what: str, total: int) -> Iterator[Advance]:
        """A bar; in a log file one line when it is done."""
        if not total:
            yield lambda steps: None
            return
        start = time.monotonic()
        if self.console.is_terminal:
            with self._bars() as bars:
                task = bars.add_task(what, total=total)
                yield lambda steps: bars.advance(task, steps)
        else:
            yield lambda steps: None
        seconds = max(time.monotonic() - start, 1e-9)
        line = f"  {what}: {total:,} in {seconds:.1f} s ({rate_text(total / seconds)})"
        self.console.print(line, style="dim", highlight=False)

    def say(self, message: str) -> None:
        """A line that stays."""
        self.console.print(f"  note: {message}", style="yellow", highlight=False, markup=False)

    def _bars(self) -> Bars:
        return Bars(
            TextColumn("  {task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
