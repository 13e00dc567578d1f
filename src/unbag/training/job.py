"""The job of a training run, and its record in the run folder, by which the run can be resumed."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from unbag.errors import UserError, said_by
from unbag.runs.files import write_text
from unbag.runs.identity import described, differences
from unbag.training.recipes import Precision, Recipe
from unbag.types import Benchmark
from unbag.version import __version__

if TYPE_CHECKING:
    from unbag.training.data.batch import Batches
    from unbag.training.towers.base import Trainable

RECORD_FILE = "training.json"


@dataclass(frozen=True, eq=False)
class TrainJob:
    """Weights, data, a recipe, and where to put what comes of them."""

    trainable: Trainable
    batches: Batches
    recipe: Recipe
    out: Path
    seed: int = 0
    device: str = "cpu"
    precision: Precision = "float32"
    micro: int | None = None
    workers: int = 0
    benchmarks: Sequence[Benchmark] = ()
    """Scored while training, at the end of every epoch or every `evaluate_every` steps."""
    data: Path | None = None
    """Folder with one folder for each benchmark that needs files."""
    evaluate_every: int | None = None
    cache: Path | None = None
    save_minutes: float = 10.0
    uses_tensorboard: bool = False
    wandb_project: str = ""
    command: str = ""
    base: str = ""
    """Name under which the model is loaded again; empty for its own, which may be shorter."""

    @property
    def steps(self) -> int:
        """Of the whole run."""
        return len(self.batches)


@dataclass(frozen=True)
class TrainIdentity:
    """Everything that decides the weights. A folder with other settings is not continued."""

    model: str
    model_fingerprint: str
    recipe: object
    """The recipe as plain data."""
    data_fingerprint: str
    seed: int
    precision: str
    micro: int | None
    processes: int


@dataclass(frozen=True)
class TrainRecord:
    """The file training.json."""

    asked: TrainIdentity
    state: Literal["running", "stopped", "done"]
    data: str
    device: str
    command: str
    steps: int
    base: str
    """Loads the model that it began with."""
    version: str = __version__
    torch: str = ""
    python: str = field(default_factory=platform.python_version)


def identity_of(job: TrainJob, *, processes: int) -> TrainIdentity:
    """What a job is compared by."""
    return TrainIdentity(
        model=job.trainable.name,
        model_fingerprint=job.trainable.fingerprint,
        recipe=described(job.recipe),
        data_fingerprint=job.batches.fingerprint,
        seed=job.seed,
        precision=job.precision,
        micro=job.micro,
        processes=processes,
    )


def write_record(folder: Path, record: TrainRecord) -> None:
    """Write training.json."""
    write_text(folder / RECORD_FILE, json.dumps(asdict(record), indent=1))


def read_record(folder: Path) -> TrainRecord | None:
    """None if the folder holds no training run."""
    path = folder / RECORD_FILE
    if not path.exists():
        return None
    said: Any = None
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        return TrainRecord(**(said | {"asked": TrainIdentity(**said["asked"])}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} {_why(said, error)}",
            expected=f"the record that `unbag train` of version {__version__} writes",
            way_out="go on with the version that wrote it, or name another folder with --out",
        ) from error


def _why(said: object, error: Exception) -> str:
    version = said.get("version") if isinstance(said, dict) else None
    if version is None or version == __version__:
        return f"cannot be read: {said_by(error)}"
    return f"was written by unbag {version}"


_OLD_NAME = re.compile(r'"unbag(\.\w+)+:\w')
"""A class or function with its module, as records named them before."""


def check_same(old: TrainRecord, asked: TrainIdentity, *, folder: Path) -> None:
    """Refuse to go on with other settings."""
    now: Mapping[str, object] = asdict(asked)
    apart = differences(asdict(old.asked), json.loads(json.dumps(now)))
    if apart and _OLD_NAME.search(json.dumps(asdict(old.asked))):
        raise UserError(
            f"the folder {folder} holds a training run of an older unbag: its record names "
            "modules, which have moved since",
            expected="a run that this version began",
            way_out="start it again in another folder with --out, or finish it with the version "
            "that began it",
        )
    if apart:
        shown = "; ".join(apart[:6]) + (f"; and {len(apart) - 6} more" if len(apart) > 6 else "")
        raise UserError(
            f"the folder {folder} holds a training run with other settings: {shown}",
            expected="the same model, recipe, data, seed, precision and number of processes",
            way_out="give the old settings to go on with it, or name another folder with --out",
        )


def check_begun(folder: Path) -> None:
    """Raise UserError for a folder in which `unbag train` has not begun, unless it is empty.

    The record comes first of all that a run writes, so a run that was killed has it or nothing.
    """
    try:
        check_empty(folder, what="training run")
    except UserError:
        # Read after the look at the folder: another process of the same run may begin meanwhile.
        if read_record(folder) is None:
            raise


def check_empty(folder: Path, *, what: str) -> None:
    """Raise UserError if the folder holds anything, such as somebody's pictures.

    Hidden files do not count: locks and what a killed process left half written.
    """
    try:
        is_empty = all(path.name.startswith(".") for path in folder.iterdir())
    except OSError:
        # It is new, or what is wrong with it is told by whoever makes it.
        return
    if not is_empty:
        raise UserError(
            f"the folder {folder} is not empty and holds no {what}",
            expected="an empty or new folder, or the folder of a run to go on with",
            way_out="choose another with --out",
        )
