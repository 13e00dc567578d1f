"""Runs come in; which models are the same in several of them goes out, and what stands twice.

Two models are the same if name and fingerprint are, and if their numbers are wherever both were
asked the same items under the same protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from unbag.reports.prompts import model_name
from unbag.reports.wording import and_list
from unbag.types import Result, RunContents
from unbag.types.as_json import comparison_to_json, result_to_json

NAMED = 3
"""Runs or benchmarks named in a list; more are counted."""


@dataclass(frozen=True)
class Part:
    """One of the runs that are joined, under its own names."""

    folder: str
    """As the user gave it; empty where a run stands alone."""
    label: str
    """Short, for names of columns and rows."""
    run: RunContents


@dataclass
class Alike:
    """One model, in all the parts that have it."""

    facts: dict[object, object] = field(default_factory=dict)
    """Its fingerprints, and its numbers by place."""
    had: dict[object, list[int]] = field(default_factory=dict)
    """By place: the parts that have these numbers."""
    parts: list[int] = field(default_factory=list)
    again: dict[int, list[Result]] = field(default_factory=dict)
    """By part: results that an earlier part has too."""

    def fits(self, facts: Mapping[object, object]) -> bool:
        """Nothing in these facts contradicts what is known."""
        return all(self.facts.get(key, value) == value for key, value in facts.items())

    def add(self, at: int, results: Sequence[Result], facts: Mapping[object, object]) -> None:
        """Take in what another part says of the model."""
        if again := [result for result in results if _place(result) in self.facts]:
            self.again[at] = again
        for result in results:
            self.had.setdefault(_place(result), []).append(at)
        self.facts.update(facts)
        self.parts.append(at)


def find_alike(parts: Sequence[Part]) -> dict[str, list[Alike]]:
    """By name of the model: one for each different model of that name."""
    found: dict[str, list[Alike]] = {}
    for at, part in enumerate(parts):
        models: dict[str, list[Result]] = {}
        for result in part.run.results:
            models.setdefault(model_name(result), []).append(result)
        for name, results in models.items():
            facts = _facts(results)
            known = found.setdefault(name, [])
            fitting = [one for one in known if one.fits(facts)]
            if len(fitting) != 1:
                # None, or two that differ: nothing says which of them it is.
                fitting = [Alike()]
                known += fitting
            fitting[0].add(at, results, facts)
    return found


def _facts(results: Iterable[Result]) -> dict[object, object]:
    facts: dict[object, object] = {}
    for result in results:
        facts[result.scorer] = fingerprint(result, "model", result.scorer)
        facts[_place(result)] = _decided(result_to_json(replace(result, about="")))
    return facts


_DRAWN = ("low", "high", "p_value", "p_holm")
"""What resampling gives, which another seed gives otherwise: it says nothing of the model."""


def _decided(said: object) -> object:
    """What scores and items alone decide, of JSON: there NaN is equal to itself."""
    if isinstance(said, dict):
        return {key: _decided(value) for key, value in said.items() if key not in _DRAWN}
    return [_decided(one) for one in said] if isinstance(said, list) else said


def _place(result: Result) -> tuple[str, ...]:
    items = fingerprint(result, "benchmark", result.benchmark)
    return result.scorer, result.benchmark, items, result.aggregate, result.protocol.key


def fingerprint(result: Result, kind: str, name: str) -> str:
    """As the record of its run has it; what has none is only like itself in the same run."""
    if result.run is None:
        return ""
    known = result.run.fingerprints.get(f"{kind} {name}", "")
    return known or f"{result.run.started} {result.run.command}"


def each_once(parts: Sequence[Part], alike: Mapping[str, Sequence[Alike]]) -> list[Part]:
    """Without results that an earlier part has, and without what goes with them."""
    made: list[object] = []
    kept = []
    for at, part in enumerate(parts):
        again = [r for some in alike.values() for one in some for r in one.again.get(at, ())]
        run = _without(part.run, again, made)
        made += [_decided(comparison_to_json(one)) for one in run.comparisons]
        kept.append(replace(part, run=run))
    return kept


def _without(run: RunContents, again: Sequence[Result], made: Sequence[object]) -> RunContents:
    ids = {id(result) for result in again}
    results = tuple(result for result in run.results if id(result) not in ids)
    gone = {(r.benchmark, r.scorer) for r in again} - {(r.benchmark, r.scorer) for r in results}
    return replace(
        run,
        results=results,
        comparisons=tuple(
            one
            for one in run.comparisons
            if not {(one.benchmark, one.first), (one.benchmark, one.second)} <= gone
            or _decided(comparison_to_json(one)) not in made
        ),
        failures=tuple(f for f in run.failures if (f.benchmark, f.scorer) not in gone),
        references=tuple(r for r in run.references if (r.benchmark, r.scorer) not in gone),
    )


def shared_lines(parts: Sequence[Part], alike: Mapping[str, Sequence[Alike]]) -> list[str]:
    """What `each_once` left out, a line for all models that share the same."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, some in alike.items():
        for one in some:
            again = [result for results in one.again.values() for result in results]
            if again:
                on = list(dict.fromkeys(result.benchmark for result in again))
                those = {at for result in again for at in one.had[_place(result)]}
                runs = [parts[at].label for at in sorted(those)]
                place = (_counted(on, "benchmarks"), _counted(runs, "runs"))
                groups.setdefault(place, []).append(name)
    return [
        f"{and_list(names)}: the same numbers on the same items of {on} in {runs}, shown once"
        for (on, runs), names in groups.items()
    ]


def _counted(names: Sequence[str], noun: str) -> str:
    return and_list(names) if len(names) <= NAMED else f"{len(names)} {noun}"
