"""Tables and progress bars on the terminal; in a log file or a pipe plain lines instead."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

from unbag.data.archives import readable
from unbag.reports.formatting import speed_text
from unbag.runs.progress import Advance

_LONG = 60.0
"""Seconds between two lines in a log."""

_SLOW = 2.0
"""Seconds from which on a finished download leaves a line: hundreds of small files say nothing."""

_UNLIMITED = 10_000
"""Wider than any table or sentence."""


def output() -> Console:
    """Where tables go. A pipe has no width, so lines are neither wrapped nor cut off there."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=_UNLIMITED)


def print_lines(lines: Iterable[str], *, style: str = "", soft_wrap: bool = False) -> None:
    """Lines beside the tables; names in them are neither markup nor highlighted."""
    console = output()
    for line in lines:
        console.print(line, style=style, highlight=False, markup=False, soft_wrap=soft_wrap)


def shown() -> Shown:
    """Progress on standard error."""
    return Shown(Console(stderr=True))


class Shown:
    """Progress of a long job: bars that vanish when done, and lines that stay."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def task(self, what: str, total: int) -> Iterator[Advance]:
        """A bar; in a log file a line every minute, and one when it is done."""
        if not total:
            yield lambda steps: None
            return
        done = _Done(what, total)
        if self.console.is_terminal:
            bars = _bars(
                self.console, TextColumn("  {task.description}"), MofNCompleteColumn(), _Rate()
            )
            with bars:
                task = bars.add_task(what, total=total)

                def advance(steps: int) -> None:
                    done.count += steps
                    bars.advance(task, steps)

                yield advance
        else:

            def tell(steps: int) -> None:
                done.count += steps
                if done.is_due():
                    self.console.print(f"  {done.so_far()}", style="dim", highlight=False)

            yield tell
        self.console.print(f"  {done.at_end()}", style="dim", highlight=False)

    def say(self, message: str) -> None:
        """A line that stays."""
        self.console.print(f"  note: {message}", style="yellow", highlight=False, markup=False)


class ShownBytes:
    """Progress of downloads: bars that count bytes, and a line at the end."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def task(self, what: str, total: int) -> Iterator[Advance]:
        """A bar that vanishes when done; without end where the size is not known."""
        start = time.monotonic()
        if self.console.is_terminal:
            name = TextColumn("  {task.description}", markup=False)
            with _bars(self.console, name, DownloadColumn(), TransferSpeedColumn()) as bars:
                task = bars.add_task(what, total=total or None)
                yield lambda steps: bars.advance(task, steps)
        else:
            yield lambda steps: None
        seconds = time.monotonic() - start
        if seconds > _SLOW:
            speed = f" ({readable(round(total / seconds))}/s)" if total else ""
            line = f"  {what}: {readable(total) if total else 'done'} in {seconds:.0f} s{speed}"
            self.console.print(line, style="dim", highlight=False, markup=False)


def _bars(console: Console, name: ProgressColumn, *counts: ProgressColumn) -> Progress:
    """Bars that vanish when they are done."""
    bar, left = BarColumn(bar_width=None), TimeRemainingColumn()
    return Progress(name, bar, *counts, left, console=console, transient=True)


class _Done:
    """How far some work is."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.count = what, total, 0
        self.start = self.told = time.monotonic()

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self.start, 1e-9)

    def is_due(self) -> bool:
        """Whether a log has heard nothing for long."""
        if time.monotonic() - self.told < _LONG or self.count >= self.total:
            return False
        self.told = time.monotonic()
        return True

    def so_far(self) -> str:
        rate = self.count / self.seconds
        left = (self.total - self.count) / rate / 60 if rate else 0.0
        return (
            f"{self.what}: {self.count:,} of {self.total:,} ({speed_text(rate)}), "
            f"about {left:.0f} min left"
        )

    def at_end(self) -> str:
        # Work that does not count its steps has done them all.
        count = self.count or self.total
        return (
            f"{self.what}: {count:,} in {self.seconds:.1f} s ({speed_text(count / self.seconds)})"
        )


class _Rate(ProgressColumn):
    """Steps a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(speed_text(speed) if speed else "", style="dim")
