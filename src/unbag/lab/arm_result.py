"""What an arm of an experiment came to, as a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from unbag.errors import UserError
from unbag.runs.files import write_text

Size = Literal["full", "small"]
BEFORE = "base"
"""The name under which a base stands beside its arms."""
UNTRAINED = "random"
"""The same network before any training."""
FEW_STEPS = "few_steps"
"""Stands beside `few`, the share of fixed examples that a reader learned by heart: in how many
steps."""
FEW_DROPOUT = "few_dropout"
"""Likewise: with how much dropout, of readers of patches."""
FEW_RATE = "few_rate"
"""Likewise: at which learning rate."""
BY_STEP = " by step"
"""Behind a benchmark's name: what was answered on the way, by the number of steps so far."""
_OF_WEIGHTS = ("config.json", "generation_config.json")
"""What stands in folders of decoders, which arms leave beside their results."""


@dataclass(frozen=True)
class Extent:
    """How far an arm is trained and asked."""

    steps: int
    batch: int
    times: int
    """Items in the number of the registered benchmarks."""


@dataclass(frozen=True)
class ArmResult:
    """One arm on one base."""

    experiment: str
    base: str
    """File name of the base, without its ending."""
    fingerprint: str
    """Of the base."""
    arm: str
    steps: int
    batch: int
    seed: int
    """Of the scenes; another one for each base."""
    times: int
    """Items in the number of the registered benchmarks."""
    precision: str
    loss: float | None
    """Of the last step; None where nothing was trained."""
    numbers: Mapping[str, Mapping[str, float]]
    """By benchmark and metric; fractions."""
    size: Size = "full"
    """A small run shows that the code runs, and decides nothing."""
    seconds: float | None = None
    """That training and asking took, where it was measured."""

    @property
    def extent(self) -> Extent:
        """How far it was trained and asked."""
        return Extent(self.steps, self.batch, self.times)


def result_path(out: Path, experiment: str, base: str, arm: str) -> Path:
    """Where every experiment keeps the result of an arm; its weights stand beside it."""
    return out / experiment / base / f"{arm}.json"


def check_same(found: ArmResult, wanted: ArmResult, *, path: Path) -> None:
    """Refuse to go on in a folder of another experiment."""
    names = ("fingerprint", "steps", "batch", "seed", "times", "precision", "size")
    if apart := told_apart(found, wanted, names):
        raise UserError(
            f"{path} is of other settings: {apart}",
            expected="the settings it was begun with",
            way_out="give those, or name another folder with --out",
        )


def find_same(wanted: ArmResult, path: Path) -> ArmResult | None:
    """What a file says, unless it is not there; refused if it is of other settings."""
    if not path.exists():
        return None
    found = read_results(path)[0]
    check_same(found, wanted, path=path)
    return found


def told_apart(found: ArmResult | Extent, wanted: ArmResult | Extent, names: Iterable[str]) -> str:
    """What of these is not as wanted; empty if all is."""
    apart = [
        f"{name} {getattr(found, name)}, not {getattr(wanted, name)}"
        for name in names
        if getattr(found, name) != getattr(wanted, name)
    ]
    return "; ".join(apart)


def write_result(path: Path, result: ArmResult) -> None:
    """Atomically, so that a file that is there is whole."""
    write_text(path, json.dumps(asdict(result), indent=1))


def write_results(path: Path, results: Iterable[ArmResult]) -> None:
    """Many in one file, which is easier to carry."""
    write_text(path, json.dumps([asdict(result) for result in results], indent=1))


def read_results(path: Path) -> list[ArmResult]:
    """From a file of one or many, or from every .json file below a folder, in order of name."""
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.json") if file.name not in _OF_WEIGHTS)
    found: dict[tuple[str, str, str], ArmResult] = {}
    for file in files:
        for one in _read(file):
            found[one.experiment, one.base, one.arm] = one
    if not found:
        raise UserError(
            f"no results of arms in {path}",
            expected="files that `unbag lab run` writes",
            way_out="unbag lab run CLAIM --out FOLDER, or leave --results out for those that ship",
        )
    return list(found.values())


def _read(file: Path) -> list[ArmResult]:
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        return [ArmResult(**one) for one in (said if isinstance(said, list) else [said])]
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{file} cannot be read: {error}",
            expected="results that `unbag lab run` writes",
            way_out="name a run folder; if the file is of one, remove it to have its arm run again",
        ) from error
