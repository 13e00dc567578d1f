"""An arm with thresholds comes in; what their curves say goes out, as numbers of its result.

Dimensions: S steps, K kinds of negatives.
"""

from __future__ import annotations

from math import ceil

from unbag.lab.repair_training import Arm
from unbag.training.losses import UPPER

THRESHOLD = "threshold-"
"""Begins the name under which the curve of a kind of negatives is kept."""
SHARES = (1, 2, 5, 10, 20, 40, 60, 80, 100)
"""Of the steps, in percent, after which a threshold is kept."""
HALF = 0.5
"""Of the largest threshold of the paper: where a threshold counts as risen."""


def curve_numbers(arm: Arm) -> dict[str, dict[str, float]]:
    """By kind of negatives: the threshold after shares of the steps, and how early it rose.

    In units of the paper's bound, so that 1 is the largest that it allows.
    """
    if arm.threshold_K is None:
        return {}
    curve_SK = arm.curve_SK.cpu() / UPPER
    kinds = [slot.name for slot in arm.recipe.negatives]
    return {
        f"{THRESHOLD}{kind}": _of_one(curve_SK[:, at].tolist()) for at, kind in enumerate(kinds)
    }


def _of_one(curve: list[float]) -> dict[str, float]:
    after = {f"{share}%": curve[ceil(share * len(curve) / 100) - 1] for share in SHARES}
    risen = next((step for step, value in enumerate(curve) if value >= HALF), len(curve))
    return {
        **after,
        "mean": sum(curve) / len(curve),
        "largest": max(curve),
        "waited": risen / len(curve),
    }
