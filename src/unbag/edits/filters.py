"""Filters that reject proposed edits.

A filter has one reason, so that rejections can be counted by reason. The filters in ALWAYS need no
model and are always on; `make_filters` adds others.

Dimensions: N proposals, D vector.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

from unbag.edits.kinds import Kind, normalised
from unbag.edits.lexicon import NEGATIONS, word_lists
from unbag.edits.parsed import Parsed
from unbag.errors import UnbagError, unknown_name
from unbag.models.baselines import Likelihood, Sentence, load_likelihood, load_sentence
from unbag.models.loading import choose_device
from unbag.registry import find, names
from unbag.types import Edit

_LITTLE = word_lists("truth").words("little")
_DENYING = NEGATIONS | word_lists("truth").words("more_denying")
_DENIALS = re.compile(rf"(?:\b|(?=n['’]t))(?:{'|'.join(sorted(_DENYING, reverse=True))})\b")
_QUOTED = re.compile(r'"[^"]*(?:"|$)|“[^”]*(?:”|$)')
_ABBREVIATIONS = frozenset(("ATM", "BBQ", "BMX", "CCTV", "DVD", "LED", "LCD", "SUV", "TVS", "USA"))
REPEATED = "same as another edit of the caption"
"""Reason of the one check that compares several edits."""


class Proposal(NamedTuple):
    """A proposed edit with its caption."""

    caption: Parsed
    edit: Edit
    kind: Kind
    others: tuple[str, ...]
    """Other captions of the same image."""


@runtime_checkable
class Filter(Protocol):
    """Accepts or rejects edits."""

    @property
    def reason(self) -> str:
        """Why it rejects an edit."""

    def __call__(self, proposals: Sequence[Proposal]) -> Sequence[bool]:
        """Whether each proposal passes."""


def make_filters(filters: Sequence[str], *, device: str = "auto") -> tuple[Filter, ...]:
    """Make the filters that are always on and the given ones, in order; loads their models.

    Args:
        filters: `fluency:PATH`, `meaning:PATH`, or package.module:NAME for one of your own.
        device: Device of filters with a model.
    """
    return (*ALWAYS, *(_filter(name, device) for name in dict.fromkeys(filters)))


def _filter(name: str, device: str) -> Filter:
    kind, colon, rest = name.partition(":")
    if kind not in names("filter"):
        if not colon:
            raise unknown_name("filter", name, [f"{known}:PATH" for known in names("filter")])
        return _checked(name, find("filter", name))
    if not rest:
        raise UnbagError(
            f"the filter {name!r} names no model",
            expected=f"{kind}:PATH, a folder with a model of transformers",
        )
    loader = find("filter", kind)
    assert callable(loader)
    return _checked(name, loader(rest, device=choose_device(device)))


def _checked(name: str, thing: object) -> Filter:
    if isinstance(thing, type) or not isinstance(thing, Filter):
        raise UnbagError(
            f"the filter {name!r} is a {type(thing).__name__}",
            expected="an object with a `reason` that is called with proposals and gives verdicts",
        )
    return thing


@dataclass(frozen=True)
class Differs:
    """Rejects edits that equal the caption except for case and punctuation."""

    reason: str = "same as the caption"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Whether each differs from its caption."""
        return [normalised(p.edit.text) != normalised(p.caption.text) for p in proposals]


@dataclass(frozen=True)
class KeepsLength:
    """Rejects edits with less than half or more than twice the words of the caption."""

    reason: str = "length"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Compare the numbers of words."""
        lengths = ((len(p.caption.text.split()), len(p.edit.text.split())) for p in proposals)
        return [before <= 2 * after and after <= 2 * before for before, after in lengths]


@dataclass(frozen=True)
class NotDenied:
    """Rejects hard negatives of captions with a negation: they may be true as well.

    Where there are no cars there may be no trucks either. The scope of the negation is not checked.
    Edits that remove a negation contradict the caption and pass.
    """

    reason: str = "under a negation"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Hard positives and published rules always pass."""
        return [
            not p.kind.promises_false
            or _DENYING.isdisjoint(p.caption.lower)
            or _denials(p.edit.text) < _denials(p.caption.text)
            for p in proposals
        ]


def _denials(text: str) -> int:
    return len(_DENIALS.findall(text.lower()))


