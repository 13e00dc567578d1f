"""What a flag is: a printed number that does not follow from the others that are printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from unbag.types import Published


@dataclass(frozen=True)
class Flag:
    """Something in a source that does not add up, found from its numbers alone."""

    source: str
    model: str
    what: str
    """Which number, and what is wrong with it."""
    found: str
    """As the source has it."""
    expected: str
    """What would follow instead."""
    concerns: tuple[Published, ...] = ()
    """The numbers of ours that are in doubt by it."""

    def __str__(self) -> str:
        """One sentence without the source."""
        return f"{self.what}: {self.found} is printed, {self.expected}"


def percent(value: Fraction, digits: int = 2) -> str:
    """A computed number, with more digits than printed ones have."""
    return f"{float(value):.{digits}f}"


def either(parts: Iterable[str]) -> str:
    """As `a, b or c`."""
    some = list(parts)
    return some[0] if len(some) == 1 else f"{', '.join(some[:-1])} or {some[-1]}"
