"""Edited captions come in; how far a reader that never sees a picture tells them apart goes out.

    python -m unbag.lab.photos_blind --train train-edits.jsonl --val val-edits.jsonl

A logistic regression without bias on differences of MiniLM's frozen features: it is told that each
caption is better than its negative, on kinds that photo arms are trained on. What it reaches on
other photographs can be had by reading alone. Dimensions: N pairs of texts, F features.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from unbag.lab.photos_table import SEEN_KINDS
from unbag.metrics.intervals import bootstrap
from unbag.metrics.resample import generator
from unbag.models.photo import Photo, load
from unbag.train.open_pairs import open_pairs
from unbag.types import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
"""Of the penalty; chosen on a fifth of the training photographs."""
STEPS = 30
"""Of Newton's method, which needs fewer."""
_AT_ONCE = 256


@dataclass(frozen=True)
class Edited:
    """A caption and a negative of it."""

    photograph: int
    caption: str
    negative: str
    kind: str


def edited(
    path: str, pictures: Path | None, *, limit: int | None = None, needs_positive: bool = False
) -> list[Edited]:
    """Negatives of all captions, or of those that have a positive too, as tables count them."""
    pairs, found = open_pairs(path, pictures=pictures), []
    for at in range(min(len(pairs), limit or len(pairs))):
        pair = pairs[at]
        for caption, edits in zip(pair.captions, pair.edits, strict=True):
            if not needs_positive or any(edit.keeps_meaning for edit in edits):
                negatives = [edit for edit in edits if not edit.keeps_meaning]
                found += [Edited(at, caption, edit.text, edit.kind) for edit in negatives]
    return found


def fit_preference(apart_NF: Tensor, strength: float) -> Tensor:
    """Weights [F] that make differences positive: least logistic loss with an L2 penalty."""
    weight_F = torch.zeros(apart_NF.shape[1], dtype=apart_NF.dtype)
    penalty_FF = strength * torch.eye(len(weight_F), dtype=apart_NF.dtype)
    for _ in range(STEPS):
        miss_N = torch.sigmoid(-(apart_NF @ weight_F))
        slope_F = -(apart_NF * miss_N[:, None]).mean(dim=0) + strength * weight_F
        bend_FF = (apart_NF * (miss_N * (1 - miss_N))[:, None]).T @ apart_NF / len(apart_NF)
        weight_F = weight_F - torch.linalg.solve(bend_FF + penalty_FF, slope_F)
    return weight_F


def choose_and_fit(apart_NF: Tensor, photograph_N: Sequence[int]) -> Tensor:
    """The strength that does best on a fifth of the photographs, then all of them."""
    is_held_N = torch.tensor([at % 5 == 0 for at in photograph_N])
    rest_NF, held_NF = apart_NF[~is_held_N], apart_NF[is_held_N]
    right = [float((held_NF @ fit_preference(rest_NF, s) > 0).double().mean()) for s in STRENGTHS]
    return fit_preference(apart_NF, STRENGTHS[int(np.argmax(right))])


def differences(encoder: Photo, rows: Sequence[Edited]) -> Tensor:
    """Features of captions minus those of their negatives, [N, F]; each text is read once."""
    texts = sorted({text for row in rows for text in (row.caption, row.negative)}, key=len)
    parts = [
        encoder.caption_features(texts[at : at + _AT_ONCE]) for at in range(0, len(texts), _AT_ONCE)
    ]
    place = {text: at for at, text in enumerate(texts)}
    feature = torch.cat(parts).double()
    first, second = ([place[getattr(row, k)] for row in rows] for k in ("caption", "negative"))
    return feature[first] - feature[second]


def share(right_N: FloatArray, rows: Sequence[Edited], name: str) -> str:
    """Percent with an interval over photographs."""
    low, high, _ = bootstrap(
        right_N,
        clusters=[str(row.photograph) for row in rows],
        resamples=5_000,
        rng=generator(0, name),
    )
    shown = f"{100 * right_N.mean():.1f} [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{name} ({len(rows):,}): {shown}"


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--train", required=True, help="what `unbag edit` wrote")
    parser.add_argument("--val", required=True, help="the same of other photographs")
    parser.add_argument("--pictures", type=Path, help="where they are (default: beside the files)")
    parser.add_argument("--limit", type=int, default=1_500, help="photographs to train on")
    given = parser.parse_args()
    encoder = load("random")
    train = edited(given.train, given.pictures, limit=given.limit)
    train = [row for row in train if row.kind in SEEN_KINDS]
    apart_NF = differences(encoder, train)
    deviation_F = apart_NF.std(dim=0)
    weight_F = choose_and_fit(apart_NF / deviation_F, [row.photograph for row in train])
    val = edited(given.val, given.pictures, needs_positive=True)
    right_N = (differences(encoder, val) / deviation_F @ weight_F > 0).double().numpy()
    groups = {
        "swap, seen": [r.kind in SEEN_KINDS and r.kind.startswith("swap") for r in val],
        "replace, seen": [r.kind in SEEN_KINDS and not r.kind.startswith("swap") for r in val],
        "unseen": [r.kind not in SEEN_KINDS for r in val],
        "all": [True] * len(val),
    }
    for name, is_in in groups.items():
        print(share(right_N[is_in], [r for r, keep in zip(val, is_in, strict=True) if keep], name))


if __name__ == "__main__":
    main()
