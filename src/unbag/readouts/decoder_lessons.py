"""Questions with answers come in; tensors of tokens that a decoder learns from go out, made once.

Dimensions: M lessons, T tokens of prompt and answer, A tokens of an answer with its end, B rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unbag.errors import UserError
from unbag.readouts.decoder_questions import Lesson
from unbag.readouts.decoder_settings import KINDS
from unbag.readouts.decoder_words import Words
from unbag.types import IntArray

NOTHING = -100
"""Stands behind the end of an answer; losses of torch leave it out."""


@dataclass(frozen=True, eq=False)
class LessonBatch:
    """Some lessons, cut to the longest of them."""

    picture_B: Tensor
    """Rows among the pictures."""
    token_BT: Tensor
    """Prompt and answer; its end is not read, only predicted."""
    at_BA: Tensor
    """Places among T after which each token of the answer comes."""
    target_BA: Tensor
    """Tokens of the answer and its end; NOTHING behind it."""


@dataclass(frozen=True, eq=False)
class Lessons:
    """All lessons of a training. Tensors may lie on a GPU; lengths and kinds stay with Python."""

    picture_M: Tensor
    token_MT: Tensor
    at_MA: Tensor
    target_MA: Tensor
    length_M: IntArray
    """Tokens of prompt and answer."""
    answer_M: IntArray
    """Tokens of the answer and its end."""
    kind_M: IntArray
    """Places in `KINDS`."""
    left_out: int = 0
    """Lessons that were longer than the context."""

    def __len__(self) -> int:
        """Lessons."""
        return len(self.length_M)

    def to(self, device: str) -> Lessons:
        """With tensors on a device."""
        return Lessons(
            self.picture_M.to(device),
            self.token_MT.to(device),
            self.at_MA.to(device),
            self.target_MA.to(device),
            self.length_M,
            self.answer_M,
            self.kind_M,
            self.left_out,
        )

    def batch(self, row_B: IntArray) -> LessonBatch:
        """Lessons by number, on the device; nothing is asked of it."""
        longest, answer = int(self.length_M[row_B].max()), int(self.answer_M[row_B].max())
        at = torch.from_numpy(row_B).to(self.token_MT.device, non_blocking=True)
        return self._cut(at, longest, answer)

    def whole(self, row_B: Tensor) -> LessonBatch:
        """Lessons by number, as long as the longest of all: every batch has the same shape."""
        return self._cut(row_B, self.token_MT.shape[1], self.at_MA.shape[1])

    def _cut(self, row_B: Tensor, longest: int, answer: int) -> LessonBatch:
        return LessonBatch(
            self.picture_M[row_B],
            self.token_MT[row_B, :longest].long(),
            self.at_MA[row_B, :answer].long(),
            self.target_MA[row_B, :answer].long(),
        )


def make_lessons(lessons: Sequence[Lesson], words: Words, *, context: int) -> Lessons:
    """Tokens of every lesson that fits; raises UserError if none does."""
    kept: list[tuple[Lesson, list[int], list[int]]] = []
    for lesson in lessons:
        prompt = words.ask(lesson.prompt)
        answer = words.answer(lesson.prompt, lesson.answer)
        if len(prompt) + len(answer) <= context:
            kept.append((lesson, prompt, answer))
    if not kept:
        raise UserError(
            f"none of {len(lessons):,} questions has at most {context} tokens with its answer",
            expected="captions that leave room for the question",
            way_out="--set context=256",
        )
    length_M = np.array([len(prompt) + len(answer) for _, prompt, answer in kept])
    answer_M = np.array([len(answer) + 1 for _, _, answer in kept])
    token_MT = np.full((len(kept), length_M.max()), words.pad, dtype=np.int32)
    at_MA = np.zeros((len(kept), answer_M.max()), dtype=np.int32)
    target_MA = np.full((len(kept), answer_M.max()), NOTHING, dtype=np.int32)
    for m, (_, prompt, answer) in enumerate(kept):
        token_MT[m, : length_M[m]] = prompt + answer
        at_MA[m, : answer_M[m]] = np.arange(len(prompt) - 1, length_M[m])
        target_MA[m, : answer_M[m]] = [*answer, words.end]
    return Lessons(
        torch.tensor([lesson.picture for lesson, _, _ in kept]),
        torch.from_numpy(token_MT),
        torch.from_numpy(at_MA),
        torch.from_numpy(target_MA),
        length_M,
        answer_M,
        np.array([KINDS.index(lesson.kind) for lesson, _, _ in kept]),
        len(lessons) - len(kept),
    )


class Draws:
    """Which lessons a step is given: shares of the kinds, by (seed, step) alone."""

    def __init__(self, lessons: Lessons, shares: Sequence[float], *, batch: int, seed: int) -> None:
        """Raises UserError if a kind with a share has no lesson."""
        self._seed = seed
        self._places = [np.flatnonzero(lessons.kind_M == k) for k in range(len(KINDS))]
        self._counts = _counts(shares, batch)
        empty = [k for k, n, at in zip(KINDS, self._counts, self._places, strict=True)
                 if n and not len(at)]  # fmt: skip
        if empty:
            raise UserError(
                f"there is no question of the kind {', '.join(empty)}: no caption has a hard "
                "negative, or all such questions are longer than the context",
                expected="captions with edits that change their meaning",
                way_out="make some with `unbag edit`, --set context=256, or --set asks=false to "
                "train on captions alone",
            )

    def __call__(self, step: int) -> tuple[IntArray, float]:
        """Numbers of lessons, and one drawn from 0 to 1 that decides whether they are blind."""
        rng = np.random.default_rng((self._seed, step))
        rows = [at[rng.integers(len(at), size=n)] for at, n in
                zip(self._places, self._counts, strict=True) if n]  # fmt: skip
        return np.concatenate(rows), float(rng.random())


def _counts(shares: Sequence[float], batch: int) -> list[int]:
    """Whole numbers that sum to the batch; what is left over goes to the largest remainders."""
    exact = np.array(shares) * batch / sum(shares)
    counts = np.floor(exact).astype(int)
    rest = np.argsort(counts - exact, kind="stable")[: batch - int(counts.sum())]
    counts[rest] += 1
    return [int(count) for count in counts]
