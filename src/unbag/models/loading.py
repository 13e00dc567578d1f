"""What is needed before a model is loaded: its name by a path or a run folder, and its device."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from unbag.errors import UserError

RECORD = "unbag.json"
"""In the folder of an export: what forms it holds."""
_PREFIXES = {"open_clip": "open_clip:local-dir:", "transformers": "hf:"}
"""By library; forms of our own are named after their kind."""
_WEIGHT_FILES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")
_OF_EVERY_RUN = re.compile(
    r"open_clip|transformers|exports?|hf|models?|final|best|last|latest"
    r"|(checkpoint|ckpt|epoch|step)s?([-_]?\d+)?",
    re.IGNORECASE,
)
"""Folders of an export, one for each library, and of a trainer: every run has them, so they name no
model."""
_DEVICES = "cpu, cuda, cuda:1, mps or auto"
_MOST_NAMED = 4
"""GPUs that a message names one by one."""


def model_name(name: str) -> str:
    """For a folder the first form that was exported there.

    A training run keeps its export in `export`. Anything that is no such folder is a name already.
    """
    folder = Path(name).expanduser()
    if folder.suffix in _WEIGHT_FILES and folder.is_file():
        raise UserError(
            f"{name} is a file of weights, and nothing says of which architecture",
            expected="a kind before it",
            way_out=f"open_clip:ARCH@{name}, such as open_clip:ViT-B-32@{name}",
        )
    if not folder.is_dir():
        return name
    for place in (folder, folder / "export"):
        if (place / RECORD).is_file():
            return _first_form(place)
    raise UserError(
        f"the folder {folder} holds no {RECORD}",
        expected="a finished training run or an export",
        way_out="finish it with the command it was begun with; a folder of another library has a "
        f"prefix, such as hf: or open_clip:local-dir:; a read-out is --scorer NAME@{folder}",
    )


def _first_form(place: Path) -> str:
    try:
        folders = json.loads((place / RECORD).read_text(encoding="utf-8"))["folders"]
        below, said = next(iter(folders.items()))
        return name_of_form(said["library"], f"{place}/{below}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise UserError(
            f"{place / RECORD} cannot be read: {error!r}",
            expected="the record that `unbag export` writes",
        ) from error


def name_of_form(library: str, place: str) -> str:
    """One form of an export as `--model` takes it."""
    return _PREFIXES.get(library, f"{library}:") + place


def folder_name(folder: Path) -> str:
    """Its last part, with as many before it as it takes until one is not of every run."""
    parts = folder.absolute().parts[1:]
    start = len(parts) - 1
    while start > 0 and _OF_EVERY_RUN.fullmatch(parts[start]):
        start -= 1
    return "/".join(parts[start:])


def choose_device(asked: str = "auto", *, is_needed: bool = True) -> str:
    """The best device at hand, or the one asked for if it is there; cpu if nothing computes."""
    import torch

    if not _is_device(asked):
        raise _refused(asked, "no such kind is known here", expected=_devices_here())
    if not is_needed:
        return "cpu"
    if asked in ("auto", "cuda") and torch.cuda.is_available():
        # torchrun starts one process for each GPU of the machine and tells each its number.
        place = os.environ.get("LOCAL_RANK")
        return "cuda" if place is None else f"cuda:{place}"
    if asked == "auto":
        return "mps" if torch.backends.mps.is_available() else "cpu"
    if why := _why_missing(asked):
        raise _refused(asked, why, expected=_devices_here())
    return asked


def check_device(asked: str) -> None:
    """Whether a device is written as one; nothing is loaded to say so, and no GPU is asked for."""
    if not _is_device(asked):
        raise _refused(asked, "no such kind is known here", expected=_DEVICES)


def _is_device(asked: str) -> bool:
    return re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]{1,3})?", asked) is not None


def _why_missing(asked: str) -> str:
    """Why torch cannot compute on it; empty if it can."""
    import torch

    # What torch says of a kind that it was built without is a list of all that it has.
    if asked == "mps" and not torch.backends.mps.is_available():
        has_none = "this machine has no Apple GPU that torch can use"
        return has_none if torch.backends.mps.is_built() else "torch was built without it"
    if asked.startswith("cuda:") and torch.cuda.is_available():
        count = torch.cuda.device_count()
        if int(asked.partition(":")[2]) >= count:
            return "torch finds 1 GPU" if count == 1 else f"torch finds {count} GPUs"
    try:
        torch.empty(0, device=asked)
    except (RuntimeError, AssertionError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        return first.partition(". ")[0].rstrip(".")
    return ""


def _devices_here() -> str:
    """All that can be asked for on this machine."""
    import torch

    found = ["cpu"]
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        numbered = [f"cuda:{number}" for number in range(count)]
        if count > _MOST_NAMED:
            numbered = [f"{numbered[0]} to {numbered[-1]}"]
        found += ["cuda", *numbered]
    if torch.backends.mps.is_available():
        found.append("mps")
    return f"{', '.join(found)} or auto (all that is here)"


def _refused(asked: str, why: str, *, expected: str) -> UserError:
    return UserError(
        f"the device {asked!r} cannot be used: {why}",
        expected=expected,
        way_out="--device auto takes the best one at hand",
    )


@contextmanager
def quiet_hub() -> Iterator[None]:
    """No reports of the Hugging Face hub's client; its error says it once, bars stay."""
    logging: Any = import_module("huggingface_hub.utils").logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
