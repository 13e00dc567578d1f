"""Edits come in; a sheet to judge them by, blind, goes out, and from verdicts their precision.

A reader sees a caption and a changed caption, in an order that mixes all kinds, and neither the
kind nor whether the meaning was to be kept. Two answers: is the changed caption true of the
picture that the caption describes, and is it grammatical? An edit is right if it is grammatical
and its truth is what its kind promises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple, get_args

from unbag.errors import UserError
from unbag.metrics.intervals import wilson
from unbag.types import Edit

Truth = Literal["true", "false", "unclear"]
"""Of the picture that the caption describes; unclear where both could be."""
TRUTHS = get_args(Truth)
ENOUGH = 0.85
"""Precision under which a kind is off by default."""


class Judged(NamedTuple):
    """What one reader said of one edit."""

    truth: Truth
    is_grammatical: bool


@dataclass(frozen=True)
class Case:
    """An edit to judge."""

    id: str
    """Says nothing of the kind."""
    caption_id: str
    caption: str
    edit: Edit


class Precision(NamedTuple):
    """Of one kind, over both readers."""

    kind: str
    n: int
    """Edits that were judged, each by two readers."""
    right: float
    """Mean over the readers: grammatical, and true or false as promised."""
    low: float
    high: float
    """95 % by Wilson's score over n, which takes two readers of one edit as one trial."""
    meaning: float
    """Share whose truth is as promised, grammar aside."""
    grammar: float
    agreement: float
    """Share of edits that both readers call right, or both not."""


def make_cases(edits: Sequence[tuple[str, str, Edit]], *, seed: int) -> list[Case]:
    """Cases in an order that mixes kinds; from (caption id, caption, edit)."""
    cases = [
        Case(_hash(seed, caption_id, edit.kind, edit.text), caption_id, caption, edit)
        for caption_id, caption, edit in edits
    ]
    return sorted(cases, key=lambda case: case.id)


def is_right(edit_keeps_meaning: bool, judged: Judged) -> bool:
    """Whether the edit is what its kind promises, in good English."""
    return judged.is_grammatical and judged.truth == ("true" if edit_keeps_meaning else "false")


def precision_of(
    kind: str, cases: Sequence[Case], readers: tuple[Mapping[str, Judged], Mapping[str, Judged]]
) -> Precision:
    """How often the edits of one kind are right; every case needs both verdicts."""
    own = [case for case in cases if case.edit.kind == kind]
    missing = [case.id for case in own for reader in readers if case.id not in reader]
    if not own or missing:
        raise UserError(
            f"{kind}: {len(own)} cases, {len(missing)} verdicts missing",
            expected="two verdicts for each of at least one case",
            way_out="have the readers finish their sheets",
        )
    right = [[is_right(c.edit.keeps_meaning, reader[c.id]) for c in own] for reader in readers]
    said = [reader[case.id] for reader in readers for case in own]
    promised = ["true" if case.edit.keeps_meaning else "false" for case in own] * 2
    share = sum(map(sum, right)) / (2 * len(own))
    low, high, _ = wilson(share * len(own), len(own))
    return Precision(
        kind=kind,
        n=len(own),
        right=share,
        low=low,
        high=high,
        meaning=sum(j.truth == p for j, p in zip(said, promised, strict=True)) / len(said),
        grammar=sum(judged.is_grammatical for judged in said) / len(said),
        agreement=sum(a == b for a, b in zip(*right, strict=True)) / len(own),
    )


def kappa(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Cohen's: agreement beyond what two readers with these shares would have by chance.

    NaN where one of them always says the same, since chance then agrees as well.
    """
    n = len(first)
    observed = sum(a == b for a, b in zip(first, second, strict=True)) / n
    one, other = sum(first) / n, sum(second) / n
    expected = one * other + (1 - one) * (1 - other)
    return (observed - expected) / (1 - expected) if expected < 1 else float("nan")


def _hash(seed: int, *parts: str) -> str:
    return blake2b("\0".join([str(seed), *parts]).encode(), digest_size=6).hexdigest()
