"""Numbers come in; where they lie along an axis, and round numbers to write beside it, go out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

LEAST = 1e-6
"""Shortest axis, so that equal numbers can be drawn."""
ROOM = 0.06
"""Free part of the axis at each end."""


@dataclass(frozen=True)
class Axis:
    """From values to a part of the way, 0 to 1."""

    low: float
    high: float
    is_rate: bool = False
    """Written as percent."""

    @classmethod
    def over(cls, values: Iterable[float], *, is_rate: bool = False) -> Axis:
        """Holds all finite values, with room at both ends."""
        known = [value for value in values if isfinite(value)] or [0.0, 1.0]
        low, high = min(known), max(known)
        wide = max(high - low, LEAST, 0.02 * abs(high))
        room = wide * ROOM + (wide - (high - low)) / 2
        return cls(low - room, high + room, is_rate)

    @classmethod
    def of_rates(cls, values: Iterable[float]) -> Axis:
        """From 0 to 1, unless something lies outside."""
        known = [value for value in values if isfinite(value)]
        if all(0 <= value <= 1 for value in known):
            return cls(0.0, 1.0, is_rate=True)
        return cls.over([*known, 0.0, 1.0], is_rate=True)

    def part(self, value: float) -> float:
        """Where a value lies; what is off the axis lies at its end."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def place(self, value: float) -> str:
        """The same as a percentage, for SVG."""
        return f"{100 * self.part(value):.2f}%"

    def ticks(self) -> list[float]:
        """Four to seven round numbers."""
        rough = (self.high - self.low) / 6
        size = 10.0 ** floor(log10(rough))
        step = next(size * k for k in (1, 2, 2.5, 5, 10) if size * k >= rough * 0.999)
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]

    def text(self, tick: float) -> str:
        """A tick as people read it; no minus before a zero."""
        shown = 100 * tick if self.is_rate else tick
        wide = (self.high - self.low) * (100 if self.is_rate else 1)
        digits = max(0, 1 - floor(log10(wide / 6)))
        written = f"{shown:.{digits}f}"
        # As few digits as tell the ticks apart.
        written = written.rstrip("0").rstrip(".") if "." in written else written
        return "0" if written in ("-0", "") else written
