"""The folder of a model comes in; what a table calls the model goes out."""

from __future__ import annotations

from pathlib import Path

FORMS = ("open_clip", "transformers")
"""Folders of an export, one for each library: every export has them, so they name no model."""


def folder_name(folder: Path) -> str:
    """Its last part, with the one before it where the last is that of a library."""
    whole = folder.absolute()
    is_form = whole.name in FORMS and whole.parent.name
    return f"{whole.parent.name}/{whole.name}" if is_form else whole.name
