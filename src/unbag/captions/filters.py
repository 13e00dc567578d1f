"""Proposed edits come in; which of them may stay goes out, one verdict each.

A filter has one reason, so that rejections can be counted by reason. Those here need no model, and
those of ALWAYS are always on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from unbag.captions.changes import normalised
from unbag.captions.kinds import Kind
from unbag.captions.parsed import Parsed
from unbag.captions.truth_words import NEGATIONS
from unbag.types import Edit

_LITTLE_WORDS = """
a an the of in on at with and or is are was were be being been to by for from no not
"""
_LITTLE = frozenset(_LITTLE_WORDS.split())
_MORE_DENYING_WORDS = """
n’t nt lack lacks lacked lacking missing hardly scarcely instead except devoid isnt arent wasnt
werent dont doesnt didnt cant
"""
_DENYING = NEGATIONS | frozenset(_MORE_DENYING_WORDS.split())
_DENIALS = re.compile(rf"(?:\b|(?=n['’]t))(?:{'|'.join(sorted(_DENYING, reverse=True))})\b")
_QUOTED = re.compile(r'"[^"]*(?:"|$)|“[^”]*(?:”|$)')
_ABBREVIATIONS = frozenset(("ATM", "BBQ", "BMX", "CCTV", "DVD", "LED", "LCD", "SUV", "TVS", "USA"))


class Proposal(NamedTuple):
    """An edit that may be kept, with all that is known of its caption."""

    caption: Parsed
    edit: Edit
    kind: Kind
    others: tuple[str, ...]
    """Other captions of the same picture."""


@runtime_checkable
class Filter(Protocol):
    """Keeps or rejects edits."""

    @property
    def reason(self) -> str:
        """What is wrong with an edit that it rejects."""

    def __call__(self, proposals: Sequence[Proposal]) -> Sequence[bool]:
        """Whether each may stay."""


@dataclass(frozen=True)
class Differs:
    """Rejects what says the same in the same words, case and punctuation aside."""

    reason: str = "same as the caption"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Whether each differs from its caption."""
        return [normalised(p.edit.text) != normalised(p.caption.text) for p in proposals]


@dataclass(frozen=True)
class NotSaidOfPicture:
    """Rejects a hard negative that another caption of the picture makes likely to be true.

    That is one that equals such a caption, or whose new words all stand in such captions: "dog"
    for "ball" is no negative where somebody else saw a dog. A swap brings no new words.
    """

    reason: str = "said of the picture by another caption"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Hard positives always stay, and so do published rules."""
        said = _said_by({p.others for p in proposals})
        return [
            not p.kind.promises_false or not p.others or self._is_new(p, said[p.others])
            for p in proposals
        ]

    def _is_new(self, proposal: Proposal, said: _Said) -> bool:
        text = normalised(proposal.edit.text)
        if text in said.texts:
            return False
        new = set(text.split()) - set(normalised(proposal.caption.text).split()) - _LITTLE
        return not new or not new <= said.words


class _Said(NamedTuple):
    """What the other captions of a picture say."""

    texts: frozenset[str]
    words: frozenset[str]


def _said_by(all_others: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], _Said]:
    """Found once for all proposals: every kind meets the same captions."""
    sets = set(all_others)
    plain = {one: normalised(one) for one in set[str]().union(*sets)}
    texts = {others: frozenset(plain[one] for one in others) for others in sets}
    return {
        others: _Said(found, frozenset(word for one in found for word in one.split()))
        for others, found in texts.items()
    }


@dataclass(frozen=True)
class NotDenied:
    """Rejects a hard negative of a caption that denies something, which may well be true too.

    Where there are no cars there may be no trucks either. Whether the change stands in the scope
    of the negation is not asked. Taking a negation away contradicts the caption, so that may stay.
    """

    reason: str = "under a negation"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Hard positives always stay, and so do published rules."""
        return [not p.kind.promises_false or self._contradicts(p) for p in proposals]

    def _contradicts(self, proposal: Proposal) -> bool:
        if _DENYING.isdisjoint(proposal.caption.lower):
            return True
        return _denials(proposal.edit.text) < _denials(proposal.caption.text)


def _denials(text: str) -> int:
    return len(_DENIALS.findall(text.lower()))


@dataclass(frozen=True)
class KeepsLength:
    """Rejects what has less than half or more than twice the words of its caption."""

    reason: str = "length"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """By words."""
        return [self._fits(p) for p in proposals]

    def _fits(self, proposal: Proposal) -> bool:
        before, after = len(proposal.caption.text.split()), len(proposal.edit.text.split())
        return before <= 2 * after and after <= 2 * before


@dataclass(frozen=True)
class LeavesMarkedWords:
    """Rejects what moves words in quotation marks, or in capitals where the rest is not.

    What a sign says is no thing in the picture. Abbreviations such as TV move like other words.
    """

    reason: str = "quoted or in capitals"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """By the characters of the changes."""
        return [not any(self._touched(p, *span) for span in _marked(p.caption)) for p in proposals]

    def _touched(self, proposal: Proposal, start: int, end: int) -> bool:
        return any(change.start < end and change.end > start for change in proposal.edit.changes)


LEAVES_MARKED_WORDS = LeavesMarkedWords()
"""Swaps have it as a filter of their own."""


def _marked(caption: Parsed) -> list[tuple[int, int]]:
    found = [match.span() for match in _QUOTED.finditer(caption.text)]
    if not caption.is_upper:
        found += [
            (word.start, word.end)
            for word in caption.words
            if len(word.text) > 2 and word.text.isupper() and word.text not in _ABBREVIATIONS
        ]
    return found


ALWAYS: tuple[Filter, ...] = (Differs(), KeepsLength(), NotDenied(), NotSaidOfPicture())
REPEATED = "same as another edit of the caption"
"""Reason for the one check that looks at several edits."""
