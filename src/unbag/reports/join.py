"""Merge several runs into one in which every name is unique.

Benchmarks with different items, and models that differ under one name, get the name of their run
appended. Results that two runs share appear once.
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
"""Runs or benchmarks listed by name; more are counted."""
_DRAWN = ("low", "high", "p_value", "p_holm")
"""Fields that depend on the seed of resampling, and so do not identify a model."""


def merge_runs(runs: Sequence[RunContents], *, folders: Sequence[str | Path] = ()) -> JoinedRun:
    """Merge runs; every result keeps the record of its run.

    Without `folders` the runs are numbered. Holm's correction is applied again, to all comparisons
    of the merged run together.
    """
    named = [str(folder) for folder in folders]
    all_parts = _parts(runs, named or [f"run {i}" for i in range(1, len(runs) + 1)])
    alike = _find_alike(all_parts)
    parts = _corrected(_each_once(all_parts, alike))
    benchmarks = _benchmark_names(all_parts)
    renamed = [
        _renamed(part.run, _scorer_names(all_parts, i, alike), benchmarks[i])
        for i, part in enumerate(parts)
    ]
    # Ordered by original benchmark name, so that variants of a benchmark are adjacent.
    pairs = [
        (own.benchmark, result)
        for part, run in zip(parts, renamed, strict=True)
        for own, result in zip(part.run.results, run.results, strict=True)
    ]
    order = dict.fromkeys(name for name, _ in pairs)
    named_parts = all_parts if named else ()
    return JoinedRun(
        record=runs[0].record,
        results=tuple(result for name in order for own, result in pairs if own == name),
        comparisons=tuple(comparison for run in renamed for comparison in run.comparisons),
        failures=tuple(failure for run in renamed for failure in run.failures),
        problems=_texts_once([part.run.problems for part in all_parts], named_parts),
        references=tuple(reference for run in renamed for reference in run.references),
        warnings=_texts_once([part.run.warnings for part in all_parts], named_parts),
        parts=parts,
        notes=(
            *(
                f"{folder} was given more than once and is shown once"
                for folder in dict.fromkeys(named)
                if named.count(folder) > 1
            ),
            *_shared_lines(all_parts, alike),
        ),
    )


@dataclass(frozen=True)
class JoinedRun(RunContents):
    """Several runs merged into one, with unique names."""

    parts: tuple[RunPart, ...] = ()
    """The runs under their original names, without results that an earlier run has."""
    notes: tuple[str, ...] = ()
    """Statements about results that several runs share and that appear once."""


@dataclass(frozen=True)
class RunPart:
    """One of the merged runs, under its original names."""

    folder: str
    """As the user gave it; empty for a run that was not merged."""
    label: str
    """Short name, for columns and rows."""
    run: RunContents


def parts_of(run: RunContents) -> tuple[RunPart, ...]:
    """Return the merged runs, or the run itself if it was not merged."""
    if isinstance(run, JoinedRun) and len(run.parts) > 1:
        return run.parts
    return (RunPart("", "", run),)


def notes_of(run: RunContents) -> tuple[str, ...]:
    """Statements about results that several runs share and that appear once."""
    return run.notes if isinstance(run, JoinedRun) else ()


def _parts(runs: Sequence[RunContents], folders: Sequence[str]) -> tuple[RunPart, ...]:
    """Return one part per folder; a folder given twice is one run."""
    run_of = dict(zip(folders, runs, strict=True))
    folder_names = [Path(folder).name for folder in run_of]
    is_short = all(folder_names) and len(set(folder_names)) == len(folder_names)
    labels = folder_names if is_short else list(run_of)
    return tuple(
        RunPart(
            folder,
            label,
            replace(run, results=tuple(replace(r, run=r.run or run.record) for r in run.results)),
        )
        for (folder, run), label in zip(run_of.items(), labels, strict=True)
    )


def _corrected(parts: Sequence[RunPart]) -> tuple[RunPart, ...]:
    all_comparisons = iter(
        correct([comparison for part in parts for comparison in part.run.comparisons])
    )
    corrected = [tuple(next(all_comparisons) for _ in part.run.comparisons) for part in parts]
    return tuple(
        replace(part, run=replace(part.run, comparisons=comparisons))
        for part, comparisons in zip(parts, corrected, strict=True)
    )


def _find_alike(parts: Sequence[RunPart]) -> dict[str, list[SameModel]]:
    """Group results by model: for each name, one entry for each different model."""
    models_of: dict[str, list[SameModel]] = {}
    for i, part in enumerate(parts):
        results_of: dict[str, list[Result]] = {}
        for result in part.run.results:
            results_of.setdefault(model_name(result), []).append(result)
        for name, results in results_of.items():
            facts: dict[object, object] = {}
            for result in results:
                facts[result.scorer] = _fingerprint(result, "model", result.scorer)
                facts[_place(result)] = _without_drawn(to_json(replace(result, about="")))
            models = models_of.setdefault(name, [])
            matching = [model for model in models if model.fits(facts)]
            if len(matching) != 1:
                # No match, or several matches that cannot be decided between: a new model.
                matching = [SameModel()]
                models += matching
            matching[0].add(i, results, facts)
    return models_of


@dataclass
class SameModel:
    """One model, in all the parts that have it.

    Two models are the same if their names and fingerprints are equal, and their numbers too on the
    same items under the same protocol.
    """

    facts: dict[object, object] = field(default_factory=dict)
    """Its fingerprints, and its numbers by place (see `_place`)."""
    had: dict[object, list[int]] = field(default_factory=dict)
    """Parts that have these numbers, by place."""
    parts: list[int] = field(default_factory=list)
    again: dict[int, list[Result]] = field(default_factory=dict)
    """Results that an earlier part also has, by part."""

    def fits(self, facts: Mapping[object, object]) -> bool:
        """Return whether these facts contradict no known fact."""
        return all(self.facts.get(key, value) == value for key, value in facts.items())

    def add(self, part: int, results: Sequence[Result], facts: Mapping[object, object]) -> None:
        """Add the results and facts of another part."""
        if again := [result for result in results if _place(result) in self.facts]:
            self.again[part] = again
        for result in results:
            self.had.setdefault(_place(result), []).append(part)
        self.facts.update(facts)
        self.parts.append(part)


def _without_drawn(value: object) -> object:
    """Remove resampled fields from JSON values, in which NaN is equal to itself."""
    if isinstance(value, dict):
        return {key: _without_drawn(item) for key, item in value.items() if key not in _DRAWN}
    return [_without_drawn(item) for item in value] if isinstance(value, list) else value


def _place(result: Result) -> tuple[str, ...]:
    items = _fingerprint(result, "benchmark", result.benchmark)
    return result.scorer, result.benchmark, items, result.aggregate, result.protocol.key


def _fingerprint(result: Result, kind: str, name: str) -> str:
    """Return a fingerprint from the run record; without one, an identifier of the run."""
    if result.run is None:
        return ""
    known = result.run.fingerprints.get(f"{kind} {name}", "")
    return known or f"{result.run.started} {result.run.command}"


def _each_once(parts: Sequence[RunPart], alike: Mapping[str, Sequence[SameModel]]) -> list[RunPart]:
    """Drop results that an earlier part has, with their comparisons and failures."""
    seen_comparisons: list[object] = []
    reduced = []
    for i, part in enumerate(parts):
        run = part.run
        repeated = [
            r for models in alike.values() for model in models for r in model.again.get(i, ())
        ]
        ids = {id(result) for result in repeated}
        results = tuple(result for result in run.results if id(result) not in ids)
        removed = {(r.benchmark, r.scorer) for r in repeated} - {
            (r.benchmark, r.scorer) for r in results
        }
        run = replace(
            run,
            results=results,
            comparisons=tuple(
                c
                for c in run.comparisons
                if not {(c.benchmark, c.first), (c.benchmark, c.second)} <= removed
                or _without_drawn(to_json(c)) not in seen_comparisons
            ),
            failures=tuple(f for f in run.failures if (f.benchmark, f.scorer) not in removed),
            references=tuple(r for r in run.references if (r.benchmark, r.scorer) not in removed),
        )
        seen_comparisons += [_without_drawn(to_json(c)) for c in run.comparisons]
        reduced.append(replace(part, run=run))
    return reduced


def _shared_lines(parts: Sequence[RunPart], alike: Mapping[str, Sequence[SameModel]]) -> list[str]:
    """State which results `_each_once` dropped, with one line for models that share the same."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, models in alike.items():
        for model in models:
            repeated = [result for results in model.again.values() for result in results]
            if repeated:
                shared = list(dict.fromkeys(result.benchmark for result in repeated))
                part_indices = {at for result in repeated for at in model.had[_place(result)]}
                runs = [parts[at].label for at in sorted(part_indices)]
                place = (_counted(shared, "benchmarks"), _counted(runs, "runs"))
                groups.setdefault(place, []).append(name)
    return [
        f"{and_list(names)}: the same numbers on the same items of {shared} in {runs}, shown once"
        for (shared, runs), names in groups.items()
    ]


