"""`unbag run` and `unbag demo`: models on benchmarks, a run folder and a table of results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.api import fit_linear_probe, make_scorer, make_scorers
from unbag.benchmarks.names import find_benchmarks
from unbag.benchmarks.taggers import TakesTagger, find_tagger, with_tagger
from unbag.errors import UserError
from unbag.evaluation.loading import Job, folder_of, without_missing
from unbag.evaluation.run import Finished, run
from unbag.models.baselines import ALL
from unbag.models.loading import Model, Placement, choose_device, load_model, needs_device
from unbag.published.lookup import known_as
from unbag.reports.exports import report
from unbag.reports.formatting import value_text
from unbag.reports.table import (
    beside_lines,
    prompt_lines,
    summary_lines,
    terminal_table,
    warning_lines,
)
from unbag.runs.cache import default_cache
from unbag.runs.distributed import join_team, leave_team
from unbag.runs.progress import Silent
from unbag.types import (
    Benchmark,
    Comparison,
    DualEncoder,
    EvalProtocol,
    Item,
    Loader,
    RunContents,
    Scorer,
)

if TYPE_CHECKING:
    from rich.console import Console

LINEAR_PROBE = "linear-probe"
DEMO_MODELS = ("tiny:base", "tiny:hard_negative", "tiny:random", "caption:short")
"""Before and after a repair, and two that can know nothing."""
DEMO_MODEL, DEMO_READOUT = "tiny:base", "decoder"
READOUT_BENCHMARKS = ("world-relation", "world-pairs-a", "world-swap", "world-count")
"""Two that gain, one that stays, one that loses."""
FOLDER = "another-readout"
TITLE = (
    f"the same frozen {DEMO_MODEL}, by cosine and by a small language model that looks at its "
    "patches (docs/decoder.md):"
)


def run_command(options: argparse.Namespace) -> int:
    """Any models on any benchmarks."""
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
        if options.scorer == LINEAR_PROBE
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
    return _carry_out(job)


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


def blind_names(asked: Sequence[str], *, beside: Sequence[str]) -> list[str]:
    """The baselines asked for, each once; `all` is every one that needs no language model."""
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
    if not any(isinstance(one.load, TakesTagger) for one in benchmarks):
        return benchmarks
    tagger = find_tagger(choice)
    if tagger is not None:
        print(f"parts of speech: {tagger.name}", file=sys.stderr)
    return [with_tagger(one, tagger) for one in benchmarks]


def _probes(
    models: Sequence[Model], benchmarks: Sequence[Benchmark], options: argparse.Namespace
) -> list[Scorer]:
    """A linear probe for each model, all fitted to the same training split."""
    from rich.console import Console

    from unbag.cli.console import Shown

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
            f"--scorer {LINEAR_PROBE} with {len(benchmarks)} benchmarks",
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
    if isinstance(model, DualEncoder):
        return model
    raise UserError(
        f"--scorer {LINEAR_PROBE} needs vectors of pictures, and {model.name!r} has none",
        expected="a dual encoder",
    )


def demo(options: argparse.Namespace) -> int:
    """The main job on the built-in world, then one model by another read-out."""
    job = Job(
        scorers=[make_scorer(load_model(name)) for name in DEMO_MODELS],
        benchmarks=find_benchmarks(["world"]),
        out=options.out,
        cache=cache_of(options),
        command=options.typed,
    )
    return _carry_out(job, beside=lambda: _readout_job(options, cache=cache_of(options)))


def _readout_job(options: argparse.Namespace, *, cache: Path | None) -> Job:
    """Both read-outs on some benchmarks, in a folder inside that of the demo."""
    model = load_model(DEMO_MODEL)
    return Job(
        scorers=[make_scorer(model), make_scorer(model, DEMO_READOUT)],
        benchmarks=find_benchmarks(READOUT_BENCHMARKS),
        out=options.out / FOLDER,
        cache=cache,
        command=options.typed,
    )


def _carry_out(job: Job, *, beside: Callable[[], Job] | None = None) -> int:
    """Run it, then what is shown beside it, which is made only then."""
    from rich.console import Console

    from unbag.cli.console import Shown, output

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
    # Only one of the processes that torchrun started talks to the user.
    return _finish(finished, output(), second) if team.is_leader else 0


def _finish(finished: Finished, console: Console, second: Finished | None = None) -> int:
    report(finished.contents, finished.folder.report)
    for line in warning_lines(finished.contents):
        console.print(line, style="yellow", highlight=False, markup=False)
    console.print(terminal_table(finished.contents))
    for paragraph in summary_lines(finished.contents):
        console.print(paragraph, highlight=False, markup=False)
    for line in (*prompt_lines(finished.contents), *beside_lines(finished.contents.references)):
        console.print(line, highlight=False, markup=False)
    if second is not None:
        report(second.contents, second.folder.report)
        console.print(f"\n{TITLE}", highlight=False, markup=False)
        console.print(terminal_table(second.contents))
        said = _changes(second.contents, find_benchmarks(READOUT_BENCHMARKS))
        console.print(said, highlight=False, markup=False)
        print(f"report:  {second.folder.report}")
    for problem in (*finished.problems, *(second.problems if second else ())):
        print(f"unbag: {problem}", file=sys.stderr)
    print(f"results: {finished.folder.path}")
    print(f"report:  {finished.folder.report}")
    return 1 if finished.problems or (second and second.problems) else 0


def _changes(contents: RunContents, benchmarks: Sequence[Benchmark]) -> str:
    """What the second read-out gains and loses, by headline and by paired intervals."""
    said: dict[str, list[str]] = {"gained": [], "lost": [], "no difference shown": []}
    for benchmark in benchmarks:
        for one in contents.comparisons:
            if (one.benchmark, one.metric) == (benchmark.name, benchmark.headline):
                said[_verdict(one)].append(f"{benchmark.name} {_from_to(contents, one)}")
    return "; ".join(f"{what}: {', '.join(found)}" for what, found in said.items() if found)


def _verdict(one: Comparison) -> str:
    if one.low > 0:
        return "gained"
    return "lost" if one.high < 0 else "no difference shown"


def _from_to(contents: RunContents, one: Comparison) -> str:
    value = {
        result.scorer: value_text(result.overall[one.metric])
        for result in contents.results
        if result.benchmark == one.benchmark
    }
    return f"{value[one.first]} to {value[one.second]}"


def cache_of(options: argparse.Namespace) -> Path | None:
    """The folder of the cache that the flags ask for."""
    if options.no_cache:
        return None
    return options.cache if options.cache is not None else default_cache()
