"""Warnings during a command come in; plain lines on stderr go out."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def plain_warnings() -> Iterator[None]:
    """What is said, without the line of our code that said it."""
    with warnings.catch_warnings():
        warnings.showwarning = _show
        yield


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"unbag: {message}", file=sys.stderr if file is None else file)
