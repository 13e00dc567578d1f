"""Edits that a model is trained on come in; a scorer that tells them by reading alone goes out.

A logistic regression without bias on differences of caption vectors, told that each caption is
better than its negative. What it reaches can be had without any picture, so a repair that reaches
no more has not shown that it looks.

Dimensions: N pairs of texts, D vectors, P pictures, C captions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from unbag.errors import UserError
from unbag.models.caption_only import text_of
from unbag.train.draw import Draw
from unbag.train.pair_batches import PairBatches
from unbag.train.pairs import Pair, Pairs
from unbag.types import Caption, DualEncoder, Edit, Picture, Query

if TYPE_CHECKING:
    from torch import Tensor

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
"""Of the penalty; chosen on a fifth of the training photographs."""
STEPS = 60
"""Of Newton's method, at most."""
STILL = 1e-9
"""Largest slope at which it stops."""
MOST = 2_000
"""Pictures whose captions are read; more would tell it little and cost time."""
LEAST = 100
"""Negatives below which there is no reader."""
AT_ONCE = 256


class Contrast(NamedTuple):
    """A caption and a negative of it."""

    picture: int
    caption: str
    negative: str
    kind: str = ""


def fit_preference(apart_ND: Tensor, strength: float) -> Tensor:
    """Weights [D] that make differences positive: least logistic loss with an L2 penalty."""
    weight_D = torch.zeros(apart_ND.shape[1], dtype=apart_ND.dtype)
    penalty_DD = strength * torch.eye(len(weight_D), dtype=apart_ND.dtype)
    for _ in range(STEPS):
        miss_N = torch.sigmoid(-(apart_ND @ weight_D))
        slope_D = -(apart_ND.T @ miss_N) / len(apart_ND) + strength * weight_D
        bend_DD = (apart_ND * (miss_N * (1 - miss_N))[:, None]).T @ apart_ND / len(apart_ND)
        step_D = torch.linalg.solve(bend_DD + penalty_DD, slope_D)
        size = _size(apart_ND, weight_D, step_D, strength)
        weight_D = weight_D - size * step_D
        if float(slope_D.abs().max()) < STILL:
            break
    return weight_D


def _size(apart_ND: Tensor, weight_D: Tensor, step_D: Tensor, strength: float) -> float:
    """The largest of 1, 1/2, 1/4 ... that lowers the loss: whole steps may run away."""
    ahead_N, turn_N, size = apart_ND @ weight_D, apart_ND @ step_D, 1.0

    def loss(part: float) -> float:
        moved_D = weight_D - part * step_D
        missed = functional.softplus(-(ahead_N - part * turn_N)).mean()
        return float(missed + strength / 2 * moved_D @ moved_D)

    start = loss(0.0)
    while loss(size) > start and size > 1e-6:
        size /= 2
    return size


def choose_and_fit(apart_ND: Tensor, picture_N: Sequence[int]) -> Tensor:
    """The strength that does best on a fifth of the pictures, then all of them."""
    is_held_N = torch.tensor([at % 5 == 0 for at in picture_N])
    rest_ND, held_ND = apart_ND[~is_held_N], apart_ND[is_held_N]
    right = [float((held_ND @ fit_preference(rest_ND, s) > 0).double().mean()) for s in STRENGTHS]
    return fit_preference(apart_ND, STRENGTHS[int(np.argmax(right))])


def fit_reader(apart_ND: Tensor, picture_N: Sequence[int]) -> Tensor:
    """Weights [D] of vectors, from differences that are first brought to one deviation."""
    # A feature that hardly moves, such as one of MiniLM's by 2e-33, must not be blown up.
    deviation_D = apart_ND.std(dim=0).clamp_min(1e-12)
    return choose_and_fit(apart_ND / deviation_D, picture_N) / deviation_D


def differences(read: Callable[[Sequence[str]], Tensor], rows: Sequence[Contrast]) -> Tensor:
    """Vectors of captions minus those of their negatives, [N, D]; each text is read once."""
    texts = sorted({text for row in rows for text in (row.caption, row.negative)}, key=len)
    parts = [read(texts[at : at + AT_ONCE]) for at in range(0, len(texts), AT_ONCE)]
    place = {text: at for at, text in enumerate(texts)}
    vector = torch.cat(parts).double().cpu()
    return vector[[place[r.caption] for r in rows]] - vector[[place[r.negative] for r in rows]]


@dataclass(frozen=True, eq=False)
class BlindReader:
    """Scores a caption by a direction in the caption vectors of a model; no picture is opened."""

    encoder: DualEncoder
    weight_D: Tensor
    fingerprint: str
    about: str
    name: str = "blind reader"
    scoring: str = "caption only"
    is_blind: bool = True
    _known: dict[str, float] = field(default_factory=dict, repr=False)

    def score(self, queries: Sequence[Query]) -> list[float]:
        """Caption by caption; one that was asked before is not read again."""
        texts = [text_of(query.caption) for query in queries]
        self._learn(texts)
        return [self._known[text] for text in texts]

    def score_matrix(self, pictures: Sequence[Picture], captions: Sequence[Caption]) -> Tensor:
        """All equal, [P, C]: a gallery asks which picture, and that cannot be read."""
        return torch.zeros(len(pictures), len(captions), dtype=torch.float64)

    def _learn(self, texts: Sequence[str]) -> None:
        new = sorted({text for text in texts if text not in self._known}, key=lambda t: (len(t), t))
        for at in range(0, len(new), AT_ONCE):
            some = new[at : at + AT_ONCE]
            vector_ND = self.encoder.encode_captions(some).double().cpu()
            self._known.update(zip(some, (vector_ND @ self.weight_D).tolist(), strict=True))


def blind_reader(encoder: DualEncoder, batches: PairBatches) -> BlindReader | None:
    """Told of negatives as training draws them; None where there are too few to tell it of."""
    if not batches.columns.negatives:
        return None
    rows = list(_contrasts(batches))
    if len(rows) < LEAST:
        return None
    apart_ND = differences(encoder.encode_captions, rows)
    weight_D = fit_reader(apart_ND, [row.picture for row in rows])
    said = repr((encoder.fingerprint, rows, STRENGTHS, STEPS))
    about = (
        f"blind: a linear reader of the caption vectors of {encoder.name}, told of {len(rows):,} "
        "of the same edits; it sees no picture, so a number that does not pass its own is no "
        "evidence of looking"
    )
    fingerprint = f"blind-{blake2b(said.encode(), digest_size=12).hexdigest()}"
    return BlindReader(encoder, weight_D, fingerprint, about)


def _contrasts(batches: PairBatches) -> Iterator[Contrast]:
    """One caption of each of some pictures, spread over all, with its negatives."""
    pairs, draw = list(_some(batches.pairs)), Draw(batches.seed, 0)
    chosen = [draw.caption(pair) for pair in pairs]
    edits: Sequence[Sequence[Edit]]
    edits = [pair.edits[at] for pair, at in zip(pairs, chosen, strict=True)]
    if batches.made:
        edits = batches.made(pairs, chosen, epoch=0)
    for number, (pair, at, some) in enumerate(zip(pairs, chosen, edits, strict=True)):
        said = draw.said(pair, at, some, batches.columns)
        for negative in said.negatives:
            if negative is not None:
                yield Contrast(number, said.caption, negative)


def _some(pairs: Pairs) -> Iterator[Pair]:
    """Those that can be read; training skips the others too."""
    for place in np.unique(np.linspace(0, len(pairs) - 1, min(MOST, len(pairs)), dtype=np.int64)):
        try:
            yield pairs[int(place)]
        except UserError:
            continue
