"""A dual encoder and the training items of a benchmark come in; a fitted linear probe goes out.

The strength of the penalty is chosen on a held-out fifth of the training split; the test split is
never seen. Pictures are embedded by the engine, so a probe shares the cache with every other run.
Dimensions: N pictures, D embedding, C classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unbag.errors import UserError
from unbag.evaluation.embedding import Embeddings, embed
from unbag.evaluation.plan import Plan, make_plan
from unbag.metrics.cases import true_cells
from unbag.runs.progress import Progress, Silent
from unbag.scorers.linear_probe import LinearProbe, Logistic, fit_logistic
from unbag.types import BoolArray, Caption, DualEncoder, FloatArray, IntArray, Item

STRENGTHS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Tried in this order, strongest first; then half a decade to both sides of the best."""
HELD_OUT = 0.2
_LOOSE = 1e-4
"""Largest derivative that ends a fit that only serves to choose."""
_TIGHT = 1e-6
_NAME = "training"


@dataclass(frozen=True, eq=False)
class _Training:
    """Vectors with their classes, centred and brought to a common scale."""

    vector_ND: FloatArray
    class_N: IntArray
    is_held_out_N: BoolArray
    classes: int
    mean_D: FloatArray
    scale: float
    device: str

    def fit(self, strength: float, start: Logistic | None, *, to_all: bool) -> Logistic:
        """To all of it, or loosely to what is not held out."""
        keep_N = slice(None) if to_all else ~self.is_held_out_N
        return fit_logistic(
            self.vector_ND[keep_N],
            self.class_N[keep_N],
            classes=self.classes,
            strength=strength,
            start=start,
            tolerance=_TIGHT if to_all else _LOOSE,
            device=self.device,
        )

    def accuracy(self, found: Logistic) -> float:
        """On what is held out."""
        score_NC = found.scores(self.vector_ND[self.is_held_out_N])
        return float(np.mean(score_NC.argmax(axis=1) == self.class_N[self.is_held_out_N]))


class _Tried(NamedTuple):
    """A strength and what came of it; the stronger of two equally good ones is taken."""

    accuracy: float
    strength: float
    found: Logistic


def fit_linear_probe(
    encoder: DualEncoder,
    items: Sequence[Item],
    *,
    cache: Path | None = None,
    batch: int = 256,
    seed: int = 0,
    strengths: Sequence[float] = STRENGTHS,
    progress: Progress | None = None,
) -> LinearProbe:
    """Fit to items of one picture and all classes each, as `Benchmark.load_training` gives them.

    The vectors are those the encoder gives for pictures: pooled, projected and of unit length.
    """
    progress = progress or Silent()
    classes, class_N = _classes(items)
    plan = make_plan({_NAME: items})
    pictures = embed(
        encoder,
        replace(plan, captions=(), prompts=()),
        cache=cache,
        grids={},
        save_grids=lambda: None,
        batch=batch,
        progress=progress,
    )
    _say_damaged(pictures, len(items), progress)
    training = _prepare(encoder, plan, pictures, class_N, classes=len(classes), seed=seed)
    with progress.task(f"{encoder.name}: linear probe", len(strengths) + 3) as advance:
        chosen = _choose(training, strengths, advance)
        found = training.fit(chosen.strength, chosen.found, to_all=True)
        advance(1)
    _check_converged(encoder, found)
    weight_CD = found.weight_CD / training.scale
    bias_C = found.bias_C - weight_CD @ training.mean_D
    made = [plan.fingerprints[_NAME], str(seed), *map(repr, strengths)]
    return LinearProbe(
        encoder=encoder,
        classes=classes,
        weight_CE=np.column_stack([weight_CD, bias_C]),
        strength=chosen.strength,
        held_out=chosen.accuracy,
        training=blake2b("\0".join(made).encode(), digest_size=8).hexdigest(),
    )


