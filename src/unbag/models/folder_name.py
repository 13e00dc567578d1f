"""The folder of a model comes in; what a table calls the model goes out."""

from __future__ import annotations

import re
from pathlib import Path

_OF_EVERY_RUN = re.compile(
    r"open_clip|transformers|exports?|hf|models?|final|best|last|latest"
    r"|(checkpoint|ckpt|epoch|step)s?([-_]?\d+)?",
    re.IGNORECASE,
)
"""Folders of an export, one for each library, and of a trainer: every run has them, so they name no
model."""


def folder_name(folder: Path) -> str:
    """Its last part, with as many before it as it takes until one is not of every run."""
    parts = folder.absolute().parts[1:]
    start = len(parts) - 1
    while start > 0 and _OF_EVERY_RUN.fullmatch(parts[start]):
        start -= 1
    return "/".join(parts[start:])
