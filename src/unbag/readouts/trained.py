"""The name of a read-out, a model and pairs come in; a trained reader in a folder goes out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbag.errors import UserError
from unbag.readouts.readout import Readout, ReadoutJob, ReadoutTrained
from unbag.registry import find

if TYPE_CHECKING:
    from unbag.engine.progress import Progress
    from unbag.scorers.resolve import Model
    from unbag.train.repair import Wanted, Where


def find_readout(name: str) -> Readout:
    """A registered read-out, or package.module:NAME."""
    found = find("readout", name)
    if not isinstance(found, Readout):
        raise UserError(
            f"the read-out {name!r} is a {type(found).__name__}",
            expected="name, train(job, progress=...) and scorers(model, folder)",
            way_out="see unbag.readouts.readout",
        )
    return found


def train_readout(
    name: str,
    model: Model,
    pairs: Wanted | str | Path,
    out: Path | str,
    *,
    spec: str = "",
    settings: Sequence[str] = (),
    seed: int = 0,
    where: Where | None = None,
    progress: Progress | None = None,
) -> ReadoutTrained:
    """Train on a model that stays as it is; the same call goes on where a run stopped."""
    from unbag.engine.progress import Silent
    from unbag.train.repair import Wanted

    job = ReadoutJob(
        model=model,
        spec=spec or model.name,
        pairs=pairs if isinstance(pairs, Wanted) else Wanted(str(pairs)),
        out=Path(out),
        settings=tuple(settings),
        seed=seed,
        where=where,
        called=name,
    )
    return find_readout(name).train(job, progress=progress or Silent())
