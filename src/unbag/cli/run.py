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
Evaluate models on benchmarks. The run folder gets the scores of every item, metrics with confidence
intervals, and a report. An interrupted run resumes when the same command is given again.
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
  model:     kind:rest such as tiny:base, or package.module:NAME for an object of your own
"""

_LINEAR_PROBE = "linear-probe"


def add(commands: Commands) -> None:
    """Models, benchmarks, and how they are scored and measured."""
    text = "evaluate models on benchmarks"
    run = add_command(commands, "run", text=text, about=_ABOUT, examples=_EXAMPLES)
    text = "models to evaluate; the first is compared with the others"
    run.add_argument("--model", nargs="+", required=True, metavar="M", help=text)
    text = "benchmarks or families"
    run.add_argument("--bench", nargs="+", required=True, metavar="B", help=text)
    add_bench_data(run)
    text = "run folder: new, empty, or that of the same run, which is resumed"
    run.add_argument("--out", type=Path, required=True, metavar="DIR", help=text)
    add_config(run)
    _add_scoring(run.add_argument_group("scoring"))
    _add_measuring(run.add_argument_group("measuring"))
    machine = run.add_argument_group("machine")
    add_device(machine)
    add_dtype(machine)
    machine.add_argument("--compile", action="store_true", help="use torch.compile")
    add_batch_size(machine)
    add_server(machine)
    add_cache(machine)


def _add_scoring(group: argparse._ArgumentGroup) -> None:
    text = (
        "how the models score image-caption pairs, or NAME@FOLDER for a trained read-out "
        "(default: cosine for dual encoders, yes for chat models)"
    )
    group.add_argument("--scorer", metavar="S", help=text)
    text = "prompts of chat models: all, published, or the name of one"
    group.add_argument("--prompts", default="all", metavar="P", help=text)
    text = "blind baselines that see only the captions: names, all, or none"
    group.add_argument("--blind", nargs="+", default=["caption:short"], metavar="M", help=text)


def _add_measuring(group: argparse._ArgumentGroup) -> None:
    choices = ("wrong", "half", "right", "argmax_first", "argmax_last", "official")
    text = (
        "how tied top scores count; official uses each benchmark's own rule for the headline. "
        "Where the rules differ, both results are reported"
    )
    group.add_argument("--ties", default="wrong", choices=choices, help=text)
    text = (
        "which known errors of the benchmarks to correct: those that the published numbers "
        "correct, none, or all"
    )
    group.add_argument(
        "--errata", default="published", choices=("published", "none", "all"), help=text
    )
    text = (
        "datasets that the models were trained on, such as 'COCO train2014'; the report warns "
        "about benchmarks made from them"
    )
    group.add_argument("--trained-on", nargs="+", default=[], metavar="NAME", help=text)
    text = (
        "part-of-speech tagger for shuffled captions: a spaCy pipeline, package.module:NAME, "
        "none, or auto for the first that is installed"
    )
    group.add_argument("--tagger", default="auto", metavar="T", help=text)
    text = "missing images: stop, or skip their items"
    group.add_argument("--missing", default="error", choices=("error", "skip"), help=text)
    text = "report metrics even if more than 1 %% of the scores are NaN"
    group.add_argument("--allow-invalid", action="store_true", help=text)
    add_seed(group, "of the confidence intervals")


def start(options: argparse.Namespace) -> int:
    """Any models on any benchmarks."""
    from unbag.api import make_scorer, make_scorers
    from unbag.api.measuring import linear_probes
    from unbag.benchmarks.names import find_benchmarks
    from unbag.cli.console import shown
    from unbag.evaluation.loading import Job
    from unbag.models.loading import Placement, choose_device, load_model, needs_device
    from unbag.published.lookup import known_as
    from unbag.types import EvalProtocol

    blind = blind_names(options.blind, beside=options.model)
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
            asked=f"--scorer {_LINEAR_PROBE}",
            data=options.data,
            missing=options.missing,
            cache=cache_of(options),
            batch_size=options.batch_size,
            progress=shown(),
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
    return carry_out(job)


def carry_out(
    job: Job,
    *,
    beside: Callable[[], Job] | None = None,
    show: Callable[[Finished], None] | None = None,
) -> int:
    """Run it, then a second job that is made only then and has a `show` of its own."""
    from unbag.cli.console import shown
    from unbag.evaluation.run import run
    from unbag.reports.exports import report
    from unbag.runs.distributed import close_distributed, init_distributed
    from unbag.runs.progress import Progress, Silent

    team = init_distributed()
    progress: Progress = shown() if team.is_leader else Silent()
    second: Finished | None = None
    try:
        finished = run(job, progress=progress)
        second = run(published_row(), progress=progress) if beside else None
    except KeyboardInterrupt:
        stopped = f"\nstopped; results so far are kept in {job.out}"
        print(f"{stopped}\nresume with: {job.command}", file=sys.stderr)
        return 130
    finally:
        close_distributed(team)
    if not team.is_leader:
        # Only one of the processes that torchrun started talks to the user.
        return 0
    report(finished.contents, finished.folder.report)
    print_run(finished.contents)
    if second is not None and show is not None:
        show(second)
    problems = (*finished.problems, *(second.problems if second else ()))
    for problem in problems:
        print(f"unbag: {problem}", file=sys.stderr)
    print(f"results: {finished.folder.path}")
    print(f"report:  {finished.folder.report}")
    return 1 if problems else 0


def print_run(contents: RunContents, *, is_summarised: bool = True) -> None:
    """The table of a run with the lines above and under it."""
    from unbag.cli.console import output, print_lines
    from unbag.reports.terminal import (
        published_lines,
        prompt_lines,
        summary_lines,
        terminal_table,
        warning_lines,
    )

    print_lines(warning_lines(contents), style="yellow")
    output().print(terminal_table(contents))
    print_lines(summary_lines(contents) if is_summarised else [])
    print_lines([*prompt_lines(contents), *published_lines(contents.references)])


def blind_names(asked: Sequence[str], *, beside: Sequence[str]) -> list[str]:
    """The baselines asked for, each once; `all` is every one that needs no language model."""
    from unbag.models.baselines import ALL

    if "none" in asked and len(asked) > 1:
        raise UnbagError(
            f"--blind {' '.join(asked)}",
            expected="none alone, or the names of baselines",
            hint=f"`--blind all` runs {', '.join(ALL)}",
        )
    wanted = [one for name in asked for one in (ALL if name == "all" else [name])]
    return [name for name in dict.fromkeys(wanted) if name not in {"none", *beside}]


def tagged(benchmarks: Sequence[Benchmark], choice: str) -> list[Benchmark]:
    """With a tagger where they need one, which is named on the terminal."""
    from unbag.benchmarks import taggers

    return taggers.tagged(benchmarks, choice, say=partial(print, file=sys.stderr))


def _check_names(typed: Sequence[str], models: Sequence[Model]) -> None:
    """Here and not in the evaluation, which does not know where a model came from."""
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
