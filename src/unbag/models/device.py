"""A device as a user writes it comes in; the one to compute on goes out."""

from __future__ import annotations

import os
import re

from unbag.errors import UserError


def choose_device(asked: str = "auto", *, is_needed: bool = True) -> str:
    """The best device at hand, or the one asked for if it is there; cpu if nothing computes."""
    check_device(asked)
    import torch

    if not is_needed:
        return "cpu"
    if asked in ("auto", "cuda") and torch.cuda.is_available():
        # torchrun starts one process for each GPU of the machine and tells each its number.
        place = os.environ.get("LOCAL_RANK")
        return "cuda" if place is None else f"cuda:{place}"
    if asked == "auto":
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(0, device=asked)
    except (RuntimeError, AssertionError) as error:
        raise UserError(
            f"the device {asked!r} cannot be used: {str(error).splitlines()[0]}",
            expected="cpu, cuda, cuda:1, mps or auto",
            way_out="--device auto takes the best one at hand",
        ) from error
    return asked


def check_device(asked: str) -> None:
    """Whether a device is written as one; nothing is loaded to say so."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:[0-9]{1,3})?", asked):
        raise UserError(
            f"the device {asked!r} cannot be used: no such kind is known here",
            expected="cpu, cuda, cuda:1, mps or auto",
            way_out="--device auto takes the best one at hand",
        )
