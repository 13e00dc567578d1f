"""Filters: which proposed edits may stay.

A filter has one reason, so that rejections can be counted by reason. Those of ALWAYS need no model
and are always on; `make_filters` adds those that are named.

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
"""Reason for the one check that looks at several edits."""


class Proposal(NamedTuple):
    """An edit that may be kept, with all that is known of its caption."""

    caption: Parsed
    edit: Edit
    kind: Kind
    others: tuple[str, ...]
    """Other captions of the same image."""


@runtime_checkable
class Filter(Protocol):
    """Keeps or rejects edits."""

    @property
    def reason(self) -> str:
        """What is wrong with an edit that it rejects."""

    def __call__(self, proposals: Sequence[Proposal]) -> Sequence[bool]:
        """Whether each may stay."""


def make_filters(wanted: Sequence[str], *, device: str = "auto") -> tuple[Filter, ...]:
    """Filters that are always on, then these in their order; models are loaded here.

    Args:
        wanted: `fluency:PATH`, `meaning:PATH`, or package.module:NAME for one of your own.
        device: For those with a model.
    """
    return (*ALWAYS, *(_filter(name, device) for name in dict.fromkeys(wanted)))


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
    """Rejects what says the same in the same words, case and punctuation aside."""

    reason: str = "same as the caption"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Whether each differs from its caption."""
        return [normalised(p.edit.text) != normalised(p.caption.text) for p in proposals]


@dataclass(frozen=True)
class KeepsLength:
    """Rejects what has less than half or more than twice the words of its caption."""

    reason: str = "length"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """By words."""
        lengths = ((len(p.caption.text.split()), len(p.edit.text.split())) for p in proposals)
        return [before <= 2 * after and after <= 2 * before for before, after in lengths]


@dataclass(frozen=True)
class NotDenied:
    """Rejects a hard negative of a caption that denies something, which may well be true too.

    Where there are no cars there may be no trucks either. Whether the change stands in the scope
    of the negation is not asked. Taking a negation away contradicts the caption, so that may stay.
    """

    reason: str = "under a negation"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Hard positives always stay, and so do published rules."""
        return [
            not p.kind.promises_false
            or _DENYING.isdisjoint(p.caption.lower)
            or _denials(p.edit.text) < _denials(p.caption.text)
            for p in proposals
        ]


def _denials(text: str) -> int:
    return len(_DENIALS.findall(text.lower()))


@dataclass(frozen=True)
class NotSaidOfImage:
    """Rejects a hard negative that another caption of the image makes likely to be true.

    That is one that equals such a caption, or whose new words all stand in such captions: "dog"
    for "ball" is no negative where somebody else saw a dog. A swap brings no new words.
    """

    reason: str = "said of the image by another caption"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Hard positives always stay, and so do published rules."""
        # Texts and words are found once for all proposals: every kind meets the same captions.
        said: dict[tuple[str, ...], tuple[set[str], set[str]]] = {}
        for others in {p.others for p in proposals}:
            texts = {normalised(one) for one in others}
            said[others] = texts, {word for one in texts for word in one.split()}
        return [
            not p.kind.promises_false or not p.others or self._is_new(p, *said[p.others])
            for p in proposals
        ]

    def _is_new(self, proposal: Proposal, texts: set[str], words: set[str]) -> bool:
        text = normalised(proposal.edit.text)
        if text in texts:
            return False
        new = set(text.split()) - set(normalised(proposal.caption.text).split()) - _LITTLE
        return not new or not new <= words


ALWAYS: tuple[Filter, ...] = (Differs(), KeepsLength(), NotDenied(), NotSaidOfImage())


@dataclass(frozen=True)
class LeavesMarkedWords:
    """Rejects what moves words in quotation marks, or in capitals where the rest is not.

    What a sign says is no thing in the image. Abbreviations such as TV move like other words.
    """

    reason: str = "quoted or in capitals"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """By the characters of the changes."""
        return [
            not any(
                change.start < end and change.end > start
                for start, end in self._marked(p.caption)
                for change in p.edit.changes
            )
            for p in proposals
        ]

    def _marked(self, caption: Parsed) -> list[tuple[int, int]]:
        found = [match.span() for match in _QUOTED.finditer(caption.text)]
        if not caption.is_upper:
            found += [
                (word.start, word.end)
                for word in caption.words
                if len(word.text) > 2 and word.text.isupper() and word.text not in _ABBREVIATIONS
            ]
        return found


LEAVES_MARKED_WORDS = LeavesMarkedWords()
"""Swaps have it as a filter of their own."""


@dataclass(frozen=True, eq=False)
class Fluency:
    """Rejects an edit that a language model finds much less likely than its caption.

    Compared are log-probabilities per token, so that a longer edit is not rejected for its length.
    What the model cannot read, such as a text longer than its context, is rejected too.
    """

    model: Likelihood
    """One with `is_mean`."""
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
    """From a causal language model: a folder of transformers, a .gguf file, or a hub name."""
    return Fluency(_likelihood(path, device))


@lru_cache(maxsize=1)
def _likelihood(path: str, device: str) -> Likelihood:
    # A GGUF file takes most of a minute to read.
    return load_likelihood(path, is_mean=True, device=device)


@dataclass(frozen=True, eq=False)
class Meaning:
    """Rejects a hard positive that a sentence encoder finds far from its caption.

    Hard negatives always stay. A largest cosine for them would be of no use: such encoders are bags
    of words themselves. all-MiniLM-L6-v2 gives attribute-swapped captions .990 and paraphrases
    .702, so what passes as far enough would be what changes many words, not what changes the
    meaning.
    """

    encoder: Sentence
    least: float = 0.8
    """Cosine that a hard positive needs. With all-MiniLM-L6-v2, of 1,388 hard positives that rules
    made of real captions 0.4 % are below, of 800 captions with one wrong word 26 %, of 1,343 with
    words exchanged 0.1 %."""
    reason: str = "meaning"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Whether each is close enough to its caption."""
        asked = [p for p in proposals if p.kind.is_positive]
        if not asked:
            return [True] * len(proposals)
        before_ND = self.encoder.vectors([p.caption.text for p in asked])
        after_ND = self.encoder.vectors([p.edit.text for p in asked])
        cosine_N = iter((before_ND * after_ND).sum(axis=1).tolist())
        return [not p.kind.is_positive or next(cosine_N) >= self.least for p in proposals]


def load_meaning(path: str, *, device: str = "cpu") -> Meaning:
    """From a sentence encoder: a folder of sentence-transformers, or a hub name."""
    return Meaning(load_sentence(path, device=device))
