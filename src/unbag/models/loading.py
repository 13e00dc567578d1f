"""Loading of models by name or folder, and choice of their device."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from unbag.errors import UnbagError
from unbag.registry import find, names
from unbag.types import DualEncoder, Generator, Scorer

RECORD = "unbag.json"
"""File in the folder of an export that lists its forms."""
_PREFIXES = {"open_clip": "open_clip:local-dir:", "transformers": "hf:"}
"""Prefix of a model name by library; our own forms are named by their kind."""
_WEIGHT_FILES = (".pt", ".pth", ".bin", ".ckpt", ".safetensors")
_GENERIC_FOLDERS = re.compile(
    r"open_clip|transformers|exports?|hf|models?|final|best|last|latest"
    r"|(checkpoint|ckpt|epoch|step)s?([-_]?\d+)?",
    re.IGNORECASE,
)
"""Folders that exports and trainers create in every run, so they do not identify a model."""
_DEVICES = "cpu, cuda, cuda:1, mps or auto"
_MAX_LISTED = 4
"""Number of GPUs that a message lists individually."""


def model_name(name: str) -> str:
    """Return the name of the first exported form in a folder; other names are returned unchanged.

    The export of a training run is in its folder `export`.
    """
    folder = Path(name).expanduser()
    if folder.suffix in _WEIGHT_FILES and folder.is_file():
        raise UnbagError(
            f"{name} is a file of weights of an unknown architecture",
            expected="a kind of model before it",
            hint=f"open_clip:ARCH@{name}, such as open_clip:ViT-B-32@{name}",
        )
    if not folder.is_dir():
        return name
    for export in (folder, folder / "export"):
        record = export / RECORD
        if not record.is_file():
            continue
        try:
            folders = json.loads(record.read_text(encoding="utf-8"))["folders"]
            subfolder, form = next(iter(folders.items()))
            return name_of_form(form["library"], f"{export}/{subfolder}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
            raise UnbagError(
                f"{record} cannot be read: {error!r}",
                expected="the record that `unbag export` writes",
            ) from error
    raise UnbagError(
        f"the folder {folder} holds no {RECORD}",
        expected="a finished training run or an export",
        hint="resume the run with its command; a folder of another library has a prefix, such as "
        f"hf: or open_clip:local-dir:; a read-out is --scorer NAME@{folder}",
    )


def name_of_form(library: str, path: str) -> str:
    """Return the name of an exported form for `--model`."""
    return _PREFIXES.get(library, f"{library}:") + path


def folder_name(folder: Path) -> str:
    """Return the end of the path, from the last folder that is not generic."""
    parts = folder.absolute().parts[1:]
    start = len(parts) - 1
    while start > 0 and _GENERIC_FOLDERS.fullmatch(parts[start]):
        start -= 1
    return "/".join(parts[start:])


def choose_device(device: str = "auto", *, is_needed: bool = True) -> str:
    """Return the requested device if available, or the best one; cpu if no device is needed."""
    import torch

    check_device(device, expected=_available_devices)
    if not is_needed:
        return "cpu"
    if device in ("auto", "cuda") and torch.cuda.is_available():
        # torchrun starts one process per GPU and sets its local rank.
        local_rank = os.environ.get("LOCAL_RANK")
        return "cuda" if local_rank is None else f"cuda:{local_rank}"
    if device == "auto":
        return "mps" if torch.backends.mps.is_available() else "cpu"
    if problem := _device_problem(device):
        raise _device_error(device, problem, expected=_available_devices())
    return device


def check_device(device: str, *, expected: Callable[[], str] = lambda: _DEVICES) -> None:
    """Raise UnbagError unless the name has the form of a device; no library is loaded."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]{1,3})?", device):
        raise _device_error(device, "no such kind is known here", expected=expected())


def _device_problem(device: str) -> str:
    """Return why torch cannot use the device; empty if it can."""
    import torch

    # The error of torch for a missing backend is a list of all backends.
    if device == "mps" and not torch.backends.mps.is_available():
        no_gpu = "this machine has no Apple GPU that torch can use"
        return no_gpu if torch.backends.mps.is_built() else "torch was built without it"
    if device.startswith("cuda:") and torch.cuda.is_available():
        count = torch.cuda.device_count()
        if int(device.partition(":")[2]) >= count:
            return "torch finds 1 GPU" if count == 1 else f"torch finds {count} GPUs"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        return line.partition(". ")[0].rstrip(".")
    return ""


