"""A benchmark as a value: its loader and metrics, errata, downloads and published numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from unbag.types.items import Item
from unbag.types.scores import MICRO, Aggregate, Metric, TieRule


@dataclass(frozen=True)
class Benchmark:
    """A test set as a value: how to load it and how it is judged."""

    name: str
    about: str
    """One sentence: what a model must know to do well."""
    load: Loader
    """The items as the files have them."""
    metrics: tuple[Metric, ...]
    headline: str
    """The metric shown first."""
    aggregates: tuple[Aggregate, ...] = (MICRO,)
    """The first is the one the field publishes; each gives a result of its own."""
    official_ties: TieRule | None = None
    """The tie rule of the public code, for parity; None: no other rule than ours is known."""
    cite: str = ""
    licence: str = ""
    files: tuple[str, ...] = ()
    """What must be in the folder; empty for a benchmark that makes its own data."""
    folder: str = ""
    """Name of that folder, where several benchmarks share one; else the benchmark's own name."""
    sources: tuple[str, ...] = ()
    """Where its images come from; a model trained on one of them deserves a warning."""
    published: tuple[Published, ...] = ()
    errata: Errata | None = None
    load_training: Loader | None = None
    """Its training split, for a linear probe; None where it has none."""
    size: int = 0
    """Items as published, with its errata as published; 0 where that is not known."""
    compares_captions: bool = False
    """Some metric also needs the similarity of captions to each other."""
    downloads: tuple[Download, ...] = ()
    """What `unbag data get` fetches."""
    gated: str = ""
    """What cannot be fetched without an account or a form, and how to get it."""

    @property
    def place(self) -> str:
        """The folder of its files, below the one that holds all benchmarks."""
        return self.folder or self.name


Loader: TypeAlias = Callable[[Path | None], Sequence[Item]]
"""Takes the folder of a benchmark (None if it makes its own data); opens no image."""


@dataclass(frozen=True)
class Published:
    """A number from a paper, to stand beside ours."""

    model: str
    metric: str
    value: float
    """A fraction."""
    source: str
    aggregate: str = ""
    """The averaging rule the paper used, where it is known."""
    scoring: str = "cosine"
    """How the number was had from the model, as in `EvalProtocol`."""
    has_errata: bool = False
    """The source mended the benchmark's known label errors first."""
    digits: int = 1
    """Decimals of the percentage as it was printed: it is known to half a unit of the last."""
    note: str = ""
    """What else the source did otherwise than we do, such as drawing a sample."""

    @property
    def half(self) -> float:
        """Half a unit of the last digit, as a fraction: the number may be off by this much."""
        return float(0.5 * 10.0 ** (-self.digits - 2))


@dataclass(frozen=True)
class Errata:
    """Known errors of a benchmark's files, mended."""

    name: str
    """Short; it becomes part of a result's key."""
    about: str
    """What is wrong in the files and how it is mended, with who found it."""
    load: Loader
    """As the benchmark's own, with the errors mended."""
    is_published: bool = False
    """The field's numbers have them mended, so they are mended unless the user says otherwise."""


@dataclass(frozen=True)
class Download:
    """A file that anyone may fetch."""

    url: str
    to: str
    """Where it goes, below the folder that --data names: sugarcrepe/add_att.json."""
    sha256: str = ""
    """Empty where the source publishes none and none could be computed; then size is checked."""
    size: int = 0
    """Bytes; 0 where it is not known."""
    unpack: str = ""
    """For an archive: the folder, below that of --data, its members go to; else empty."""
    has_images: bool = False
    """Images are gigabytes: they are fetched only where the user asks for them."""
