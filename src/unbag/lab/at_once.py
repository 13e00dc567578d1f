"""Tasks come in; each is done in a process of its own, as many at once as there is room for.

Nothing is kept of what one leaves behind but its results in the folder, and one that fails stops
no other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait

from unbag.errors import UserError
from unbag.lab.apart import Begun, BrokenError, DiedError, can_fork, end_all

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
    """Roughly, in one process."""
    after: frozenset[str] = frozenset()
    """Names of tasks."""
    is_beside: bool = False
    """Takes no room from the others, as it computes elsewhere."""


def at_once(
    tasks: Sequence[Task], *, room: int, look: Callable[[], None]
) -> Iterator[tuple[Task, Begun[None]]]:
    """Tasks as they end, with their results.

    After Ctrl-C, which most often all of them hear, it waits until the last is gone.
    """
    left = sorted(tasks, key=lambda task: -_chain(task, tasks))
    live: dict[object, tuple[Task, int, Begun[None]]] = {}
    try:
        while left or live:
            free = room - sum(taken for task, taken, _ in live.values() if not task.is_beside)
            for task, taken in _to_begin(left, [task for task, _, _ in live.values()], free):
                left.remove(task)
                if (work := task.work(taken)) is not None:
                    begun = Begun(partial(_behind, work) if task.is_beside else work)
                    live[begun.ours] = task, taken, begun
            if live:
                ready = wait([begun.ours for _, _, begun in live.values()], timeout=_LOOK)
                if not ready:
                    look()
                for pipe in ready:
                    task, _, begun = live.pop(pipe)
                    yield task, begun
    finally:
        end_all([begun for _, _, begun in live.values()])


@dataclass(frozen=True, eq=False)
class Share:
    """Some of the work of an experiment."""

    name: str
    """Told if it fails."""
    work: Work
    seconds: float = 1.0
    """Roughly."""


def shares(
    run: Callable[[Sequence[str]], None],
    groups: Sequence[Sequence[str]],
    *,
    seconds: Callable[[str], float] = lambda arm: 1.0,
) -> list[Share]:
    """Groups of arms as work that can be done apart; arms that read one another stay together."""
    return [
        Share(", ".join(group), partial(run, group), sum(map(seconds, group))) for group in groups
    ]


def each_apart(shares: Sequence[Share], *, processes: int, say: Callable[[str], None]) -> None:
    """Each in a process of its own, the longest first. Nothing may have touched a GPU before.

    One that fails is told at once and stops no other; when all have ended its error is raised, the
    first of several. With one process all is done here, in turn, up to the first that fails.
    """
    if processes <= 1 or not can_fork():
        for share in shares:
            share.work()
        return
    tasks = [Task(share.name, partial(_given, share.work), 1, share.seconds) for share in shares]
    errors: list[Exception] = []
    for task, begun in at_once(tasks, room=processes, look=_nothing):
        try:
            begun.result()
        except (UserError, DiedError, BrokenError) as error:
            said = f"{task.name} failed: {error}"
            # A traceback is lost with the machine, if it is not told before the others have ended.
            say(f"{said}\n{error.trace}" if isinstance(error, BrokenError) else said)
            errors.append(_named(task.name, error))
    if errors:
        raise errors[0]


def _named(name: str, error: Exception) -> Exception:
    """With what failed, where the error itself says nothing of it."""
    if isinstance(error, DiedError):
        return DiedError(f"{name}: {error}")
    if isinstance(error, BrokenError):
        return BrokenError(f"{name}: {error.said}", error.trace)
    return error


def _given(work: Work, taken: int) -> Work:
    return work


def _nothing() -> None:
    pass


def _behind(work: Work) -> None:
    """Cores go first to those that keep a GPU busy."""
    os.nice(10)
    work()


def _chain(task: Task, tasks: Sequence[Task]) -> float:
    """Seconds until the last that waits for it could end; the longest chain is begun first."""
    later = (_chain(one, tasks) for one in tasks if task.name in one.after)
    return task.seconds / task.room + max(later, default=0.0)


def _to_begin(left: Sequence[Task], live: Sequence[Task], free: int) -> list[tuple[Task, int]]:
    """Those that may begin now, and with how many processes.

    One begins with half of what it wants, or with what there is if it shares it with none. Where
    one of them lacks room, none overtakes it but those that take none.
    """
    waited = {task.name for task in (*left, *live)}
    found: list[tuple[Task, int]] = []
    is_shared = not all(task.is_beside for task in live)
    for task in left:
        if task.after & waited:
            continue
        if task.is_beside:
            found.append((task, task.room))
            continue
        taken = min(task.room, free)
        if is_shared and 2 * taken < task.room:
            free = 0
            continue
        found.append((task, taken))
        free -= taken
        is_shared = True
    return found
