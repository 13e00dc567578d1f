"""What a metric means, in words: a record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Definition:
    """A metric in words, for the report and the documentation."""

    name: str
    title: str
    meaning: str
    """One sentence without formulas."""
    formula: str
    chance: str
    """Credit of random scores, in words or as a fraction; empty where there is no such level."""
