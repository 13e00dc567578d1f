"""Print tables and progress bars on a terminal, and plain lines in a log file or pipe."""

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
"""Seconds between two lines in a log file."""

_SLOW = 2.0
"""Finished downloads that took longer, in seconds, print a line; small files do not."""

_UNLIMITED = 10_000
"""Wider than any table or sentence."""


def output() -> Console:
    """Return the console for tables. A pipe has no width, so that lines are never wrapped."""
    console = Console()
    return console if console.is_terminal or "COLUMNS" in os.environ else Console(width=_UNLIMITED)


def print_lines(lines: Iterable[str], *, style: str = "", soft_wrap: bool = False) -> None:
    """Print lines of text without markup or highlighting."""
    console = output()
    for line in lines:
        console.print(line, style=style, highlight=False, markup=False, soft_wrap=soft_wrap)


def terminal_progress() -> TerminalProgress:
    """Show progress on standard error."""
    return TerminalProgress(Console(stderr=True))


class TerminalProgress:
    """Progress of a long job: bars that disappear when done, and lines that stay."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """Show a bar; in a log file, print a line every minute and one at the end."""
        if not total:
            yield lambda steps: None
            return
        job = _ProgressLine(label, total)
        if self.console.is_terminal:
            bars = _bars(
                self.console, TextColumn("  {task.description}"), MofNCompleteColumn(), _Rate()
            )
            with bars:
                task = bars.add_task(label, total=total)

                def advance(steps: int) -> None:
                    job.count += steps
                    bars.advance(task, steps)

                yield advance
        else:

            def log_progress(steps: int) -> None:
                job.count += steps
                if job.is_due():
                    self.console.print(f"  {job.status()}", style="dim", highlight=False)

            yield log_progress
        self.console.print(f"  {job.summary()}", style="dim", highlight=False)

    def say(self, message: str) -> None:
        """Print a line that stays."""
        self.console.print(f"  note: {message}", style="yellow", highlight=False, markup=False)


class DownloadProgress:
    """Progress of downloads: bars that count bytes, and a line at the end."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """Show a bar that disappears when done, without an end if the size is unknown."""
        start = time.monotonic()
        if self.console.is_terminal:
            name = TextColumn("  {task.description}", markup=False)
            with _bars(self.console, name, DownloadColumn(), TransferSpeedColumn()) as bars:
                task = bars.add_task(label, total=total or None)
                yield lambda steps: bars.advance(task, steps)
        else:
            yield lambda steps: None
        seconds = time.monotonic() - start
        if seconds > _SLOW:
            speed = f" ({readable(round(total / seconds))}/s)" if total else ""
            line = f"  {label}: {readable(total) if total else 'done'} in {seconds:.0f} s{speed}"
            self.console.print(line, style="dim", highlight=False, markup=False)


def _bars(console: Console, name: ProgressColumn, *counts: ProgressColumn) -> Progress:
    """Return bars that disappear when they are done."""
    bar, left = BarColumn(bar_width=None), TimeRemainingColumn()
    return Progress(name, bar, *counts, left, console=console, transient=True)


class _ProgressLine:
    """The state of a job as a line of text."""

    def __init__(self, label: str, total: int) -> None:
        self.label, self.total, self.count = label, total, 0
        self.start = self.last_printed = time.monotonic()

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self.start, 1e-9)

    def is_due(self) -> bool:
        """Return whether a log file is due another line."""
        if time.monotonic() - self.last_printed < _LONG or self.count >= self.total:
            return False
        self.last_printed = time.monotonic()
        return True

    def status(self) -> str:
        rate = self.count / self.seconds
        left = (self.total - self.count) / rate / 60 if rate else 0.0
        return (
            f"{self.label}: {self.count:,} of {self.total:,} ({speed_text(rate)}), "
            f"about {left:.0f} min left"
        )

    def summary(self) -> str:
        # A job that does not count its steps has done all of them.
        count = self.count or self.total
        return (
            f"{self.label}: {count:,} in {self.seconds:.1f} s ({speed_text(count / self.seconds)})"
        )


class _Rate(ProgressColumn):
    """Steps per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(speed_text(speed) if speed else "", style="dim")
