"""`unbag run`: score models on benchmarks, write a run folder, print a table of results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.cli.options import add_cache, add_device, add_dtype, cache_of, positive
from unbag.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from unbag.evaluation.loading import Job
    from unbag.evaluation.run import Finished
    from unbag.models.loading import Model
    from unbag.registry import Commands
    from unbag.types import Benchmark, DualEncoder, Item, Loader, Scorer

_ABOUT = """\
Score models on benchmarks and write a run folder: scores of every item, results with
intervals, and a report. A run that was stopped goes on when the same command is given again.
"""

_EXAMPLES = """\
examples:
  unbag run --model tiny:base --bench world-swap world-relation --out runs/first
  unbag run --model tiny:base tiny:random --bench world --out runs/twins
  unbag run --model my_package.models:ENCODER --bench world --out runs/mine

names:
  a benchmark: a registered name, a family (world = every world-*), or package.module:NAME
  a model:     kind:rest (tiny:base), or package.module:NAME of an object of yours
"""

_LINEAR_PROBE = "linear-probe"


def add(commands: Commands) -> None:
    """Models, benchmarks, and how they are scored and measured."""
    run = commands.add_parser(
        "run",
        help="score models on benchmarks",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("--model", nargs="+", required=True, metavar="M", help="models to score")
    run.add_argument(
        "--bench", nargs="+", required=True, metavar="B", help="benchmarks or families"
    )
    run.add_argument("--out", type=Path, required=True, metavar="DIR", help="the run folder")
    run.add_argument("--data", type=Path, metavar="DIR", help="holds one folder for each benchmark")
    run.add_argument(
        "--scorer", metavar="S", help="how a model gives a score (default: the natural one)"
    )
    text = "prompts of a chat model: all (default), published, or one by name"
    run.add_argument("--prompts", default="all", metavar="P", help=text)
    run.add_argument(
        "--blind",
        nargs="+",
        default=["caption:short"],
        metavar="M",
        help="caption-only baselines run beside the models, all, or none (default: caption:short)",
    )
    run.add_argument(
        "--ties",
        default="wrong",
        choices=["wrong", "half", "right", "argmax_first", "argmax_last", "official"],
        help="what an equal top score is worth (default: wrong); official makes each benchmark's "
        "own rule the headline. Where the two differ, both are reported",
    )
    run.add_argument(
        "--errata",
        default="published",
        choices=["published", "none", "all"],
        help="known errors of the benchmarks to mend: as the published numbers did (default), "
        "none, or all; part of a result's key",
    )
    run.add_argument(
        "--trained-on",
        nargs="+",
        default=[],
        metavar="NAME",
        help="collections the models were trained on, such as 'COCO train2014'; a benchmark made "
        "from one of them gets a warning",
    )
    run.add_argument(
        "--tagger",
        default="auto",
        metavar="T",
        help="part-of-speech tagger for shuffled captions: a spaCy pipeline by name or folder, "
        "package.module:NAME, none, or auto: the first that is installed (default)",
    )
    run.add_argument("--seed", type=int, default=0, help="for the intervals (default: 0)")
    add_device(run)
    add_dtype(run)
    run.add_argument("--compile", action="store_true", help="compile models with torch.compile")
    run.add_argument(
        "--concurrency",
        type=positive,
        default=8,
        metavar="N",
        help="requests to a server at a time (default: 8)",
    )
    run.add_argument(
        "--budget",
        type=positive,
        metavar="N",
        help="most requests to a server (default: no limit)",
    )
    run.add_argument(
        "--batch", type=positive, default=256, metavar="N", help="inputs at once (default: 256)"
    )
    run.add_argument(
        "--allow-invalid",
        action="store_true",
        help="measure even if more than 1 %% of the scores are not numbers",
    )
    run.add_argument(
        "--missing",
        default="error",
        choices=["error", "skip"],
        help="what to do about pictures that are not on disk (default: error)",
    )
    add_cache(run)


def start(options: argparse.Namespace) -> int:
    """Any models on any benchmarks."""
    from unbag.api import make_scorer, make_scorers
    from unbag.benchmarks.names import find_benchmarks
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
        budget=options.budget,
    )
    models = [load_model(name, placement=placement) for name in options.model]
    _check_names(options.model, models)
    scorers = (
        _probes(models, benchmarks, options)
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
        batch=options.batch,
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
    show: Callable[[Finished, Console], None] | None = None,
) -> int:
    """Run it, then a second job that is made only then and has a `show` of its own."""
    from rich.console import Console

    from unbag.cli.console import Shown, output
    from unbag.evaluation.run import run
    from unbag.runs.distributed import join_team, leave_team
    from unbag.runs.progress import Silent

    team = join_team()
    console = Console(stderr=True)
    progress = Shown(console) if team.is_leader else Silent()
    second: Finished | None = None
    try:
        finished = run(job, progress=progress)
        second = run(beside(), progress=progress) if beside else None
    except KeyboardInterrupt:
        console.print(
            f"\nstopped; what was computed is kept in {job.out}\ncontinue with: {job.command}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        return 130
    finally:
        leave_team(team)
    if not team.is_leader:
        # Only one of the processes that torchrun started talks to the user.
        return 0
    _show(finished, output())
    if second is not None and show is not None:
        show(second, output())
    problems = (*finished.problems, *(second.problems if second else ()))
    for problem in problems:
        print(f"unbag: {problem}", file=sys.stderr)
    print(f"results: {finished.folder.path}")
    print(f"report:  {finished.folder.report}")
    return 1 if problems else 0


def _show(finished: Finished, console: Console) -> None:
    from unbag.reports.exports import report
    from unbag.reports.terminal import (
        beside_lines,
        prompt_lines,
        summary_lines,
        terminal_table,
        warning_lines,
    )

    report(finished.contents, finished.folder.report)
    for line in warning_lines(finished.contents):
        console.print(line, style="yellow", highlight=False, markup=False)
    console.print(terminal_table(finished.contents))
    for paragraph in summary_lines(finished.contents):
        console.print(paragraph, highlight=False, markup=False)
    for line in (*prompt_lines(finished.contents), *beside_lines(finished.contents.references)):
        console.print(line, highlight=False, markup=False)


def blind_names(asked: Sequence[str], *, beside: Sequence[str]) -> list[str]:
    """The baselines asked for, each once; `all` is every one that needs no language model."""
    from unbag.models.baselines import ALL

    if "none" in asked and len(asked) > 1:
        raise UserError(
            f"--blind {' '.join(asked)}",
            expected="none alone, or the names of baselines",
            way_out=f"`--blind all` runs {', '.join(ALL)}",
        )
    wanted = [one for name in asked for one in (ALL if name == "all" else [name])]
    return [name for name in dict.fromkeys(wanted) if name not in {"none", *beside}]


def tagged(benchmarks: list[Benchmark], choice: str) -> list[Benchmark]:
    """With a tagger for those that shuffle by part of speech; it is looked for only if needed."""
    from unbag.benchmarks.taggers import TakesTagger, find_tagger, with_tagger

    if not any(isinstance(one.load, TakesTagger) for one in benchmarks):
        return benchmarks
    tagger = find_tagger(choice)
    if tagger is not None:
        print(f"parts of speech: {tagger.name}", file=sys.stderr)
    return [with_tagger(one, tagger) for one in benchmarks]


def _check_names(typed: Sequence[str], models: Sequence[Model]) -> None:
    """Here and not in the evaluation, which does not know where a model came from."""
    first: dict[str, str] = {}
    for text, model in zip(typed, models, strict=True):
        other = first.setdefault(model.name, text)
        if other != text:
            raise UserError(
                f"{other} and {text} are both called {model.name!r}",
                expected="a name of its own for each model, since results are kept by name",
                way_out="rename or copy the folder of one of them; one of the hub goes to a folder "
                "by `hf download OWNER/NAME --local-dir FOLDER`; in code of your own, change name",
            )


def _probes(
    models: Sequence[Model], benchmarks: Sequence[Benchmark], options: argparse.Namespace
) -> list[Scorer]:
    """A linear probe for each model, all fitted to the same training split."""
    from rich.console import Console

    from unbag.api import fit_linear_probe
    from unbag.cli.console import Shown
    from unbag.evaluation.loading import folder_of, without_missing

    progress = Shown(Console(stderr=True))
    benchmark, load = _only(benchmarks)
    encoders = [_encoder(model) for model in models]
    items: Sequence[Item] = tuple(load(folder_of(benchmark, options.data)))
    items = without_missing(benchmark.name, items, missing=options.missing, progress=progress)
    cache, batch = cache_of(options), options.batch
    found: list[Scorer] = []
    for encoder in encoders:
        probe = fit_linear_probe(encoder, items, cache=cache, batch=batch, progress=progress)
        progress.say(
            f"linear probe of {encoder.name}: fitted to {len(items)} pictures of "
            f"{len(probe.classes)} classes, strength {probe.strength:.1g}, "
            f"{probe.held_out:.1%} right on the held-out part"
        )
        found.append(probe)
    return found


def _only(benchmarks: Sequence[Benchmark]) -> tuple[Benchmark, Loader]:
    if len(benchmarks) != 1:
        raise UserError(
            f"--scorer {_LINEAR_PROBE} with {len(benchmarks)} benchmarks",
            expected="one: a probe knows the classes of its own training split only",
            way_out="run it once for each benchmark; vectors are kept in the cache",
        )
    if benchmarks[0].load_training is None:
        raise UserError(
            f"the benchmark {benchmarks[0].name!r} has no training split for a linear probe",
            expected="a benchmark with load_training, such as cifar10",
            way_out="see docs/benchmarks.md for those that have one",
        )
    return benchmarks[0], benchmarks[0].load_training


def _encoder(model: Model) -> DualEncoder:
    from unbag.types import DualEncoder

    if isinstance(model, DualEncoder):
        return model
    raise UserError(
        f"--scorer {_LINEAR_PROBE} needs vectors of pictures, and {model.name!r} has none",
        expected="a dual encoder",
    )
