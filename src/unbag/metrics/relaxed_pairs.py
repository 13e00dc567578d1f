"""Pairs of pictures and captions come in, as one item or as two; the outcome `relaxed` goes out.

Dimensions: N pairs, 2 pictures, 2 captions; picture k belongs to caption k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from unbag.metrics.cases import Judged, outcomes, score_cells
from unbag.metrics.chance import CHANCE
from unbag.metrics.groups import is_matching
from unbag.metrics.pairs import Pairs
from unbag.metrics.relaxed import Form, relaxed_margin
from unbag.metrics.ties import credit
from unbag.types import BoolArray, Case, FloatArray, Metric, Outcomes, Sparse, TieRule


@dataclass(frozen=True)
class _Pair:
    """Scores of a pair, its pictures and captions in the same order."""

    unit: str
    cluster: str
    cases: tuple[Case, ...]
    score_22: FloatArray


@dataclass(frozen=True)
class Relaxed:
    """Is the right assignment preferred to the crossed one as a whole (Winoground, MMVP)?

    2 x 2 items, and two one-picture items of a group that have the same two captions and opposite
    truths. Groups of another make-up ask something else and are left out.
    """

    form: Form = "additive"
    """`ratio` for probabilities; see metrics.relaxed."""

    def __call__(
        self, cases: Sequence[Case], *, ties: TieRule, tie_eps: float
    ) -> Sequence[Outcomes]:
        """Judge every pair."""
        pairs = [*_items(cases), *_groups(cases)]
        if not pairs:
            return [outcomes("relaxed", [])]
        score_N22 = np.array([pair.score_22 for pair in pairs])
        valid_N: BoolArray = np.all(np.isfinite(score_N22), axis=(1, 2))
        margin_N = relaxed_margin(np.where(valid_N[:, None, None], score_N22, 0.0), self.form)
        margin_N = np.where(valid_N, margin_N, np.nan)
        rival_N2 = np.stack([margin_N, np.where(np.isnan(margin_N), np.nan, 0.0)], axis=1)
        straight_N2 = np.broadcast_to(np.array([True, False]), rival_N2.shape)
        credit_N, tie_N = credit(rival_N2, straight_N2, ties=ties, tie_eps=tie_eps)
        judged = Judged(
            units=[pair.unit for pair in pairs],
            clusters=[pair.cluster for pair in pairs],
            tags=[_shared_tags(pair) for pair in pairs],
            unparsed=[sum(case.scores.unparsed for case in pair.cases) for pair in pairs],
            value_U=credit_N,
            tie_U=tie_N,
            chance_U=np.full(len(pairs), CHANCE["relaxed"]),
        )
        return [outcomes("relaxed", [judged])]


def in_form(metrics: Sequence[Metric], form: Form) -> tuple[Metric, ...]:
    """The same metrics, with relaxed verdicts in the form that a scorer's numbers ask for."""
    return tuple(
        replace(metric, form=form) if isinstance(metric, Pairs | Relaxed) else metric
        for metric in metrics
    )


def _items(cases: Sequence[Case]) -> list[_Pair]:
    found = []
    for case in cases:
        truth = case.item.truth
        if isinstance(truth, Sparse) or truth.shape != (2, 2) or truth.dtype != np.bool_:
            continue
        true_22: BoolArray = truth.astype(np.bool_)
        if bool(is_matching(true_22[None])[0]) and len(set(case.item.captions)) == 2:
            score_22 = score_cells(case)[:, true_22.argmax(axis=1)]
            cluster = case.item.group or case.item.id
            found.append(_Pair(case.item.id, cluster, (case,), score_22))
    return found


def _groups(cases: Sequence[Case]) -> list[_Pair]:
    groups: dict[str, list[Case]] = {}
    for case in cases:
        if case.item.group and tuple(case.item.truth.shape) == (1, 2):
            groups.setdefault(case.item.group, []).append(case)
    found = []
    for name, members in groups.items():
        if len(members) != 2 or len({case.item.captions for case in members}) != 1:
            continue
        true_22 = np.array([np.asarray(case.item.truth)[0] for case in members])
        if true_22.dtype == np.bool_ and bool(is_matching(true_22[None])[0]):
            score_22 = np.array([score_cells(case)[0] for case in members])
            own = true_22.argmax(axis=1)
            found.append(_Pair(name, name, tuple(members), score_22[:, own]))
    return found


def _shared_tags(pair: _Pair) -> dict[str, str]:
    first, *others = (case.item.tags for case in pair.cases)
    return {k: v for k, v in first.items() if all(tags.get(k) == v for tags in others)}
