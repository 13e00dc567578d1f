"""Numbers of several bases come in; their mean and its interval go out."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan, sqrt
from statistics import fmean, stdev


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half of its 95 % interval by Student's t; NaN for one value."""
    if len(values) == 1:
        return values[0], nan
    # Not scipy.stats, which takes a second and a half longer to import.
    from scipy.special import stdtrit

    return fmean(values), float(stdtrit(len(values) - 1, 0.975)) * standard_error(values)


def standard_error(values: Sequence[float]) -> float:
    """Of the mean."""
    return stdev(values) / sqrt(len(values))
