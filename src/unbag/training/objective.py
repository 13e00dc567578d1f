"""The objective of training: a weighted sum of named losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, get_args

from unbag.errors import UnbagError, unknown_name
from unbag.training.losses import UPPER, ThresholdMode, next_threshold
from unbag.types import Embedded

if TYPE_CHECKING:
    from torch import Tensor


Loss: TypeAlias = Callable[[Embedded], "Tensor"]
"""A pure function of unit vectors; options are bound with functools.partial."""


@dataclass(frozen=True)
class Objective:
    """A weighted sum of losses.

    The task of the trainer holds the current thresholds; `threshold` says how they change.
    """

    terms: tuple[Term, ...]
    threshold: ThresholdRule | None = None
    """None: the margins of a rank loss stay 0."""

    def __post_init__(self) -> None:
        """Refuse an objective without a weighted term or with two terms of one name."""
        names = [term.name for term in self.terms]
        if duplicates := sorted({name for name in names if names.count(name) > 1}):
            raise UnbagError(
                f"two loss terms are called {duplicates[0]!r}",
                expected="a name of its own for each",
            )
        if not any(term.weight for term in self.terms):
            raise UnbagError(
                "an objective without any loss", expected="at least one term with a weight above 0"
            )

    @property
    def needs_start(self) -> bool:
        """True if a term with a weight above 0 reads `Embedded.start`."""
        return any(term.needs_start and term.weight for term in self.terms)

    def __call__(self, embedded: Embedded) -> Losses:
        """Compute every term with a weight above 0."""
        terms = [term for term in self.terms if term.weight]
        values = {term.name: term.loss(embedded) for term in terms}
        first, *others = (term.weight * values[term.name] for term in terms)
        return Losses(sum(others, start=first), values)


@dataclass(frozen=True, eq=False)
class Losses:
    """The loss of one batch."""

    total: Tensor
    """The weighted sum."""
    terms: Mapping[str, Tensor]
    """Each term by name, before weighting; terms of weight 0 are absent."""


@dataclass(frozen=True)
class Term:
    """One weighted loss of the objective."""

    name: str
    """Its name in the log."""
    weight: float
    """With 0, the loss is not computed."""
    loss: Loss
    needs_start: bool = False
    """True if the loss reads `Embedded.start`."""

    def __post_init__(self) -> None:
        """Refuse a weight that is negative or not finite."""
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise UnbagError(
                f"the loss term {self.name!r} has weight {self.weight}",
                expected="a finite number, 0 or more",
            )


@dataclass(frozen=True)
class ThresholdRule:
    """How the margins of the rank loss change from step to step."""

    mode: ThresholdMode = "adaptive"
    upper: float | None = UPPER
    """Largest margin in scaled similarity; None: no bound."""
    fixed: float = 0.0
    """The margin of mode `fixed`."""
    resets_each_epoch: bool = False
    """True in the released loop of CE-CLIP; nothing in the paper says so."""

    def __post_init__(self) -> None:
        """Refuse an unknown mode and margins that would turn the loss off."""
        if self.mode not in get_args(ThresholdMode):
            raise unknown_name("mode of thresholds", self.mode, get_args(ThresholdMode))
        if self.upper is not None and not self.upper > 0:
            raise UnbagError(
                f"thresholds bounded by {self.upper}", expected="a bound above 0, or None"
            )
        if not (math.isfinite(self.fixed) and self.fixed >= 0):
            raise UnbagError(
                f"a fixed threshold of {self.fixed}", expected="a finite number, 0 or more"
            )

    def first(self, kinds: int) -> Tensor:
        """Return the margins [K] of the first step, of each epoch where they are reset."""
        import torch

        return torch.full((kinds,), self.fixed if self.mode == "fixed" else 0.0)

    def next(self, embedded: Embedded) -> Tensor:
        """Return the margins [K] of the next step; `embedded` holds those of this step."""
        return next_threshold(embedded, mode=self.mode, upper=self.upper, fixed=self.fixed)
