"""Experiments by name, and the plan of a run: which of their arms are missing, in which order.

A plan is made from the claims or experiments that were asked for and what a run folder holds; a
clock tells how long the rest of it will take.
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
"""By name, where each is defined: only those that are asked for are imported."""
_EVERY = 30.0
"""Seconds between two lines about the whole."""
_ENOUGH = 0.1
"""Of what is planned, for a pace: where much runs at once, the short ends long before the rest."""


class Experiment(Protocol):
    """Arms that share bases, data and questions."""

    @property
    def name(self) -> str:
        """Under which results are kept."""

    @property
    def about(self) -> str:
        """What is done to a base, in one line."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Every arm, controls too, in the order in which tables show them."""

    @property
    def reads_bases(self) -> bool:
        """Whether it reads the weights of bases, or takes their names alone."""

    @property
    def on_processor(self) -> bool:
        """Whether its time is that of one core of a CPU, whatever the device."""

    @property
    def most_processes(self) -> int:
        """In how many processes its arms gain from being run side by side.

        Those of one base, if it reads bases: other bases have processes of their own. Else no more
        than one for each base.
        """

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        """Arms of this or another experiment whose weights an arm reads; they are run before."""

    def seconds(self, arm: str) -> float:
        """Roughly, of one arm on one base, for the price that is said before.

        On one H200, or on one core of a CPU if it is `on_processor`.
        """

    def extent(self, arm: str, *, size: Size) -> Extent:
        """How far this version trains and asks an arm; results of another extent are refused."""

    def run(self, order: Order, *, say: Say = print) -> None:
        """Run what is missing; the same order goes on after a stop."""


Find = Callable[[str], Experiment]
"""An experiment by name."""


@dataclass(frozen=True)
class Order:
    """What a run of the lab wants of an experiment."""

    bases: tuple[Path, ...]
    """Weights of tiny models, `tiny-0.safetensors` and so on: the stem names the base."""
    arms: tuple[str, ...]
    """One that another needs stands before it."""
    out: Path
    """Results go to `result_path`, weights beside them; an arm whose result is there is left
    alone."""
    size: Size = "full"
    device: str = "cpu"
    workers: int = 0
    """Processes that make scenes."""
    processes: int = 1
    """In which arms may be run side by side."""
    photos: Path | None = None
    """Photographs with captions, for experiments that need some; small runs draw their own."""


def find_experiment(name: str) -> Experiment:
    """By name."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    module, _, attribute = EXPERIMENTS[name].partition(":")
    experiment: Experiment = getattr(import_module(module), attribute)
    return experiment


@dataclass(frozen=True)
class Wish:
    """What was asked for: claims to judge, and arms to run for them."""

    claims: tuple[Claim, ...]
    arms: tuple[ArmKey, ...]
    idle: Mapping[ArmKey, frozenset[str]]
    """Bases that an arm need not be run on: every claim that wants it had seen them."""


def find_wish(names: Sequence[str], *, find: Find, beside: bool = True) -> Wish:
    """Names of claims, `all`, or experiments, of which every arm is wanted.

    Of claims, those that stand beside too, unless only those that are judged are wanted.
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
    return Wish(tuple(claims_by_name.values()), tuple(dict.fromkeys(arms)), idle)


@dataclass(frozen=True)
class Plan:
    """Everything that a run has to do."""

    bases: tuple[str, ...]
    untrained: Mapping[str, float]
    """Bases that must be made first, with seconds on one H200, roughly."""
    parts: tuple[Part, ...]
    there: int
    """Results that need not be made again."""

    @property
    def seconds(self) -> float:
        """Of all, roughly, on one H200."""
        return sum(self.untrained.values()) + sum(part.seconds for part in self.parts)

    @property
    def count(self) -> int:
        """Of results that are missing."""
        return sum(len(part.missing) for part in self.parts)


@dataclass(frozen=True)
class Part:
    """What is asked of one experiment at a time."""

    experiment: str
    missing: tuple[tuple[str, str], ...]
    """A base and an arm each, in the order of the experiment."""
    each: Mapping[str, float]
    """By arm, seconds on one base and one H200, roughly."""
    needs: Mapping[str, tuple[ArmKey, ...]]
    """By arm, what must be there before."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Each is missing on some base."""
        return tuple(dict.fromkeys(arm for _, arm in self.missing))

    @property
    def bases(self) -> tuple[str, ...]:
        """On which some arm is missing."""
        return tuple(in_order(base for base, _ in self.missing))

    @property
    def seconds(self) -> float:
        """Roughly, on one H200."""
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
    """What is missing in the folder, with all that it needs; what is needed comes first.

    An arm is left out on bases that `idle` names for it.

    Raises UnbagError if a result that is there was not trained or asked as this version does.
    """
    known = _Known(find)
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
    arms: Sequence[ArmKey], known: _Known, is_there: Callable[[ArmKey], bool]
) -> dict[ArmKey, None]:
    """Of arms that are not there, those and all that they need and that is not there either."""
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
    out: Path, bases: Sequence[str], arms: Iterable[ArmKey], known: _Known, *, size: Size
) -> None:
    """An experiment looks at its own results too, but is not asked if all of them are there."""
    for name, arm in arms:
        extent = asdict(known.of((name, arm)).extent(arm, size=size))
        for path in (result_path(out, name, base, arm) for base in bases):
            for result in read_results(path) if path.exists() else ():
                check_same(result, replace(result, **extent), path=path)


