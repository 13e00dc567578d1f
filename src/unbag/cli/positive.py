"""A word on the command line comes in; a whole number above 0, or not below it, goes out."""

from __future__ import annotations

import argparse


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
