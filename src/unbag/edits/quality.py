"""How good edits are: precision by two readers, and how a caption-only model tells them apart.

A reader sees a caption and a changed caption, in an order that mixes all kinds, and neither the
kind nor whether the meaning was to be kept. Two answers: is the changed caption true of the image
that the caption describes, and is it grammatical? An edit is right if it is grammatical and its
truth is what its kind promises. A model that never sees the image should not know which of the
two is the original: where it does, whoever trains on the edits can learn to spot edits instead of
looking at images. The closer to 50 %, the better.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias, get_args

from unbag.errors import UnbagError
from unbag.metrics.intervals import wilson
from unbag.types import Edit, Edited

Truth = Literal["true", "false", "unclear"]
"""Of the image that the caption describes; unclear where both could be."""
TRUTHS = get_args(Truth)
SAMPLE = 1000
"""Edits of each kind that are looked at: enough for three points either way."""
Likely: TypeAlias = Callable[[Sequence[str]], Sequence[float]]
"""How likely each text is: larger is likelier, NaN is unknown. `Likelihood.of` is one."""


class EditVerdict(NamedTuple):
    """What one reader said of one edit."""

    truth: Truth
    is_grammatical: bool


@dataclass(frozen=True)
class EditCase:
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


def make_cases(edits: Sequence[tuple[str, str, Edit]], *, seed: int) -> list[EditCase]:
    """Cases in an order that mixes kinds; from (caption id, caption, edit)."""
    cases = []
    for caption_id, caption, edit in edits:
        text = "\0".join((str(seed), caption_id, edit.kind, edit.text))
        name = blake2b(text.encode(), digest_size=6).hexdigest()
        cases.append(EditCase(name, caption_id, caption, edit))
    return sorted(cases, key=lambda case: case.id)


def precision_of(
    kind: str,
    cases: Sequence[EditCase],
    readers: tuple[Mapping[str, EditVerdict], Mapping[str, EditVerdict]],
) -> Precision:
    """How often the edits of one kind are right; every case needs both verdicts."""
    own = [case for case in cases if case.edit.kind == kind]
    missing = [case.id for case in own for reader in readers if case.id not in reader]
    if not own or missing:
        raise UnbagError(
            f"{kind}: {len(own)} cases, {len(missing)} verdicts missing",
            expected="two verdicts for each of at least one case",
            hint="have the readers finish their sheets",
        )
    right = [[is_right(c.edit.is_positive, reader[c.id]) for c in own] for reader in readers]
    said = [reader[case.id] for reader in readers for case in own]
    promised = ["true" if case.edit.is_positive else "false" for case in own] * 2
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


def is_right(is_positive: bool, judged: EditVerdict) -> bool:
    """Whether the edit is what its kind promises, in good English."""
    return judged.is_grammatical and judged.truth == ("true" if is_positive else "false")


def kappa(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Cohen's: agreement beyond what two readers with these shares would have by chance.

    NaN where one of them always says the same, since chance then agrees as well.
    """
    n = len(first)
    observed = sum(a == b for a, b in zip(first, second, strict=True)) / n
    one, other = sum(first) / n, sum(second) / n
    expected = one * other + (1 - one) * (1 - other)
    return (observed - expected) / (1 - expected) if expected < 1 else float("nan")


class EditPair(NamedTuple):
    """A caption and an edit of it."""

    original: str
    edit: str
    kind: str


@dataclass(frozen=True)
class Leak:
    """What a caption-only model knows about the edits of one kind."""

    pairs: int
    """Those that it can read."""
    preferred: float
    """Share of them in which the original is likelier; ties count half."""
    low: float
    high: float
    """Where that share may lie, at 95 % (Wilson)."""


def leaks(edited: Iterable[Edited], model: str, *, device: str = "auto") -> dict[str, Leak]:
    """By kind. The model is a causal language model: a folder, a .gguf file or a hub name."""
    from unbag.models.baselines import load_likelihood
    from unbag.models.loading import choose_device

    likelihood = load_likelihood(model, device=choose_device(device))
    return leak_of(sampled(edited), likelihood.of)


def sampled(edited: Iterable[Edited], size: int = SAMPLE) -> list[EditPair]:
    """So many edits of each kind, drawn by the ids of their captions, whatever their order."""
    heaps: dict[str, list[tuple[int, EditPair]]] = {}
    for one in edited:
        for at, made in enumerate(one.edits):
            digest = blake2b(f"{one.id}\0{made.kind}\0{at}".encode(), digest_size=8).digest()
            # Of a heap the smallest goes first, so the smallest hashes are kept as the largest.
            entry = (-int.from_bytes(digest, "big"), EditPair(one.text, made.text, made.kind))
            heap = heaps.setdefault(made.kind, [])
            if len(heap) < size:
                heapq.heappush(heap, entry)
            else:
                heapq.heappushpop(heap, entry)
    return [pair for kind in sorted(heaps) for _, pair in sorted(heaps[kind], reverse=True)]


def leak_of(pairs: Sequence[EditPair], likely: Likely) -> dict[str, Leak]:
    """By kind, in the order in which kinds appear; a kind without a readable pair is left out."""
    before = likely([pair.original for pair in pairs])
    after = likely([pair.edit for pair in pairs])
    verdicts: dict[str, list[float]] = {}
    for pair, one, other in zip(pairs, before, after, strict=True):
        # NaN equals nothing, itself included.
        if one == one and other == other:
            verdicts.setdefault(pair.kind, []).append(0.5 if one == other else float(one > other))
    found: dict[str, Leak] = {}
    for kind, own in verdicts.items():
        interval = wilson(sum(own), len(own))
        found[kind] = Leak(len(own), sum(own) / len(own), interval.low, interval.high)
    return found
