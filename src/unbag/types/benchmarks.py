"""Benchmark definitions: loaders, metrics, errata, downloads and published numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from unbag.types.items import Item
from unbag.types.scores import MICRO, Aggregate, Metric, TieRule


@dataclass(frozen=True)
class Benchmark:
    """A test set: how to load it and which metrics measure it."""

    name: str
    about: str
    """One sentence on what a model must know to do well."""
    load: Loader
    """Load the items as the files store them."""
    metrics: tuple[Metric, ...]
    headline: str
    """The metric shown first."""
    aggregates: tuple[Aggregate, ...] = (MICRO,)
    """Averaging rules, one result each; the first is the one that papers report."""
    official_ties: TieRule | None = None
    """Tie rule of the published code; None if it is not known to differ from ours."""
    cite: str = ""
    licence: str = ""
    files: tuple[str, ...] = ()
    """Files that must be in the folder; empty for a benchmark that generates its own data."""
    folder: str = ""
    """Name of that folder if several benchmarks share one; else the benchmark's own name."""
    sources: tuple[str, ...] = ()
    """Datasets its images come from; a model trained on one of them causes a warning."""
    published: tuple[Published, ...] = ()
    errata: Errata | None = None
    load_training: Loader | None = None
    """Load the training split, for a linear probe; None if there is none."""
    size: int = 0
    """Number of items as published, with the published errata; 0 if unknown."""
    compares_captions: bool = False
    """Whether a metric also needs the similarities between captions."""
    downloads: tuple[Download, ...] = ()
    """Files that `unbag data get` downloads."""
    gated: str = ""
    """What needs an account or a form to download, and how to get it."""

    @property
    def place(self) -> str:
        """Folder of its files, relative to the folder of all benchmarks."""
        return self.folder or self.name


Loader: TypeAlias = Callable[[Path | None], Sequence[Item]]
"""Loads items from the folder of a benchmark (None if it generates its data), opening no image."""


@dataclass(frozen=True)
class Published:
    """A number from a paper, shown beside ours."""

    model: str
    metric: str
    value: float
    """A fraction."""
    source: str
    aggregate: str = ""
    """The averaging rule the paper used, where it is known."""
    scoring: str = "cosine"
    """How the scores were computed, as in `EvalProtocol`."""
    has_errata: bool = False
    """Whether the source corrected the benchmark's known label errors first."""
    digits: int = 1
    """Decimals of the printed percentage: the value is known to half a unit of the last digit."""
    note: str = ""
    """Other differences from our evaluation, such as using a sample of the items."""

    @property
    def half(self) -> float:
        """Half a unit of the last digit, as a fraction: the rounding error of the number."""
        return float(0.5 * 10.0 ** (-self.digits - 2))


@dataclass(frozen=True)
class Errata:
    """Corrections of known errors in a benchmark's files."""

    name: str
    """Short name; part of a result's key."""
    about: str
    """What is wrong in the files, who found it, and how it is corrected."""
    load: Loader
    """Load the items with the errors corrected."""
    is_published: bool = False
    """Whether papers report corrected numbers; then the errata apply unless the user declines."""


@dataclass(frozen=True)
class Download:
    """A file that can be downloaded without an account."""

    url: str
    to: str
    """Destination relative to the --data folder: sugarcrepe/add_att.json."""
    sha256: str = ""
    """Empty if unknown; then only the size is checked."""
    size: int = 0
    """Bytes; 0 if unknown."""
    unpack: str = ""
    """For an archive: the folder to unpack to, relative to --data; else empty."""
    has_images: bool = False
    """Whether it holds images: gigabytes, downloaded only if the user asks for them."""
