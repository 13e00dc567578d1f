"""Cases by hand: scores and truth in, a Case out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from unbag.types import Case, EvalProtocol, Item, Outcomes, Scores

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Stub:
    """An image that is never opened."""

    key: str

    @property
    def name(self) -> str:
        return self.key

    def open(self) -> Image:
        raise OSError("metrics never open images")


def make_case(
    scores: Sequence[object],
    true: Sequence[object],
    *,
    name: str = "item",
    captions: Sequence[str] = (),
    image: str = "",
    group: str = "",
    tags: Mapping[str, str] | None = None,
    unparsed: int = 0,
) -> Case:
    """One row of scores is a one-picture item; several rows are several images."""
    score_PC = np.atleast_2d(np.array(scores, dtype=np.float64))
    true_PC = np.atleast_2d(np.array(true, dtype=np.bool_))
    item = Item(
        id=name,
        images=tuple(Stub(f"{image or name}:{p}") for p in range(len(score_PC))),
        captions=tuple(captions) or tuple(f"caption {c}" for c in range(score_PC.shape[1])),
        truth=true_PC,
        group=group,
        tags=tags or {},
    )
    return Case(item, Scores(name, score_PC, unparsed=unparsed))


@pytest.fixture(scope="session")
def case() -> Callable[..., Case]:
    return make_case


def make_outcomes(
    values: Sequence[float],
    *,
    clusters: Sequence[str] = (),
    tags: Sequence[Mapping[str, str]] = (),
    weights: Sequence[float] = (),
    is_rate: bool = True,
    metric: str = "accuracy",
    chance: float = 0.5,
) -> Outcomes:
    n = len(values)
    return Outcomes(
        metric=metric,
        units=tuple(f"u{i}" for i in range(n)),
        value_U=np.array(values, dtype=np.float64),
        clusters=tuple(clusters) or tuple(f"k{i}" for i in range(n)),
        tags=tuple(tags) or tuple({} for _ in range(n)),
        tie_U=np.zeros(n, dtype=np.bool_),
        chance_U=np.full(n, chance),
        weight_U=np.array(weights or [1.0] * n, dtype=np.float64),
        unparsed_U=np.zeros(n, dtype=np.int64),
        is_rate=is_rate,
    )


@pytest.fixture(scope="session")
def outcomes() -> Callable[..., Outcomes]:
    return make_outcomes


@pytest.fixture(scope="session")
def protocol() -> EvalProtocol:
    return EvalProtocol(resamples=4000)
