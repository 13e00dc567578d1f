"""Cases of a chat model that was asked for yes or no come in; statements and what is right go out.

Dimensions: N statements (a caption about a picture).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbag.metrics.statements import best_threshold
from unbag.probes.chosen import hashed
from unbag.probes.finding import Better, Known, Options, Quantity, mean
from unbag.types import BoolArray, Case, FloatArray


@dataclass(frozen=True, eq=False)
class Statements:
    """Captions, each about a picture, with how probable a yes is."""

    yes_N: FloatArray
    """P(yes); NaN where there was no answer."""
    true_N: BoolArray
    units: tuple[str, ...]
    clusters: tuple[str, ...]

    @property
    def said(self) -> FloatArray:
        """1 for yes, 0 for no, NaN without an answer."""
        return np.where(np.isnan(self.yes_N), np.nan, self.yes_N > 0.5)

    def share(
        self,
        name: str,
        value_N: FloatArray,
        about: str,
        options: Options,
        *,
        of_N: BoolArray | None = None,
        known: Known,
        better: Better = "neither",
        is_rate: bool = True,
    ) -> Quantity:
        """The mean over these statements, or over some of them."""
        at = np.arange(len(value_N)) if of_N is None else np.flatnonzero(of_N)
        return mean(
            name,
            value_N[at],
            about=about,
            options=options,
            units=[self.units[i] for i in at],
            clusters=[self.clusters[i] for i in at],
            known=known,
            better=better,
            is_rate=is_rate,
        )


def statements_of(cases: Sequence[Case]) -> Statements:
    """Every caption of every picture."""
    yes, true, units, clusters = [], [], [], []
    for item, scores in cases:
        shape = item.truth.shape
        yes.append(np.full(shape, np.nan) if scores.values is None else scores.values)
        true.append(np.asarray(item.truth, dtype=np.bool_))
        places = [(p, c) for p in range(shape[0]) for c in range(shape[1])]
        units += [f"{item.id}/picture {p}, caption {c}" for p, c in places]
        clusters += [item.group or item.id] * len(places)
    return Statements(
        np.concatenate([one.ravel() for one in yes]),
        np.concatenate([one.ravel() for one in true]),
        tuple(units),
        tuple(clusters),
    )


def right_at_threshold(of: Statements) -> FloatArray:
    """1 where a statement is judged rightly at the best threshold of the other half, 0 where not.

    Halves are made of whole clusters, taken in turn in the order of a hash; NaN if there is but
    one.
    """
    clusters = sorted(set(of.clusters), key=hashed)
    half = {name: at % 2 for at, name in enumerate(clusters)}
    half_N = np.array([half[name] for name in of.clusters])
    right_N = np.full(len(of.units), np.nan)
    for side in (0, 1) if len(clusters) > 1 else ():
        here_N = half_N == side
        threshold = best_threshold(of.yes_N[~here_N], of.true_N[~here_N])
        right_N[here_N] = ((of.yes_N > threshold) == of.true_N)[here_N]
    return np.where(np.isnan(of.yes_N), np.nan, right_N)
