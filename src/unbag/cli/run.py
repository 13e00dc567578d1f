"""`unbag run`: evaluate models on benchmarks, write a run folder, print a table of results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import (
    add_batch_size,
    add_bench_data,
    add_cache,
    add_command,
    add_config,
    add_device,
    add_dtype,
    add_seed,
    add_server,
    cache_of,
)
from unbag.errors import UnbagError

if TYPE_CHECKING:
    from unbag.evaluation.loading import Job
    from unbag.evaluation.run import Finished
    from unbag.models.loading import Model
    from unbag.registry import Commands
    from unbag.types import Benchmark, RunContents

_ABOUT = """\
Evaluate models on benchmarks. The run folder contains the scores of all items, metrics with
confidence intervals, and a report. Run the same command again to resume an interrupted run.
"""

_EXAMPLES = """\
examples:
  unbag run --model tiny:base --bench world-swap world-relation --out runs/first
  unbag run --model tiny:base tiny:random --bench world --out runs/two
  unbag run --model open_clip:ViT-B-32/openai --bench sugarcrepe --data data --out runs/clip
  unbag run --model my_package.models:ENCODER --bench world --out runs/mine
  unbag run --config run.yaml --out runs/again

names:
  benchmark: a registered name, a family (world is every world-*), or package.module:NAME
  model:     library:NAME such as tiny:base, or package.module:NAME for your own object
