"""Weights that ship: files of the tool, and of installed packages such as the study (unbag-lab)."""

from __future__ import annotations

from pathlib import Path

from unbag.registry import has_study, weight_folders

WEIGHTS = Path(__file__).parent / "weights"
"""Those of the tool itself."""


def find_shipped(name: str) -> Path | None:
    """A shipped file or folder by its name; None if no installed package has it."""
    places = (folder / name for folder in weight_folders())
    return next((place for place in places if place.exists()), None)


def shipped_like(pattern: str) -> list[Path]:
    """All shipped files whose names match, in the order of their names."""
    found = [path for folder in weight_folders() for path in folder.glob(pattern)]
    return sorted(found, key=lambda path: path.name)


def more_ships() -> str:
    """A hint for messages: that the study brings more weights, where it is not installed."""
    return "" if has_study() else "; more ships with the study: pip install ./lab in a clone"
