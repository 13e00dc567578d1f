"""A scorer that answers what a test tells it to, and items without files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unbag.data import FileImage
from unbag.types import Item, Query


class Odd:
    """Answers with a value, or with a function of the queries; counts the queries of each call."""

    fingerprint, scoring, is_blind = "odd-1", "odd", False

    def __init__(self, answer: Any = None, *, name: str = "odd") -> None:
        self.answer, self.name = answer, name
        self.asked: list[int] = []

    def score(self, queries: Sequence[Query]) -> Any:
        self.asked.append(len(queries))
        return self.answer(queries) if callable(self.answer) else self.answer


def lengths(sign: float = 1.0) -> Any:
    """The length of each caption, so that the longest wins; with -1 the shortest, with 0 none."""
    return lambda queries: [sign * len(str(query.caption)) for query in queries]


TWO = np.array([[True, False]])


def item(name: str, *captions: str, image: str = "a.jpg", truth: object = TWO) -> Item:
    return Item(name, (FileImage(Path(image)),), captions, truth)  # type: ignore[arg-type]
