"""The command `unbag lab`: its options, read without importing what runs a claim."""

from __future__ import annotations

import argparse
from pathlib import Path

from unbag.cli.options import add_device, not_negative, positive

ABOUT = """\
Test published claims as experiments on the built-in world, some on photographs. Each claim has
arms, controls, predictions that were written down before the run, and a verdict by a fixed rule.
The default action is list.
"""

RUN = """\
Run the arms that claims compare on newly trained base models, and compute the verdicts. The
command first prints what it runs and how long that takes. An interrupted run resumes when the same
command is given again; base models and arms are shared by all claims of a folder.
"""

EXAMPLES = """\
examples:
  unbag lab
  unbag lab show negatives_open
  unbag lab run negatives_open --size small --seeds 2 --out runs/try
  unbag lab run negatives_open negatives_locked --device cuda
  unbag lab list --results runs/lab
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `unbag lab` with its actions."""
    lab = commands.add_parser(
        "lab",
        help="test published claims on the built-in world",
        description=ABOUT,
        epilog=EXAMPLES,
    )
    text = "a run folder to use instead of the results that ship with the package"
    lab.add_argument("--results", type=Path, metavar="DIR", help=text)
    actions = lab.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="list all claims with their verdicts, by paper")
    show = actions.add_parser("show", help="show one claim")
    show.add_argument("claim", metavar="CLAIM", help="name of a claim")
    for action in (listing, show):
        # No default here: it would override a --results given before the action.
        action.add_argument(
            "--results", type=Path, metavar="DIR", default=argparse.SUPPRESS, help=text
        )
    run = actions.add_parser("run", help="run claims and compute their verdicts", description=RUN)
    _add_run(run)


def _add_run(run: argparse.ArgumentParser) -> None:
    text = "names of claims, an experiment for all its arms, or all"
    run.add_argument("claims", nargs="+", metavar="CLAIM", help=text)
    text = "number of base models, each trained from its own seed; most verdicts need 5"
    run.add_argument("--seeds", type=positive, default=5, metavar="N", help=text)
    add_machine(run)
    text = "run only arms that verdicts compare, without their controls"
    run.add_argument("--judged-only", action="store_true", help=text)
    run.add_argument(
        "--yes", action="store_true", help="start without confirmation; required without a terminal"
    )


def add_machine(run: argparse.ArgumentParser) -> None:
    """Add the options for the device, folder, size and processes."""
    add_device(run)
    text = "folder for base models, results and weights"
    run.add_argument("--out", type=Path, default=Path("runs/lab"), metavar="DIR", help=text)
    text = "small takes seconds on a CPU and checks that everything runs; its verdicts are void"
    run.add_argument("--size", choices=["full", "small"], default="full", help=text)
    text = "folder with captions.jsonl, for claims about photographs (default: skip them)"
    run.add_argument("--photos", type=Path, metavar="DIR", help=text)
    text = "processes that render scenes (default: 0 on a CPU, else all cores but one, at most 15)"
    run.add_argument("--workers", type=not_negative, metavar="N", help=text)
    text = "processes that train base models and run arms in parallel"
    run.add_argument("--processes", type=positive, default=1, metavar="N", help=text)


def start(options: argparse.Namespace) -> int:
    """Run the action; only `run` imports torch."""
    if options.action == "run":
        from unbag_lab.running import run_claims

        return run_claims(options)
    from unbag_lab import listing

    if options.action == "show":
        return listing.show_claim(options.claim, options.results)
    return listing.list_claims(options.results)
