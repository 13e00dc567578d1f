"""`unbag lab run`: prints a plan, trains bases, runs experiments, and computes the verdicts.

An interrupted run resumes with the same command: bases and results are written atomically, and
experiments save checkpoints.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from unbag.errors import UnbagError, unknown_name
from unbag.models.loading import choose_device
from unbag.reports.formatting import count_text, duration_text
from unbag.runs.files import write_text
from unbag_lab.bases import base_names, is_shipped, make_base, missing_bases
from unbag_lab.claims import FEWEST_BASES, Claim, all_claims
from unbag_lab.cli import add_machine
from unbag_lab.experiments.photos import NAME as PHOTOS
from unbag_lab.experiments.photos import (
    captions_file,
    check_collection,
    edits_folder,
    split_photo_claims,
)
from unbag_lab.listing import block, verdict_line
from unbag_lab.plan import (
    EXPERIMENTS,
    Clock,
    Find,
    Order,
    Part,
    Plan,
    Request,
    Say,
    find_experiment,
    find_request,
    first_few,
    make_plan,
)
from unbag_lab.results import (
    Size,
    base_path,
    check_folder,
    has_result,
    opened,
    results_in,
    seeds_for,
    shipped_results,
)
from unbag_lab.scheduler import (
    BrokenError,
    DiedError,
    Task,
    Work,
    can_fork,
    one_thread,
    print_now,
    run_isolated,
    run_tasks,
)
from unbag_lab.verdict import compute_verdicts

_WORKERS = 15
"""Enough for an arm that renders its own scenes."""
_FEATURES = (
    ", and before that minutes for features of photographs and captions that are not in the cache "
    "folder"
)
_ONE_CORE = 800
"""Seconds on one of our CPU cores for each second on an H200: 16 s and 20 ms for a step of a base.
"""
_BASE = ""
"""Name for the training of bases, among the names of experiments."""


def run_claims(options: argparse.Namespace) -> int:
    """Print the plan, run it, and print verdicts and failures."""
    requested = find_request(options.claims, find=find_experiment, beside=not options.judged_only)
    request = _drop_photo_claims(requested, options)
    check_folder(options.out, size=options.size)
    with _machine(options) as machine, opened(options.out, size=options.size):
        return _run_request(request, machine, options)


def arms_script() -> None:
    """Run arms of one experiment on your own bases, into a folder of `unbag lab run`."""
    parser = argparse.ArgumentParser(description=arms_script.__doc__)
    parser.add_argument("experiment", choices=tuple(EXPERIMENTS))
    text = "weights of tiny models; some experiments take their names alone: the number is the seed"
    parser.add_argument("--bases", type=Path, nargs="+", required=True, help=text)
    text = "by name, each with those that it needs (default: all)"
    parser.add_argument("--arms", nargs="+", help=text)
    add_machine(parser)
    options = parser.parse_args()
    experiment = find_experiment(options.experiment)
    requested = options.arms or experiment.arms
    for arm in requested:
        if arm not in experiment.arms:
            raise unknown_name("arm", arm, experiment.arms)
    # In the order of the experiment, where dependencies come first.
    arms = tuple(arm for arm in experiment.arms if arm in requested)
    check_folder(options.out, size=options.size)
    with _machine(options) as machine, opened(options.out, size=options.size):
        order = _Run(options.out, options.size, machine, find_experiment).order(options.bases, arms)
        work = partial(experiment.run, order, say=print_now)
        run_isolated(work, device=machine.device, threads=machine.threads)


@contextmanager
def _machine(options: argparse.Namespace) -> Iterator[Machine]:
    """Yield the resources that the options allow; processes can be forked in its context."""
    device, workers = options.device, options.workers
    with one_thread(device != "cpu" or options.processes > 1) as threads:
        # Processes forked after this one touched a GPU could not use it. So another process checks
        # the device.
        if device != "cpu":
            device = run_isolated(partial(choose_device, device), device=device)
        if device == "cpu" and options.processes == 1:
            # The automatic choice is the CPU, so nothing will be forked.
            torch.set_num_threads(threads)
        if workers is None:
            workers = 0 if device == "cpu" else min(_WORKERS, max(1, (os.cpu_count() or 1) - 1))
        yield Machine(device, workers, options.processes, threads, options.photos)


def _drop_photo_claims(request: Request, options: argparse.Namespace) -> Request:
    """Remove claims about photographs if none are given; small runs draw their own."""
    if options.photos is not None:
        captions_file(options.photos)
    if options.size == "small":
        return request
    if options.photos is not None:
        if any(name == PHOTOS for name, _ in request.arms):
            check_collection(options.photos, edits_folder(options.out))
        return request
    possible, photo_claims = split_photo_claims(request, options.claims)
    if photo_claims:
        names = ", ".join(claim.name for claim in photo_claims)
        print(f"left out, since they need photographs (--photos FOLDER): {names}")
    return possible


def _run_request(request: Request, machine: Machine, options: argparse.Namespace) -> int:
    bases = base_names(options.seeds)
    plan = make_plan(
        request.arms,
        options.out,
        bases,
        find=find_experiment,
        size=options.size,
        untrained=missing_bases(options.out, bases, size=options.size),
        measured=shipped_results(),
        # A small run tests that everything runs.
        idle={} if options.size == "small" else request.idle,
    )
    _print_plan(plan, options, device=machine.device)
    if options.size == "full" and (plan.count or not plan.there):
        _print_missing_seeds(request.claims, options.seeds)
    sys.stdout.flush()
    if plan.count and not _is_confirmed(options):
        print("nothing was started")
        return 0
    try:
        failures = carry_out(
            plan,
            options.out,
            size=options.size,
            machine=machine,
            find=find_experiment,
            say=print_now,
        )
    except KeyboardInterrupt:
        print_now("stopped; the same command resumes from there")
        return 130
    _print_verdicts(request.claims, options, has_failed=bool(failures))
    for failure in failures:
        print_now(f"unbag: {failure.what} failed: {failure.why}")
    if failures:
        print_now("the same command tries these again; all other results are saved")
    return 1 if failures else 0


def _print_plan(plan: Plan, options: argparse.Namespace, *, device: str) -> None:
    if not plan.count:
        print(f"nothing to run: {count_text(plan.there, 'result')} in {options.out}")
        return
    print(f"to run in {options.out}, on {device}:")
    makings: dict[str, list[str]] = {}
    for name in plan.untrained:
        is_copied = is_shipped(name, size=options.size)
        makings.setdefault("copied from tiny:base" if is_copied else "trained", []).append(name)
    for how, bases in makings.items():
        seconds = sum(plan.untrained[name] for name in bases)
        print(f"  {', '.join(bases)}: {how}{_time(seconds, options)}")
    for part in plan.parts:
        where = "all bases" if part.bases == plan.bases else ", ".join(part.bases)
        count = f"{count_text(len(part.missing), 'result')} on {where}"
        needs = {name for keys in part.needs.values() for name, _ in keys} - {part.experiment}
        after = f", after {', '.join(sorted(needs))}" if needs else ""
        print(f"  {part.experiment}: {count}{after}{_time(part.seconds, options)}")
        print(block(", ".join(part.arms), indent=4))
    if plan.there:
        print(f"  {count_text(plan.there, 'result')} there already")
    print(_cost(plan, options, device=device))


def _cost(plan: Plan, options: argparse.Namespace, *, device: str) -> str:
    if options.size == "small":
        return "a small run: seconds for each experiment and base; it decides nothing"
    cpu_seconds: dict[str, float] = {}
    for part in plan.parts:
        # An experiment can have several parts, before and after arms of others.
        if find_experiment(part.experiment).on_processor:
            cpu_seconds[part.experiment] = cpu_seconds.get(part.experiment, 0.0) + part.seconds
    lines = [
        f"{name}: about {duration_text(seconds)} of one core of a CPU"
        f"{_FEATURES if name == PHOTOS else ''}"
        for name, seconds in cpu_seconds.items()
    ]
    gpu_parts = [part.seconds for part in plan.parts if part.experiment not in cpu_seconds]
    gpu_seconds = sum(plan.untrained.values()) + sum(gpu_parts)
    return "\n".join([_gpu_cost(gpu_seconds, device)] * bool(gpu_seconds) + lines)


def _gpu_cost(seconds: float, device: str) -> str:
    text = f"about {duration_text(seconds)} of one H200, in one process"
    if device.startswith("cuda"):
        return f"{text}; another GPU takes longer"
    if device != "cpu":
        return f"{text}; how long it takes on {device} was not measured"
    cpu_time = duration_text(_ONE_CORE * seconds)
    return (
        f"{text}; a CPU takes far longer: a training step of a base took one of our cores about "
        f"{_ONE_CORE} times as long, so everything would take {cpu_time}.\n"
        "--size small tests in a minute or two that everything runs"
    )


def _time(seconds: float, options: argparse.Namespace) -> str:
    return "" if options.size == "small" or not seconds else f", about {duration_text(seconds)}"


def _print_missing_seeds(claims: Sequence[Claim], seeds: int) -> None:
    """Print for which claims the number of seeds is too small for a verdict."""
    here = set(base_names(seeds))
    late = [claim for claim in claims if seeds < claim.seeds and not here.isdisjoint(claim.seen)]
    if seeds < FEWEST_BASES and len(late) < len(claims):
        more = FEWEST_BASES - seeds
        print(
            f"{seeds} of {FEWEST_BASES} bases decide nothing; --seeds {FEWEST_BASES} adds "
            f"the {more} that a verdict needs, now or later"
        )
    for claim in late:
        seen = [name for name in claim.seen if name in here]
        text = (
            f"{claim.name}: {', '.join(seen)} {'does' if len(seen) == 1 else 'do'} not count, "
            "since its arms had been run there before it was written down. "
            f"{seeds - len(seen)} of {FEWEST_BASES} bases are left; a verdict needs --seeds "
            f"{claim.seeds}, now or later"
        )
        print(block(text, indent=0))


def _is_confirmed(options: argparse.Namespace) -> bool:
    if options.yes:
        return True
    if not sys.stdin.isatty():
        if options.size == "small":
            return True
        raise UnbagError(
            "cannot ask for confirmation without a terminal",
            expected="a confirmation, since a run of full size takes the time printed above",
            hint="add --yes, or --size small for a trial run",
        )
    try:
        return input("start? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        # Ctrl-D leaves the cursor on the line of the question.
        print()
        return False


def _print_verdicts(
    claims: Sequence[Claim], options: argparse.Namespace, *, has_failed: bool
) -> None:
    """Print verdicts, with p-values corrected over all claims, as `unbag lab list` prints them."""
    results = results_in(options.out)
    names = {claim.name for claim in claims}
    verdicts = [
        verdict
        for verdict in compute_verdicts(all_claims(), results)
        if verdict.claim.name in names
    ]
    print("\nverdicts, each about no more than it names:")
    for verdict in verdicts:
        print(verdict_line(verdict, results))
        if verdict.why and options.size == "full":
            print(f"      {verdict.why}")
    if options.size == "small":
        print("all undecided: a small run decides nothing")
    missing = max((verdict.missing for verdict in verdicts), default=0)
    # After a failure the missing bases are not missing seeds, so more seeds would not help.
    if missing and options.size == "full" and not has_failed:
        seeds = max(
            seeds_for(verdict.missing, after=options.seeds, seen=verdict.claim.seen)
            for verdict in verdicts
        )
        print(
            f"{count_text(missing, 'more base')} needed for a verdict: the same command with "
            f"--seeds {seeds} resumes from here"
        )
    print(f"more: unbag lab show CLAIM --results {options.out}")


@dataclass(frozen=True)
class Machine:
    """Resources of a run."""

    device: str = "cpu"
    workers: int = 0
    processes: int = 1
    threads: int = 1
    """Threads of torch in each forked process."""
    photos: Path | None = None
    """A folder of photographs with captions."""


@dataclass(frozen=True)
class Failure:
    """Something that could not be run, and why."""

    what: str
    why: str


def carry_out(
    plan: Plan, out: Path, *, size: Size, machine: Machine, find: Find, say: Say = print
) -> list[Failure]:
    """Run everything in the plan; a failure does not stop the rest."""
    run, clock = _Run(out, size, machine, find), Clock(plan, out, say=say)
    if machine.processes > 1 and can_fork():
        return _side_by_side(plan, run, clock, say)
    return _one_by_one(plan, run, clock, say)


def _one_by_one(plan: Plan, run: _Run, clock: Clock, say: Say) -> list[Failure]:
    failures = []
    machine = run.machine
    done = partial(run_isolated, device=machine.device, threads=machine.threads)
    for name in plan.untrained:
        say(f"base {name}")
        base_work = partial(done, run.base(name, clock.indented))
        failures += _failures_of(f"base {name}", base_work, run.out)
    for place, part in enumerate(plan.parts, start=1):
        count = f"{count_text(len(part.arms), 'arm')} on {count_text(len(part.bases), 'base')}"
        say(f"{place} of {len(plan.parts)}: {part.experiment}, {count}{clock.left()}")
        failed: list[Failure] = []
        for work in run.works_on(part, part.bases, clock.report):
            failed += _failures_of(part.experiment, partial(done, work), run.out)
        failures += failed or _missing_results(part, run.out)
    return failures


def _side_by_side(plan: Plan, run: _Run, clock: Clock, say: Say) -> list[Failure]:
    """Run bases and experiments in parallel, each with its share of processes and workers."""
    tasks, room = _tasks(plan, run, say), run.machine.processes
    if tasks:
        say(f"{count_text(len(tasks), 'task')}, in up to {room} processes at once")
    failures: list[Failure] = []
    for task, work in run_tasks(tasks, room=room, look=lambda: say(f"  {clock.so_far()}")):
        failed = _failures_of(task.name, work.result, run.out)
        say(f"{task.name}: {'failed' if failed else 'done'}; {clock.so_far()}")
        failures += failed
    for part in plan.parts:
        if not any(failure.what.startswith(f"{part.experiment} ") for failure in failures):
            failures += _missing_results(part, run.out)
    return failures


def _tasks(plan: Plan, run: _Run, say: Say) -> list[Task]:
    """Make tasks; each waits for its bases and for the arms of other experiments that it needs."""
    tasks: list[Task] = []
    names: dict[tuple[str, str], list[str]] = {}
    for base, seconds in plan.untrained.items():
        name = f"base {base}"
        tasks.append(Task(name, partial(_begin_base, run, base, _named_say(say, name)), 1, seconds))
        names[_BASE, base] = [name]
    for part in plan.parts:
        experiment = run.find(part.experiment)
        groups, max_processes = [part.bases], min(experiment.most_processes, len(part.bases))
        if experiment.reads_bases:
            groups, max_processes = [(base,) for base in part.bases], experiment.most_processes
        room = max(1, min(max_processes, run.machine.processes // len(groups)))
        needed_experiments = {name for keys in part.needs.values() for name, _ in keys}
        for bases in groups:
            kinds = (
                *((_BASE,) if experiment.reads_bases else ()),
                part.experiment,
                *needed_experiments,
            )
            needed = [(kind, base) for kind in kinds for base in bases]
            after = frozenset(name for key in needed for name in names.get(key, ()))
            name = f"{part.experiment} on {', '.join(bases)}"
            while name in after:
                name += " again"
            seconds = sum(part.each[arm] for base, arm in part.missing if base in bases)
            begin = partial(_begin_arms, run, part, bases, _named_say(say, name))
            is_beside = experiment.on_processor and run.machine.device != "cpu"
            tasks.append(Task(name, begin, room, seconds, after, is_beside))
            for base in bases:
                names.setdefault((part.experiment, base), []).append(name)
    return tasks


def _begin_base(run: _Run, base: str, say: Say, processes: int) -> Work:
    say("begins")
    return run.share(processes).base(base, say)


def _begin_arms(
    run: _Run, part: Part, bases: Sequence[str], say: Say, processes: int
) -> Work | None:
    """Return the work on some bases; None if no arm can be run."""
    works = run.share(processes).works_on(part, bases, say)
    if not works:
        return None
    say("begins" if processes == 1 else f"begins, in {processes} processes")

    def in_turn() -> None:
        for work in works:
            work()

    return in_turn


def _named_say(say: Say, name: str) -> Say:
    """Return a function that puts the name of a task before its lines."""
    return lambda line: say(f"  {name}: {line}")


@dataclass(frozen=True)
class _Run:
    """Makes the work of a run, from its folder, size and resources."""

    out: Path
    size: Size
    machine: Machine
    find: Find

    def base(self, name: str, say: Say) -> Work:
        """Return work that makes a base."""
        device, workers = self.machine.device, self.machine.workers
        return partial(
            make_base, self.out, name, size=self.size, device=device, workers=workers, say=say
        )

    def works_on(self, part: Part, bases: Sequence[str], say: Say) -> list[Work]:
        """Return the work of an experiment on these bases, without arms that lack dependencies."""
        bases_by_arms: dict[tuple[str, ...], list[str]] = {}
        experiment = self.find(part.experiment)
        for base in bases:
            if not experiment.reads_bases or base_path(self.out, base).exists():
                bases_by_arms.setdefault(_ready(part, base, self.out), []).append(base)
        orders = [
            self.order([base_path(self.out, base) for base in arm_bases], arms)
            for arms, arm_bases in bases_by_arms.items()
            if arms
        ]
        return [partial(experiment.run, order, say=say) for order in orders]

    def order(self, bases: Sequence[Path], arms: tuple[str, ...]) -> Order:
        """Return an order for arms with the resources of the machine."""
        machine = self.machine
        return Order(
            bases=tuple(bases),
            arms=arms,
            out=self.out,
            size=self.size,
            device=machine.device,
            workers=machine.workers,
            processes=machine.processes,
            photos=machine.photos,
        )

    def share(self, processes: int) -> _Run:
        """Return a copy with some of the processes and a third of the workers.

        Most work renders scenes only at its start; repairs render them until their end.
        """
        workers = -(-self.machine.workers // 3)
        return replace(self, machine=replace(self.machine, workers=workers, processes=processes))


def _ready(part: Part, base: str, out: Path) -> tuple[str, ...]:
    """Return the arms whose dependencies exist or come before them in the same order."""
    ready: list[str] = []
    for missing_base, arm in part.missing:
        needs = part.needs[arm] if missing_base == base else ()
        met = [
            has_result(out, name, base, need) or (name == part.experiment and need in ready)
            for name, need in needs
        ]
        if missing_base == base and all(met):
            ready.append(arm)
    return tuple(ready)


def _missing_results(part: Part, out: Path) -> list[Failure]:
    missing = [
        f"{arm} on {base}"
        for base, arm in part.missing
        if not has_result(out, part.experiment, base, arm)
    ]
    return [Failure(part.experiment, f"no result of {first_few(missing)}")] if missing else []


def _failures_of(what: str, work: Work, out: Path) -> list[Failure]:
    try:
        work()
    except (UnbagError, DiedError) as error:
        return [Failure(what, str(error))]
    except BrokenError as error:
        path = out / "failed" / f"{what.replace(', ', '-').replace(' ', '-')}.txt"
        path.parent.mkdir(exist_ok=True)
        write_text(path, error.trace)
        return [Failure(what, f"{error}\n  traceback: {path}")]
    return []
