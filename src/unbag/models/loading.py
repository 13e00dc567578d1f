"""Models by name or folder, and the device they compute on."""

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
        raise UnbagError(
            f"{name} is a file of weights, and nothing says of which architecture",
            expected="a kind before it",
            hint=f"open_clip:ARCH@{name}, such as open_clip:ViT-B-32@{name}",
        )
    if not folder.is_dir():
        return name
    for place in (folder, folder / "export"):
        record = place / RECORD
        if not record.is_file():
            continue
        try:
            folders = json.loads(record.read_text(encoding="utf-8"))["folders"]
            below, said = next(iter(folders.items()))
            return name_of_form(said["library"], f"{place}/{below}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
            raise UnbagError(
                f"{record} cannot be read: {error!r}",
                expected="the record that `unbag export` writes",
            ) from error
    raise UnbagError(
        f"the folder {folder} holds no {RECORD}",
        expected="a finished training run or an export",
        hint="finish it with the command it was begun with; a folder of another library has a "
        f"prefix, such as hf: or open_clip:local-dir:; a read-out is --scorer NAME@{folder}",
    )


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

    check_device(asked, expected=_devices_here)
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


def check_device(asked: str, *, expected: Callable[[], str] = lambda: _DEVICES) -> None:
    """Whether a device is written as one; nothing is loaded to say so, and no GPU is asked for."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]{1,3})?", asked):
        raise _refused(asked, "no such kind is known here", expected=expected())


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


def _refused(asked: str, why: str, *, expected: str) -> UnbagError:
    return UnbagError(
        f"the device {asked!r} cannot be used: {why}",
        expected=expected,
        hint="--device auto takes the best one at hand",
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


Model = DualEncoder | Generator | Scorer
Dtype = Literal["auto", "float32", "bfloat16", "float16"]


def as_dual_encoder(model: Model, message: str, *, hint: str = "") -> DualEncoder:
    """The model, if it embeds images and captions; else an error with this message."""
    if isinstance(model, DualEncoder):
        return model
    raise UnbagError(
        message,
        expected="a dual encoder, such as tiny:base or open_clip:ViT-B-32/openai",
        hint=hint,
    )


@dataclass(frozen=True)
class Placement:
    """Where and how a model computes. A loader is given what it has a parameter for."""

    device: str = "cpu"
    dtype: Dtype = "auto"
    """auto: float32 for vectors, since benchmarks turn on differences of a thousandth; bfloat16 for
    chat models on a GPU that has it."""
    compiles: bool = False
    """Compile the model with torch.compile: slow to start, then faster."""
    cache: Path | None = None
    """Where replies of servers are kept; None keeps them in memory only."""
    concurrency: int = 8
    """Requests to a server at a time."""
    budget: int | None = None
    """Most requests to a server."""

    def arguments(self, loader: Callable[..., object], spec: str) -> dict[str, object]:
        """What this loader asks for; a choice it cannot follow is an error, not ignored."""
        known = signature(loader).parameters
        if "dtype" not in known and self.dtype not in ("auto", "float32"):
            raise UnbagError(
                f"the model {spec!r} cannot compute in {self.dtype}",
                expected="float32, as it always does",
                hint="leave --dtype out",
            )
        if "compiles" not in known and self.compiles:
            raise UnbagError(f"the model {spec!r} cannot be compiled", hint="leave --compile out")
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in given.items() if name in known}


def needs_device(spec: str) -> bool:
    """False for a model behind a server and for rules on captions, which compute nothing here."""
    kind, _, rest = spec.partition(":")
    return kind != "server" and not (kind == "caption" and ":" not in rest)


def load_model(spec: str, *, device: str = "cpu", placement: Placement | None = None) -> Model:
    """`kind:rest` for a registered kind, else a folder, a registered name or package.module:NAME.

    A folder is that of a training run or an export; the first form of its model is loaded.
    NAME may be a model, or a class or function that makes one; it gets the device, the dtype and
    whether to compile if it asks.
    """
    placement = placement or Placement(device)
    kind, _, rest = spec.partition(":")
    if kind in names("model"):
        loader = find("model", kind)
        if not callable(loader):
            return _checked_model(spec, loader)
        return _checked_model(spec, loader(rest, **placement.arguments(loader, spec)))
    if (named := model_name(spec)) != spec:
        return load_model(named, placement=placement)
    thing = find("model", spec)
    is_ready = isinstance(thing, DualEncoder | Generator | Scorer) and not isinstance(thing, type)
    if is_ready or not callable(thing):
        return _checked_model(spec, thing)
    return _checked_model(spec, thing(**placement.arguments(thing, spec)))


def _checked_model(spec: str, thing: object) -> Model:
    if isinstance(thing, DualEncoder | Generator | Scorer):
        return thing
    raise UnbagError(
        f"the model {spec!r} is a {type(thing).__name__}",
        expected="a dual encoder, a generator or a scorer (see unbag.types)",
        hint="docs/extending.md shows the few methods each needs",
    )
