"""Tasks come in; each is done in a process of its own, as many at once as there is room for.

Nothing is kept of what one leaves behind but its results in the folder, and one that fails stops
no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait

from unbag.errors import UserError
from unbag.lab.apart import Begun, BrokenError, DiedError, can_fork

_LOOK = 30.0
"""Seconds after which whoever waits is told how far all is."""
Work = Callable[[], None]


@dataclass(frozen=True, eq=False)
class Task:
    """Something to do once all of `after` have ended, well or not."""

    name: str
    work: Callable[[int], Work | None]
    """Asked when its turn has come, when what it needs is there or never will be, and told how many
    processes it may take; None: there is nothing to do."""
    room: int
    """Processes that it wants; with half of them it begins."""
    seconds: float
    """Roughly."""
    after: frozenset[str] = frozenset()
    """Names of tasks."""


def at_once(
    tasks: Sequence[Task], *, room: int, look: Callable[[], None]
) -> Iterator[tuple[Task, Begun[None]]]:
    """Tasks as they end, with their results.

    After Ctrl-C, which all of them hear, it waits until the last is gone.
    """
    left = sorted(tasks, key=lambda task: -_chain(task, tasks))
    live: dict[object, tuple[Task, int, Begun[None]]] = {}
    try:
        while left or live:
            free = room - sum(taken for _, taken, _ in live.values())
            for task, taken in _to_begin(left, [task for task, _, _ in live.values()], free):
                left.remove(task)
                if (work := task.work(taken)) is not None:
                    begun = Begun(work)
                    live[begun.ours] = task, taken, begun
            if live:
                ready = wait([begun.ours for _, _, begun in live.values()], timeout=_LOOK)
                if not ready:
                    look()
                for pipe in ready:
                    task, _, begun = live.pop(pipe)
                    yield task, begun
    finally:
        for _, _, begun in live.values():
            begun.join()


@dataclass(frozen=True, eq=False)
class Share:
    """Some of the work of an experiment."""

    work: Work
    seconds: float
    """Roughly."""


def each_apart(shares: Sequence[Share], *, processes: int) -> None:
    """Each in a process of its own, the longest first; with one process all are done here, in turn.

    Raises the first error once all have ended. Nothing may have touched a GPU before.
    """
    if processes <= 1 or not can_fork():
        for share in shares:
            share.work()
        return
    tasks = [
        Task(f"{place}", partial(_given, share.work), 1, share.seconds)
        for place, share in enumerate(shares)
    ]
    errors: list[Exception] = []
    for _, begun in at_once(tasks, room=processes, look=_nothing):
        try:
            begun.result()
        except (UserError, DiedError, BrokenError) as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _given(work: Work, taken: int) -> Work:
    return work


def _nothing() -> None:
    pass


def _chain(task: Task, tasks: Sequence[Task]) -> float:
    """Seconds until the last that waits for it could end; the longest chain is begun first."""
    later = (_chain(one, tasks) for one in tasks if task.name in one.after)
    return task.seconds + max(later, default=0.0)


def _to_begin(left: Sequence[Task], live: Sequence[Task], free: int) -> list[tuple[Task, int]]:
    """Those that may begin now, and with how many processes.

    One begins with half of what it wants, or with what there is if nothing else runs. Where one of
    them lacks room, none overtakes it.
    """
    waited = {task.name for task in (*left, *live)}
    found: list[tuple[Task, int]] = []
    for task in left:
        if task.after & waited:
            continue
        taken = min(task.room, free)
        if 2 * taken < task.room and (live or found):
            break
        found.append((task, taken))
        free -= taken
    return found
