"""Cases whose options were shown in both orders come in; choices, and shares of them, go out.

Dimensions: N pictures, O = 2 orders of the options, C = 2 captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.metrics.ties import credit
from unbag.types import BoolArray, Case, FloatArray


@dataclass(frozen=True, eq=False)
class Choices:
    """What was chosen about N pictures."""

    log_NOC: FloatArray
    """Log-probability of each caption's letter in each order; NaN where nothing was answered."""
    true_NC: BoolArray
    units: tuple[str, ...]
    clusters: tuple[str, ...]

    def __len__(self) -> int:
        """Pictures."""
        return len(self.units)


def choices_of(cases: Sequence[Case]) -> Choices:
    """Each picture of each item with two captions."""
    nothing_OC = np.full((2, 2), np.nan)
    logs, truths, units, clusters = [], [], [], []
    for item, scores in cases:
        given = np.array(scores.order_logprobs).reshape(-1, 2, 2)
        for at in range(len(item.pictures)):
            logs.append(given[at] if len(given) else nothing_OC)
            truths.append(np.asarray(item.truth)[at])
            units.append(f"{item.id}/picture {at}")
            clusters.append(item.group or item.id)
    return Choices(
        np.array(logs).reshape(-1, 2, 2),
        np.array(truths, dtype=np.bool_).reshape(-1, 2),
        tuple(units),
        tuple(clusters),
    )


def right_choice(log_NOC: FloatArray, true_NC: BoolArray) -> FloatArray:
    """1 where the true caption is likelier over both orders, 1/2 for a tie: it is a guess."""
    # Sorted, since a sum in another order ends in other digits, and breaks an exact tie.
    score_NC = np.sort(log_NOC, axis=1).mean(axis=1)
    return credit(score_NC, true_NC, ties="half").credit_N


def same_choice(log_NOC: FloatArray, blind_NOC: FloatArray) -> FloatArray:
    """Share of orders in which the second chooses what the first does, picture by picture.

    A tie on either side is a coin that agrees half of the time. NaN where a value is none.
    """
    same_N: FloatArray = (0.5 + 0.5 * _signs(log_NOC) * _signs(blind_NOC)).mean(axis=1)
    return same_N


def first_letter(log_NOC: FloatArray) -> FloatArray:
    """Share of orders in which the option shown first is chosen; a tie counts half.

    In the second order it is the second caption that comes first.
    """
    chosen_N: FloatArray = (0.5 + 0.5 * _signs(log_NOC) * np.array([1.0, -1.0])).mean(axis=1)
    return chosen_N


def _signs(log_NOC: FloatArray) -> FloatArray:
    """1 where the first caption is chosen, -1 where the second is, 0 for a tie."""
    with np.errstate(invalid="ignore"):
        found_NO: FloatArray = np.sign(log_NOC[..., 0] - log_NOC[..., 1])
    return found_NO
