"""Plans a run: which arms of which experiments are missing in a run folder, and in which order.

`Clock` estimates how long the rest of a run takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Protocol

from unbag.errors import UnbagError, unknown_name
from unbag.reports.formatting import duration_text
from unbag_lab.claims import NAMES, ArmKey, Claim, all_claims, find_claim
from unbag_lab.results import (
    ArmResult,
    Extent,
    Size,
    base_path,
    check_same,
    has_result,
    in_order,
    read_results,
    result_path,
)

Say = Callable[[str], None]
ALL = "all"
EXPERIMENTS = MappingProxyType(
    {
        "default": "unbag_lab.experiments.repair:DEFAULT",
        "ordered": "unbag_lab.experiments.repair:ORDERED",
        "held_out": "unbag_lab.experiments.repair:HELD_OUT",
        "readouts": "unbag_lab.experiments.readouts:READOUTS",
        "pretraining": "unbag_lab.experiments.pretraining:PRETRAINING",
        "probes": "unbag_lab.experiments.probes:PROBES",
        "priors": "unbag_lab.experiments.priors:PRIORS",
        "photos": "unbag_lab.experiments.photos:PHOTOS",
    }
)
"""Where each experiment is defined; only the requested ones are imported."""
_EVERY = 30.0
"""Seconds between two lines about the whole run."""
_ENOUGH = 0.1
"""Fraction of the planned time that must be done before the remaining time is estimated: of many
parallel tasks the short ones end long before the rest."""


class Experiment(Protocol):
    """Arms that share bases, data and benchmarks."""

    @property
    def name(self) -> str:
        """Name of its folder of results."""

    @property
    def about(self) -> str:
        """What the arms do, in one line."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Every arm, including controls, in the order of the tables."""

    @property
    def reads_bases(self) -> bool:
        """Whether it reads the weights of bases; otherwise only their names matter."""

    @property
    def on_processor(self) -> bool:
        """Whether it runs on one CPU core, whatever the device."""

    @property
    def most_processes(self) -> int:
        """Largest useful number of parallel processes.

        For the arms of one base if the experiment reads bases, since other bases have their own
        processes. Otherwise at most one for each base.
        """

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Arms of this or another experiment whose weights an arm reads; they run first."""

    def seconds(self, arm: str) -> float:
        """Estimate the seconds of one arm on one base.

        On one H200, or on one CPU core if it is `on_processor`.
        """

    def extent(self, arm: str, *, size: Size) -> Extent:
        """Return the amount of training and items of an arm; other results are refused."""

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run what is missing; the same order resumes an interrupted run."""


Find = Callable[[str], Experiment]
"""Returns an experiment by name."""


@dataclass(frozen=True)
class Order:
    """A request to run arms of one experiment."""

    bases: tuple[Path, ...]
    """Weights of tiny models, such as `tiny-0.safetensors`; the stem is the name of the base."""
    arms: tuple[str, ...]
    """An arm that another one needs comes first."""
    out: Path
    """Results go to `result_path`, next to the weights; an arm with a result is skipped."""
    size: Size = "full"
    device: str = "cpu"
    workers: int = 0
    """Processes that render scenes."""
    processes: int = 1
    """Processes that run arms in parallel."""
    photos: Path | None = None
    """Photographs with captions, for experiments that need them; small runs draw their own."""