def _available_devices() -> str:
    """List the devices of this machine."""
    import torch

    devices = ["cpu"]
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        numbered = [f"cuda:{number}" for number in range(count)]
        if count > _MAX_LISTED:
            numbered = [f"{numbered[0]} to {numbered[-1]}"]
        devices += ["cuda", *numbered]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return f"{', '.join(devices)} or auto (all that is here)"


def _device_error(device: str, reason: str, *, expected: str) -> UnbagError:
    return UnbagError(
        f"the device {device!r} cannot be used: {reason}",
        expected=expected,
        hint="--device auto takes the best one at hand",
    )


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Silence log messages of the Hugging Face hub client; progress bars stay."""
    logging: Any = import_module("huggingface_hub.utils").logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)


Model = DualEncoder | Generator | Scorer
Dtype = Literal["auto", "float32", "bfloat16", "float16"]


def as_dual_encoder(model: Model, message: str, *, hint: str = "") -> DualEncoder:
    """Return the model if it is a dual encoder; otherwise raise an error with this message."""
    if isinstance(model, DualEncoder):
        return model
    raise UnbagError(
        message,
        expected="a dual encoder, such as tiny:base or open_clip:ViT-B-32/openai",
        hint=hint,
    )


@dataclass(frozen=True)
class Placement:
    """Device, precision and server options. A loader gets those that it has parameters for."""

    device: str = "cpu"
    dtype: Dtype = "auto"
    """auto is float32 for vectors, since results depend on differences of a thousandth, and
    bfloat16 for chat models on a GPU."""
    compiles: bool = False
    """Whether to compile the model with torch.compile: slow to start, then faster."""
    cache: Path | None = None
    """Folder for the cache of server replies; None caches in memory only."""
    concurrency: int = 8
    """Number of parallel requests to a server."""
    budget: int | None = None
    """Maximum number of requests to a server."""

    def arguments(self, loader: Callable[..., object], spec: str) -> dict[str, object]:
        """Return the arguments of a loader; an option that it does not support is an error."""
        parameters = signature(loader).parameters
        if "dtype" not in parameters and self.dtype not in ("auto", "float32"):
            raise UnbagError(
                f"the model {spec!r} cannot compute in {self.dtype}",
                expected="float32, its only precision",
                hint="leave --dtype out",
            )
        if "compiles" not in parameters and self.compiles:
            raise UnbagError(f"the model {spec!r} cannot be compiled", hint="leave --compile out")
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in options.items() if name in parameters}


def needs_device(spec: str) -> bool:
    """Return False for models on a server and for rules on captions, which need no device."""
    kind, _, rest = spec.partition(":")
    return kind != "server" and not (kind == "caption" and ":" not in rest)


def load_model(spec: str, *, device: str = "cpu", placement: Placement | None = None) -> Model:
    """Load `kind:rest` of a registered kind, a folder, a registered name or package.module:NAME.

    A folder is of a training run or an export; the first form of its model is loaded. NAME may be
    a model, or a class or function that makes one. It gets the options of `placement` that it has
    parameters for.
    """
    placement = placement or Placement(device)
    kind, _, rest = spec.partition(":")
    if kind in names("model"):
        loader = find("model", kind)
        if not callable(loader):
            return _checked_model(spec, loader)
        return _checked_model(spec, loader(rest, **placement.arguments(loader, spec)))
    if (resolved := model_name(spec)) != spec:
        return load_model(resolved, placement=placement)
    target = find("model", spec)
    is_ready = isinstance(target, DualEncoder | Generator | Scorer) and not isinstance(target, type)
    if is_ready or not callable(target):
        return _checked_model(spec, target)
    return _checked_model(spec, target(**placement.arguments(target, spec)))


def _checked_model(spec: str, model: object) -> Model:
    if isinstance(model, DualEncoder | Generator | Scorer):
        return model
    raise UnbagError(
        f"the model {spec!r} is a {type(model).__name__}",
        expected="a dual encoder, a generator or a scorer (see unbag.types)",
        hint="docs/how-to/extend.md lists the methods of each",
    )
