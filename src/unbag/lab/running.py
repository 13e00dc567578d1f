"""A plan comes in; bases are made, experiments run, and what failed goes out.

Whatever ends a run, the same command goes on: bases and results appear whole or not at all, and
experiments keep where their trainings stand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from unbag.engine.atomic import write_text
from unbag.errors import UserError
from unbag.lab.apart import BrokenError, DiedError, apart
from unbag.lab.arm_result import Size
from unbag.lab.bases import make_base
from unbag.lab.clock import Clock, counted
from unbag.lab.experiment import Order, Say
from unbag.lab.plan import Find, Part, Plan, first_few
from unbag.lab.run_folder import base_path, has_result


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
    clock = Clock(plan, out, say=say)
    failures = []
    for name in plan.untrained:
        say(f"base {name}")
        work = partial(
            make_base,
            out,
            name,
            size=size,
            device=machine.device,
            workers=machine.workers,
            say=clock.indented,
        )
        failures += _tried(f"base {name}", work, out, machine)
    for place, part in enumerate(plan.parts, start=1):
        count = f"{counted(len(part.arms), 'arm')} on {counted(len(part.bases), 'base')}"
        say(f"{place} of {len(plan.parts)}: {part.experiment}, {count}{clock.left()}")
        failures += _run_part(part, out, size=size, machine=machine, find=find, say=clock.told)
    return failures


def _run_part(
    part: Part, out: Path, *, size: Size, machine: Machine, find: Find, say: Say
) -> list[Failure]:
    failures: list[Failure] = []
    # An experiment that forks must have had one thread as well.
    alone = machine if machine.processes == 1 else replace(machine, threads=1)
    experiment = find(part.experiment)
    for bases, arms in _orders(part, out, reads_bases=experiment.reads_bases):
        order = Order(
            bases=tuple(base_path(out, base) for base in bases),
            arms=arms,
            out=out,
            size=size,
            device=machine.device,
            workers=machine.workers,
            processes=machine.processes,
            photos=machine.photos,
        )
        work = partial(experiment.run, order, say=say)
        failures += _tried(part.experiment, work, out, alone)
    missing = [
        f"{arm} on {base}"
        for base, arm in part.missing
        if not has_result(out, part.experiment, base, arm)
    ]
    if missing and not failures:
        failures.append(Failure(part.experiment, f"no result of {first_few(missing)}"))
    return failures


def _orders(
    part: Part, out: Path, *, reads_bases: bool
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Bases that take the same arms together; without arms whose needs could not be met."""
    found: dict[tuple[str, ...], list[str]] = {}
    for base in part.bases:
        if not reads_bases or base_path(out, base).exists():
            found.setdefault(_ready(part, base, out), []).append(base)
    return [(tuple(bases), arms) for arms, bases in found.items() if arms]


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


def _tried(what: str, work: partial[None], out: Path, machine: Machine) -> list[Failure]:
    try:
        apart(work, device=machine.device, threads=machine.threads)
    except (UserError, DiedError) as error:
        return [Failure(what, str(error))]
    except BrokenError as error:
        path = out / "failed" / f"{what.replace(' ', '-')}.txt"
        path.parent.mkdir(exist_ok=True)
        write_text(path, error.trace)
        return [Failure(what, f"{error}\n  traceback: {path}")]
    return []
