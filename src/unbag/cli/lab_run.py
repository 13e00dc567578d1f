"""`unbag lab run`: claims in; what will be run is said, run and judged."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial

import torch

from unbag.cli.lab import block, verdict_line
from unbag.errors import UserError
from unbag.lab.apart import apart, one_thread, say_now
from unbag.lab.base_names import seeds_for
from unbag.lab.bases import base_names, is_shipped, missing_bases
from unbag.lab.claim import FEWEST_BASES, Claim
from unbag.lab.claims import all_claims
from unbag.lab.clock import counted, duration
from unbag.lab.experiment import find_experiment
from unbag.lab.photos_experiment import NAME as PHOTOS
from unbag.lab.photos_wanted import captions_file, edits_folder, without_photographs
from unbag.lab.plan import Find, Plan, Wish, find_wish, make_plan
from unbag.lab.run_folder import check_folder, opened, results_in
from unbag.lab.running import Failure, Machine, carry_out
from unbag.lab.shipped import shipped_results
from unbag.lab.verdict import judge_claims
from unbag.models.loading import choose_device

_WORKERS = 15
"""An arm that shares its scenes with no other wants that many; those that share some wait for none.
"""
_FEATURES = (
    ", and before that minutes for features of photographs and captions that are not in the cache "
    "folder"
)
_ONE_CORE = 800
"""Times as long as an H200 (20 ms) took one core of ours for a step of training a base (16 s)."""


def run_claims(options: argparse.Namespace) -> int:
    """Plan, say so, run, judge; what failed is told at the end."""
    found = find_wish(options.claims, find=find_experiment, beside=not options.judged_only)
    wish = _possible(found, options)
    check_folder(options.out, size=options.size)
    forks = options.device != "cpu" or options.processes > 1
    with one_thread(forks) as threads:
        machine = _machine(options, threads)
        with opened(options.out, size=options.size):
            return _run(wish, machine, options, find=find_experiment)


def _possible(wish: Wish, options: argparse.Namespace) -> Wish:
    """Without claims about photographs where there are none; small runs draw their own."""
    if options.photos is not None:
        captions_file(options.photos)
    if options.size == "small":
        return wish
    if options.photos is not None:
        if any(name == PHOTOS for name, _ in wish.arms):
            # Reads edits, and so needs what a list of claims does not.
            from unbag.lab.photos_collection import check_collection

            check_collection(options.photos, edits_folder(options.out))
        return wish
    rest, apart = without_photographs(wish, options.claims)
    if apart:
        names = ", ".join(one.name for one in apart)
        print(f"left out, since they need photographs (--photos FOLDER): {names}")
    return rest


def _run(wish: Wish, machine: Machine, options: argparse.Namespace, *, find: Find) -> int:
    plan = _plan(wish, options, find=find)
    _say_plan(plan, options, device=machine.device, find=find)
    if options.size == "full" and (plan.count or not plan.there):
        _say_seeds(wish.claims, options.seeds)
    sys.stdout.flush()
    if plan.count and not _goes_on(options):
        print("nothing was started")
        return 0
    try:
        failures = carry_out(
            plan, options.out, size=options.size, machine=machine, find=find, say=say_now
        )
    except KeyboardInterrupt:
        say_now("stopped; the same command goes on from there")
        return 130
    _judge(wish.claims, options, has_failed=bool(failures))
    _tell_failures(failures)
    return 1 if failures else 0


def _machine(options: argparse.Namespace, threads: int) -> Machine:
    """Asking for a GPU in this process would forbid it to fork others that use one.

    So a device that is not here, or is none, is told by a process apart too.
    """
    device = options.device
    if device != "cpu":
        device = apart(partial(choose_device, device), device=device)
    if device == "cpu" and options.processes == 1:
        # Found out by asking: nothing will be forked after all.
        torch.set_num_threads(threads)
    workers = options.workers
    if workers is None:
        workers = 0 if device == "cpu" else min(_WORKERS, max(1, (os.cpu_count() or 1) - 1))
    return Machine(device, workers, options.processes, threads, options.photos)


def _plan(wish: Wish, options: argparse.Namespace, *, find: Find) -> Plan:
    bases = base_names(options.seeds)
    return make_plan(
        wish.arms,
        options.out,
        bases,
        find=find,
        size=options.size,
        untrained=missing_bases(options.out, bases, size=options.size),
        measured=shipped_results(),
        # A small run shows that everything runs.
        idle={} if options.size == "small" else wish.idle,
    )


def _say_plan(plan: Plan, options: argparse.Namespace, *, device: str, find: Find) -> None:
    if not plan.count:
        print(f"nothing to run: {counted(plan.there, 'result')} in {options.out}")
        return
    print(f"to run in {options.out}, on {device}:")
    for how, bases in _makings(plan, options).items():
        seconds = sum(plan.untrained[name] for name in bases)
        print(f"  {', '.join(bases)}: {how}{_time(seconds, options)}")
    for part in plan.parts:
        where = "all bases" if part.bases == plan.bases else ", ".join(part.bases)
        count = f"{counted(len(part.missing), 'result')} on {where}"
        needs = {name for some in part.needs.values() for name, _ in some} - {part.experiment}
        after = f", after {', '.join(sorted(needs))}" if needs else ""
        print(f"  {part.experiment}: {count}{after}{_time(part.seconds, options)}")
        print(block(", ".join(part.arms), indent=4))
    if plan.there:
        print(f"  {counted(plan.there, 'result')} there already")
    print(_price(plan, options, device=device, find=find))


def _say_seeds(claims: Sequence[Claim], seeds: int) -> None:
    """Whether they are enough for a verdict, and for which claims they are not."""
    here = set(base_names(seeds))
    late = [one for one in claims if seeds < one.seeds and not here.isdisjoint(one.seen)]
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


def _makings(plan: Plan, options: argparse.Namespace) -> dict[str, list[str]]:
    """How bases are made, and which."""
    found: dict[str, list[str]] = {}
    for name in plan.untrained:
        is_copied = is_shipped(name, size=options.size)
        found.setdefault("copied from tiny:base" if is_copied else "trained", []).append(name)
    return found


def _time(seconds: float, options: argparse.Namespace) -> str:
    return "" if options.size == "small" or not seconds else f", about {duration(seconds)}"


def _price(plan: Plan, options: argparse.Namespace, *, device: str, find: Find) -> str:
    if options.size == "small":
        return "a small run: seconds for each experiment and base; it decides nothing"
    short: dict[str, float] = {}
    for part in plan.parts:
        # One that needs arms of others may stand before and after them.
        if find(part.experiment).on_processor:
            short[part.experiment] = short.get(part.experiment, 0.0) + part.seconds
    lines = [
        f"{name}: about {duration(seconds)} of one core of a CPU"
        f"{_FEATURES if name == PHOTOS else ''}"
        for name, seconds in short.items()
    ]
    others = [part.seconds for part in plan.parts if part.experiment not in short]
    rest = sum(plan.untrained.values()) + sum(others)
    return "\n".join([_price_of_gpu(rest, device)] * bool(rest) + lines)


def _price_of_gpu(seconds: float, device: str) -> str:
    text = f"about {duration(seconds)} of one H200, in one process"
    if device.startswith("cuda"):
        return f"{text}; another GPU takes longer"
    if device != "cpu":
        return f"{text}; how long it takes on {device} was not measured"
    all_of_it = duration(_ONE_CORE * seconds)
    return (
        f"{text}; a CPU takes far longer: a step of training a base took one core of ours about "
        f"{_ONE_CORE} times as long, at which all would take {all_of_it}.\n"
        "--size small shows in a minute or two that it runs"
    )


def _goes_on(options: argparse.Namespace) -> bool:
    if options.yes:
        return True
    if not sys.stdin.isatty():
        if options.size == "small":
            return True
        raise UserError(
            "nobody can be asked whether to start: there is no terminal",
            expected="an answer, since a run of full size takes what is said above",
            way_out="--yes, or --size small to see that it runs",
        )
    try:
        return input("start? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        # Ctrl-D; the question has no end of line yet.
        print()
        return False


def _judge(claims: Sequence[Claim], options: argparse.Namespace, *, has_failed: bool) -> None:
    """Together with all that the folder can say, so that a list of it says the same."""
    results = results_in(options.out)
    names = {claim.name for claim in claims}
    verdicts = [one for one in judge_claims(all_claims(), results) if one.claim.name in names]
    print("\nverdicts, each about no more than it names:")
    for verdict in verdicts:
        print(verdict_line(verdict, results))
        if verdict.why and options.size == "full":
            print(f"      {verdict.why}")
    if options.size == "small":
        print("all undecided: a small run decides nothing")
    missing = max((one.missing for one in verdicts), default=0)
    # Of what failed the same seeds are missing: more of them are not the way out.
    if missing and options.size == "full" and not has_failed:
        seeds = max(
            seeds_for(one.missing, after=options.seeds, seen=one.claim.seen) for one in verdicts
        )
        print(
            f"{counted(missing, 'more base')} needed for a verdict: the same command with "
            f"--seeds {seeds} goes on from here"
        )
    print(f"more: unbag lab show CLAIM --results {options.out}")


def _tell_failures(failures: Sequence[Failure]) -> None:
    for one in failures:
        say_now(f"unbag: {one.what} failed: {one.why}")
    if failures:
        say_now("the same command tries these again; everything else is kept")
