"""A plan comes in; bases are made, experiments run, and what failed goes out.

Whatever ends a run, the same command goes on: bases and results appear whole or not at all, and
experiments keep where their trainings stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from unbag.errors import UserError
from unbag.lab.apart import BrokenError, DiedError, apart, can_fork
from unbag.lab.arm_result import Size
from unbag.lab.at_once import Task, Work, at_once
from unbag.lab.bases import make_base
from unbag.lab.clock import Clock, counted
from unbag.lab.experiment import Order, Say
from unbag.lab.plan import Find, Part, Plan, first_few
from unbag.lab.run_folder import base_path, has_result
from unbag.runs.files import write_text

_BASE = ""
"""Stands for the making of a base among experiments."""


@dataclass(frozen=True)
class Machine:
    """What a run may use."""

    device: str = "cpu"
    workers: int = 0
    processes: int = 1
    threads: int = 1
    """Of torch, in each process apart."""
    photos: Path | None = None
    """A folder of photographs with captions."""


@dataclass(frozen=True)
class Failure:
    """What could not be run, and why."""

    what: str
    why: str


def carry_out(
    plan: Plan, out: Path, *, size: Size, machine: Machine, find: Find, say: Say = print
) -> list[Failure]:
    """All of it; what fails does not take the others down."""
    run, clock = _Run(out, size, machine, find), Clock(plan, out, say=say)
    if machine.processes > 1 and can_fork():
        return _side_by_side(plan, run, clock, say)
    return _one_by_one(plan, run, clock, say)


@dataclass(frozen=True)
class _Run:
    """What all work of a run has in common."""

    out: Path
    size: Size
    machine: Machine
    find: Find

    def base(self, name: str, say: Say) -> Work:
        """Makes a base."""
        machine = self.machine
        return partial(
            make_base,
            self.out,
            name,
            size=self.size,
            device=machine.device,
            workers=machine.workers,
            say=say,
        )

    def arms(self, part: Part, bases: Sequence[str], arms: tuple[str, ...], say: Say) -> Work:
        """Runs arms of an experiment on some bases."""
        machine = self.machine
        order = Order(
            bases=tuple(base_path(self.out, base) for base in bases),
            arms=arms,
            out=self.out,
            size=self.size,
            device=machine.device,
            workers=machine.workers,
            processes=machine.processes,
            photos=machine.photos,
        )
        return partial(self.find(part.experiment).run, order, say=say)

    def of_all(self, part: Part, bases: Sequence[str], say: Say) -> list[Work]:
        """Of an experiment on these bases; without arms whose needs could not be met."""
        found: dict[tuple[str, ...], list[str]] = {}
        reads_bases = self.find(part.experiment).reads_bases
        for base in bases:
            if not reads_bases or base_path(self.out, base).exists():
                found.setdefault(_ready(part, base, self.out), []).append(base)
        return [self.arms(part, some, arms, say) for arms, some in found.items() if arms]

    def share(self, processes: int) -> _Run:
        """With so many of the processes, and a third of the workers.

        Most work wants scenes at its beginning only; repairs want them to the end.
        """
        workers = -(-self.machine.workers // 3)
        return replace(self, machine=replace(self.machine, workers=workers, processes=processes))


def _one_by_one(plan: Plan, run: _Run, clock: Clock, say: Say) -> list[Failure]:
    failures = []
    machine = run.machine
    done = partial(apart, device=machine.device, threads=machine.threads)
    for name in plan.untrained:
        say(f"base {name}")
        failures += _tried(f"base {name}", partial(done, run.base(name, clock.indented)), run.out)
    for place, part in enumerate(plan.parts, start=1):
        count = f"{counted(len(part.arms), 'arm')} on {counted(len(part.bases), 'base')}"
        say(f"{place} of {len(plan.parts)}: {part.experiment}, {count}{clock.left()}")
        failed: list[Failure] = []
        for work in run.of_all(part, part.bases, clock.told):
            failed += _tried(part.experiment, partial(done, work), run.out)
        failures += failed or _lacking(part, run.out)
    return failures


def _side_by_side(plan: Plan, run: _Run, clock: Clock, say: Say) -> list[Failure]:
    """Bases and experiments at once, each with its share of processes and workers."""
    tasks, room = _tasks(plan, run, say), run.machine.processes
    if tasks:
        say(f"{counted(len(tasks), 'task')}, in up to {room} processes at once")
    failures: list[Failure] = []
    for task, begun in at_once(tasks, room=room, look=lambda: say(f"  {clock.so_far()}")):
        failed = _tried(task.name, begun.result, run.out)
        say(f"{task.name}: {'failed' if failed else 'done'}; {clock.so_far()}")
        failures += failed
    for part in plan.parts:
        if not any(one.what.startswith(f"{part.experiment} ") for one in failures):
            failures += _lacking(part, run.out)
    return failures


def _tasks(plan: Plan, run: _Run, say: Say) -> list[Task]:
    """Each waits for its bases and for arms of others that its own need."""
    tasks: list[Task] = []
    names: dict[tuple[str, str], list[str]] = {}
    for base, seconds in plan.untrained.items():
        name = f"base {base}"
        begin: Callable[[int], Work | None] = partial(
            _trained, run, base, partial(_named, say, name)
        )
        tasks.append(Task(name, begin, 1, seconds))
        names[_BASE, base] = [name]
    for part in plan.parts:
        experiment = run.find(part.experiment)
        groups, most = [part.bases], min(experiment.most_processes, len(part.bases))
        if experiment.reads_bases:
            groups, most = [(base,) for base in part.bases], experiment.most_processes
        room = max(1, min(most, run.machine.processes // len(groups)))
        others = {name for some in part.needs.values() for name, _ in some}
        for bases in groups:
            kinds = (*((_BASE,) if experiment.reads_bases else ()), part.experiment, *others)
            before = [(kind, base) for kind in kinds for base in bases]
            after = frozenset(name for one in before for name in names.get(one, ()))
            name = f"{part.experiment} on {', '.join(bases)}"
            while name in after:
                name += " again"
            seconds = sum(part.each[arm] for base, arm in part.missing if base in bases)
            begin = partial(_together, run, part, bases, partial(_named, say, name))
            is_beside = experiment.on_processor and run.machine.device != "cpu"
            tasks.append(Task(name, begin, room, seconds, after, is_beside))
            for base in bases:
                names.setdefault((part.experiment, base), []).append(name)
    return tasks


def _named(say: Say, name: str, line: str) -> None:
    say(f"  {name}: {line}")


def _trained(run: _Run, base: str, say: Say, processes: int) -> Work:
    say("begins")
    return run.share(processes).base(base, say)


def _together(run: _Run, part: Part, bases: Sequence[str], say: Say, processes: int) -> Work | None:
    """Arms with unlike needs one after the other; nothing where no arm can be run."""
    every = run.share(processes).of_all(part, bases, say)
    if not every:
        return None
    say("begins" if processes == 1 else f"begins, in {processes} processes")
    return partial(_each, every)


def _each(every: Sequence[Work]) -> None:
    for work in every:
        work()


def _lacking(part: Part, out: Path) -> list[Failure]:
    missing = [
        f"{arm} on {base}"
        for base, arm in part.missing
        if not has_result(out, part.experiment, base, arm)
    ]
    return [Failure(part.experiment, f"no result of {first_few(missing)}")] if missing else []


def _ready(part: Part, base: str, out: Path) -> tuple[str, ...]:
    """Arms whose needs are there, or come before them in the same order."""
    ready: list[str] = []
    for own, arm in part.missing:
        needs = part.needs[arm] if own == base else ()
        met = [
            has_result(out, name, base, need) or (name == part.experiment and need in ready)
            for name, need in needs
        ]
        if own == base and all(met):
            ready.append(arm)
    return tuple(ready)


def _tried(what: str, work: Work, out: Path) -> list[Failure]:
    try:
        work()
    except (UserError, DiedError) as error:
        return [Failure(what, str(error))]
    except BrokenError as error:
        path = out / "failed" / f"{what.replace(', ', '-').replace(' ', '-')}.txt"
        path.parent.mkdir(exist_ok=True)
        write_text(path, error.trace)
        return [Failure(what, f"{error}\n  traceback: {path}")]
    return []
