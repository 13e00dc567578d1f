"""Shipped weights of the tool and of installed packages such as the study (unbag-lab)."""

from __future__ import annotations

from pathlib import Path

from unbag.registry import has_study, weight_folders

WEIGHTS = Path(__file__).parent / "weights"
"""Weights of the tool itself."""


def find_shipped(name: str) -> Path | None:
    """Find a shipped file or folder by name; None if no installed package has it."""
    paths = (folder / name for folder in weight_folders())
    return next((path for path in paths if path.exists()), None)


def shipped_like(pattern: str) -> list[Path]:
    """List shipped files whose names match a pattern, sorted by name."""
    paths = [path for folder in weight_folders() for path in folder.glob(pattern)]
    return sorted(paths, key=lambda path: path.name)


def more_ships() -> str:
    """Return a hint that the study has more weights; empty if it is installed."""
    return "" if has_study() else "; more ships with the study: pip install ./lab in a clone"
