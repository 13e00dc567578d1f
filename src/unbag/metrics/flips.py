"""Items whose options were shown in several orders come in; `order_flip` goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.metrics.cases import Judged, outcomes
from unbag.types import Case, Outcomes, TieRule


@dataclass(frozen=True)
class Flips:
    """Does the choice change when the options change places? One unit a picture.

    Only where a scorer kept log-probabilities of each order; a tie for the first place in one order
    counts as a change, since then no option was chosen.
    """

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every picture with several orders."""
        units, clusters, tags, values, tied = [], [], [], [], []
        for case in cases:
            rows, pictures = case.scores.order_logprobs, len(case.item.pictures)
            if not rows:
                continue
            log_POC = np.array(rows, dtype=np.float64).reshape(pictures, -1, len(rows[0]))
            for p, log_OC in enumerate(log_POC):
                top_OC = log_OC >= log_OC.max(axis=1, keepdims=True) - tie_eps
                is_tied = bool((top_OC.sum(axis=1) > 1).any())
                is_same = not is_tied and len(set(log_OC.argmax(axis=1).tolist())) == 1
                units.append(f"{case.item.id}/picture {p}")
                clusters.append(case.item.group or case.item.pictures[0].key)
                tags.append(case.item.tags)
                finite = bool(np.isfinite(log_OC).all())
                values.append(float(not is_same) if finite else np.nan)
                tied.append(is_tied and finite)
        judged = Judged(
            units=units,
            clusters=clusters,
            tags=tags,
            unparsed=[0] * len(units),
            value_U=np.array(values, dtype=np.float64),
            tie_U=np.array(tied, dtype=np.bool_),
            chance_U=np.full(len(units), np.nan),
        )
        return [outcomes("order_flip", [judged])]


def has_orders(cases: Sequence[Case]) -> bool:
    """Whether there is anything to judge."""
    return any(case.scores.order_logprobs for case in cases)
