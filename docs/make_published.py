"""Writes the lists of docs/published.md anew, from the code: `python docs/make_published.py`."""

from __future__ import annotations

from pathlib import Path

from unbag.published.checks import as_markdown
from unbag_lab.pages.marked import renewed

PAGE = Path(__file__).parent / "published.md"


def renewed(page: str) -> str:
    """The page with its lists as the code finds them now."""
    return renewed(page, {"flags": as_markdown()})


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
