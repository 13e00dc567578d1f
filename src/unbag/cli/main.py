"""From the words on the command line to a command, and from its errors to what the user reads."""

from __future__ import annotations

import argparse
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from unbag.cli.options import (
    add_data,
    add_diagnose,
    add_edit,
    add_export,
    add_merge,
    add_nearest,
    add_score,
    add_train,
    add_verify,
    positive,
    start_data,
    start_diagnose,
)
from unbag.errors import UserError
from unbag.registry import PLURALS, load_command, plugin_commands
from unbag.version import __version__


@contextmanager
def plain_warnings() -> Iterator[None]:
    """What is said, without the line of our code that said it."""
    with warnings.catch_warnings():
        warnings.showwarning = _show
        yield


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"unbag: {message}", file=sys.stderr if file is None else file)


_ABOUT = """\
Measure, explain and repair bag-of-words behaviour in vision-language models:
models that know which words fit a picture, but not how the words belong together.
"""

_FIRST = """\
first steps:
  unbag demo                                      the main job on a built-in world, no download
  unbag score PICTURE "a caption" "another" --model tiny:base
  unbag list benchmarks                           what can be measured
  unbag run --model tiny:base --bench world --out runs/first
  unbag report runs/first runs/second --out both.html
  unbag diagnose --model tiny:base                why it scores so: one sentence a question
  unbag lab                                       published claims, with verdicts on the world
"""

_RUN = """\
Score models on benchmarks and write a run folder: scores of every item, results with
intervals, and a report. A run that was stopped goes on when the same command is given again.
"""

_RUN_EXAMPLES = """\
examples:
  unbag run --model tiny:base --bench world-swap world-relation --out runs/first
  unbag run --model tiny:base tiny:random --bench world --out runs/twins
  unbag run --model my_package.models:ENCODER --bench world --out runs/mine

names:
  a benchmark: a registered name, a family (world = every world-*), or package.module:NAME
  a model:     kind:rest (tiny:base), or package.module:NAME of an object of yours
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    typed = sys.argv[1:] if arguments is None else list(arguments)
    try:
        parser = _parser(typed[0] if typed else None)
        options = parser.parse_args(typed)
        options.typed = shlex.join(["unbag", *typed])
        if options.command is None:
            parser.print_help()
            return 0
        if "" not in sys.path:
            # A researcher's own file in the current folder works as package.module:NAME.
            sys.path.append("")
        with plain_warnings():
            return _dispatch(options)
    except UserError as error:
        print(f"unbag: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader of a pipe (head, less) went away; that is no error of ours.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("unbag: stopped", file=sys.stderr)
        return 130


def _dispatch(options: argparse.Namespace) -> int:
    if options.command == "list":
        from unbag.cli.list import show_names

        return show_names(options.kind)
    if options.command == "data":
        return start_data(options)
    if options.command in plugin_commands():
        return load_command(options.command).start(options)
    if options.command == "report":
        from unbag.cli.report import write_report

        return write_report(options.runs, out=options.out)
    if options.command == "score":
        from unbag.cli.score import score_command

        return score_command(options)
    if options.command == "diagnose":
        return start_diagnose(options)
    if options.command == "edit":
        from unbag.cli.edit import edit_command

        return edit_command(options)
    if options.command == "nearest":
        from unbag.cli.nearest import nearest_command

        return nearest_command(options)
    if options.command == "merge":
        from unbag.cli.merge import merge_command

        return merge_command(options)
    if options.command == "export":
        from unbag.cli.export import export_command

        return export_command(options)
    if options.command == "train":
        from unbag.cli.train import train_command

        return train_command(options)
    if options.command == "verify":
        from unbag.cli.report import verify_command

        return verify_command(options)
    from unbag.cli import run

    return run.demo(options) if options.command == "demo" else run.run_command(options)


def _parser(called: str | None) -> argparse.ArgumentParser:
    """All commands; of those of plug-ins only the one that is called is imported."""
    parser = argparse.ArgumentParser(
        prog="unbag",
        description=_ABOUT,
        epilog=_FIRST,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"unbag {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_demo(commands)
    _add_run(commands)
    add_score(commands)
    _add_cache(add_verify(commands))
    _add_cache(add_diagnose(commands))
    add_edit(commands)
    _add_cache(add_nearest(commands))
    _add_cache(add_train(commands))
    add_export(commands)
    _add_cache(add_merge(commands))
    _add_report(commands)
    _add_list(commands)
    add_data(commands)
    for name, text in plugin_commands().items():
        if name in commands.choices:
            raise UserError(
                f"a plug-in registers the command {name!r}, which unbag has itself",
                expected="another name in its entry points (group unbag.commands)",
            )
        if name == called:
            load_command(name).add(commands)
        else:
            commands.add_parser(name, help=text)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "the main job on the built-in world: no download, one report"
    demo = commands.add_parser(
        "demo",
        help=text,
        description="Score the shipped tiny model, its untrained twin and a blind baseline on "
        "every world benchmark, print the table and write the report.",
    )
    demo.add_argument(
        "--out", type=Path, default=Path("unbag-demo"), metavar="DIR", help="default: %(default)s"
    )
    _add_cache(demo)


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = commands.add_parser(
        "run",
        help="score models on benchmarks",
        description=_RUN,
        epilog=_RUN_EXAMPLES,
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
    run.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps (default: auto)")
    run.add_argument(
        "--dtype",
        default="auto",
        choices=["auto", "float32", "bfloat16", "float16"],
        help="precision of the model (default: auto: float32; bfloat16 for chat models on a GPU)",
    )
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
    _add_cache(run)


def _add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", help="where embeddings are kept between runs"
    )
    parser.add_argument("--no-cache", action="store_true", help="keep embeddings in memory only")


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    report = commands.add_parser(
        "report",
        help="one page (or table, CSV, JSON) from one or more run folders",
        description="Join run folders into one report. The ending of --out chooses the form: "
        ".html, .md, .csv or .json. Without --out the table is printed.",
    )
    report.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="run folders")
    report.add_argument("--out", type=Path, metavar="FILE", help=".html, .md, .csv or .json")


def _add_list(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "names that can be used, ours and those of installed plug-ins"
    listing = commands.add_parser("list", help=text, description=text[0].upper() + text[1:] + ".")
    listing.add_argument("kind", choices=list(PLURALS), metavar="KIND", help=", ".join(PLURALS))
