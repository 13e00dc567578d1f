"""What a read-out is: something trained on a frozen model, that then scores with it.

Read-outs are registered by name; `train_readout` is what `unbag train --readout NAME` calls.
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
    """What `unbag train --readout NAME` was asked for, where NAME is a read-out."""

    model: Model
    """Frozen: it must come out of training with the same bits."""
    spec: str
    """The name that loads the model, as it was typed."""
    pairs: DataConfig
    out: Path
    settings: Sequence[str] = ()
    """`key=value`, as they were typed behind --set."""
    seed: int = 0
    where: TrainingArguments | None = None
    """None is one CPU, float32."""
    called: str = ""
    """The read-out as it was typed, where that is not its name: package.module:NAME."""


@dataclass(frozen=True)
class ReadoutTrained:
    """What a training left behind."""

    folder: Path
    """Named behind NAME@ when scoring; holds safetensors and a card."""
    is_done: bool
    """False if somebody stopped it; the same command resumes it."""
    lines: tuple[str, ...] = field(default=())
    """Said to the user at the end: numbers that were measured, and the command that scores."""


@runtime_checkable
class Readout(Protocol):
    """Registered by name under "readout"."""

    @property
    def name(self) -> str:
        """The name under which it is registered."""

    def train(self, job: ReadoutJob, *, progress: Progress) -> ReadoutTrained:
        """Train, or resume. Wrong settings are refused before anything is computed."""

    def scorers(self, model: Model, folder: Path | None) -> list[Scorer]:
        """For `unbag run --scorer NAME@folder`; None where no folder was named.

        A folder that was trained for another model is refused, with both fingerprints.
        """


def find_readout(name: str) -> Readout:
    """A registered read-out, or package.module:NAME."""
    found = find("readout", name)
    if not isinstance(found, Readout):
        raise UnbagError(
            f"the read-out {name!r} is a {type(found).__name__}",
            expected="name, train(job, progress=...) and scorers(model, folder)",
            hint="see unbag.readouts.base",
        )
    return found


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
    """Train on a model that stays as it is; the same call resumes an interrupted run."""
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
