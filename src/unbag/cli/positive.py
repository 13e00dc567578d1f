"""A word on the command line comes in; a number above 0, or not below it, goes out."""

from __future__ import annotations

import argparse
from contextlib import suppress
from math import isfinite


def positive(text: str) -> int:
    """For `type=` of an option."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def not_negative(text: str) -> int:
    """The same with 0."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def minutes(text: str) -> float:
    """Of a clock: any number, 0 or more."""
    with suppress(ValueError):
        if isfinite(found := float(text)) and found >= 0:
            return found
    raise argparse.ArgumentTypeError(f"{text!r} is not a number, 0 or more")
