"""Rows with edits come in; what their edits cost in a space goes out, with intervals.

Dimensions: N rows, M some of them, D space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.probes.chosen import cluster_of
from unbag.probes.finding import Better, Known, Options, Quantity, mean, statistic
from unbag.probes.material import Row
from unbag.probes.sensitivity import Sensitivity, detector_auc, sensitivity
from unbag.probes.space import Space
from unbag.probes.vectors import TIE, cosines
from unbag.types import FloatArray, IntArray

COSTS = ("intra_hn", "intra_hp", "gap", "gap_hp", "selectivity", "auc", "rho")
BY_KIND = ("gap", "gap_hp", "selectivity", "auc")
_BAG = {"intra_hn": 1.0, "gap": 0.0, "gap_hp": 0.0, "selectivity": 0.0, "auc": 0.5}
"""Of a bag of words, where both edits keep the words."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Rows with what they cost."""

    rows: tuple[Row, ...]
    found: Sensitivity
    score_N: FloatArray

    def part(self, keep: Sequence[bool]) -> Asked:
        """The rows that belong to a group, and among these those with both edits, if any."""
        places = [at for at, is_kept in enumerate(keep) if is_kept]
        both = [at for at in places if self.rows[at].negative and self.rows[at].positive]
        return self.at(np.array(both or places, dtype=np.int64))

    def at(self, place_M: IntArray) -> Asked:
        """Some of the rows."""
        found = self.found
        return Asked(
            tuple(self.rows[at] for at in place_M),
            Sensitivity(
                found.intra_negative_N[place_M],
                found.intra_positive_N[place_M],
                found.gap_negative_N[place_M],
                found.gap_positive_N[place_M],
            ),
            self.score_N[place_M],
        )

    @property
    def clusters(self) -> list[str]:
        """What is resampled together."""
        return [cluster_of(row) for row in self.rows]

    def mean(
        self,
        name: str,
        value_N: FloatArray,
        about: str,
        options: Options,
        *,
        known: Known | None = None,
        better: Better = "neither",
        weight_N: FloatArray | None = None,
    ) -> Quantity:
        """Over the rows."""
        return mean(
            name,
            value_N,
            about=about,
            options=options,
            units=[row.id for row in self.rows],
            clusters=self.clusters,
            weight_N=weight_N,
            known=known,
            better=better,
            tags=[{"kind": row.kind} for row in self.rows],
        )


def ask_rows(space: Space, rows: Sequence[Row]) -> Asked:
    """What the edits of each row cost in a space; NaN where there is no such edit."""
    picture_ND = space.pictures([row.picture for row in rows])
    caption_ND = space.captions([row.caption for row in rows])
    negative_ND = _encoded(space, [row.negative for row in rows], caption_ND)
    positive_ND = _encoded(space, [row.positive for row in rows], caption_ND)
    found = sensitivity(picture_ND, caption_ND, negative_ND, positive_ND)
    return Asked(tuple(rows), found, cosines(picture_ND, caption_ND))


def _encoded(space: Space, texts: Sequence[str | None], like_ND: FloatArray) -> FloatArray:
    found_ND = np.full_like(like_ND, np.nan)
    there = [at for at, text in enumerate(texts) if text is not None]
    if there:
        found_ND[there] = space.captions([text for text in texts if text is not None])
    return found_ND


def costs(
    asked: Asked, suffix: str, options: Options, *, only: Sequence[str] = COSTS, is_swap: bool
) -> list[Quantity]:
    """The quantities of methods.md 4.6 and 4.7; none that all rows lack.

    Args:
        asked: Rows with what their edits cost.
        suffix: What the name of each quantity ends with.
        options: How to resample.
        only: The quantities that are wanted.
        is_swap: Both edits keep the words, so that a bag of words sees neither.
    """
    found, quantities = asked.found, []
    bag = _BAG if is_swap else {}
    means: list[tuple[str, FloatArray, str, Known, Better]] = [
        (
            "intra_hn",
            found.intra_negative_N,
            "Mean cosine of caption and negative",
            Known(),
            "lower",
        ),
        (
            "intra_hp",
            found.intra_positive_N,
            "Mean cosine of caption and positive",
            Known(),
            "higher",
        ),
        (
            "gap",
            found.gap_negative_N,
            "What a negative costs: cosine of picture and caption less "
            "that of picture and negative",
            Known(chance=0.0),
            "higher",
        ),
        ("gap_hp", found.gap_positive_N, "What a positive costs", Known(perfect=0.0), "neither"),
        (
            "selectivity",
            found.selectivity,
            "How much nearer a positive is than a negative, in the text tower alone",
            Known(chance=0.0),
            "higher",
        ),
    ]
    for name, value_N, about, known, better in means:
        if name in only and not np.isnan(value_N).all():
            known = Known(bag.get(name), known.perfect, known.chance)
            made = asked.mean(name + suffix, value_N, about, options, known=known, better=better)
            quantities.append(made)
    both = asked.at(np.flatnonzero(np.isfinite(found.gap_negative_N + found.gap_positive_N)))
    if both.rows and "auc" in only:
        quantities.append(_auc(both, suffix, options, bag.get("auc")))
    if both.rows and "rho" in only and both.found.gap_negative_N.mean() > TIE:
        quantities.append(_rho(both, suffix, options))
    return quantities


def _auc(asked: Asked, suffix: str, options: Options, bag: float | None) -> Quantity:
    negative_N, positive_N = (
        _stepped(one) for one in (asked.found.gap_negative_N, asked.found.gap_positive_N)
    )
    return statistic(
        f"auc{suffix}",
        lambda place_M: detector_auc(negative_N[place_M], positive_N[place_M]),
        len(asked.rows),
        about="Chance that a negative costs more than a positive; 0.5 for a mere detector of edits",
        options=options,
        clusters=asked.clusters,
        known=Known(bag, perfect=1.0, chance=0.5),
        better="higher",
    )


def _stepped(gap_N: FloatArray) -> FloatArray:
    """Gaps that differ by rounding only are ties."""
    return np.round(gap_N / TIE) * TIE


def _rho(asked: Asked, suffix: str, options: Options) -> Quantity:
    return asked.mean(
        f"rho{suffix}",
        asked.found.gap_positive_N,
        "What a positive costs over what a negative costs; 1 for a mere detector of edits",
        options,
        weight_N=asked.found.gap_negative_N,
        known=Known(perfect=0.0),
        better="lower",
    )
