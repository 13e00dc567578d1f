"""Tasks come in; each is done in a process of its own, as many at once as there is room for.

Nothing is kept of what one leaves behind but its results in the folder, and one that fails stops
no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait

from unbag.lab.apart import Begun

_LOOK = 30.0
"""Seconds after which whoever waits is told how far all is."""
Work = Callable[[], None]


@dataclass(frozen=True, eq=False)
class Task:
    """Something to do once all of `after` have ended, well or not."""

    name: str
    work: Callable[[], Work | None]
    """Asked when its turn has come, when what it needs is there or never will be; None: nothing."""
    room: int
    """Processes that it takes."""
    seconds: float
    """Roughly."""
    after: frozenset[str] = frozenset()
    """Names of tasks."""


def at_once(
    tasks: Sequence[Task], *, room: int, look: Callable[[], None]
) -> Iterator[tuple[Task, Begun[None]]]:
    """Tasks as they end, with their results; one that takes more than all the room is run alone.

    After Ctrl-C, which all of them hear, it waits until the last is gone.
    """
    left = sorted(tasks, key=lambda task: -_chain(task, tasks))
    live: dict[object, tuple[Task, Begun[None]]] = {}
    try:
        while left or live:
            for task in _to_begin(left, [task for task, _ in live.values()], room):
                left.remove(task)
                if (work := task.work()) is not None:
                    begun = Begun(work)
                    live[begun.ours] = task, begun
            if live:
                ready = wait([begun.ours for _, begun in live.values()], timeout=_LOOK)
                if not ready:
                    look()
                for pipe in ready:
                    yield live.pop(pipe)
    finally:
        for _, begun in live.values():
            begun.join()


def _chain(task: Task, tasks: Sequence[Task]) -> float:
    """Seconds until the last that waits for it could end; the longest chain is begun first."""
    later = (_chain(one, tasks) for one in tasks if task.name in one.after)
    return task.seconds + max(later, default=0.0)


def _to_begin(left: Sequence[Task], live: Sequence[Task], room: int) -> list[Task]:
    """Those that may begin now; where one of them lacks room, none overtakes it."""
    waited = {task.name for task in (*left, *live)}
    free = room - sum(task.room for task in live)
    found: list[Task] = []
    for task in left:
        if task.after & waited:
            continue
        if task.room > free and (live or found):
            break
        found.append(task)
        free -= task.room
    return found
