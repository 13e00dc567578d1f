"""`unbag verify`: compare published numbers of a model with our own evaluation."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import add_bench_data, add_cache, add_command, add_device, cache_of
from unbag.cli.run import tagged
from unbag.errors import UnbagError
from unbag.registry import Commands, names

if TYPE_CHECKING:
    from unbag.evaluation.verify import Verified

_ABOUT = """\
Evaluate a model under the protocols of its published numbers, and report which of these lie inside
our confidence intervals. Benchmarks with missing files are listed and skipped.
"""

_EXAMPLES = """\
example:
  unbag verify --model open_clip:ViT-B-32/openai --data data --out runs/verify

exit code: 0 if all comparable numbers lie inside our intervals, 3 if some lie outside
"""

_OUTSIDE = 3
"""Exit code if a comparable number lies outside our interval."""


def add(commands: Commands) -> None:
    """Add the options: a model, benchmarks, and the output folder."""
    text = "reproduce published numbers of a model"
    verify = add_command(commands, "verify", text=text, about=_ABOUT, examples=_EXAMPLES)
    verify.add_argument("--model", required=True, metavar="M", help="the model to evaluate")
    text = "benchmarks or families (default: all with published numbers for the model)"
    verify.add_argument("--bench", nargs="+", default=[], metavar="B", help=text)
    add_bench_data(verify)
    text = "folder for the runs and the report"
    verify.add_argument("--out", type=Path, required=True, metavar="DIR", help=text)
    text = "the name of the model in papers, such as 'CLIP ViT-B/32 (openai)'"
    verify.add_argument("--as", dest="published_as", default="", metavar="NAME", help=text)
    text = "scoring method (default: cosine for dual encoders, yes for chat models)"
    verify.add_argument("--scorer", metavar="S", help=text)
    text = "missing images: skip the whole benchmark, or only the items that need them"
    verify.add_argument("--missing", default="error", choices=("error", "skip"), help=text)
    machine = verify.add_argument_group("machine")
    add_device(machine)
    add_cache(machine)


def start(options: argparse.Namespace) -> int:
    """Evaluate the model under every protocol of its published numbers, and compare."""
    from unbag.api import make_scorer
    from unbag.benchmarks.names import find_benchmarks
    from unbag.cli.console import terminal_progress
    from unbag.evaluation.loading import Job
    from unbag.evaluation.verify import verify
    from unbag.models.loading import choose_device, load_model, needs_device
    from unbag.published.lookup import known_as

    device = choose_device(options.device, is_needed=needs_device(options.model))
    scorer = make_scorer(load_model(options.model, device=device), options.scorer)
    name = options.published_as or known_as(options.model)
    benchmarks = find_benchmarks(options.bench or list(names("benchmark")))
    job = Job(
        scorers=[scorer],
        benchmarks=tagged([benchmark for benchmark in benchmarks if benchmark.published], "auto"),
        out=options.out,
        data=options.data,
        cache=cache_of(options),
        published_as={scorer.name: name} if name else {},
        missing=options.missing,
        device=device,
        command=options.typed,
    )
    return _finish(verify(job, progress=terminal_progress()), options.out)


def _finish(verified: Verified, out: Path) -> int:
    from unbag.cli.console import output, print_lines
    from unbag.reports.exports import report
    from unbag.reports.join import merge_runs
    from unbag.reports.terminal import notes, verified_table

    for skipped in verified.skipped:
        print(
            f"not run: {skipped.benchmark}: {skipped.why}\n         {skipped.hint}", file=sys.stderr
        )
    if not verified.references:
        raise UnbagError(
            f"no published number of {verified.model!r} could be reproduced",
            expected="the files of at least one benchmark in the folder of --data",
            hint="download them with the commands above",
        )
    output().print(verified_table(verified.references))
    print_lines(f"{number:>3}  {text}" for text, number in notes(verified.references).items())
    comparable = [r for r in verified.references if r.is_comparable and r.is_inside is not None]
    inside = sum(bool(r.is_inside) for r in comparable)
    rest = len(verified.references) - len(comparable)
    more = f"; {rest} are not comparable" if rest else ""
    share = f"{inside} of {len(comparable)} published numbers"
    print(f"{verified.model}: {share} lie inside our intervals{more}")
    print(f"report: {report(merge_runs(verified.runs), out / 'report.html')}")
    return 0 if verified.is_reproduced else _OUTSIDE
