"""The quality of edits: precision by two readers, and the leak to a caption-only model.

Readers see captions with edits of all kinds in random order, without the kind. For each they answer
whether the edit is true of the image that the caption describes, and whether it is grammatical. An
edit is right if it is grammatical and as true or false as its kind promises.

The leak is how often a caption-only model prefers the original to its edit. Models trained on edits
can use a leak instead of the image. The closer to 50 %, the better.
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
"""Truth of an edit for the image that the caption describes; unclear if it could be either."""
TRUTHS = get_args(Truth)
SAMPLE = 1000
"""Edits of each kind that are scored: enough for an interval of plus or minus 3 points."""
ScoreTexts: TypeAlias = Callable[[Sequence[str]], Sequence[float]]
"""Scores texts by likelihood: larger is likelier, NaN is unknown. `Likelihood.of` is one."""


class EditVerdict(NamedTuple):
    """The verdict of one reader on one edit."""

    truth: Truth
    is_grammatical: bool


@dataclass(frozen=True)
class EditCase:
    """An edit for the readers."""

    id: str
    """Does not reveal the kind."""
    caption_id: str
    caption: str
    edit: Edit


class Precision(NamedTuple):
    """The precision of one kind, over both readers."""

    kind: str
    n: int
    """Number of edits, each with two verdicts."""
    right: float
    """Share of right edits, mean over the readers."""
    low: float
    high: float
    """95 % Wilson interval with n trials: the two verdicts on one edit count as one trial."""
    meaning: float
    """Share whose truth is as promised, whatever the grammar."""
    grammar: float
    agreement: float
    """Share of edits that both readers find right, or both wrong."""


def make_cases(edits: Sequence[tuple[str, str, Edit]], *, seed: int) -> list[EditCase]:
    """Make cases from (caption id, caption, edit), in an order that mixes kinds."""
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
    """Compute the precision of one kind; every case needs both verdicts."""
    own = [case for case in cases if case.edit.kind == kind]
    missing = [case.id for case in own for reader in readers if case.id not in reader]
    if not own or missing:
        raise UnbagError(
            f"{kind}: {len(own)} cases, {len(missing)} verdicts missing",
            expected="two verdicts for each of at least one case",
            hint="have the readers finish their sheets",
        )
    right = [[is_right(c.edit.is_positive, reader[c.id]) for c in own] for reader in readers]
    verdicts = [reader[case.id] for reader in readers for case in own]
    promised = ["true" if case.edit.is_positive else "false" for case in own] * 2
    share = sum(map(sum, right)) / (2 * len(own))
    low, high, _ = wilson(share * len(own), len(own))
    return Precision(
        kind=kind,
        n=len(own),
        right=share,
        low=low,
        high=high,
        meaning=sum(v.truth == p for v, p in zip(verdicts, promised, strict=True)) / len(verdicts),
        grammar=sum(v.is_grammatical for v in verdicts) / len(verdicts),
        agreement=sum(a == b for a, b in zip(*right, strict=True)) / len(own),
    )


def is_right(is_positive: bool, verdict: EditVerdict) -> bool:
    """Whether the edit is grammatical, and true or false as promised."""
    return verdict.is_grammatical and verdict.truth == ("true" if is_positive else "false")


def kappa(first: Sequence[bool], second: Sequence[bool]) -> float:
    """Cohen's kappa: the agreement of two readers beyond chance agreement.

    NaN if both always give the same answer, where chance agreement is perfect.
    """
    n = len(first)
    observed = sum(a == b for a, b in zip(first, second, strict=True)) / n
    first_share, second_share = sum(first) / n, sum(second) / n
    expected = first_share * second_share + (1 - first_share) * (1 - second_share)
    return (observed - expected) / (1 - expected) if expected < 1 else float("nan")


class EditPair(NamedTuple):
    """A caption and an edit of it."""

    original: str
    edit: str
    kind: str


@dataclass(frozen=True)
class Leak:
    """How often a caption-only model prefers originals to the edits of one kind."""

    pairs: int
    """Number of pairs that the model can read."""
    preferred: float
    """Share of pairs in which the original is likelier; ties count half."""
    low: float
    high: float
    """95 % Wilson interval of that share."""


def leaks(edited: Iterable[Edited], model: str, *, device: str = "auto") -> dict[str, Leak]:
    """Leak by kind to a causal language model: a folder, a .gguf file or a hub name."""
    from unbag.models.baselines import load_likelihood
    from unbag.models.loading import choose_device

    likelihood = load_likelihood(model, device=choose_device(device))
    return leak_of(sampled(edited), likelihood.of)


def sampled(edited: Iterable[Edited], size: int = SAMPLE) -> list[EditPair]:
    """Sample edits of each kind by a hash of the caption id, independent of their order."""
    heaps: dict[str, list[tuple[int, EditPair]]] = {}
    for caption in edited:
        for i, edit in enumerate(caption.edits):
            digest = blake2b(f"{caption.id}\0{edit.kind}\0{i}".encode(), digest_size=8).digest()
            # A heap drops its smallest entry: negated, that is the largest hash.
            entry = (-int.from_bytes(digest, "big"), EditPair(caption.text, edit.text, edit.kind))
            heap = heaps.setdefault(edit.kind, [])
            if len(heap) < size:
                heapq.heappush(heap, entry)
            else:
                heapq.heappushpop(heap, entry)
    return [pair for kind in sorted(heaps) for _, pair in sorted(heaps[kind], reverse=True)]


def leak_of(pairs: Sequence[EditPair], score: ScoreTexts) -> dict[str, Leak]:
    """Leak by kind, in the order of appearance, without kinds that have no readable pair."""
    before = score([pair.original for pair in pairs])
    after = score([pair.edit for pair in pairs])
    verdicts: dict[str, list[float]] = {}
    for pair, original, edit in zip(pairs, before, after, strict=True):
        # Skip NaN, which does not equal itself.
        if original == original and edit == edit:
            verdicts.setdefault(pair.kind, []).append(
                0.5 if original == edit else float(original > edit)
            )
    by_kind: dict[str, Leak] = {}
    for kind, wins in verdicts.items():
        interval = wilson(sum(wins), len(wins))
        by_kind[kind] = Leak(len(wins), sum(wins) / len(wins), interval.low, interval.high)
    return by_kind