def find_experiment(name: str) -> Experiment:
    """Import and return an experiment."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    module, _, attribute = EXPERIMENTS[name].partition(":")
    experiment: Experiment = getattr(import_module(module), attribute)
    return experiment


@dataclass(frozen=True)
class Request:
    """The claims to test and the arms to run for them."""

    claims: tuple[Claim, ...]
    arms: tuple[ArmKey, ...]
    idle: Mapping[ArmKey, frozenset[str]]
    """Bases that an arm can skip, because they count for none of the claims that need it."""


def find_request(names: Sequence[str], *, find: Find, beside: bool = True) -> Request:
    """Find the claims and arms for names of claims, of experiments (all their arms), or `all`.

    With `beside`, the control arms of claims are included.
    """
    known = (*NAMES, *EXPERIMENTS, ALL)
    for name in names:
        if name not in known:
            raise unknown_name("claim", name, known, hint="`unbag lab` lists every claim")
    claims: list[Claim] = []
    arms: list[ArmKey] = []
    for name in names:
        if name in EXPERIMENTS:
            arms += [(name, arm) for arm in find(name).arms]
            claims += [claim for claim in all_claims() if claim.experiment == name]
        else:
            named_claims = all_claims() if name == ALL else (find_claim(name),)
            claims += named_claims
            arms += [key for claim in named_claims for key in claim.arms]
            arms += [key for claim in named_claims for key in claim.arms_beside if beside]
    claims_by_name = {claim.name: claim for claim in claims}
    idle: dict[ArmKey, frozenset[str]] = {}
    for claim in claims_by_name.values():
        seen = frozenset(claim.seen)
        for key in (*claim.arms, *claim.arms_beside):
            if key[0] not in names:
                idle[key] = idle.get(key, seen) & seen
    return Request(tuple(claims_by_name.values()), tuple(dict.fromkeys(arms)), idle)


@dataclass(frozen=True)
class Plan:
    """Everything that a run still has to do."""

    bases: tuple[str, ...]
    untrained: Mapping[str, float]
    """Bases to train first, with their estimated seconds on one H200."""
    parts: tuple[Part, ...]
    there: int
    """Number of results that exist already."""

    @property
    def seconds(self) -> float:
        """Estimated seconds of everything on one H200."""
        return sum(self.untrained.values()) + sum(part.seconds for part in self.parts)

    @property
    def count(self) -> int:
        """Number of missing results."""
        return sum(len(part.missing) for part in self.parts)


@dataclass(frozen=True)
class Part:
    """The missing arms of one experiment that can run together."""

    experiment: str
    missing: tuple[tuple[str, str], ...]
    """Pairs of base and arm, in the order of the experiment."""
    each: Mapping[str, float]
    """Estimated seconds on one base and one H200, by arm."""
    needs: Mapping[str, tuple[ArmKey, ...]]
    """Arms that must be run before, by arm."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Arms that are missing on some base."""
        return tuple(dict.fromkeys(arm for _, arm in self.missing))

    @property
    def bases(self) -> tuple[str, ...]:
        """Bases on which some arm is missing."""
        return tuple(in_order(base for base, _ in self.missing))

    @property
    def seconds(self) -> float:
        """Estimated seconds on one H200."""
        return sum(self.each[arm] for _, arm in self.missing)


def make_plan(
    arms: Sequence[ArmKey],
    out: Path,
    bases: Sequence[str],
    *,
    find: Find,
    size: Size = "full",
    untrained: Mapping[str, float] = MappingProxyType({}),
    measured: Iterable[ArmResult] = (),
    idle: Mapping[ArmKey, frozenset[str]] = MappingProxyType({}),
) -> Plan:
    """Plan the missing arms and everything that they need, in order.

    Args:
        arms: Arms to run.
        out: The run folder.
        bases: Names of bases.
        find: Returns an experiment by name.
        size: Size of the run.
        untrained: Bases without weights, with seconds to train them.
        measured: Results whose durations refine the estimates.
        idle: Bases that an arm skips.

    Raises UnbagError if an existing result has other settings than this version.
    """
    known = _Experiments(find)
    seconds: dict[ArmKey, list[float]] = {}
    for result in measured:
        if result.seconds is not None and result.size == "full":
            seconds.setdefault((result.experiment, result.arm), []).append(result.seconds)
    median_seconds = {key: median(durations) for key, durations in seconds.items()}
    _check_extents(out, bases, _with_needs(arms, known, lambda key: False), known, size=size)
    missing: dict[ArmKey, list[str]] = {}
    for base in bases:
        base_arms = [key for key in arms if base not in idle.get(key, ())]
        for key in _with_needs(base_arms, known, partial(_is_there, out, base)):
            missing.setdefault(key, []).append(base)
    ranked = sorted(missing, key=known.place)
    parts = []
    for (_, name), group in groupby(ranked, key=lambda key: (known.rank(key)[0], key[0])):
        keys = tuple(group)
        parts.append(
            Part(
                experiment=name,
                missing=tuple((base, key[1]) for key in keys for base in missing[key]),
                each={
                    key[1]: median_seconds.get(key, known.of(key).seconds(key[1])) for key in keys
                },
                needs={key[1]: known.needs(key) for key in keys},
            )
        )
    existing = sum(_is_there(out, base, key) for key in arms for base in bases)
    reading = [part for part in parts if find(part.experiment).reads_bases]
    bases_read = {base for part in reading for base in part.bases}
    bases_to_train = {
        name: base_seconds for name, base_seconds in untrained.items() if name in bases_read
    }
    return Plan(tuple(bases), bases_to_train, tuple(parts), existing)


def _with_needs(
    arms: Sequence[ArmKey], known: _Experiments, is_there: Callable[[ArmKey], bool]
) -> dict[ArmKey, None]:
    """Return the missing arms among these, and the missing arms that they need."""
    needed: dict[ArmKey, None] = {}
    pending = list(arms)
    while pending:
        key = pending.pop()
        known.rank(key)
        if key not in needed and not is_there(key):
            needed[key] = None
            pending += known.needs(key)
    return needed


def _check_extents(
    out: Path, bases: Sequence[str], arms: Iterable[ArmKey], known: _Experiments, *, size: Size
) -> None:
    """Check existing results here: an experiment whose results all exist does not run."""
    for name, arm in arms:
        extent = asdict(known.of((name, arm)).extent(arm, size=size))
        for path in (result_path(out, name, base, arm) for base in bases):
            for result in read_results(path) if path.exists() else ():
                check_same(result, replace(result, **extent), path=path)


