"""What training minimises: a weighted sum of named losses."""

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
"""Pure, on vectors of unit norm; options are bound with functools.partial."""


@dataclass(frozen=True)
class Objective:
    """A weighted sum of losses. The trainer holds the thresholds; the rule says how they move."""

    terms: tuple[Term, ...]
    threshold: ThresholdRule | None = None
    """None keeps the margins of a rank loss at 0."""

    def __post_init__(self) -> None:
        """Refuse an objective that asks for nothing or says one name twice."""
        names = [term.name for term in self.terms]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UnbagError(
                f"two loss terms are called {twice[0]!r}", expected="a name of its own for each"
            )
        if not any(term.weight for term in self.terms):
            raise UnbagError(
                "an objective without any loss", expected="at least one term with a weight above 0"
            )

    @property
    def needs_start(self) -> bool:
        """True if a term that counts reads `Embedded.start`."""
        return any(term.needs_start and term.weight for term in self.terms)

    def __call__(self, embedded: Embedded) -> Losses:
        """Compute every term that counts."""
        counted = [term for term in self.terms if term.weight]
        values = {term.name: term.loss(embedded) for term in counted}
        first, *others = (term.weight * values[term.name] for term in counted)
        return Losses(sum(others, start=first), values)


@dataclass(frozen=True, eq=False)
class Losses:
    """The loss of one batch."""

    total: Tensor
    """The weighted sum."""
    terms: Mapping[str, Tensor]
    """By name, before weighting; without terms of weight 0."""


@dataclass(frozen=True)
class Term:
    """One summand of the objective."""

    name: str
    """What logs call it."""
    weight: float
    """At 0 the loss is not computed."""
    loss: Loss
    needs_start: bool = False
    """True if the loss reads `Embedded.start`."""

    def __post_init__(self) -> None:
        """Refuse a weight that cannot be meant."""
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise UnbagError(
                f"the loss term {self.name!r} has weight {self.weight}",
                expected="a finite number, 0 or more",
            )


@dataclass(frozen=True)
class ThresholdRule:
    """How the margins of the rank loss move from step to step."""

    mode: ThresholdMode = "adaptive"
    upper: float | None = UPPER
    """In scaled similarity; None is no bound."""
    fixed: float = 0.0
    """The margin of mode `fixed`."""
    resets_each_epoch: bool = False
    """True in the released loop of CE-CLIP; nothing in the paper says so."""

    def __post_init__(self) -> None:
        """Refuse margins that would switch the loss off."""
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
        """[K], margins before the first step, and of each epoch where they begin again."""
        import torch

        return torch.full((kinds,), self.fixed if self.mode == "fixed" else 0.0)

    def next(self, embedded: Embedded) -> Tensor:
        """[K], margins of the next step; `embedded` holds those of this one."""
        return next_threshold(embedded, mode=self.mode, upper=self.upper, fixed=self.fixed)
