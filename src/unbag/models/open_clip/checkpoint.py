"""A file of weights comes in; tensors by the names of the model go out. Nothing is executed."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

from unbag.errors import UserError, said_by

if TYPE_CHECKING:
    from torch import Tensor

INSIDE = ("state_dict", "model_state_dict", "model")
"""Where trainers keep the weights, beside optimizer and epoch."""
WRAPPERS = ("module.", "_orig_mod.")
"""Put before every name by distributed training and by torch.compile."""
_USUAL = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "model.safetensors",
    "pytorch_model.bin",
)
_ENDINGS = (".safetensors", ".pt", ".pth", ".bin")
_CUT = "its end is missing"
_PARTS = re.compile(r"(\d+)")
_EXPECTED = "a checkpoint: .safetensors, or .pt with a state dict, as open_clip's trainer writes"


def find(path: Path) -> Path:
    """The file itself, or the only (or usually named) one of a folder."""
    if path.is_file():
        return path
    if not path.exists():
        raise UserError(f"no checkpoint at {path}", expected=_EXPECTED, way_out="check the path")
    inside = _checkpoints(path)
    usual = [path / name for name in _USUAL if path / name in inside]
    if _is_of_transformers(path):
        raise UserError(
            f"{path} is a model of transformers, not of OpenCLIP",
            expected=_EXPECTED,
            way_out=f"write hf:{path}",
        )
    if len(inside) != 1 and not usual:
        raise _choose(path, inside)
    return usual[0] if usual else inside[0]


def _checkpoints(folder: Path) -> list[Path]:
    """Files that may be one; epoch_10 after epoch_9."""
    found = [p for p in folder.iterdir() if p.suffix in _ENDINGS and p.is_file()]
    return sorted(found, key=lambda p: [int(n) if n.isdigit() else n for n in _PARTS.split(p.name)])


def _choose(path: Path, inside: list[Path]) -> UserError:
    """The error for a folder with none or several; the trainer's are one folder below."""
    below = path / "checkpoints"
    if not inside and below.is_dir() and _checkpoints(below):
        path, inside = below, _checkpoints(below)
    listed = ", ".join(p.name for p in inside[-6:]) or "none"
    return UserError(
        f"the folder {path} holds {len(inside)} checkpoints: {listed}",
        expected=f"one, or one called {_USUAL[0]}",
        way_out=f"name the file, as in ...@{inside[-1]}" if inside else "check the path",
    )


def _is_of_transformers(folder: Path) -> bool:
    """Its config names a kind, and nothing there is of open_clip."""
    if any(folder.glob("open_clip*")):
        return False
    try:
        said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and "model_type" in said


def read(path: Path) -> dict[str, Tensor]:
    """The state dict of a file, without the wrappers of distributed training."""
    import torch

    content = _safetensors(path) if path.suffix == ".safetensors" else _pickled(path)
    for key in INSIDE:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    is_state = isinstance(content, Mapping) and content
    if not is_state or not all(isinstance(value, torch.Tensor) for value in content.values()):
        found = ", ".join(map(str, content)) if isinstance(content, Mapping) else type(content)
        raise UserError(
            f"{path} holds no state dict: {str(found)[:200] or 'nothing'}", expected=_EXPECTED
        )
    return _unwrapped({str(name): value for name, value in content.items()})


def _safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, said_by(error)) from error


def _pickled(path: Path) -> Any:
    import torch

    is_zip = zipfile.is_zipfile(path)
    if is_zip and _is_torchscript(path):
        raise UserError(
            f"{path} is a TorchScript archive, as OpenAI published them",
            expected=_EXPECTED,
            way_out="the same weights by tag, as in open_clip:ViT-B-32-quickgelu/openai",
        )
    if not is_zip:
        _check_start(path)
    try:
        with catch_warnings():
            # Of pickles in another form, which then cannot be read.
            simplefilter("ignore")
            # Mapped, so that the optimizer's tensors, twice as many, are never read.
            return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except UnpicklingError as error:
        # The rest of PyTorch's words is advice to run the code in it.
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        raise UserError(
            f"{path} holds more than weights: {named[1] if named else 'a pickle of other things'}",
            expected=_EXPECTED,
            way_out="nothing is unpickled here, since that runs code; load it where you trust it "
            "and save model.state_dict() as .safetensors",
        ) from error
    except EOFError as error:
        raise _unreadable(path, _CUT) from error
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        raise _unreadable(path, said_by(error)) from error


def _check_start(path: Path) -> None:
    """By its first bytes: a pickle (of PyTorch before 1.6), an archive that is cut, or neither."""
    with path.open("rb") as file:
        start = file.read(2)
    if start == b"PK":
        raise _unreadable(path, _CUT)
    if not start.startswith(b"\x80"):
        what = "it is no file of PyTorch" if start else "it is empty"
        raise _unreadable(path, what, way_out="check the path and how the file was made")


def _is_torchscript(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("constants.pkl") for name in archive.namelist())


def _unreadable(path: Path, why: str, *, way_out: str = "copy or download it again") -> UserError:
    return UserError(
        f"{path} cannot be read as a checkpoint: {why}", expected=_EXPECTED, way_out=way_out
    )


def _unwrapped(state: dict[str, Tensor]) -> dict[str, Tensor]:
    for wrapper in WRAPPERS * 2:
        if all(name.startswith(wrapper) for name in state):
            state = {name.removeprefix(wrapper): value for name, value in state.items()}
    return state
