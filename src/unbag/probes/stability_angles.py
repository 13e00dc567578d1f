"""Rows and pairs of pictures come in; how firm the preference in each is goes out, with intervals.

Dimensions: N comparisons, M some of them, D space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.probes.chosen import cluster_of
from unbag.probes.finding import Better, Known, Options, Quantity, mean, statistic
from unbag.probes.material import PicturePair, Row
from unbag.probes.space import Space
from unbag.probes.stability import (
    Decisions,
    Rounding,
    changed_by,
    decide,
    flip_chance,
    rank_correlation,
)
from unbag.types import FloatArray, IntArray

SIZES = (0.05, 0.10)
"""Of noise, relative to the vector."""
ROUNDINGS: tuple[Rounding, ...] = ("bfloat16", "float16")


@dataclass(frozen=True, eq=False)
class Compared:
    """Comparisons with what is known of each."""

    units: tuple[str, ...]
    clusters: tuple[str, ...]
    kinds: tuple[str, ...]
    found: Decisions
    changed: dict[Rounding, FloatArray]
    width: int

    def at(self, place_M: IntArray) -> Compared:
        """Some of them."""
        units, clusters, kinds = (
            tuple(one[at] for at in place_M) for one in (self.units, self.clusters, self.kinds)
        )
        found = Decisions(
            *(
                one[place_M]
                for one in (self.found.margin_N, self.found.angle_N, self.found.cosine_N)
            )
        )
        changed = {name: value_N[place_M] for name, value_N in self.changed.items()}
        return Compared(units, clusters, kinds, found, changed, self.width)

    def mean(
        self,
        name: str,
        value_N: FloatArray,
        about: str,
        options: Options,
        *,
        weight_N: FloatArray | None = None,
        known: Known | None = None,
        better: Better = "neither",
        is_rate: bool = False,
    ) -> Quantity:
        """Over all, or over those with a weight."""
        return mean(
            name,
            value_N,
            about=about,
            options=options,
            units=self.units,
            clusters=self.clusters,
            weight_N=weight_N,
            known=known,
            better=better,
            is_rate=is_rate,
            tags=[{"kind": kind} for kind in self.kinds],
        )


def of_rows(space: Space, rows: Sequence[Row]) -> Compared:
    """A picture between its caption and a false one."""
    there = [row for row in rows if row.negative is not None]
    return _compared(
        space.pictures([row.picture for row in there]),
        space.captions([row.caption for row in there]),
        space.captions([row.negative or "" for row in there]),
        [(row.id, cluster_of(row), row.kind) for row in there],
    )


def of_pairs(space: Space, pairs: Sequence[PicturePair]) -> Compared:
    """A caption between the picture it is true of and the other one, both captions of a pair."""
    every = [
        (caption, *pictures, (f"{pair.id}/{at}", pair.cluster or pair.id, pair.relation))
        for pair in pairs
        if pair.captions is not None
        for at, (caption, pictures) in enumerate(
            zip(pair.captions, ((pair.first, pair.second), (pair.second, pair.first)), strict=True)
        )
    ]
    return _compared(
        space.captions([one[0] for one in every]),
        space.pictures([one[1] for one in every]),
        space.pictures([one[2] for one in every]),
        [one[3] for one in every],
    )


def _compared(
    vector_ND: FloatArray,
    right_ND: FloatArray,
    wrong_ND: FloatArray,
    names: Sequence[tuple[str, str, str]],
) -> Compared:
    changed = {to: changed_by(to, vector_ND, right_ND, wrong_ND) for to in ROUNDINGS}
    units, clusters, kinds = zip(*names, strict=True) if names else ((), (), ())
    found = decide(vector_ND, right_ND, wrong_ND)
    return Compared(units, clusters, kinds, found, changed, vector_ND.shape[-1])


def firmness(
    asked: Compared, suffix: str, options: Options, *, is_swap: bool = False
) -> list[Quantity]:
    """Share that is right, the angle of these, and what noise turns of them.

    Args:
        asked: Comparisons.
        suffix: What the name of each quantity ends with.
        options: How to resample.
        is_swap: Both captions have the same words, so that a bag of words ties.
    """
    right_N, held_N = asked.found.right, np.nan_to_num(asked.found.held)
    angle_N = np.nan_to_num(asked.found.angle_N)
    tie = 0.0 if is_swap else None
    right = asked.mean(
        f"right{suffix}",
        right_N,
        "Share of preferences that are right; a tie is not",
        options,
        known=Known(bag=tie, perfect=1.0, chance=0.5),
        better="higher",
        is_rate=True,
    )
    middle = statistic(
        f"angle{suffix}",
        lambda place_M: _median(angle_N[place_M], held_N[place_M]),
        len(angle_N),
        about="Median rotation, in degrees, that takes a right preference away; a tie is at 0",
        options=options,
        clusters=asked.clusters,
        known=Known(bag=tie),
        better="higher",
    )
    average = asked.mean(
        f"mean angle{suffix}",
        angle_N * held_N,
        "The same, as a mean",
        options,
        weight_N=held_N,
        known=Known(bag=tie),
        better="higher",
    )
    is_right_N = np.nan_to_num(right_N)
    flips = [
        asked.mean(
            f"flipped at {size:.0%}{suffix}".replace("%", " %"),
            flip_chance(angle_N, width=asked.width, size=size) * is_right_N,
            "Share of right preferences that noise of this relative size on the vector turns",
            options,
            weight_N=is_right_N,
            better="lower",
            is_rate=True,
        )
        for size in SIZES
    ]
    return [right, middle, average, *flips]


def _median(angle_M: FloatArray, held_M: FloatArray) -> float:
    kept_M = angle_M[held_M > 0]
    return float(np.median(kept_M)) if len(kept_M) else float("nan")


def by_cosine(asked: Compared, suffix: str, options: Options) -> list[Quantity]:
    """Rank correlation of the angle with the cosine of the two, over what is right."""
    is_right_N = asked.found.right == 1
    correlation = rank_correlation(asked.found.angle_N, asked.found.cosine_N)
    return [
        statistic(
            f"angle against cosine{suffix}",
            lambda place_M: correlation(place_M[is_right_N[place_M]]),
            len(is_right_N),
            about="Rank correlation of the angle with the cosine of the two that are compared",
            options=options,
            clusters=asked.clusters,
        )
    ]


def by_rounding(asked: Compared, options: Options) -> list[Quantity]:
    """Preferences that differ when vectors are kept in half precision."""
    return [
        asked.mean(
            f"changed by {to}",
            asked.changed[to],
            f"Share of preferences that differ, or are lost, with vectors in {to}",
            options,
            better="lower",
            is_rate=True,
        )
        for to in ROUNDINGS
    ]
