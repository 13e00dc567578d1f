"""A reader that never sees an image: how well captions alone tell true captions from their edits.

The reader is a logistic regression over runs of one to three words, with marks for beginning and
end, trained on which of two captions is the true one. "caption-only" is its accuracy on each
benchmark, image by image, trained on the edits that repairs are trained on; "caption-only own" is
trained on the other half of that benchmark's items; "caption-only edits" is its accuracy on edits
of other scenes, by kind. Galleries of images cannot be read, so retrieval is left out; strict pairs
and groups are 0 for whatever does not look.

Dimensions: N pairs of captions, F runs of words, M cells of all items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unbag.readouts.data import world_rows
from unbag.training.recipes import Slot
from unbag.types import FloatArray, IntArray, Item, Sparse
from unbag_lab.experiments.probes_measuring import Amount
from unbag_lab.questions import Questions

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


KINDS = (
    "swap_arguments",
    "swap_attributes",
    "replace_relation",
    "replace_colour",
    "replace_shape",
)
"""Of edits that it is taught by."""
METRICS = ("original", "accuracy", "individual")
"""Of a single picture; a benchmark has one of them."""
LONGEST = 3
_BENCHMARKS = (
    "world-swap",
    "world-replace",
    "world-relation",
    "world-order",
    "world-pairs-a",
    "world-pairs-b",
    "world-binding",
    "world-count",
    "world-texture",
    "world-negation",
)


def blind_numbers(preset: str, amount: Amount, *, seed: int) -> dict[str, dict[str, float]]:
    """What a reader of captions alone reaches, taught by captions of a preset."""
    train, test = _edited(preset, amount.edited, seed=seed)
    reader = taught([one for some in train.values() for one in some], amount.penalties)
    right = {kind: _shares(reader, some) for kind, some in test.items() if some}
    found: dict[str, dict[str, float]] = {
        "caption-only": {},
        "caption-only own": {},
        "caption-only edits": {kind: float(np.mean(some)) for kind, some in right.items()},
    }
    every = [one for some in right.values() for one in some]
    found["caption-only edits"]["all"] = float(np.mean(every))
    for name in _BENCHMARKS:
        questions = Questions([name], times=amount.times)
        found["caption-only"][name] = _asked(questions, name, lambda item: reader)
        found["caption-only own"][name] = _asked_own(questions, name, amount.penalties)
    return found


def _edited(
    preset: str, count: int, *, seed: int
) -> tuple[dict[str, list[CaptionContrast]], dict[str, list[CaptionContrast]]]:
    """By kind of edit: two thirds of all captions to teach by, the others to test on."""
    slots = [Slot(kind, (kind,)) for kind in KINDS]
    parts: tuple[dict[str, list[CaptionContrast]], ...] = tuple(
        {k: [] for k in KINDS} for _ in range(2)
    )
    rows = [
        row
        for some in world_rows(count, seed=seed, slots=slots, preset=preset)
        for row in zip(some.captions, some.negatives, strict=True)
    ]
    for at, (caption, negatives) in enumerate(rows):
        part = parts[at >= 2 * count // 3]
        for kind, negative in zip(KINDS, negatives, strict=True):
            if negative is not None:
                part[kind].append(CaptionContrast(caption, negative))
    return parts[0], parts[1]


def _shares(reader: PhraseReader, contrasts: Iterable[CaptionContrast]) -> list[bool]:
    return [reader.score(one.true) > reader.score(one.false) for one in contrasts]


def _asked(questions: Questions, name: str, reader_of: Callable[[Item], PhraseReader]) -> float:
    """The metric of a single picture, each item judged by its reader."""

    def score(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        parts = [
            np.tile([reader_of(item).score(str(c)) for c in item.captions], len(item.pictures))
            for item in items
        ]
        return np.concatenate(parts)

    found = questions.measured(score)[name]
    return next(found[metric] for metric in METRICS if metric in found)


def _asked_own(questions: Questions, name: str, penalties: Sequence[float]) -> float:
    """Each half of the items, by group, is judged by a reader that was taught by the other."""
    readers: list[PhraseReader] = []

    def score(picture_M: IntArray, caption_M: IntArray, items: Sequence[Item]) -> FloatArray:
        for half in (1, 0):
            some = [item for item in items if _half(item) == half]
            contrasts = [one for item in some for one in _contrasts(item)]
            readers.append(taught(contrasts, penalties))
        return np.zeros(len(picture_M))

    # The items come with the question: it is asked once to teach by them, once to judge.
    questions.measured(score)
    return _asked(questions, name, lambda item: readers[_half(item)])


def _half(item: Item) -> int:
    return blake2b((item.group or item.id).encode(), digest_size=1).digest()[0] % 2


def _contrasts(item: Item) -> Iterator[CaptionContrast]:
    """Every true caption of a picture beside every false one."""
    assert not isinstance(item.truth, Sparse)
    for true_C in item.truth:
        for true in np.flatnonzero(true_C):
            for false in np.flatnonzero(~true_C):
                yield CaptionContrast(str(item.captions[true]), str(item.captions[false]))


class CaptionContrast(NamedTuple):
    """Two captions of one picture."""

    true: str
    false: str


@dataclass(frozen=True, eq=False)
class PhraseReader:
    """Scores captions by the runs of words in them."""

    weight: dict[str, float]
    _known: dict[str, float] = field(default_factory=dict, repr=False)

    def score(self, caption: str) -> float:
        """The sum of weights; where it has no preference a coin decides, by the caption itself."""
        if caption not in self._known:
            coin = int.from_bytes(blake2b(caption.encode(), digest_size=4).digest(), "big") / 2**32
            total = sum(self.weight.get(run, 0.0) for run in runs(caption))
            self._known[caption] = total + 1e-9 * coin
        return self._known[caption]


def runs(caption: str) -> Iterator[str]:
    """Of one to three words, beginning and end included."""
    words = ["^", *caption.split(), "$"]
    for length in range(1, LONGEST + 1):
        for at in range(len(words) - length + 1):
            yield " ".join(words[at : at + length])


def taught(contrasts: Sequence[CaptionContrast], penalties: Sequence[float]) -> PhraseReader:
    """Least logistic loss with the penalty that does best on every fifth contrast."""
    place: dict[str, int] = {}
    apart_NF = _apart(contrasts, place)
    weight_F = _fit_phrases(apart_NF, _choose_penalty(apart_NF, penalties))
    return PhraseReader(dict(zip(place, weight_F.tolist(), strict=True)))


def _choose_penalty(apart_NF: csr_matrix, penalties: Sequence[float]) -> float:
    if len(penalties) == 1:
        return penalties[0]
    is_held_N = np.arange(apart_NF.shape[0]) % 5 == 0
    rest_NF, held_NF = apart_NF[~is_held_N], apart_NF[is_held_N]
    right = [float(((held_NF @ _fit_phrases(rest_NF, one)) > 0).mean()) for one in penalties]
    return penalties[int(np.argmax(right))]


def _apart(contrasts: Sequence[CaptionContrast], place: dict[str, int]) -> csr_matrix:
    """Runs of the true caption minus those of the false one; `place` is filled."""
    from scipy.sparse import csr_matrix

    cells = [
        (row, place.setdefault(run, len(place)), sign)
        for row, pair in enumerate(contrasts)
        for caption, sign in ((pair.true, 1.0), (pair.false, -1.0))
        for run in runs(caption)
    ]
    row_C, column_C, sign_C = (np.array(some) for some in zip(*cells, strict=True))
    # Runs that both captions have are summed to 0.
    return csr_matrix((sign_C, (row_C, column_C)), shape=(len(contrasts), len(place)))


def _fit_phrases(apart_NF: csr_matrix, penalty: float) -> FloatArray:
    from scipy.optimize import minimize

    def loss(weight_F: FloatArray) -> tuple[float, FloatArray]:
        ahead_N = apart_NF @ weight_F
        missed_N = 1 / (1 + np.exp(np.clip(ahead_N, -500, 500)))
        value = float(np.logaddexp(0, -ahead_N).mean() + penalty / 2 * weight_F @ weight_F)
        return value, penalty * weight_F - (apart_NF.T @ missed_N) / len(missed_N)

    first_F = np.zeros(apart_NF.shape[1])
    found = minimize(loss, first_F, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    weight_F: FloatArray = found.x
    return weight_F
