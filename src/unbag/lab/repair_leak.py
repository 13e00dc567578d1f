"""Training captions and their edits come in; how far they can be told without a picture goes out.

A linear reader of which words a caption has and where they stand, told that captions are better
than their negatives, on captions that it was not told of. 0.5 where there is nothing to read.

Dimensions: N pairs of texts, V words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from unbag.readouts.data import WORLD_NEGATIVES as NEGATIVES
from unbag.training.before_after import Contrast, differences, fit_reader
from unbag.training.data.world import Told, WorldBatches
from unbag.world.grammar import Ast, Rel, words

BLIND = "blind"
"""The name under which the reader stands beside the arms."""
LEAK = "leak"
"""Under which its numbers stand."""
TURNED = "turned"
"""A relation whose two things change places: the edit that a fixed naming order gives away."""
POSITIVE = "positive"
"""How often it finds a caption better than its positive, which is as true."""


STEPS = 6
"""Of training, whose captions the reader is told of, and as many that follow, to ask it."""


def leak_of(batches: WorldBatches, *, steps: int = STEPS) -> dict[str, float]:
    """Share of captions found better than their edit, by slot; what no caption has is left out."""
    told = [one for step in range(steps) for one in batches.told(step)[1]]
    asked = [one for step in range(steps, 2 * steps) for one in batches.told(step)[1]]
    rows = list(_negatives(told))
    weight_V = fit_reader(differences(_places, rows), [row.picture for row in rows])
    negatives = list(_negatives(asked))
    groups = {slot.name: [one for one in negatives if one.kind == slot.name] for slot in NEGATIVES}
    groups |= {"all": negatives, TURNED: list(_turned(asked)), POSITIVE: list(_positives(asked))}
    return {name: _share(some, weight_V) for name, some in groups.items() if some}


def _negatives(told: Sequence[Told]) -> Iterator[Contrast]:
    for number, one in enumerate(told):
        for slot, negative in zip(NEGATIVES, one.negatives, strict=True):
            if negative is not None:
                yield Contrast(number, one.caption.text, negative.text, slot.name)


def _turned(told: Sequence[Told]) -> Iterator[Contrast]:
    for number, one in enumerate(told):
        for negative in one.negatives:
            if negative is not None and _is_turned(one.caption.ast, negative.ast):
                yield Contrast(number, one.caption.text, negative.text, TURNED)


def _is_turned(said: Ast, changed: Ast) -> bool:
    match said, changed:
        case Rel(first, relation, second), Rel(other_first, other_relation, other_second):
            things = (first, second) == (other_second, other_first)
            return things and first != second and relation == other_relation
    return False


def _positives(told: Sequence[Told]) -> Iterator[Contrast]:
    for number, one in enumerate(told):
        for positive in one.positives:
            if positive is not None:
                yield Contrast(number, one.caption.text, positive.text, POSITIVE)


def _share(rows: Sequence[Contrast], weight_V: Tensor) -> float:
    """Ties count half."""
    ahead_N = differences(_places, rows) @ weight_V
    return float(((ahead_N > 0).double() + (ahead_N == 0).double() / 2).mean())


def _places(texts: Sequence[str]) -> Tensor:
    """[N, 2V]: how often each word stands there, and how far from the middle, -1 to 1."""
    row = {word: at for at, word in enumerate(words())}
    found = np.zeros((len(texts), 2 * len(row)))
    for n, text in enumerate(texts):
        said = text.split()
        for place, word in enumerate(said):
            found[n, row[word]] += 1
            found[n, len(row) + row[word]] += 2 * place / max(len(said) - 1, 1) - 1
    return torch.from_numpy(found)
