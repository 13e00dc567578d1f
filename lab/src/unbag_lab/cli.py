"""The command `unbag lab`: its options, read without importing what runs a claim."""

from __future__ import annotations

import argparse
from pathlib import Path

from unbag.cli.options import not_negative, positive

ABOUT = """\
Published claims as experiments on the built-in world, some on photographs: arms, controls,
predictions written down before the run, and a verdict by a rule fixed in code. Without an action:
list.
"""

RUN = """\
Run the arms that claims compare, on base models of their own, and judge them. Says before it
starts what it will run and how long that takes. A run that was stopped or killed goes on when the
same command is given again; bases and arms are shared by all claims of a folder.
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
    """List, show and run."""
    form = argparse.RawDescriptionHelpFormatter
    lab = commands.add_parser(
        "lab",
        help="published claims, run on the world, with verdicts",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=form,
    )
    text = "a run folder to judge instead of the results that ship with the package"
    lab.add_argument("--results", type=Path, metavar="DIR", help=text)
    actions = lab.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="every claim with its verdict, paper by paper")
    show = actions.add_parser("show", help="all about one claim")
    show.add_argument("claim", metavar="CLAIM", help="a claim by name")
    for action in (listing, show):
        # Without a default of its own, which would hide what stands before the action.
        action.add_argument(
            "--results", type=Path, metavar="DIR", default=argparse.SUPPRESS, help=text
        )
    run = actions.add_parser(
        "run", help="run claims and judge them", description=RUN, formatter_class=form
    )
    _add_run(run)


def _add_run(run: argparse.ArgumentParser) -> None:
    text = "claims by name, an experiment for all its arms, or all"
    run.add_argument("claims", nargs="+", metavar="CLAIM", help=text)
    text = "base models, each trained from its own seed; most verdicts need 5 (default: 5)"
    run.add_argument("--seeds", type=positive, default=5, metavar="N", help=text)
    add_machine(run)
    text = "only arms that verdicts compare, without the controls that are shown beside them"
    run.add_argument("--judged-only", action="store_true", help=text)
    run.add_argument("--yes", action="store_true", help="start without asking")


def add_machine(run: argparse.ArgumentParser) -> None:
    """Where and how large."""
    run.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, mps (default: auto)")
    text = "holds bases, results and weights (default: %(default)s)"
    run.add_argument("--out", type=Path, default=Path("runs/lab"), metavar="DIR", help=text)
    text = "full, or small: seconds on a CPU to see that it runs; decides nothing (default: full)"
    run.add_argument("--size", choices=["full", "small"], default="full", help=text)
    text = "folder with captions.jsonl, for claims about photographs; without it they are left out"
    run.add_argument("--photos", type=Path, metavar="DIR", help=text)
    text = "processes that make scenes (default: 0 on a CPU, else all cores but one, at most 15)"
    run.add_argument("--workers", type=not_negative, metavar="N", help=text)
    text = "processes in which bases, experiments and arms are run side by side (default: 1)"
    run.add_argument("--processes", type=positive, default=1, metavar="N", help=text)


def start(options: argparse.Namespace) -> int:
    """Lists and single claims need neither torch nor a GPU; runs do."""
    if options.action == "run":
        from unbag_lab.running import run_claims

        return run_claims(options)
    from unbag_lab import listing

    if options.action == "show":
        return listing.show_claim(options.claim, options.results)
    return listing.list_claims(options.results)
