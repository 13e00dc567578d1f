"""From a benchmark and a choice to its loader: errors mended as published, all of them, or none."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from unbag.types import Benchmark, EvalProtocol, Loader

ErrataChoice = Literal["published", "none", "all"]
"""`published` mends what the field's numbers have mended (VALSE's rejected rows), `none` takes the
files as they are, `all` mends every known error."""


def errata_name(benchmark: Benchmark, choice: ErrataChoice) -> str:
    """Name of what is mended; empty if nothing is."""
    errata = benchmark.errata
    if errata is None or choice == "none" or (choice == "published" and not errata.is_published):
        return ""
    return errata.name


def loader_of(benchmark: Benchmark, choice: ErrataChoice) -> Loader:
    """The load function that follows the choice."""
    if benchmark.errata is None or not errata_name(benchmark, choice):
        return benchmark.load
    return benchmark.errata.load


def protocol_of(benchmark: Benchmark, protocol: EvalProtocol, choice: ErrataChoice) -> EvalProtocol:
    """The protocol with the name of what is mended in this benchmark."""
    return replace(protocol, errata=errata_name(benchmark, choice))