"""

_LINEAR_PROBE = "linear-probe"


def add(commands: Commands) -> None:
    """Add the options: models, benchmarks, scoring and measuring."""
    text = "evaluate models on benchmarks"
    run = add_command(commands, "run", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = "models to evaluate (`unbag list models`); the first is compared with the others"
    run.add_argument("--model", nargs="+", required=True, metavar="M", help=text)
    text = "benchmarks or families of benchmarks (`unbag list benchmarks`)"
    run.add_argument("--bench", nargs="+", required=True, metavar="B", help=text)
    add_bench_data(run)
    text = "run folder: new, empty, or that of an interrupted run to resume"
    run.add_argument("--out", type=Path, required=True, metavar="DIR", help=text)
    add_config(run)
    _add_scoring(run.add_argument_group("scoring"))
    _add_measuring(run.add_argument_group("measuring"))
    machine = run.add_argument_group("machine")
    add_device(machine)
    add_dtype(machine)
    machine.add_argument("--compile", action="store_true", help="compile models with torch.compile")
    add_batch_size(machine)
    add_server(machine)
    add_cache(machine)


def _add_scoring(group: argparse._ArgumentGroup) -> None:
    text = (
        "scoring method (`unbag list scorers`), or NAME@FOLDER for a trained read-out (default: "
        "cosine for dual encoders, yes for chat models)"
    )
    group.add_argument("--scorer", metavar="S", help=text)
    text = "prompts for chat models: all, published, or one by name"
    group.add_argument("--prompts", default="all", metavar="P", help=text)
    text = "blind baselines that see only the captions: names, all, or none"
    group.add_argument("--blind", nargs="+", default=["caption:short"], metavar="M", help=text)


def _add_measuring(group: argparse._ArgumentGroup) -> None:
    choices = ("wrong", "half", "right", "argmax_first", "argmax_last", "official")
    text = (
        "how ties for the top score count; official uses each benchmark's own rule for the "
        "headline metric. Where the rules give different results, both are reported"
    )
    group.add_argument("--ties", default="wrong", choices=choices, help=text)
    text = (
        "which known annotation errors of the benchmarks to correct: those corrected in published "
        "numbers, none, or all"
    )
    group.add_argument(
        "--errata", default="published", choices=("published", "none", "all"), help=text
    )
    text = (
        "training datasets of the models, such as 'COCO train2014'; the report warns about "
        "benchmarks built from them"
    )
    group.add_argument("--trained-on", nargs="+", default=[], metavar="NAME", help=text)
    text = (
        "part-of-speech tagger for shuffled captions: a spaCy pipeline, package.module:NAME, "
        "none, or auto for the first installed one"
    )
    group.add_argument("--tagger", default="auto", metavar="T", help=text)
    text = "missing images: stop, or skip the items that need them"
    group.add_argument("--missing", default="error", choices=("error", "skip"), help=text)
    text = "compute metrics even if more than 1 %% of the scores are NaN"
    group.add_argument("--allow-invalid", action="store_true", help=text)
    add_seed(group, "of the confidence intervals")


def start(options: argparse.Namespace) -> int:
    """Evaluate the models on the benchmarks."""
    from unbag.api import make_scorer, make_scorers
    from unbag.api.measuring import linear_probes
    from unbag.benchmarks.names import find_benchmarks
    from unbag.cli.console import terminal_progress
    from unbag.evaluation.loading import Job
    from unbag.models.loading import Placement, choose_device, load_model, needs_device
    from unbag.published.lookup import known_as
    from unbag.types import EvalProtocol

    blind = blind_names(options.blind, models=options.model)
    is_needed = any(map(needs_device, [*options.model, *blind]))
    device = choose_device(options.device, is_needed=is_needed)
    benchmarks = tagged(find_benchmarks(options.bench), options.tagger)
    placement = Placement(
        device,
        options.dtype,
        options.compile,
        cache=cache_of(options),
        concurrency=options.concurrency,
        budget=options.max_requests,
    )
    models = [load_model(name, placement=placement) for name in options.model]
    _check_names(options.model, models)
    scorers = (
        linear_probes(
            models,
            benchmarks,
            option=f"--scorer {_LINEAR_PROBE}",
            data=options.data,
            missing=options.missing,
            cache=cache_of(options),
            batch_size=options.batch_size,
            progress=terminal_progress(),
        )
        if options.scorer == _LINEAR_PROBE
        else [s for model in models for s in make_scorers(model, options.scorer, options.prompts)]
    )
    scorers += [make_scorer(load_model(name, device=device)) for name in blind]
    is_official = options.ties == "official"
    job = Job(
        scorers=scorers,
        benchmarks=benchmarks,
        out=options.out,
        data=options.data,
        cache=cache_of(options),
        protocol=EvalProtocol() if is_official else EvalProtocol(ties=options.ties),
        official_first=is_official,
        errata=options.errata,
        trained_on={s.name: options.trained_on for s in scorers if not s.is_blind},
        published_as={
            model.name: known_as(typed)
            for model, typed in zip(models, options.model, strict=True)
            if known_as(typed)
        },
        missing=options.missing,
        seed=options.seed,
        batch_size=options.batch_size,
        allow_invalid=options.allow_invalid,
        keeps_going=True,
        device=device,
        command=options.typed,
    )
    return run_job(job)


def run_job(
    job: Job,
    *,
    second: Callable[[], Job] | None = None,
    show_second: Callable[[Finished], None] | None = None,
) -> int:
    """Run a job, and then a second one, which is created after the first and shown differently."""
    from unbag.cli.console import terminal_progress
    from unbag.evaluation.run import run
    from unbag.reports.exports import report
    from unbag.runs.distributed import close_distributed, init_distributed
    from unbag.runs.progress import Progress, Silent

    distributed = init_distributed()
    progress: Progress = terminal_progress() if distributed.is_leader else Silent()
    second_run: Finished | None = None
    try:
        finished = run(job, progress=progress)
        second_run = run(second(), progress=progress) if second else None
    except KeyboardInterrupt:
        message = f"\nstopped; results so far are saved in {job.out}"
        print(f"{message}\nresume with: {job.command}", file=sys.stderr)
        return 130
    finally:
        close_distributed(distributed)
    if not distributed.is_leader:
        # Only the leader of the processes that torchrun started prints.
        return 0
    report(finished.contents, finished.folder.report)
    print_run(finished.contents)
    if second_run is not None and show_second is not None:
        show_second(second_run)
    problems = (*finished.problems, *(second_run.problems if second_run else ()))
    for problem in problems:
        print(f"unbag: {problem}", file=sys.stderr)
    print(f"results: {finished.folder.path}")
    print(f"report:  {finished.folder.report}")
    return 1 if problems else 0


def print_run(contents: RunContents, *, is_summarised: bool = True) -> None:
    """Print the table of a run with the lines above and below it."""
    from unbag.cli.console import output, print_lines
    from unbag.reports.terminal import (
        prompt_lines,
        published_lines,
        summary_lines,
        terminal_table,
        warning_lines,
    )

    print_lines(warning_lines(contents), style="yellow")
    output().print(terminal_table(contents))
    print_lines(summary_lines(contents) if is_summarised else [])
    print_lines([*prompt_lines(contents), *published_lines(contents.references)])


def blind_names(names: Sequence[str], *, models: Sequence[str]) -> list[str]:
    """Expand the names of --blind, each once; `all` is every baseline without a language model."""
    from unbag.models.baselines import ALL

    if "none" in names and len(names) > 1:
        raise UnbagError(
            f"--blind {' '.join(names)}",
            expected="none alone, or the names of baselines",
            hint=f"`--blind all` runs {', '.join(ALL)}",
        )
    expanded = [baseline for name in names for baseline in (ALL if name == "all" else [name])]
    return [name for name in dict.fromkeys(expanded) if name not in {"none", *models}]


def tagged(benchmarks: Sequence[Benchmark], choice: str) -> list[Benchmark]:
    """Give benchmarks that need a tagger the chosen one, and print its name."""
    from unbag.benchmarks import taggers

    return taggers.add_tagger(benchmarks, choice, say=partial(print, file=sys.stderr))


def _check_names(typed: Sequence[str], models: Sequence[Model]) -> None:
    """Raise UnbagError if two models have the same name, citing their command-line names."""
    first: dict[str, str] = {}
    for text, model in zip(typed, models, strict=True):
        other = first.setdefault(model.name, text)
        if other != text:
            raise UnbagError(
                f"{other} and {text} are both called {model.name!r}",
                expected="a different name for each model, since results are stored by name",
                hint="rename or copy the folder of one of them; download a model of the hub into a "
                "folder with `hf download OWNER/NAME --local-dir FOLDER`; in your own code, "
                "change the attribute `name`",
            )
