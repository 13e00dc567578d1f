"""Run folders come in; one file of results for each experiment goes out, as the package ships them.

    python -m unbag.lab.join runs/lab runs/more --into src/unbag/lab/results

A result that is there already is replaced by that of the same arm on the same base. One line holds
one result, in a fixed order, so that a difference between two versions can be read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from unbag.errors import UserError
from unbag.lab.arm_result import ArmResult
from unbag.lab.base_names import place
from unbag.lab.run_folder import results_in
from unbag.lab.script import run_script
from unbag.lab.shipped import RESULTS, shipped_results
from unbag.runs.files import make_folder, write_text

_DIGITS = 10


def join(folders: Sequence[Path], into: Path) -> list[Path]:
    """Add what the folders hold to the files of `into`; gives the files that were written."""
    new = [one for folder in folders for one in results_in(folder)]
    make_folder(into, what="folder of results", way_out="name another with --into")
    found: dict[tuple[str, str, str], ArmResult] = {}
    for one in (*shipped_results(into), *new):
        found[one.experiment, one.base, one.arm] = one
    _check(found.values())
    written = []
    for experiment in sorted({one.experiment for one in new}):
        path = into / f"{experiment}.json"
        some = [one for one in found.values() if one.experiment == experiment]
        write_text(path, as_text(some))
        written.append(path)
    return written


def as_text(results: Iterable[ArmResult]) -> str:
    """A list in JSON with one result a line: by base, and by name of the arm."""
    lines = [json.dumps(_rounded(asdict(one))) for one in sorted(results, key=_place)]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _place(one: ArmResult) -> tuple[int, str, str]:
    return *place(one.base), one.arm


def _rounded(value: object) -> object:
    """Ten digits after the point are more than any number here has."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return value


def _check(results: Collection[ArmResult]) -> None:
    """Refuse what a verdict must not put together."""
    _check_bases(results)
    _check_arms(results)


def _check_arms(results: Iterable[ArmResult]) -> None:
    """A verdict is over bases, so an arm must have had the same settings on all of them."""
    first: dict[tuple[str, str], ArmResult] = {}
    for one in results:
        other = first.setdefault((one.experiment, one.arm), one)
        for what in ("size", "steps", "batch", "times"):
            mine, yours = getattr(one, what), getattr(other, what)
            if mine != yours:
                raise UserError(
                    f"the arm {one.arm} of {one.experiment} is of two kinds: on {one.base} its "
                    f"{what} is {mine}, on {other.base} {yours}",
                    expected="the same settings on every base, since a verdict is over bases",
                    way_out="run the arm on all bases with one unbag, or name an empty folder with "
                    "--into",
                )


def _check_bases(results: Iterable[ArmResult]) -> None:
    """Arms of one base are compared, so they must be of the same base and size."""
    first: dict[tuple[str, str], ArmResult] = {}
    for one in results:
        other = first.setdefault((one.experiment, one.base), one)
        for what in ("size", "fingerprint"):
            mine, yours = getattr(one, what), getattr(other, what)
            if mine != yours:
                raise UserError(
                    f"arms of {one.experiment} on {one.base} are of two kinds: {one.arm} has the "
                    f"{what} {mine}, {other.arm} has {yours}",
                    expected="one base and one size, since arms of a base are compared",
                    way_out="name folders of one run, or an empty folder with --into",
                )


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    text = "run folders of `unbag lab run`; later ones win"
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR", help=text)
    text = "folder with one file for each experiment (default: that of the package)"
    parser.add_argument("--into", type=Path, default=RESULTS, metavar="DIR", help=text)
    options = parser.parse_args()
    for path in join(options.folders, options.into):
        print(path)


if __name__ == "__main__":
    run_script(main)
