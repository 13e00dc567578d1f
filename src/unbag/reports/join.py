"""Joins several runs into one in which no name stands for two things.

A benchmark that has other items in another run, and a scorer that is another model there, are named
with their run. What two runs have in common stands once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from unbag.metrics.compare import correct
from unbag.reports.formatting import and_list
from unbag.reports.layout import model_name
from unbag.types import Result, RunContents
from unbag.types.json import to_json

_NAMED = 3
"""Runs or benchmarks named in a list; more are counted."""
_DRAWN = ("low", "high", "p_value", "p_holm")
"""What resampling gives, which another seed gives otherwise: it says nothing of the model."""


def merge_runs(runs: Sequence[RunContents], *, folders: Sequence[str | Path] = ()) -> JoinedRun:
    """Several runs as one; every result keeps the record of the run it came from.

    Without `folders` the runs are numbered. Holm's correction is made again: comparisons that are
    read together are corrected together.
    """
    named = [str(folder) for folder in folders]
    given = _parts(runs, named or [f"run {at}" for at in range(1, len(runs) + 1)])
    alike = _find_alike(given)
    parts = _corrected(_each_once(given, alike))
    benchmarks = _benchmark_names(given)
    shown = [
        _renamed(part.run, _scorer_names(given, at, alike), benchmarks[at])
        for at, part in enumerate(parts)
    ]
    # One benchmark after the other, so that other items of it stand beside it.
    pairs = [
        (own.benchmark, result)
        for part, run in zip(parts, shown, strict=True)
        for own, result in zip(part.run.results, run.results, strict=True)
    ]
    order = dict.fromkeys(name for name, _ in pairs)
    said = given if named else ()
    return JoinedRun(
        record=runs[0].record,
        results=tuple(result for name in order for own, result in pairs if own == name),
        comparisons=tuple(made for run in shown for made in run.comparisons),
        failures=tuple(failure for run in shown for failure in run.failures),
        problems=_texts_once([part.run.problems for part in given], said),
        references=tuple(reference for run in shown for reference in run.references),
        warnings=_texts_once([part.run.warnings for part in given], said),
        parts=parts,
        notes=(
            *(
                f"{folder} was given more than once and is shown once"
                for folder in dict.fromkeys(named)
                if named.count(folder) > 1
            ),
            *_shared_lines(given, alike),
        ),
    )


@dataclass(frozen=True)
class JoinedRun(RunContents):
    """Several runs as one, under names that say the run where they must."""

    parts: tuple[RunPart, ...] = ()
    """The runs under their own names, without what an earlier one has too."""
    notes: tuple[str, ...] = ()
    """What stands once although it was given twice."""


@dataclass(frozen=True)
class RunPart:
    """One of the runs that are joined, under its own names."""

    folder: str
    """As the user gave it; empty where a run stands alone."""
    label: str
    """Short, for names of columns and rows."""
    run: RunContents


def parts_of(run: RunContents) -> tuple[RunPart, ...]:
    """The runs that were joined, or the run itself if it stands alone."""
    if isinstance(run, JoinedRun) and len(run.parts) > 1:
        return run.parts
    return (RunPart("", "", run),)


def notes_of(run: RunContents) -> tuple[str, ...]:
    """What stands once although it was given twice."""
    return run.notes if isinstance(run, JoinedRun) else ()


def _parts(runs: Sequence[RunContents], folders: Sequence[str]) -> tuple[RunPart, ...]:
    """A folder that was given twice is one run."""
    once = dict(zip(folders, runs, strict=True))
    last = [Path(folder).name for folder in once]
    is_short = all(last) and len(set(last)) == len(last)
    labels = last if is_short else list(once)
    return tuple(
        RunPart(
            folder,
            label,
            replace(run, results=tuple(replace(r, run=r.run or run.record) for r in run.results)),
        )
        for (folder, run), label in zip(once.items(), labels, strict=True)
    )


def _corrected(parts: Sequence[RunPart]) -> tuple[RunPart, ...]:
    all_made = iter(correct([made for part in parts for made in part.run.comparisons]))
    made = [tuple(next(all_made) for _ in part.run.comparisons) for part in parts]
    return tuple(
        replace(part, run=replace(part.run, comparisons=some))
        for part, some in zip(parts, made, strict=True)
    )


def _find_alike(parts: Sequence[RunPart]) -> dict[str, list[SameModel]]:
    """By name of the model: one for each different model of that name."""
    found: dict[str, list[SameModel]] = {}
    for at, part in enumerate(parts):
        models: dict[str, list[Result]] = {}
        for result in part.run.results:
            models.setdefault(model_name(result), []).append(result)
        for name, results in models.items():
            facts: dict[object, object] = {}
            for result in results:
                facts[result.scorer] = _fingerprint(result, "model", result.scorer)
                facts[_place(result)] = _without_drawn(to_json(replace(result, about="")))
            known = found.setdefault(name, [])
            fitting = [one for one in known if one.fits(facts)]
            if len(fitting) != 1:
                # None, or two that differ: nothing says which of them it is.
                fitting = [SameModel()]
                known += fitting
            fitting[0].add(at, results, facts)
    return found


@dataclass
class SameModel:
    """One model, in all the parts that have it.

    Two models are the same if name and fingerprint are, and if their numbers are wherever both were
    asked the same items under the same protocol.
    """

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


def _without_drawn(said: object) -> object:
    """What scores and items alone decide, of JSON: there NaN is equal to itself."""
    if isinstance(said, dict):
        return {key: _without_drawn(value) for key, value in said.items() if key not in _DRAWN}
    return [_without_drawn(one) for one in said] if isinstance(said, list) else said


def _place(result: Result) -> tuple[str, ...]:
    items = _fingerprint(result, "benchmark", result.benchmark)
    return result.scorer, result.benchmark, items, result.aggregate, result.protocol.key


def _fingerprint(result: Result, kind: str, name: str) -> str:
    """As the record of its run has it; what has none is only like itself in the same run."""
    if result.run is None:
        return ""
    known = result.run.fingerprints.get(f"{kind} {name}", "")
    return known or f"{result.run.started} {result.run.command}"


def _each_once(parts: Sequence[RunPart], alike: Mapping[str, Sequence[SameModel]]) -> list[RunPart]:
    """Without results that an earlier part has, and without what goes with them."""
    made: list[object] = []
    kept = []
    for at, part in enumerate(parts):
        run = part.run
        again = [r for some in alike.values() for one in some for r in one.again.get(at, ())]
        ids = {id(result) for result in again}
        results = tuple(result for result in run.results if id(result) not in ids)
        gone = {(r.benchmark, r.scorer) for r in again} - {(r.benchmark, r.scorer) for r in results}
        run = replace(
            run,
            results=results,
            comparisons=tuple(
                one
                for one in run.comparisons
                if not {(one.benchmark, one.first), (one.benchmark, one.second)} <= gone
                or _without_drawn(to_json(one)) not in made
            ),
            failures=tuple(f for f in run.failures if (f.benchmark, f.scorer) not in gone),
            references=tuple(r for r in run.references if (r.benchmark, r.scorer) not in gone),
        )
        made += [_without_drawn(to_json(one)) for one in run.comparisons]
        kept.append(replace(part, run=run))
    return kept


def _shared_lines(parts: Sequence[RunPart], alike: Mapping[str, Sequence[SameModel]]) -> list[str]:
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
    return and_list(names) if len(names) <= _NAMED else f"{len(names)} {noun}"


def _scorer_names(
    parts: Sequence[RunPart], at: int, alike: Mapping[str, Sequence[SameModel]]
) -> dict[str, str]:
    """New names, by old, for models that are not the same in all the parts that name them."""
    names = {}
    for result in parts[at].run.results:
        name = model_name(result)
        if len(alike[name]) > 1:
            one = next(one for one in alike[name] if at in one.parts)
            prompt = result.scorer.removeprefix(name)
            # A prompt stays last, where `model_name` looks for it.
            names[result.scorer] = f"{name} ({_labels(parts, one.parts)}){prompt}"
    return names


def _benchmark_names(parts: Sequence[RunPart]) -> list[dict[str, str]]:
    """For each part new names, by old, where a benchmark has other items in another part.

    Items that differ because errata were mended are distinguished by the name of the errata.
    """
    asked: dict[tuple[str, str], dict[str, dict[int, int]]] = {}
    for at, part in enumerate(parts):
        for result in part.run.results:
            items = _fingerprint(result, "benchmark", result.benchmark)
            sizes = asked.setdefault((result.benchmark, result.protocol.errata), {})
            headline = result.overall.get(result.headline)
            size = sizes.setdefault(items, {})
            size[at] = max(size.get(at, 0), headline.n if headline else 0)
    names: list[dict[str, str]] = [{} for _ in parts]
    for (benchmark, _), sizes in asked.items():
        for size in sizes.values() if len(sizes) > 1 else ():
            name = f"{benchmark} ({_labels(parts, list(size))}, n={max(size.values()):,})"
            for at in size:
                names[at][benchmark] = name
    return names


def _labels(parts: Sequence[RunPart], places: Sequence[int]) -> str:
    """In brackets after a name; no part is in two of them, so the first tells them apart."""
    labels = [parts[at].label for at in places]
    return and_list(labels) if len(labels) <= _NAMED else f"{labels[0]} and {len(labels) - 1} more"


def _renamed(
    run: RunContents, scorers: Mapping[str, str], benchmarks: Mapping[str, str]
) -> RunContents:
    def scorer(name: str) -> str:
        return scorers.get(name, name)

    def benchmark(name: str) -> str:
        return benchmarks.get(name, name)

    return replace(
        run,
        results=tuple(
            replace(r, scorer=scorer(r.scorer), benchmark=benchmark(r.benchmark))
            for r in run.results
        ),
        comparisons=tuple(
            replace(
                made,
                first=scorer(made.first),
                second=scorer(made.second),
                benchmark=benchmark(made.benchmark),
            )
            for made in run.comparisons
        ),
        failures=tuple(
            replace(f, scorer=scorer(f.scorer), benchmark=benchmark(f.benchmark))
            for f in run.failures
        ),
        references=tuple(
            replace(r, scorer=scorer(r.scorer), benchmark=benchmark(r.benchmark))
            for r in run.references
        ),
    )


def _texts_once(said: Sequence[Sequence[str]], parts: Sequence[RunPart]) -> tuple[str, ...]:
    """Each text once; of named parts, with those it is about unless it is about all."""
    by: dict[str, list[int]] = {}
    for at, texts in enumerate(said):
        for text in dict.fromkeys(texts):
            by.setdefault(text, []).append(at)
    return tuple(
        f"{and_list([parts[at].label for at in places])}: {text}"
        if parts and len(places) < len(said)
        else text
        for text, places in by.items()
    )
