"""Log-probabilities with and without the picture come in; those that M3ID decodes with go out.

Favero et al. 2024, as described in "On Erroneous Agreements", sec. 5.1. The longer the answer, the
more the language prior would take over, so the more what the picture adds is weighted.

Dimensions: N answers, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbag.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class M3ID:
    """How strongly, and when."""

    alpha: float = 0.6
    """A token more probable than this is left alone."""
    forgetting: float = 0.15
    """Lambda: how fast the picture is forgotten, per token."""
    first: int = 1
    """Number of the first step. With 0 the first token is never changed, nor then an answer of one
    letter; the paper does not say."""
    cap: float = 50.0
    """Largest weight of the difference."""

    def __post_init__(self) -> None:
        if self.alpha < 0 or self.forgetting < 0 or self.first < 0 or self.cap < 0:
            raise UserError(
                f"M3ID with alpha {self.alpha}, lambda {self.forgetting}, first step {self.first} "
                f"and cap {self.cap}",
                expected="numbers of 0 or more",
            )

    def weight(self, step: int) -> float:
        """(1 - e^-x) / e^-x = e^x - 1, x = lambda t, for the step counted from 0."""
        exponent = self.forgetting * (step + self.first)
        return min(math.expm1(min(exponent, 700.0)), self.cap)

    def __call__(self, seen_NV: Tensor, prior_NV: Tensor, step: int) -> Tensor:
        """Both log-probabilities, normalised; what comes out is not normalised again."""
        limit = math.log(self.alpha) if self.alpha > 0 else -math.inf
        doubts_N1 = seen_NV.amax(dim=-1, keepdim=True) < limit
        changed_NV = seen_NV + self.weight(step) * (seen_NV - prior_NV)
        return changed_NV.where(doubts_N1, seen_NV)
