"""`Results`, which `ub.evaluate` returns: printed as a table, looked up and saved."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from shutil import get_terminal_size
from typing import overload

from unbag.errors import UnbagError, unknown_name
from unbag.reports.exports import legend, overview, report, to_csv, to_latex, to_markdown
from unbag.reports.join import notes_of
from unbag.reports.layout import lay_out, model_name, published_only
from unbag.reports.table import html
from unbag.reports.terminal import terminal_table, warning_lines
from unbag.types import Benchmark, Result, RunContents
from unbag.types.models import Named

_UNLIMITED = 10_000
"""Wider than any table, since a pipe has no width."""
_Key = str | Named | Benchmark


class Results(Sequence[Result]):
    """Results of one or many models on one or many benchmarks.

    A sequence of `Result`s, one per model, benchmark, tie rule and averaging rule; for each model
    and benchmark, the rule of published numbers comes first. It prints as a table.

    Attributes:
        contents: The results with comparisons, published numbers and failures.
        folder: The run folder; None if nothing was written.

    Examples:
        >>> import unbag as ub
        >>> results = ub.evaluate(["tiny:base", "caption:short"], ["world-swap", "world-order"])
        >>> results["caption:short", "world-order"].overall["accuracy"].value
        0.25
        >>> [result.benchmark for result in results.select(model="tiny:base")]
        ['world-swap', 'world-order']
        >>> results.save("results.csv").name
        'results.csv'
    """

    def __init__(self, contents: RunContents, folder: Path | None = None) -> None:
        """Hold the contents of a run and its folder, if it has one."""
        self.contents = contents
        self.folder = folder

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be scored, measured or compared, with reasons."""
        return self.contents.problems

    @property
    def models(self) -> list[str]:
        """Names of the scored models, in order."""
        return list(dict.fromkeys(result.scorer for result in self))

    @property
    def benchmarks(self) -> list[str]:
        """Names of the benchmarks, in order."""
        return list(dict.fromkeys(result.benchmark for result in self))

    def select(self, *, model: _Key | None = None, benchmark: _Key | None = None) -> Results:
        """Return the results of one model, of one benchmark, or of both.

        A chat model that is asked with several prompts has results under one name per prompt; its
        own name selects all of them.
        """
        results = self.contents.results
        if model is not None:
            name = _name_of(model)
            exact = tuple(result for result in results if result.scorer == name)
            results = exact or tuple(r for r in results if model_name(r) == name)
            if not results:
                raise _not_measured("model", name, self.models)
        if benchmark is not None:
            name = _name_of(benchmark)
            if name not in self.benchmarks:
                raise _not_measured("benchmark", name, self.benchmarks)
            results = tuple(result for result in results if result.benchmark == name)
        scorers = {result.scorer for result in results}
        benchmarks = {result.benchmark for result in results}
        everything = self.contents
        contents = replace(
            everything,
            results=results,
            comparisons=tuple(
                comparison
                for comparison in everything.comparisons
                if comparison.benchmark in benchmarks
                and {comparison.first, comparison.second} <= scorers
            ),
            references=tuple(
                entry
                for entry in everything.references
                if entry.benchmark in benchmarks and entry.scorer in scorers
            ),
            failures=tuple(
                entry
                for entry in everything.failures
                if entry.benchmark in benchmarks and entry.scorer in scorers
            ),
        )
        return Results(contents, self.folder)

    @overload
    def __getitem__(self, key: int) -> Result: ...
    @overload
    def __getitem__(self, key: slice) -> Results: ...
    @overload
    def __getitem__(self, key: tuple[_Key, _Key]) -> Result: ...
    def __getitem__(self, key: int | slice | tuple[_Key, _Key]) -> Result | Results:
        """Look up a result by position, or as `results[model, benchmark]`."""
        if isinstance(key, tuple):
            if len(key) != 2:
                raise UnbagError(
                    f"results are looked up by {len(key)} keys",
                    expected="a model and a benchmark: results[model, benchmark]",
                )
            matching = self.select(model=key[0], benchmark=key[1])
            if not matching:
                raise UnbagError(
                    f"{_name_of(key[0])} has no result on {_name_of(key[1])}",
                    expected="a model that was measured on this benchmark",
                    hint="results.problems states what failed",
                )
            return matching.contents.results[0]
        if isinstance(key, slice):
            return Results(replace(self.contents, results=self.contents.results[key]), self.folder)
        return self.contents.results[key]

    def __len__(self) -> int:
        """Number of results."""
        return len(self.contents.results)

    def __iter__(self) -> Iterator[Result]:
        """Iterate over all results, by benchmark."""
        return iter(self.contents.results)

    def __repr__(self) -> str:
        """The table of `unbag run`, with warnings above it and problems below."""
        if not self:
            return "Results: empty"
        from rich.console import Console

        contents = self.contents
        width = get_terminal_size((_UNLIMITED, 24)).columns
        console = Console(file=io.StringIO(), width=width, color_system=None)
        table = terminal_table(contents)
        with console.capture() as captured:
            console.print(table)
        lines = [line.rstrip() for line in captured.get().strip("\n").splitlines()]
        problems = [f"not measured: {problem}" for problem in self.problems]
        return "\n".join([*warning_lines(contents), *lines, *problems])

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        if not self:
            return "<p>Results: empty</p>"
        layout = lay_out(published_only(self.contents))
        notes = [f"{note}." for note in notes_of(self.contents)]
        problems = [f"not measured: {problem}" for problem in self.problems]
        parts = [
            *(f"<p>{escape(line)}</p>" for line in warning_lines(self.contents)),
            html(overview(layout)),
            *(f"<p>{escape(line)}</p>" for line in (legend(layout), *notes, *problems)),
        ]
        return "\n".join(parts)

    def to_markdown(self) -> str:
        """Return the report as Markdown: summary, overview and a table for each benchmark."""
        return to_markdown(self.contents)

    def to_latex(self) -> str:
        """Return the overview as a LaTeX table in the style of booktabs."""
        return to_latex(self.contents)

    def to_csv(self) -> str:
        """Return one CSV row per result, tag and metric, as fractions."""
        return to_csv(self.contents)

    def save(self, path: str | Path) -> Path:
        """Write a report; the file extension is the format: .html, .md, .tex, .csv or .json."""
        return report(self, path)


def _name_of(key: _Key) -> str:
    return key if isinstance(key, str) else key.name


def _not_measured(kind: str, name: str, known: Sequence[str]) -> UnbagError:
    return unknown_name(kind, name, known, hint=f"these results hold {', '.join(known)}")
