"""A file of weights comes in; tensors by the names of the model go out. Nothing is executed."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from unbag.errors import UserError

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
_EXPECTED = "a checkpoint: .safetensors, or .pt with a state dict, as open_clip's trainer writes"


def find(path: Path) -> Path:
    """The file itself, or the only (or usually named) one of a folder."""
    if path.is_file():
        return path
    if not path.exists():
        raise UserError(f"no checkpoint at {path}", expected=_EXPECTED, way_out="check the path")
    inside = sorted(p for p in path.iterdir() if p.suffix in _ENDINGS and p.is_file())
    usual = [path / name for name in _USUAL if path / name in inside]
    if len(inside) != 1 and not usual:
        listed = ", ".join(p.name for p in inside[:6]) or "none"
        raise UserError(
            f"the folder {path} holds {len(inside)} checkpoints: {listed}",
            expected=f"one, or one called {_USUAL[0]}",
            way_out="name the file",
        )
    return usual[0] if usual else inside[0]


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
        raise _unreadable(path, str(error)) from error


def _pickled(path: Path) -> Any:
    import torch

    is_zip = zipfile.is_zipfile(path)
    if is_zip and _is_torchscript(path):
        raise UserError(
            f"{path} is a TorchScript archive, as OpenAI published them",
            expected=_EXPECTED,
            way_out="the same weights by tag, as in open_clip:ViT-B-32-quickgelu/openai",
        )
    try:
        # Mapped, so that the optimizer's tensors, twice as many, are never read.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except UnpicklingError as error:
        raise UserError(
            f"{path} holds more than weights: {_first_line(error)}",
            expected=_EXPECTED,
            way_out="nothing is unpickled here, since that runs code; load it where you trust it "
            "and save model.state_dict() as .safetensors",
        ) from error
    except (RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        raise _unreadable(path, _first_line(error)) from error


def _is_torchscript(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("constants.pkl") for name in archive.namelist())


def _unreadable(path: Path, why: str) -> UserError:
    return UserError(
        f"{path} cannot be read as a checkpoint: {why}",
        expected=_EXPECTED,
        way_out="check the path",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _unwrapped(state: dict[str, Tensor]) -> dict[str, Tensor]:
    for wrapper in WRAPPERS * 2:
        if all(name.startswith(wrapper) for name in state):
            state = {name.removeprefix(wrapper): value for name, value in state.items()}
    return state
