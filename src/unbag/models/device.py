"""A device as a user writes it comes in; the one to compute on goes out."""

from __future__ import annotations

import os
import re

from unbag.errors import UserError

_FORMS = "cpu, cuda, cuda:1, mps or auto"
_MOST_NAMED = 4
"""GPUs that a message names one by one."""


def choose_device(asked: str = "auto", *, is_needed: bool = True) -> str:
    """The best device at hand, or the one asked for if it is there; cpu if nothing computes."""
    import torch

    if not _is_written(asked):
        raise _refused(asked, "no such kind is known here", expected=_here())
    if not is_needed:
        return "cpu"
    if asked in ("auto", "cuda") and torch.cuda.is_available():
        # torchrun starts one process for each GPU of the machine and tells each its number.
        place = os.environ.get("LOCAL_RANK")
        return "cuda" if place is None else f"cuda:{place}"
    if asked == "auto":
        return "mps" if torch.backends.mps.is_available() else "cpu"
    if why := _missing(asked):
        raise _refused(asked, why, expected=_here())
    return asked


def check_device(asked: str) -> None:
    """Whether a device is written as one; nothing is loaded to say so, and no GPU is asked for."""
    if not _is_written(asked):
        raise _refused(asked, "no such kind is known here", expected=_FORMS)


def _is_written(asked: str) -> bool:
    return re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]{1,3})?", asked) is not None


def _missing(asked: str) -> str:
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


def _here() -> str:
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
