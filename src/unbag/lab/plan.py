"""Arms that claims compare come in; what must be run goes out, in its order and with its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import median
from types import MappingProxyType

from unbag.errors import UserError, unknown_name
from unbag.lab.arm_result import ArmResult, Size, read_results, result_path, told_apart
from unbag.lab.claim import ArmKey, Claim
from unbag.lab.claims import NAMES, all_claims, find_claim
from unbag.lab.experiment import EXPERIMENTS, Experiment
from unbag.lab.run_folder import has_result

ALL = "all"
Find = Callable[[str], Experiment]
"""An experiment by name."""


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
        # tiny-10 comes after tiny-9.
        return tuple(sorted({base for base, _ in self.missing}, key=lambda one: (len(one), one)))

    @property
    def seconds(self) -> float:
        """Roughly, on one H200."""
        return sum(self.each[arm] for _, arm in self.missing)


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
            raise unknown_name("claim", name, known, way_out="`unbag lab` lists every claim")
    claims: list[Claim] = []
    arms: list[ArmKey] = []
    for name in names:
        if name in EXPERIMENTS:
            arms += [(name, arm) for arm in find(name).arms]
            claims += [one for one in all_claims() if one.experiment == name]
        else:
            some = all_claims() if name == ALL else (find_claim(name),)
            claims += some
            arms += [key for one in some for key in one.arms]
            arms += [key for one in some for key in one.arms_beside if beside]
    once = {one.name: one for one in claims}
    whole = [name for name in names if name in EXPERIMENTS]
    idle = {key: seen for key, seen in _seen_by_all(once.values()).items() if key[0] not in whole}
    return Wish(tuple(once.values()), tuple(dict.fromkeys(arms)), idle)


def _seen_by_all(claims: Iterable[Claim]) -> dict[ArmKey, frozenset[str]]:
    """By arm, the bases that every claim which wants it had seen."""
    found: dict[ArmKey, frozenset[str]] = {}
    for one in claims:
        seen = frozenset(one.seen)
        for key in (*one.arms, *one.arms_beside):
            found[key] = found.get(key, seen) & seen
    return found


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

    Raises UserError if a result that is there was not trained or asked as this version does.
    """
    known, took = _Known(find), _took(measured)
    _check_extents(out, bases, _with_needs(arms, known, lambda key: False), known, size=size)
    missing: dict[ArmKey, list[str]] = {}
    for base in bases:
        wanted = [key for key in arms if base not in idle.get(key, ())]
        for key in _with_needs(wanted, known, partial(_is_there, out, base)):
            missing.setdefault(key, []).append(base)
    ranked = sorted(missing, key=known.place)
    parts = [
        _part(name, {key: missing[key] for key in keys}, known, took)
        for (_, name), keys in groupby(ranked, key=lambda key: (known.rank(key)[0], key[0]))
    ]
    there = sum(_is_there(out, base, key) for key in arms for base in bases)
    reading = [part for part in parts if find(part.experiment).reads_bases]
    used = {base for part in reading for base in part.bases}
    to_make = {name: seconds for name, seconds in untrained.items() if name in used}
    return Plan(tuple(bases), to_make, tuple(parts), there)


def _check_extents(
    out: Path, bases: Sequence[str], arms: Iterable[ArmKey], known: _Known, *, size: Size
) -> None:
    """An experiment looks at its own results too, but is not asked if all of them are there."""
    apart = []
    for name, arm in arms:
        wanted = known.of((name, arm)).extent(arm, size=size)
        for path in (result_path(out, name, base, arm) for base in bases):
            for found in read_results(path) if path.exists() else ():
                if said := told_apart(found.extent, wanted, ("steps", "batch", "times")):
                    apart.append(f"{path.relative_to(out)} ({said})")
    if apart:
        raise UserError(
            f"{out} holds results of other settings: {first_few(apart)}",
            expected="what this version of the lab would run",
            way_out="name another folder with --out, or remove these files to run the arms again",
        )


def first_few(names: Sequence[str], most: int = 3) -> str:
    """And how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _is_there(out: Path, base: str, key: ArmKey) -> bool:
    return has_result(out, key[0], base, key[1])


class _Known:
    """Experiments that were looked up, and how deep their arms stand on others."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._found: dict[str, Experiment] = {}
        self._ranks: dict[ArmKey, tuple[int, int]] = {}

    def of(self, key: ArmKey) -> Experiment:
        """The experiment of an arm, which it must have."""
        name, arm = key
        if name not in self._found:
            self._found[name] = self._find(name)
        experiment = self._found[name]
        if arm not in experiment.arms:
            raise unknown_name(f"arm of the experiment {name!r}", arm, experiment.arms)
        return experiment

    def needs(self, key: ArmKey) -> tuple[ArmKey, ...]:
        """Arms whose weights it reads."""
        return self.of(key).needs(key[1])

    def rank(self, key: ArmKey) -> tuple[int, int]:
        """How many rounds of other experiments must come before, and how many arms of its own."""
        return self._rank(key, ())

    def _rank(self, key: ArmKey, above: tuple[ArmKey, ...]) -> tuple[int, int]:
        if key in above:
            raise UserError(f"the arm {key[1]!r} of {key[0]!r} needs itself")
        if key not in self._ranks:
            after = [(0, 0)]
            for need in self.needs(key):
                rounds, own = self._rank(need, (*above, key))
                # An experiment runs its own arms in the order that it is given.
                after.append((rounds, own + 1) if need[0] == key[0] else (rounds + 1, 0))
            self._ranks[key] = max(after)
        return self._ranks[key]

    def place(self, key: ArmKey) -> tuple[int, int, int, int]:
        """Among all arms: rounds, experiments, then arms."""
        names = list(EXPERIMENTS)
        at = names.index(key[0]) if key[0] in names else len(names)
        rounds, own = self.rank(key)
        return rounds, at, own, self.of(key).arms.index(key[1])


def _with_needs(
    arms: Sequence[ArmKey], known: _Known, is_there: Callable[[ArmKey], bool]
) -> dict[ArmKey, None]:
    """Of arms that are not there, those and all that they need and that is not there either."""
    found: dict[ArmKey, None] = {}
    left = list(arms)
    while left:
        key = left.pop()
        known.rank(key)
        if key not in found and not is_there(key):
            found[key] = None
            left += known.needs(key)
    return found


def _took(measured: Iterable[ArmResult]) -> dict[ArmKey, float]:
    """Seconds of one arm on one base, where they were measured at full size."""
    found: dict[ArmKey, list[float]] = {}
    for one in measured:
        if one.seconds is not None and one.size == "full":
            found.setdefault((one.experiment, one.arm), []).append(one.seconds)
    return {key: median(some) for key, some in found.items()}


def _part(
    name: str,
    missing: Mapping[ArmKey, Sequence[str]],
    known: _Known,
    took: Mapping[ArmKey, float],
) -> Part:
    return Part(
        experiment=name,
        missing=tuple((base, key[1]) for key, bases in missing.items() for base in bases),
        each={key[1]: took.get(key, known.of(key).seconds(key[1])) for key in missing},
        needs={key[1]: known.needs(key) for key in missing},
    )
