"""A reader in training comes in; one file from which it goes on goes out, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from unbag.engine.atomic import write_atomically
from unbag.errors import UserError, said_by
from unbag.readouts.fit import Fit
from unbag.readouts.head import LAST
from unbag.train.begun import check_empty
from unbag.train.moments import moments_of, put_moments

_HEADER = "unbag_reader_training"
WEIGHT, MOMENT = "weight.", "moment."


@dataclass(frozen=True)
class Standing:
    """Where a training stands."""

    step: int
    asked: str
    """All that decides the weights, as JSON."""
    seconds: float = 0.0
    """Spent so far."""


def save(path: Path, fit: Fit, asked: str, *, seconds: float = 0.0) -> None:
    """Weights, moments, the step and the seconds so far."""
    tensors = {f"{WEIGHT}{name}": value for name, value in fit.reader.state_dict().items()}
    moments = moments_of(dict(fit.reader.named_parameters()), fit.optimiser)
    tensors |= {f"{MOMENT}{name}": value for name, value in moments.items()}
    write_standing(path, tensors, Standing(fit.step, asked, seconds))


def restore(path: Path, fit: Fit, asked: str) -> float:
    """Put back what `save` wrote and give the seconds; refused where something else was asked."""
    standing, tensors = read_standing(path, asked, what="a reader")
    fit.reader.load_state_dict(under(WEIGHT, tensors))
    put_moments(dict(fit.reader.named_parameters()), fit.optimiser, under(MOMENT, tensors))
    fit.go_on_after(standing.step)
    return standing.seconds


def write_standing(path: Path, tensors: Mapping[str, Tensor], standing: Standing) -> None:
    """In one file that is whole or old."""
    # Copied, since safetensors refuses weights that two names share.
    apart = {name: value.detach().cpu().clone() for name, value in tensors.items()}
    header = {_HEADER: json.dumps(asdict(standing))}
    write_atomically(path, lambda temporary: save_file(apart, temporary, metadata=header))


def check_folder(folder: Path, *, what: str, made: str) -> None:
    """Raise UserError, before anything is computed, unless such a training began there or can.

    The checkpoint comes first of all that a training writes; `made` is what its end writes, and
    without a checkpoint nothing says how it was made.
    """
    if (folder / LAST).exists():
        _read(folder / LAST, what=what, with_tensors=False)
    elif (folder / made).exists():
        raise trained_already(folder, what=what)
    else:
        check_empty(folder, what=f"training of {what}")


def trained_already(folder: Path, *, what: str) -> UserError:
    """The error for a folder whose training came to its end."""
    return UserError(
        f"{folder} holds a trained {what.removeprefix('a ')}",
        expected="an empty folder, or one of a run that was stopped",
        way_out="name another folder with --out",
    )


def read_standing(path: Path, asked: str, *, what: str) -> tuple[Standing, dict[str, Tensor]]:
    """What `write_standing` wrote; refused where something else was asked for."""
    standing, tensors = _read(path, what=what)
    if standing.asked != asked:
        raise other_run(path.parent, json.loads(standing.asked), json.loads(asked))
    return standing, tensors


def _read(
    path: Path, *, what: str, with_tensors: bool = True
) -> tuple[Standing, dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            standing = Standing(**json.loads((file.metadata() or {})[_HEADER]))
            names = file.keys() if with_tensors else ()
            return standing, {name: file.get_tensor(name) for name in names}
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is not a checkpoint of {what}: {said_by(error)}",
            expected="what an earlier run with the same --out wrote",
            way_out="name another folder with --out, or delete it",
        ) from error


def under(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin so, without it."""
    return {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}


def other_run(folder: Path, found: Mapping[str, Any], asked: Mapping[str, Any]) -> UserError:
    """Says the first thing that differs, a setting by its own name."""
    known, wanted = _flat(found), _flat(asked)
    differ = [key for key in {**wanted, **known} if known.get(key) != wanted.get(key)]
    first = differ[0]
    more = f" (and {', '.join(differ[1:])})" if differ[1:] else ""
    return UserError(
        f"{folder} holds a run with another {first}{more}: {known.get(first, 'none')}",
        expected=f"{wanted.get(first, 'none')}",
        way_out="name another folder with --out, or ask for what that run was asked for",
    )


def _flat(said: Mapping[str, Any]) -> dict[str, object]:
    plain = {key: value for key, value in said.items() if key != "settings"}
    return {**plain, **said.get("settings", {})}
