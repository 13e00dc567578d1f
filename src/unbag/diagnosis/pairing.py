"""Findings of two models come in; the paired difference of each of their quantities goes out.

Dimensions: R resamples.
"""

from __future__ import annotations

from unbag.errors import UserError
from unbag.metrics.compare import compare
from unbag.metrics.intervals import percentile
from unbag.probes.finding import Finding, Options, Quantity
from unbag.types import Comparison, EvalProtocol


def differences(
    finding: Finding, other: Finding, *, names: tuple[str, str], options: Options
) -> tuple[Comparison, ...]:
    """The first minus the second, for quantities that both have and that can be paired."""
    found = []
    for mine in finding.quantities:
        theirs = other.get(mine.name)
        made = None if theirs is None else _difference(finding.probe, mine, theirs, names, options)
        if made is not None:
            found.append(made)
    return tuple(found)


def _difference(
    probe: str, mine: Quantity, theirs: Quantity, names: tuple[str, str], options: Options
) -> Comparison | None:
    if mine.outcomes is not None and theirs.outcomes is not None:
        protocol = EvalProtocol(confidence=options.confidence, resamples=options.resamples)
        try:
            # `compare` gives the second minus the first.
            return compare(
                theirs.outcomes,
                mine.outcomes,
                names=(names[1], names[0]),
                benchmark=probe,
                protocol=protocol,
                seed=options.seed,
            )
        except UserError:
            # No unit is valid for both; there is nothing to pair.
            return None
    return _by_draws(probe, mine, theirs, names, options)


def _by_draws(
    probe: str, mine: Quantity, theirs: Quantity, names: tuple[str, str], options: Options
) -> Comparison | None:
    """Resamples are drawn alike for every model, so their difference is that of one resample.

    Where one model has fewer units, places mean other units: then there is nothing to pair.
    """
    if mine.draw_R is None or theirs.draw_R is None or len(mine.draw_R) != len(theirs.draw_R):
        return None
    if mine.estimate.n != theirs.estimate.n:
        return None
    low, high, _ = percentile(mine.draw_R - theirs.draw_R, options.confidence, "paired bootstrap")
    return Comparison(
        benchmark=probe,
        metric=mine.name,
        first=names[1],
        second=names[0],
        difference=mine.estimate.value - theirs.estimate.value,
        low=low,
        high=high,
        n=mine.estimate.n,
        p_value=None,
        p_holm=None,
        test="",
        aggregate="micro",
    )
