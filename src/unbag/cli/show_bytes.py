"""Bars that count bytes, with the speed and the time left; in a log file one line when done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from unbag.download.showing import Advance, readable

SLOW = 2.0
"""Seconds from which on a finished bar leaves a line: hundreds of small files say nothing."""


class ShownBytes:
    """The `task` that downloads ask for."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @contextmanager
    def task(self, what: str, total: int) -> Iterator[Advance]:
        """A bar that vanishes when done; without end where the size is not known."""
        start = time.monotonic()
        if self.console.is_terminal:
            with self._bars() as bars:
                task = bars.add_task(what, total=total or None)
                yield lambda steps: bars.advance(task, steps)
        else:
            yield lambda steps: None
        seconds = time.monotonic() - start
        if seconds > SLOW:
            speed = f" ({readable(round(total / seconds))}/s)" if total else ""
            line = f"  {what}: {readable(total) if total else 'done'} in {seconds:.0f} s{speed}"
            self.console.print(line, style="dim", highlight=False, markup=False)

    def _bars(self) -> Progress:
        return Progress(
            TextColumn("  {task.description}", markup=False),
            BarColumn(bar_width=None),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
