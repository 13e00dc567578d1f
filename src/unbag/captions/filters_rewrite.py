"""What a chat model answered comes in as proposed edits; rewritten captions stay, chatter goes.

One filter a reason, so that a summary says what a chat model does wrong.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from unbag.captions.changes import normalised
from unbag.captions.filters import Differs, Filter, KeepsLength, Proposal
from unbag.captions.filters_truth import KeepsTruth
from unbag.captions.parsed import Parsed
from unbag.captions.rewrite_models import CUT, REFUSED, TOO_LONG, UNANSWERED

LEAST_OVERLAP = 0.5
"""Share of words, of the longer text, that caption and rewritten caption have in common."""
_CHATTER = re.compile(
    r"""
    \b(?:i(?:['’]m|\ am)?\ (?:sorry|afraid|cannot|can['’]?t|can\ not|unable|apologi[sz]e|have|will|
        would|think|hope|replaced|changed|understand|do\ not|don['’]t)|
    as\ an?\ (?:ai|language|assistant)|language\ model|
    (?:here(?:['’]s|\ is|\ are)\ (?:the|a|an|your|my|one|another)\b|here\ you\ go)|
    sure[,!.]|certainly[,!.]|of\ course[,!.]|okay[,!.]|no\ problem|
    (?:the|this|your|original|new|rewritten|revised|following|given)\ (?:sentence|caption|text|
        word|phrase)|
    synonym|paraphras|rewrit|rephras|revised|let\ me\ know|note\ that|please|hope\ this|
    in\ this\ (?:case|version)|instruction)
    """,
    re.I | re.X,
)
_MARKS = "*_`#~|<>[]{}\\→"
_SENTENCE_END = re.compile(r"[.!?]+(?=\s+\S)")
_WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class Keeps:
    """Keeps what a test on caption and rewritten text lets pass."""

    reason: str
    test: Callable[[Parsed, str], bool]

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """One by one."""
        return [self.test(p.caption, p.edit.text) for p in proposals]


@dataclass(frozen=True)
class IsNot:
    """Rejects what stands in place of an answer."""

    reason: str
    mark: str

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """One by one."""
        return [p.edit.text != self.mark for p in proposals]


def is_something(caption: Parsed, text: str) -> bool:
    """Whether it has a letter at all."""
    return any(letter.isalpha() for letter in text)


def is_whole(caption: Parsed, text: str) -> bool:
    """Whether it ended before it was cut."""
    return not text.endswith(CUT)


def is_no_chatter(caption: Parsed, text: str) -> bool:
    """Whether it has no phrase of a refusal or of talk about the task that the caption lacks."""
    had = {match.group().lower() for match in _CHATTER.finditer(caption.text)}
    return all(match.group().lower() in had for match in _CHATTER.finditer(text))


def is_plain(caption: Parsed, text: str) -> bool:
    """Whether it has no mark of Markdown or of a comparison more often than the caption."""
    return all(text.count(mark) <= caption.text.count(mark) for mark in _MARKS)


def is_one_piece(caption: Parsed, text: str) -> bool:
    """Whether it is one line with no more sentences and labels than the caption has."""
    if "\n" in text or text.count(":") > caption.text.count(":"):
        return False
    return len(_SENTENCE_END.findall(text)) <= len(_SENTENCE_END.findall(caption.text))


def overlaps(caption: Parsed, text: str) -> bool:
    """Whether enough words are those of the caption."""
    before, after = Counter(normalised(caption.text).split()), Counter(normalised(text).split())
    longer = max(before.total(), after.total())
    return (before & after).total() >= LEAST_OVERLAP * longer


def is_exchange(caption: Parsed, text: str) -> bool:
    """Whether what stands on the two sides of an "and" changed places, and nothing else did."""
    wanted = [_plain(match.group()) for match in _WORD.finditer(text)]
    return any(words == wanted for words in _exchanges(caption))


def _exchanges(caption: Parsed) -> Iterator[list[str]]:
    """Every exchange around an "and", by words.

    What the parser sees joined goes to the other side: in "a man in a hat and a woman" that is the
    man, never the hat alone.
    """
    found = list(_WORD.finditer(caption.text))
    words = [_plain(match.group()) for match in found]
    starts = [match.start() for match in found]
    for at, joining in enumerate(caption.words):
        if joining.dep != "cc" or joining.text.lower() != "and":
            continue
        joined = (c for c in caption.children[joining.head] if caption.words[c].dep == "conj")
        second = next((c for c in joined if c > at), None)
        if second is None:
            continue
        middle, one, other = (
            bisect(starts, caption.words[i].start) - 1 for i in (at, joining.head, second)
        )
        for first, last in product(range(one + 1), range(other, len(words))):
            left, right = words[first:middle], words[middle + 1 : last + 1]
            yield [*words[:first], *right, "and", *left, *words[last + 1 :]]


def _plain(word: str) -> str:
    return "a" if word.lower() == "an" else word.lower()


REPLACED: tuple[Filter, ...] = (
    IsNot("the server refused the caption", REFUSED),
    IsNot("no answer from the server", UNANSWERED),
    IsNot("too long for the chat model", TOO_LONG),
    Keeps("empty answer", is_something),
    Keeps("answer cut off", is_whole),
    Keeps("refusal or chatter", is_no_chatter),
    Keeps("Markdown", is_plain),
    Keeps("more than a sentence", is_one_piece),
    Differs(),
    KeepsLength(),
    Keeps("overlap", overlaps),
    KeepsTruth(),
)
EXCHANGED: tuple[Filter, ...] = (*REPLACED, Keeps("no exchange around and", is_exchange))