def _is_there(out: Path, base: str, key: ArmKey) -> bool:
    return has_result(out, key[0], base, key[1])


class _Known:
    """Experiments that were looked up, and how deep their arms stand on others."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._ranks: dict[ArmKey, tuple[int, int]] = {}

    def of(self, key: ArmKey) -> Experiment:
        """The experiment of an arm, which it must have."""
        name, arm = key
        experiment = self._find(name)
        if arm not in experiment.arms:
            raise unknown_name(f"arm of the experiment {name!r}", arm, experiment.arms)
        return experiment

    def needs(self, key: ArmKey) -> tuple[ArmKey, ...]:
        """Arms whose weights it reads."""
        return self.of(key).needs(key[1])

    def rank(self, key: ArmKey, above: tuple[ArmKey, ...] = ()) -> tuple[int, int]:
        """How many rounds of other experiments must come before, and how many arms of its own."""
        if key in above:
            raise UnbagError(f"the arm {key[1]!r} of {key[0]!r} needs itself")
        if key not in self._ranks:
            after = [(0, 0)]
            for need in self.needs(key):
                rounds, own_arms = self.rank(need, (*above, key))
                # An experiment runs its own arms in the order that it is given.
                after.append((rounds, own_arms + 1) if need[0] == key[0] else (rounds + 1, 0))
            self._ranks[key] = max(after)
        return self._ranks[key]

    def place(self, key: ArmKey) -> tuple[int, int, int, int]:
        """Among all arms: rounds, experiments, then arms."""
        names = list(EXPERIMENTS)
        at = names.index(key[0]) if key[0] in names else len(names)
        rounds, own_arms = self.rank(key)
        return rounds, at, own_arms, self.of(key).arms.index(key[1])


def arms_left(order: Order, experiment: Experiment, base: Path, *, seed: int) -> list[str]:
    """In the order asked for; raises UnbagError if a result is there but of other settings."""
    from unbag.models.tiny import read

    paths = {arm: result_path(order.out, experiment.name, base.stem, arm) for arm in order.arms}
    existing = {arm: path for arm, path in paths.items() if path.exists()}
    if existing:
        # On a processor: nothing may touch a GPU before processes fork.
        fingerprint = read(base, name=base.stem, device="cpu").fingerprint
    for arm, path in existing.items():
        (result,) = read_results(path)
        extent = asdict(experiment.extent(arm, size=order.size))
        expected = replace(result, fingerprint=fingerprint, seed=seed, size=order.size, **extent)
        check_same(result, expected, path=path)
    return [arm for arm in order.arms if arm not in existing]


class Clock:
    """Goes by how much of the planned time stands in the folder as results.

    The pace is that since the first of them: what is made before, features or scenes, is made once
    and may take longer than all results together.
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
        self._told = time.monotonic()
        self._first: tuple[float, float] | None = None

    def indented(self, line: str) -> None:
        """A line of the work itself."""
        self._say(f"  {line}")

    def told(self, line: str) -> None:
        """The same, and now and then one about the whole."""
        self.indented(line)
        if self._first is None:
            self._done()
        if time.monotonic() - self._told >= _EVERY:
            self._told = time.monotonic()
            self._say(f"  {self.so_far()}")

    def so_far(self) -> str:
        """How many results of all are there."""
        count = sum(path.suffix == ".json" and path.exists() for path in self._planned)
        return f"{count} of {self._results} results{self.left()}"

    def left(self) -> str:
        """At the pace so far; nothing before there is one."""
        done, whole = self._done(), sum(self._planned.values())
        if self._first is None:
            return ""
        since, before = self._first
        if done == whole or done - before < _ENOUGH * (whole - before):
            return ""
        pace = (time.monotonic() - since) / (done - before)
        return f"; about {duration_text((whole - done) * pace)} left in all"

    def _done(self) -> float:
        """Planned seconds of what stands in the folder; remembers when the first did."""
        done = sum(item_seconds for path, item_seconds in self._planned.items() if path.exists())
        if done and self._first is None:
            self._first = time.monotonic(), done
        return done


def first_few(names: Sequence[str], max_names: int = 3) -> str:
    """And how many more there are."""
    rest_text = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(names[:max_names]) + rest_text
