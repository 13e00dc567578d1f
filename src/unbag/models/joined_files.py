"""A joined model comes in; a folder with what is its own, and how its parts are found, goes out.

`joined.json` names both parts with their fingerprints; `joined.safetensors` holds the connector,
and of the parts the weights that training changed. Nothing in the folder is executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from unbag.errors import UserError, said_by
from unbag.models.finite import check_finite
from unbag.models.folder_name import folder_name
from unbag.models.hf_source import torch_dtype
from unbag.models.joined import Changed, Connector, Joined, Origin
from unbag.models.joined_names import PLAIN, RECORD, joint_width, load_picture_model
from unbag.models.text_parts import load_part
from unbag.types import DualEncoder

WEIGHTS = "joined.safetensors"
FORMAT = "unbag-joined-1"


def write_joined(encoder: Joined, folder: Path) -> None:
    """Weights as they are, in float32, and the record."""
    # Copied, since safetensors refuses weights that two names share.
    state = {k: v.detach().cpu().clone().contiguous() for k, v in encoder.own_weights().items()}
    save_file(state, folder / WEIGHTS)
    width, joint, hidden = encoder.connector.sizes
    record = {
        "format": FORMAT,
        **asdict(encoder.origin),
        "connector": {"width": width, "joint": joint, "hidden": hidden},
        "scale": encoder.scale,
        "bias": encoder.bias,
    }
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")


def read_joined(
    folder: Path, *, name: str = "", device: str = "cpu", dtype: str = "auto"
) -> Joined:
    """Load both parts by name, see that they are the same as then, and put the weights in."""
    record, state = _read(folder)
    origin, sizes = record["origin"], record["connector"]
    picture = load_picture_model(origin.picture, device=device)
    text = load_part(origin.text.removeprefix(PLAIN), device=device)
    for what, place, wanted, found in (
        ("picture model", origin.picture, origin.picture_fingerprint, picture.fingerprint),
        ("text part", origin.text, origin.text_fingerprint, text.fingerprint),
    ):
        if wanted != found:
            raise UserError(
                f"the {what} {place} is not the one that {folder} was trained with: its "
                f"fingerprint is {found}",
                expected=wanted,
                way_out=f"put the old weights back, or mend the place in {RECORD}",
            )
    changed = Changed(_with(state, "picture."), _with(state, "text."))
    _fill(module_of(picture), changed.picture, folder)
    _fill(text.module, changed.text, folder)
    connector = Connector(sizes["width"], sizes["joint"], hidden=sizes["hidden"])
    if (text.width, joint_width(picture)) != connector.sizes[:2]:
        raise _damaged(folder, f"its connector is {connector.sizes[:2]}, its parts are not")
    _fill(connector, _with(state, "connector."), folder, is_whole=True)
    return Joined(
        picture,
        text.holding(text.module.to(dtype=torch_dtype(dtype))),
        connector,
        name=name or f"joined:{_named(folder)}",
        origin=origin,
        changed=changed,
        temperature=(record["scale"], record["bias"]),
    )


def module_of(encoder: DualEncoder) -> nn.Module:
    """The weights of a picture model, under the names of its library."""
    found = getattr(encoder, "towers", None) or getattr(encoder, "model", None)
    if not isinstance(found, nn.Module):
        raise UserError(
            f"the weights of {encoder.name} are not known here",
            expected="tiny:, photo:, open_clip: or a dual encoder of hf:",
            way_out="lock the picture tower: --set locks.picture=all",
        )
    return found


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not (folder / RECORD).is_file():
        raise UserError(
            f"the folder {folder} has no {RECORD}",
            expected="what training a joined model exported",
            way_out="check the path; two parts are written joined:PICTURE+TEXT",
        )
    try:
        said = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        if said["format"] != FORMAT:
            raise ValueError(f"its format is {said['format']!r}, not {FORMAT}")
        origin = Origin(**{key: str(said[key]) for key in Origin.__dataclass_fields__})
        record = {
            "origin": origin,
            "connector": {key: said["connector"][key] for key in ("width", "joint", "hidden")},
            "scale": float(said["scale"]),
            "bias": float(said["bias"]),
        }
        with safe_open(folder / WEIGHTS, framework="pt") as file:
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, said_by(error)) from error
    check_finite(state, source=str(folder / WEIGHTS))
    return record, state


def _fill(
    module: nn.Module, state: Mapping[str, Tensor], folder: Path, *, is_whole: bool = False
) -> None:
    try:
        missing, unknown = module.load_state_dict(dict(state), strict=False)
    except RuntimeError as error:
        raise _damaged(folder, said_by(error)) from error
    if unknown or (is_whole and missing):
        raise _damaged(folder, f"{(unknown or missing)[0]} is not where it should be")


def _with(state: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    return {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}


def _named(folder: Path) -> str:
    """Of an export that stands in `joined` below it, or in a run, what tells it from others."""
    parts = [part for part in folder.absolute().parts if part not in ("joined", "export")]
    return parts[-1] if parts else folder_name(folder)


def _damaged(folder: Path, why: str) -> UserError:
    return UserError(
        f"{folder} is no joined model that can be read: {why}",
        expected=f"{RECORD} and {WEIGHTS}, as training a joined model writes them",
        way_out="export the training run again: unbag export --run RUN --out FOLDER",
    )
