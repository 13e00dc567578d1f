"""Definitions of the metrics (meaning, formula, chance level), read from definitions.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Definition:
    """The definition of a metric, for reports and documentation."""

    name: str
    title: str
    meaning: str
    """One sentence without formulas."""
    formula: str
    chance: str
    """Credit of random scores, in words or as a fraction; empty if there is no such level."""


def recall_definition(name: str) -> Definition:
    """The definition of text_to_image@k or image_to_text@k for any k."""
    direction, _, k = name.partition("@")
    query, target = ("caption", "image") if direction == "text_to_image" else ("image", "caption")
    return Definition(
        name,
        f"{direction.replace('_', ' ').capitalize()} R@{k}",
        f"Share of {query}s for which a true {target} is among the {k} best-scored ones, with "
        "ties counted against the model.",
        f"1 + false candidates at or above s(true) <= {k}",
        f"{k} / gallery for one true {target}; 1 - C(n-m,{k})/C(n,{k}) for m of n",
    )


class _Definitions(Mapping[str, Definition]):
    """Definitions by name; the file is read on first access."""

    def __getitem__(self, name: str) -> Definition:
        return _definitions()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_definitions())

    def __len__(self) -> int:
        return len(_definitions())


DEFINITIONS: Mapping[str, Definition] = _Definitions()
"""Every metric by name."""


@cache
def _definitions() -> dict[str, Definition]:
    path = Path(__file__).with_suffix(".toml")
    listed = tomllib.loads(path.read_text(encoding="utf-8"))
    definitions = {name: Definition(name, **fields) for name, fields in listed.items()}
    for direction in ("text_to_image", "image_to_text"):
        for k in (1, 5, 10):
            definitions[f"{direction}@{k}"] = recall_definition(f"{direction}@{k}")
    return definitions