def _counted(names: Sequence[str], noun: str) -> str:
    return and_list(names) if len(names) <= _NAMED else f"{len(names)} {noun}"


def _scorer_names(
    parts: Sequence[RunPart], part: int, alike: Mapping[str, Sequence[SameModel]]
) -> dict[str, str]:
    """Map the names of models that differ between parts to new names."""
    names = {}
    for result in parts[part].run.results:
        name = model_name(result)
        if len(alike[name]) > 1:
            model = next(model for model in alike[name] if part in model.parts)
            prompt = result.scorer.removeprefix(name)
            # The prompt stays last, where `model_name` expects it.
            names[result.scorer] = f"{name} ({_labels(parts, model.parts)}){prompt}"
    return names


def _benchmark_names(parts: Sequence[RunPart]) -> list[dict[str, str]]:
    """For each part, map benchmarks whose items differ between parts to new names.

    Items that differ only by corrected errata are distinguished by the name of the errata.
    """
    sizes_of: dict[tuple[str, str], dict[str, dict[int, int]]] = {}
    for i, part in enumerate(parts):
        for result in part.run.results:
            items = _fingerprint(result, "benchmark", result.benchmark)
            sizes = sizes_of.setdefault((result.benchmark, result.protocol.errata), {})
            headline = result.overall.get(result.headline)
            size = sizes.setdefault(items, {})
            size[i] = max(size.get(i, 0), headline.n if headline else 0)
    names: list[dict[str, str]] = [{} for _ in parts]
    for (benchmark, _), sizes in sizes_of.items():
        for size in sizes.values() if len(sizes) > 1 else ():
            name = f"{benchmark} ({_labels(parts, list(size))}, n={max(size.values()):,})"
            for i in size:
                names[i][benchmark] = name
    return names


def _labels(parts: Sequence[RunPart], places: Sequence[int]) -> str:
    """List the labels of parts; more than _NAMED are shortened to the first and a count."""
    labels = [parts[i].label for i in places]
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
                comparison,
                first=scorer(comparison.first),
                second=scorer(comparison.second),
                benchmark=benchmark(comparison.benchmark),
            )
            for comparison in run.comparisons
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


def _texts_once(
    texts_of_parts: Sequence[Sequence[str]], parts: Sequence[RunPart]
) -> tuple[str, ...]:
    """Return each text once, with the labels of its parts unless it is about all of them."""
    parts_of_text: dict[str, list[int]] = {}
    for i, texts in enumerate(texts_of_parts):
        for text in dict.fromkeys(texts):
            parts_of_text.setdefault(text, []).append(i)
    return tuple(
        f"{and_list([parts[i].label for i in places])}: {text}"
        if parts and len(places) < len(texts_of_parts)
        else text
        for text, places in parts_of_text.items()
    )
