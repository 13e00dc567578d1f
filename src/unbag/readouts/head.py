"""A trained reader comes in; one safetensors file that knows its encoder goes out, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from unbag.engine.atomic import write_atomically
from unbag.errors import UserError, said_by
from unbag.models.fingerprint import fingerprint
from unbag.models.finite import check_finite
from unbag.readouts.reader import Reader
from unbag.types import DualEncoder
from unbag.version import __version__

FILE = "reader.safetensors"
LAST = "last.safetensors"
"""Beside it: what training goes on from."""
_HEADER = "unbag_reader"


@dataclass(frozen=True)
class Sizes:
    """What a reader must know of the features it is given."""

    patches: int
    picture_width: int
    caption_width: int


@dataclass(frozen=True)
class Head:
    """What a file says of itself."""

    readout: str
    settings: Mapping[str, Any]
    sizes: Sizes
    encoder: str
    """Name of the model it was trained on."""
    fingerprint: str
    """Of that model."""
    version: str = __version__


def save_head(
    reader: Reader, path: Path, head: Head, *, dtype: torch.dtype = torch.float16
) -> None:
    """Weights in half precision, as they are shipped, and all that is needed to read them."""
    state = {k: _saved(v, dtype) for k, v in reader.state_dict().items()}
    check_finite(state, source=f"the reader {head.readout}")
    write_head(state, path, head)


def write_head(state: Mapping[str, Tensor], path: Path, head: Head) -> None:
    """Weights as they are, under a header."""
    header = {_HEADER: json.dumps(asdict(head))}
    write_atomically(path, lambda temporary: save_file(dict(state), temporary, metadata=header))


def check_encoder(
    path: Path, encoder: DualEncoder, *, spec: str, fingerprint: str, kind: str = "reader"
) -> None:
    """Raise UserError, with both fingerprints, if what lies there was trained on another."""
    if fingerprint != encoder.fingerprint:
        raise UserError(
            f"{path} was trained for {spec} (fingerprint {fingerprint}), and the model is "
            f"{encoder.name} ({encoder.fingerprint})",
            expected="the model it was trained on: to another, its numbers mean nothing",
            way_out=f"--model {spec}, or train a {kind} for this model",
        )


def read_head(path: Path) -> tuple[Head, dict[str, Tensor]]:
    """What `save_head` wrote; the file is data only, nothing in it is executed."""
    try:
        with safe_open(path, framework="pt") as file:
            said = json.loads((file.metadata() or {})[_HEADER])
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        said["sizes"] = Sizes(**said["sizes"])
        head = Head(**said)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is not a reader: {said_by(error)}",
            expected=f"a folder that `unbag train --recipe ...` wrote, with {FILE}",
            way_out="train one; docs/readouts.md shows how",
        ) from error
    check_finite(state, source=f"{path}")
    return head, state


def load_reader(
    folder: Path,
    encoder: DualEncoder,
    *,
    readout: str,
    settings: type[Any],
    build: Callable[[Any, Sizes], Reader],
) -> tuple[Reader, Head]:
    """The reader of a folder, for the encoder it was trained on and no other."""
    path = folder if folder.is_file() else folder / FILE
    if not path.exists() and (folder / LAST).exists():
        raise UserError(
            f"{folder} holds a training that was stopped before its end",
            expected=f"a folder with {FILE}, which the last step writes",
            way_out="give the same `unbag train` command again: it goes on",
        )
    head, state = read_head(path)
    if head.readout != readout:
        raise UserError(
            f"{path} holds the read-out {head.readout!r}",
            expected=f"{readout!r}",
            way_out=f"--scorer {head.readout}@{folder}",
        )
    check_encoder(path, encoder, spec=head.encoder, fingerprint=head.fingerprint)
    known = {field.name for field in fields(settings)}
    said = {key: value for key, value in head.settings.items() if key in known}
    try:
        reader = build(settings(**said), head.sizes)
        reader.load_state_dict({name: _loaded(value) for name, value in state.items()})
    except (RuntimeError, TypeError) as error:
        raise UserError(
            f"{path} does not fit the read-out {readout!r}: {said_by(error)}",
            expected=f"weights as unbag {__version__} writes them; this is by {head.version}",
            way_out="train it again with this version",
        ) from error
    return reader.eval(), head


def reader_fingerprint(reader: Reader, encoder: DualEncoder) -> str:
    """Of encoder, weights and settings."""
    said = json.dumps(asdict(reader.settings), sort_keys=True)  # type: ignore[call-overload]
    return fingerprint("reader", reader.state_dict(), encoder.fingerprint, reader.name, said)


def _saved(value: Tensor, dtype: torch.dtype) -> Tensor:
    value = value.detach().cpu().contiguous()
    return value.to(dtype) if value.is_floating_point() else value


def _loaded(value: Tensor) -> Tensor:
    return value.float() if value.is_floating_point() else value
