"""A model and material come in; how much noise on a vector turns its preferences goes out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unbag.engine.progress import Progress
from unbag.probes.chosen import choose_pairs, choose_rows, hashed, is_swap, told_part
from unbag.probes.finding import Finding, Options, Quantity
from unbag.probes.material import Material, Row
from unbag.probes.plots import Point, Scatter
from unbag.probes.probe import Probe, Subject
from unbag.probes.space import Space
from unbag.probes.stability_angles import (
    Compared,
    by_cosine,
    by_rounding,
    firmness,
    of_pairs,
    of_rows,
)
from unbag.probes.stability_verdict import PICTURES, SAME_WORDS, say

NAME = "stability"
MOST_POINTS = 400
ABOUT = """\
A picture v prefers its caption c to a false one n by the margin v (c - n), all of unit length. The
angle is the smallest rotation of v that takes this preference away, exactly asin(margin / |c - n|);
it is told in degrees of the preferences that are right, with a tie at 0 degrees. Flipped: the share
of right preferences that Gaussian noise on v would turn, equal in all D directions, with 5 or 10 %
of the length of v; the chance of each is exactly Phi(-sin(angle) sqrt(D) / size), whether v is
brought back to unit length or not. The same for a caption between two pictures. Against the cosine:
Spearman's rank correlation of the angle with the cosine of the two that are compared; below 0, the
more alike they are the less it takes. Changed by bfloat16 or float16: the share of all preferences
that differ when vectors are kept in that precision. The question follows Li et al. 2024, the
formulas are ours. Limits: noise of a real channel is not equal in all directions, and a model that
is surely wrong is stable too; look at the share that is right first."""


def stability(space: Space, material: Material, options: Options) -> Finding:
    """How firm the preferences of any space of vectors are."""
    rows = [row for row in material.rows if row.negative is not None]
    pairs = [pair for pair in material.pairs if pair.captions is not None]
    if not rows and not pairs:
        needs = "captions with hard negatives, or pairs of pictures with a caption each"
        return Finding(NAME, skipped=f"{material.about}: it needs {needs}")
    kept, kept_pairs = choose_rows(rows, options), choose_pairs(pairs, options)
    notes = (
        "A preference that is wrong does not count: see how many are right first.",
        *told_part(len(kept), len(rows), "rows"),
        *told_part(len(kept_pairs), len(pairs), "pairs of pictures"),
    )
    quantities: list[Quantity] = []
    plots: list[Scatter] = []
    if kept:
        asked = of_rows(space, kept)
        quantities += _of_captions(asked, kept, options)
        plots.append(_scatter(asked, "captions", options))
    if kept_pairs:
        between = of_pairs(space, kept_pairs)
        quantities += firmness(between, PICTURES, options) + by_cosine(between, PICTURES, options)
        plots.append(_scatter(between, "pictures", options))
    headline = next(one.name for one in quantities if one.name.startswith("angle"))
    return Finding(NAME, tuple(quantities), headline, tuple(plots), notes)


def _of_captions(asked: Compared, rows: Sequence[Row], options: Options) -> list[Quantity]:
    """Where only the order differs first, if it does anywhere: the verdict is about that."""
    found = []
    swap_M = np.flatnonzero([is_swap(row) for row in rows])
    if len(swap_M):
        found = firmness(asked.at(swap_M), SAME_WORDS, options, is_swap=True)
    found += firmness(asked, "", options) + by_cosine(asked, "", options)
    return found + by_rounding(asked, options)


def _scatter(asked: Compared, what: str, options: Options) -> Scatter:
    every = [at for at in range(len(asked.units)) if np.isfinite(asked.found.angle_N[at])]
    chosen = sorted(every, key=lambda at: hashed(asked.units[at]))
    return Scatter(
        title=f"Firmness between two {what}",
        x=f"cosine of the two {what}",
        y="degrees to the boundary",
        points=tuple(
            Point(
                float(asked.found.cosine_N[at]),
                float(asked.found.angle_N[at]),
                asked.kinds[at],
                asked.units[at],
            )
            for at in (chosen if options.is_full else chosen[:MOST_POINTS])
        ),
        lines=(("boundary", 0.0),),
        about="Below the boundary a preference is wrong. A tie stands on it.",
    )


def _ask(subject: Subject, material: Material, options: Options, progress: Progress) -> Finding:
    if subject.space is None:
        return Finding(NAME, skipped=f"{subject.name} has no vectors of pictures and captions")
    return stability(subject.space, material, options)


STABILITY = Probe(NAME, "How little turns its preferences?", ABOUT, _ask, say)
