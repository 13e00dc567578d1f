"""`unbag report`: run folders in, one page, table or file out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.api import make_scorer
from unbag.benchmarks.names import benchmark, find_benchmarks
from unbag.cli.run import cache_of, tagged
from unbag.errors import UserError
from unbag.evaluation.loading import Job
from unbag.evaluation.verify import Verified, verify
from unbag.models.loading import choose_device, load_model, needs_device
from unbag.published.lookup import known_as
from unbag.registry import names
from unbag.reports.exports import check_place, read_runs, report
from unbag.reports.join import merge_runs
from unbag.reports.table import (
    beside_lines,
    notes,
    prompt_lines,
    terminal_table,
    verified_table,
    warning_lines,
)
from unbag.scorers import make_scorer
from unbag.types import Benchmark

if TYPE_CHECKING:
    from rich.console import Console


def write_report(runs: Sequence[Path], *, out: Path | None) -> int:
    """Join the runs and write them in the form that the ending of `out` asks for."""
    if out is not None:
        check_place(out)
    contents = read_runs(runs)
    if out is None:
        from unbag.cli.console import output

        console = output()
        for line in warning_lines(contents):
            console.print(line, style="yellow", highlight=False, markup=False)
        console.print(terminal_table(contents))
        for line in (*prompt_lines(contents), *beside_lines(contents.references)):
            console.print(line, highlight=False, markup=False)
        return 0
    print(f"report: {report(contents, out)}")
    return 0


OUTSIDE = 3
"""Exit code where a number that can be compared lies outside our interval."""


def verify_command(options: argparse.Namespace) -> int:
    """Run every protocol that published numbers of this model need, and compare."""
    from rich.console import Console

    from unbag.cli.console import Shown, output

    device = choose_device(options.device, is_needed=needs_device(options.model))
    scorer = make_scorer(load_model(options.model, device=device), options.scorer)
    name = options.published_as or known_as(options.model)
    job = Job(
        scorers=[scorer],
        benchmarks=tagged(_benchmarks(options.bench), "auto"),
        out=options.out,
        data=options.data,
        cache=cache_of(options),
        published_as={scorer.name: name} if name else {},
        missing=options.missing,
        device=device,
        command=options.typed,
    )
    return _finish(verify(job, progress=Shown(Console(stderr=True))), options.out, output())


def _benchmarks(asked: list[str]) -> list[Benchmark]:
    every = find_benchmarks(asked) if asked else [benchmark(name) for name in names("benchmark")]
    return [one for one in every if one.published]


def _finish(found: Verified, out: Path, console: Console) -> int:
    for one in found.skipped:
        print(f"not run: {one.benchmark}: {one.why}\n         {one.way_out}", file=sys.stderr)
    if not found.references:
        raise UserError(
            f"nothing published of {found.model!r} could be run",
            expected="the files of at least one benchmark under --data",
            way_out="get them with the commands above",
        )
    console.print(verified_table(found.references))
    for text, number in notes(found.references).items():
        console.print(f"{number:>3}  {text}", highlight=False, markup=False)
    print(_verdict(found))
    print(f"report: {report(merge_runs(found.runs), out / 'report.html')}")
    return 0 if found.is_reproduced else OUTSIDE


def _verdict(found: Verified) -> str:
    comparable = [r for r in found.references if r.is_comparable and r.is_inside is not None]
    inside = sum(bool(r.is_inside) for r in comparable)
    rest = len(found.references) - len(comparable)
    more = f"; {rest} cannot be compared" if rest else ""
    return f"{found.model}: {inside} of {len(comparable)} published numbers lie inside ours{more}"