@dataclass(frozen=True)
class NotInOtherCaptions:
    """Rejects hard negatives that another caption of the image suggests are true.

    An edit is rejected if it equals such a caption, or if all its new words occur in such captions:
    "dog" for "ball" is no negative if another caption mentions a dog. Swaps add no new words.
    """

    reason: str = "suggested by another caption of the image"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Hard positives and published rules always pass."""
        # Computed once for all proposals: every kind has the same captions.
        seen: dict[tuple[str, ...], tuple[set[str], set[str]]] = {}
        for others in {p.others for p in proposals}:
            texts = {normalised(other) for other in others}
            seen[others] = texts, {word for text in texts for word in text.split()}
        return [
            not p.kind.promises_false or not p.others or self._is_new(p, *seen[p.others])
            for p in proposals
        ]

    def _is_new(self, proposal: Proposal, texts: set[str], words: set[str]) -> bool:
        text = normalised(proposal.edit.text)
        if text in texts:
            return False
        new = set(text.split()) - set(normalised(proposal.caption.text).split()) - _LITTLE
        return not new or not new <= words


ALWAYS: tuple[Filter, ...] = (Differs(), KeepsLength(), NotDenied(), NotInOtherCaptions())


@dataclass(frozen=True)
class LeavesMarkedWords:
    """Rejects edits that change words in quotation marks, or in capitals in a mixed-case caption.

    The text on a sign is not an object of the image. Abbreviations such as TV change like other
    words.
    """

    reason: str = "quoted or in capitals"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Compare the spans of the changes with those of marked words."""
        return [
            not any(
                change.start < end and change.end > start
                for start, end in self._marked(p.caption)
                for change in p.edit.changes
            )
            for p in proposals
        ]

    def _marked(self, caption: Parsed) -> list[tuple[int, int]]:
        spans = [match.span() for match in _QUOTED.finditer(caption.text)]
        if not caption.is_upper:
            spans += [
                (word.start, word.end)
                for word in caption.words
                if len(word.text) > 2 and word.text.isupper() and word.text not in _ABBREVIATIONS
            ]
        return spans


LEAVES_MARKED_WORDS = LeavesMarkedWords()
"""The filter of all swaps."""


@dataclass(frozen=True, eq=False)
class Fluency:
    """Rejects edits that a language model finds much less likely than their caption.

    It compares log-probabilities per token, so that longer edits are not rejected for their length.
    Texts that the model cannot read, such as those longer than its context, are rejected too.
    """

    model: Likelihood
    """A likelihood with `is_mean`."""
    drop: float = 1.0
    """Nats per token that an edit may lose against its caption. With SmolLM2-135M on some 200 edits
    of real captions a kind, 1.0 rejects 37 % of noun swaps, the most absurd ones, 28 % of argument
    swaps, 3 % of replaced nouns, 1 % of replaced colours and 3 % of synonyms."""
    reason: str = "fluency"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Whether each is about as fluent as its caption."""
        before = self.model.of([p.caption.text for p in proposals])
        after = self.model.of([p.edit.text for p in proposals])
        return [a >= b - self.drop for a, b in zip(after, before, strict=True)]


def load_fluency(path: str, *, device: str = "cpu") -> Fluency:
    """Load the filter with a causal language model: a folder, a .gguf file, or a hub name."""
    return Fluency(_likelihood(path, device))


@lru_cache(maxsize=1)
def _likelihood(path: str, device: str) -> Likelihood:
    # Reading a GGUF file takes up to a minute.
    return load_likelihood(path, is_mean=True, device=device)


@dataclass(frozen=True, eq=False)
class Meaning:
    """Rejects hard positives that a sentence encoder finds far from their caption.

    Hard negatives always pass. A maximum cosine for them would not help: such encoders are bags of
    words themselves. all-MiniLM-L6-v2 gives attribute-swapped captions a cosine of .990 and
    paraphrases .702, so a maximum would select edits that change many words, not the meaning.
    """

    encoder: Sentence
    min_cosine: float = 0.8
    """Minimum cosine of a hard positive. With all-MiniLM-L6-v2, of 1,388 hard positives that rules
    made of real captions 0.4 % are below, of 800 captions with one wrong word 26 %, of 1,343 with
    words exchanged 0.1 %."""
    reason: str = "meaning"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Whether each is close enough to its caption."""
        positives = [p for p in proposals if p.kind.is_positive]
        if not positives:
            return [True] * len(proposals)
        before_ND = self.encoder.vectors([p.caption.text for p in positives])
        after_ND = self.encoder.vectors([p.edit.text for p in positives])
        cosine_N = iter((before_ND * after_ND).sum(axis=1).tolist())
        return [not p.kind.is_positive or next(cosine_N) >= self.min_cosine for p in proposals]


def load_meaning(path: str, *, device: str = "cpu") -> Meaning:
    """Load the filter with a sentence encoder: a folder of sentence-transformers, or a hub name."""
    return Meaning(load_sentence(path, device=device))