def _is_there(out: Path, base: str, key: ArmKey) -> bool:
    return has_result(out, key[0], base, key[1])


class _Experiments:
    """Looks up experiments, and ranks arms by the depth of their dependencies."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._ranks: dict[ArmKey, tuple[int, int]] = {}

    def of(self, key: ArmKey) -> Experiment:
        """Return the experiment of an arm; raises UnbagError if it has no such arm."""
        name, arm = key
        experiment = self._find(name)
        if arm not in experiment.arms:
            raise unknown_name(f"arm of the experiment {name!r}", arm, experiment.arms)
        return experiment

    def needs(self, key: ArmKey) -> tuple[ArmKey, ...]:
        """Return the arms whose weights it reads."""
        return self.of(key).needs(key[1])

    def rank(self, key: ArmKey, above: tuple[ArmKey, ...] = ()) -> tuple[int, int]:
        """Return how many rounds of other experiments, and arms of its own, must run before."""
        if key in above:
            raise UnbagError(f"the arm {key[1]!r} of {key[0]!r} needs itself")
        if key not in self._ranks:
            after = [(0, 0)]
            for need in self.needs(key):
                rounds, own_arms = self.rank(need, (*above, key))
                # An experiment runs its arms in the given order.
                after.append((rounds, own_arms + 1) if need[0] == key[0] else (rounds + 1, 0))
            self._ranks[key] = max(after)
        return self._ranks[key]

    def place(self, key: ArmKey) -> tuple[int, int, int, int]:
        """Return a sort key: rounds, then experiments, then arms."""
        names = list(EXPERIMENTS)
        at = names.index(key[0]) if key[0] in names else len(names)
        rounds, own_arms = self.rank(key)
        return rounds, at, own_arms, self.of(key).arms.index(key[1])


def arms_left(order: Order, experiment: Experiment, base: Path, *, seed: int) -> list[str]:
    """Return the arms without a result; raises UnbagError if a result has other settings."""
    from unbag.models.tiny import read

    paths = {arm: result_path(order.out, experiment.name, base.stem, arm) for arm in order.arms}
    existing = {arm: path for arm, path in paths.items() if path.exists()}
    if existing:
        # On the CPU: nothing may touch a GPU before processes fork.
        fingerprint = read(base, name=base.stem, device="cpu").fingerprint
    for arm, path in existing.items():
        (result,) = read_results(path)
        extent = asdict(experiment.extent(arm, size=order.size))
        expected = replace(result, fingerprint=fingerprint, seed=seed, size=order.size, **extent)
        check_same(result, expected, path=path)
    return [arm for arm in order.arms if arm not in existing]


class Clock:
    """Estimates the remaining time from the planned seconds of the results in the folder.

    The pace is measured from the first result on: features and scenes are made before it, only
    once, and can take longer than all results together.
    """

    def __init__(self, plan: Plan, out: Path, *, say: Say) -> None:
        self._say = say
        self._planned = {
            base_path(out, name): base_seconds for name, base_seconds in plan.untrained.items()
        }
        for part in plan.parts:
            for base, arm in part.missing:
                self._planned[result_path(out, part.experiment, base, arm)] = part.each[arm]
        self._results = plan.count
        self._reported = time.monotonic()
        self._first: tuple[float, float] | None = None

    def indented(self, line: str) -> None:
        """Print a line of a task, indented."""
        self._say(f"  {line}")

    def report(self, line: str) -> None:
        """Print a line of a task, and from time to time the progress of the whole run."""
        self.indented(line)
        if self._first is None:
            self._done()
        if time.monotonic() - self._reported >= _EVERY:
            self._reported = time.monotonic()
            self._say(f"  {self.so_far()}")

    def so_far(self) -> str:
        """Return how many of the planned results exist."""
        count = sum(path.suffix == ".json" and path.exists() for path in self._planned)
        return f"{count} of {self._results} results{self.left()}"

    def left(self) -> str:
        """Return the remaining time at the pace so far; empty before there is a pace."""
        done, whole = self._done(), sum(self._planned.values())
        if self._first is None:
            return ""
        since, before = self._first
        if done == whole or done - before < _ENOUGH * (whole - before):
            return ""
        pace = (time.monotonic() - since) / (done - before)
        return f"; about {duration_text((whole - done) * pace)} left in all"

    def _done(self) -> float:
        """Return the planned seconds of existing results; records the time of the first one."""
        done = sum(item_seconds for path, item_seconds in self._planned.items() if path.exists())
        if done and self._first is None:
            self._first = time.monotonic(), done
        return done


def first_few(names: Sequence[str], max_names: int = 3) -> str:
    """List the first names, and how many more there are."""
    rest_text = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(names[:max_names]) + rest_text