def _classes(items: Sequence[Item]) -> tuple[tuple[Caption, ...], IntArray]:
    """The captions that all items share, and which of them is true of each picture."""
    captions = items[0].captions if items else ()
    class_N = np.zeros(len(items), dtype=np.int64)
    for i, item in enumerate(items):
        true_C = np.flatnonzero(true_cells(item.truth, item.id))
        # By identity first: hashing a thousand classes for each of a million pictures is slow.
        is_same = item.captions is captions or item.captions == captions
        if len(item.pictures) != 1 or len(true_C) != 1 or not is_same:
            raise UserError(
                f"training item {item.id!r} has {len(item.pictures)} pictures and {len(true_C)} "
                f"true captions{'' if is_same else ', and other captions than the first item'}",
                expected="one picture of one class, among classes that all items share",
                way_out="a linear probe needs a benchmark of classes, such as cifar10",
            )
        class_N[i] = true_C[0]
    empty = sorted(set(range(len(captions))) - set(class_N.tolist()))
    if len(captions) < 2 or empty:
        raise UserError(
            f"the training split has {len(items)} pictures, and none of {len(empty)} of its "
            f"{len(captions)} classes",
            expected="two classes or more, with pictures of each",
        )
    return captions, class_N


def _say_damaged(pictures: Embeddings, items: int, progress: Progress) -> None:
    if pictures.damaged:
        name, reason = next(iter(pictures.damaged.items()))
        progress.say(
            f"{len(pictures.damaged)} of {items} training pictures cannot be opened and are left "
            f"out, such as {name} ({reason})"
        )


def _prepare(
    encoder: DualEncoder,
    plan: Plan,
    pictures: Embeddings,
    class_N: IntArray,
    *,
    classes: int,
    seed: int,
) -> _Training:
    row_N = np.array([rows.picture_P[0] for rows in plan.rows[_NAME]], dtype=np.int64)
    is_whole_N: BoolArray = np.all(np.isfinite(pictures.picture_ND[row_N]), axis=1)
    row_N, class_N = row_N[is_whole_N], class_N[is_whole_N]
    held_N = held_out([plan.picture_keys[row] for row in row_N], class_N, seed=seed)
    if not held_N.any() or len(set(class_N[~held_N].tolist())) < classes:
        raise UserError(
            f"the training split has {len(row_N)} pictures that can be opened, which leaves some "
            f"of {classes} classes without any, or nothing to choose the strength on",
            expected="pictures of each class, and two or more of some class",
            way_out="check the folder of the training split",
        )
    vector_ND = pictures.picture_ND[row_N].astype(np.float64)
    mean_D = vector_ND.mean(axis=0)
    vector_ND -= mean_D
    scale = float(np.sqrt(np.mean(vector_ND**2))) or 1.0
    vector_ND /= scale
    # Apple's devices have no double precision.
    device = "cpu" if encoder.device.startswith("mps") else encoder.device
    return _Training(vector_ND, class_N, held_N, classes, mean_D, scale, device)


def held_out(keys: Sequence[str], class_N: IntArray, *, seed: int) -> BoolArray:
    """A fifth of each class, drawn by hash of seed and picture; one of two at least, one never."""
    place = [blake2b(f"{seed}\0{key}".encode(), digest_size=8).digest() for key in keys]
    found_N = np.zeros(len(keys), dtype=np.bool_)
    for number in np.unique(class_N):
        members = sorted(np.flatnonzero(class_N == number).tolist(), key=lambda i: place[i])
        many = max(1, round(HELD_OUT * len(members))) if len(members) > 1 else 0
        found_N[members[:many]] = True
    return found_N


def _choose(
    training: _Training, strengths: Sequence[float], advance: Callable[[int], None]
) -> _Tried:
    """The strength with the best held-out accuracy, from strong to weak, then half a decade off."""
    tried: list[_Tried] = []

    def attempt(strength: float, start: Logistic | None) -> Logistic:
        found = training.fit(strength, start, to_all=False)
        tried.append(_Tried(training.accuracy(found), strength, found))
        advance(1)
        return found

    start = None
    for strength in sorted(strengths, reverse=True):
        start = attempt(strength, start)
    best = max(tried, key=lambda one: (one.accuracy, one.strength))
    if len(strengths) > 1:
        for factor in (10**0.5, 10**-0.5):
            attempt(best.strength * factor, best.found)
    return max(tried, key=lambda one: (one.accuracy, one.strength))


def _check_converged(encoder: DualEncoder, found: Logistic) -> None:
    if found.gradient > 10 * _TIGHT:
        raise UserError(
            f"the linear probe of {encoder.name!r} did not converge: after {found.steps} steps a "
            f"derivative is still {found.gradient:.2g}",
            expected=f"at most {10 * _TIGHT:.0e}",
            way_out="leave the smallest strengths out",
        )
