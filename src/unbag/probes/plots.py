"""What a probe wants drawn, as plain data: a page draws it, a file keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Point:
    """A place in a scatter."""

    x: float
    y: float
    group: str = ""
    name: str = ""
    """Shown when pointed at."""


@dataclass(frozen=True)
class Scatter:
    """Points over two numbers, coloured by group."""

    title: str
    x: str
    y: str
    points: tuple[Point, ...]
    lines: tuple[tuple[str, float], ...] = ()
    """Named heights, such as a threshold."""
    about: str = ""


@dataclass(frozen=True)
class Bar:
    """A value with its interval and what is beside it."""

    name: str
    value: float
    low: float
    high: float
    chance: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Bars:
    """One bar under the other."""

    title: str
    bars: tuple[Bar, ...]
    is_rate: bool = True
    about: str = ""


@dataclass(frozen=True)
class Series:
    """Values along an axis, with intervals."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Lines:
    """Curves, such as the accuracy of a reader by layer."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    chance: float | None = None
    is_rate: bool = True
    about: str = ""


@dataclass(frozen=True)
class Grid:
    """A table of shares, such as which relation is taken for which."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    row_name: str = ""
    column_name: str = ""
    about: str = ""


@dataclass(frozen=True)
class WordMap:
    """How near each patch is to one word."""

    word: str
    values: tuple[tuple[float, ...], ...]
    """Rows of patches from the top left."""
    whole: str = ""
    """The number with all patches, in words, where the map says what one patch does to it."""


@dataclass(frozen=True)
class Maps:
    """One picture and the map of each word of a caption over its patches."""

    title: str
    picture: str
    """As a data: address."""
    caption: str
    maps: tuple[WordMap, ...]
    about: str = ""
    is_signed: bool = False
    """Whether zero is nothing, and numbers below it speak against."""
    asked: str = ""
    """What the model was asked about the picture, where it is asked."""
    when: str = ""
    """Before or after the training of a read-out, where both are shown."""


Plot: TypeAlias = Scatter | Bars | Lines | Grid | Maps
