"""The interface of read-outs: models that are trained on a frozen model and score with it.

Read-outs are registered by name. `unbag train --readout NAME` calls `train_readout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from unbag.errors import UnbagError
from unbag.registry import find
from unbag.types import Scorer

if TYPE_CHECKING:
    from unbag.models.loading import Model
    from unbag.runs.progress import Progress
    from unbag.training.repair import DataConfig, TrainingArguments


@dataclass(frozen=True)
class ReadoutJob:
    """Arguments of `unbag train --readout NAME`."""

    model: Model
    """The frozen model; training must not change it."""
    spec: str
    """The name that loads the model, as the user typed it."""
    pairs: DataConfig
    out: Path
    settings: Sequence[str] = ()
    """`key=value` strings, as the user typed them after --set."""
    seed: int = 0
    where: TrainingArguments | None = None
    """Device, precision and so on; None is the CPU in float32."""
    called: str = ""
    """The read-out as the user typed it, if not by its name: package.module:NAME."""


@dataclass(frozen=True)
class ReadoutTrained:
    """The result of training a read-out."""

    folder: Path
    """Folder to score with (NAME@folder), with safetensors and a model card."""
    is_done: bool
    """False if training was interrupted; the same command resumes it."""
    lines: tuple[str, ...] = field(default=())
    """Final messages for the user: accuracies, and the command that scores."""


@runtime_checkable
class Readout(Protocol):
    """A read-out, registered by name under "readout"."""

    @property
    def name(self) -> str:
        """Return the name under which it is registered."""

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """Train, or resume training. Wrong settings raise an error before anything is computed."""

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """Return the scorers for `unbag run --scorer NAME@folder`; `folder` is None without @.

        A folder that was trained for another model raises an error with both fingerprints.
        """


def find_readout(name: str) -> Readout:
    """Return the read-out with a registered name, or at package.module:NAME."""
    readout = find("readout", name)
    if not isinstance(readout, Readout):
        raise UnbagError(
            f"the read-out {name!r} is a {type(readout).__name__}",
            expected="name, train(job, progress=...) and scorers(model, folder)",
            hint="see unbag.readouts.base",
        )
    return readout


def train_readout(
    name: str,
    model: Model,
    pairs: DataConfig | str | Path,
    out: Path | str,
    *,
    spec: str = "",
    settings: Sequence[str] = (),
    seed: int = 0,
    where: TrainingArguments | None = None,
    progress: Progress | None = None,
) -> ReadoutTrained:
    """Train a read-out on a frozen model; the same call resumes an interrupted run."""
    from unbag.runs.progress import Silent
    from unbag.training.repair import DataConfig

    job = ReadoutJob(
        model=model,
        spec=spec or model.name,
        pairs=pairs if isinstance(pairs, DataConfig) else DataConfig(str(pairs)),
        out=Path(out),
        settings=tuple(settings),
        seed=seed,
        where=where,
        called=name,
    )
    return find_readout(name).train(job, progress=progress or Silent())
