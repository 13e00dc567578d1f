"""Results of arms on bases: files in run folders, and the results that ship with the package.

The shipped results are next to this module, one file for each experiment. This adds new ones from
run folders:

    python -m unbag_lab join runs/lab runs/more

A new result replaces the one of the same arm on the same base. Each result is one line, in a fixed
order, so that versions can be compared with `diff`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from unbag.errors import UnbagError
from unbag.runs.files import (
    RUN_FILE,
    check_run_folder,
    make_folder,
    open_run_folder,
    read_run,
    remove_leftovers,
    write_text,
)
from unbag.runs.identity import RunIdentity
from unbag.version import __version__

Size = Literal["full", "small"]
RESULTS = Path(str(files("unbag_lab") / "results"))
BEFORE = "base"
"""Name of the arm that is the base itself."""
UNTRAINED = "random"
"""Name of the arm that is the randomly initialized network."""
FEW_STEPS = "few_steps"
"""Metric next to `few`, the train accuracy on a few fixed examples: the number of steps."""
FEW_DROPOUT = "few_dropout"
"""Likewise: the dropout, of readers of patches."""
FEW_RATE = "few_rate"
"""Likewise: the learning rate."""
BY_STEP = " by step"
"""Ending of the name of a benchmark: its metric during training, by the number of steps."""
LAB_VERSION = 3
"""Raised when an arm, a base or a benchmark changes its meaning: one folder must not hold results
of two versions. 2: readers fit the fixed examples in more steps and without dropout. 3: at a higher
learning rate."""
LAB_RUN = "lab run"
"""Kind of a folder of `unbag lab run`."""
_RESULTS = "*/*/*.json"
"""EXPERIMENT/BASE/ARM.json."""
_NO_RESULTS = (RUN_FILE, "config.json", "generation_config.json")
"""JSON files in folders of trainings and decoders that are not results."""
_NUMBER = re.compile(r"[- ](\d+)")
_DIGITS = 10
_SAME = ("fingerprint", "steps", "batch_size", "seed", "times", "precision", "size")
"""The settings that determine the numbers of an arm."""


@dataclass(frozen=True)
class ArmResult:
    """One arm on one base."""

    experiment: str
    base: str
    """File name of the base, without its suffix."""
    fingerprint: str
    """Fingerprint of the base."""
    arm: str
    steps: int
    batch_size: int
    seed: int
    """Seed of the scenes; different for each base."""
    times: int
    """Multiplies the number of items of the registered benchmarks."""
    precision: str
    loss: float | None
    """Loss of the last step; None if nothing was trained."""
    numbers: Mapping[str, Mapping[str, float]]
    """Metrics by benchmark, as fractions."""
    size: Size = "full"
    """A small run tests that the code runs, and decides nothing."""
    seconds: float | None = None
    """Seconds of training and measuring, where known."""

    @property
    def extent(self) -> Extent:
        """Its amount of training and items."""
        return Extent(self.steps, self.batch_size, self.times)


@dataclass(frozen=True)
class Extent:
    """Amount of training and items of an arm."""

    steps: int
    batch_size: int
    times: int
    """Multiplies the number of items of the registered benchmarks."""


def shipped_results(folder: Path = RESULTS) -> list[ArmResult]:
    """Return the shipped results of every experiment; empty if there are none."""
    return read_results(folder) if any(folder.glob("*.json")) else []


def results_in(path: Path) -> list[ArmResult]:
    """Return the results of a run folder, or of a file or folder of joined results."""
    if not path.exists():
        raise UnbagError(
            f"no results in {path}: it does not exist",
            expected="a folder of `unbag lab run`, or a file that `python -m unbag_lab join` wrote",
            hint="unbag lab run CLAIM --out FOLDER, or leave --results out for those that ship",
        )
    if not (path / RUN_FILE).exists():
        runs = sorted(record.parent.name for record in path.glob(f"*/{RUN_FILE}"))
        if runs:
            raise UnbagError(
                f"{path} holds run folders ({', '.join(runs[:3])}"
                f"{' ...' if len(runs) > 3 else ''})",
                expected="one run folder, or files that `python -m unbag_lab join` wrote",
                hint=f"name one of them: {path / runs[0]}",
            )
        if any((path / "bases").glob("*.json")):
            raise UnbagError(
                f"{path} holds bases, and no {RUN_FILE}, which would say of which version and size "
                "of the lab its results are",
                expected="a folder that `unbag lab run` began, or files that `python -m unbag_lab "
                "join` wrote",
                hint=f"put {RUN_FILE} back, or run the claims again into another folder",
            )
        return read_results(path)
    record = read_run(path, LAB_RUN)
    if record is not None and (lab := record["identity"].get("lab")) != LAB_VERSION:
        raise UnbagError(
            f"{path} was started with version {lab} of the lab (unbag {record.get('version')})",
            expected=f"version {LAB_VERSION} (unbag {__version__}), since arms have changed",
            hint="use the version of unbag that started it, or name another folder",
        )
    files = sorted(path.glob(_RESULTS))
    return [result for file in files for result in read_results(file)]


def read_results(path: Path) -> list[ArmResult]:
    """Read results from a file of one or many, or from every .json file below a folder."""
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.json") if file.name not in _NO_RESULTS)
    results: dict[tuple[str, str, str], ArmResult] = {}
    for file in files:
        for result in _read(file):
            results[result.experiment, result.base, result.arm] = result
    if not results:
        raise UnbagError(
            f"no results of arms in {path}",
            expected="files that `unbag lab run` writes",
            hint="unbag lab run CLAIM --out FOLDER, or leave --results out for those that ship",
        )
    return list(results.values())


def _read(file: Path) -> list[ArmResult]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return [
            ArmResult(**fields) for fields in (content if isinstance(content, list) else [content])
        ]
    except (OSError, ValueError, TypeError) as error:
        raise UnbagError(
            f"{file} cannot be read: {error}",
            expected="results that `unbag lab run` writes",
            hint="name a run folder; if the file is in one, remove it to run its arm again",
        ) from error


def write_result(path: Path, result: ArmResult) -> None:
    """Write a result atomically, so that an existing file is complete."""
    write_text(path, json.dumps(asdict(result), indent=1))


def result_path(out: Path, experiment: str, base: str, arm: str) -> Path:
    """Return the path of the result of an arm; its weights are next to it."""
    return out / experiment / base / f"{arm}.json"


def has_result(out: Path, experiment: str, base: str, arm: str) -> bool:
    """Return whether an arm has a result on a base."""
    return result_path(out, experiment, base, arm).exists()


def base_path(out: Path, name: str) -> Path:
    """Return the path of the weights of a base in a run folder."""
    return out / "bases" / f"{name}.safetensors"


def find_same(expected: ArmResult, path: Path) -> ArmResult | None:
    """Return the result in a file, None if it is missing; raises UnbagError for other settings."""
    if not path.exists():
        return None
    result = read_results(path)[0]
    check_same(result, expected, path=path)
    return result


def check_same(found: ArmResult, expected: ArmResult, *, path: Path) -> None:
    """Raise UnbagError if a result has other settings, naming each."""
    old, new = (
        RunIdentity(**{name: getattr(result, name) for name in _SAME})
        for result in (found, expected)
    )
    new.require_same(old, folder=path.parent, kind=path.name)


def named(seed: int) -> str:
    """Return the name of the base that is trained from a seed."""
    return f"tiny-{seed}"


def seeds_for(bases: int, *, after: int = 0, seen: Collection[str] = ()) -> int:
    """Return how many seeds give `bases` bases, not in `seen`, after the first `after` seeds."""
    seeds = after
    while bases > 0:
        bases -= named(seeds) not in seen
        seeds += 1
    return seeds


def place(base: str) -> tuple[int, str]:
    """Return a sort key: tiny-10 comes after tiny-9."""
    match = _NUMBER.search(base)
    return (int(match[1]) if match else 0), base


def in_order(bases: Iterable[str]) -> list[str]:
    """Return the unique names of bases, sorted."""
    return sorted(set(bases), key=place)


def number(base: str) -> str:
    """Return the part of the name after the last dash."""
    return base.rpartition("-")[2]


def numbers(bases: Sequence[str]) -> str:
    """Return the numbers of several bases, separated by commas."""
    return ", ".join(map(number, bases))


@contextmanager
def opened(out: Path, *, size: Size) -> Iterator[None]:
    """Open the folder of a run for one process; raises UnbagError for another version or size."""
    with open_run_folder(out, LAB_RUN, resumes="existing bases and results stay") as folder:
        for below in {path.parent for path in out.rglob(".*.part")}:
            remove_leftovers(below)
        if not _has_work(out):
            # A run that was not confirmed: the folder may change its settings.
            (out / RUN_FILE).unlink(missing_ok=True)
        folder.begin(_identity(size), {})
        yield


def check_folder(out: Path, *, size: Size) -> None:
    """Raise the errors of `opened`, before anything is computed."""
    check_run_folder(out, LAB_RUN)
    if (record := read_run(out, LAB_RUN)) and _has_work(out):
        earlier = RunIdentity.of_json(record["identity"])
        _identity(size).require_same(earlier, folder=out, kind=LAB_RUN)


def _identity(size: Size) -> RunIdentity:
    return RunIdentity(lab=LAB_VERSION, size=size)


def _has_work(out: Path) -> bool:
    return any(path.name not in (RUN_FILE, ".lock") for path in out.iterdir())


def join_script() -> None:
    """Join run folders into the results that ship."""
    text = "Join run folders of `unbag lab run` into one file of results for each experiment, as "
    parser = argparse.ArgumentParser(description=f"{text}they ship.")
    text = "run folders of `unbag lab run`; later ones win"
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR", help=text)
    text = "folder with one file for each experiment (default: that of the package)"
    parser.add_argument("--into", type=Path, default=RESULTS, metavar="DIR", help=text)
    options = parser.parse_args()
    for path in join(options.folders, options.into):
        print(path)


def join(folders: Sequence[Path], into: Path) -> list[Path]:
    """Add the results of folders to the files in `into`; return the written files."""
    new = [result for folder in folders for result in results_in(folder)]
    make_folder(into, what="folder of results", hint="name another with --into")
    results: dict[tuple[str, str, str], ArmResult] = {}
    for result in (*shipped_results(into), *new):
        results[result.experiment, result.base, result.arm] = result
    _check_alike(results.values())
    written = []
    for experiment in sorted({result.experiment for result in new}):
        path = into / f"{experiment}.json"
        experiment_results = [
            result for result in results.values() if result.experiment == experiment
        ]
        write_text(path, as_text(experiment_results))
        written.append(path)
    return written


def as_text(results: Iterable[ArmResult]) -> str:
    """Return a JSON list with one result a line, sorted by base and arm."""
    ordered = sorted(results, key=lambda result: (place(result.base), result.arm))
    lines = [json.dumps(_rounded(asdict(result))) for result in ordered]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _rounded(value: object) -> object:
    """Round floats to ten decimals, more than any number here has."""
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return value


def _check_alike(results: Iterable[ArmResult]) -> None:
    """Raise UnbagError for results that a verdict could not compare.

    Arms of one base must be of the same base and size; and since a verdict is over bases, an arm
    must have had the same settings on all of them.
    """
    bases: dict[tuple[str, str], ArmResult] = {}
    arms: dict[tuple[str, str], ArmResult] = {}
    for result in results:
        other = bases.setdefault((result.experiment, result.base), result)
        for field in ("size", "fingerprint"):
            value, other_value = getattr(result, field), getattr(other, field)
            if value != other_value:
                raise UnbagError(
                    f"arms of {result.experiment} on {result.base} differ: {result.arm} has the "
                    f"{field} {value}, {other.arm} has {other_value}",
                    expected="one base and one size, since arms of a base are compared",
                    hint="name folders of one run, or an empty folder with --into",
                )
        other = arms.setdefault((result.experiment, result.arm), result)
        for field in ("size", "steps", "batch_size", "times"):
            value, other_value = getattr(result, field), getattr(other, field)
            if value != other_value:
                raise UnbagError(
                    f"the arm {result.arm} of {result.experiment} differs between bases: on "
                    f"{result.base} its {field} is {value}, on {other.base} {other_value}",
                    expected="the same settings on every base, since a verdict is over bases",
                    hint="run the arm on all bases with one unbag, or name an empty folder with "
                    "--into",
                )
