"""A filter that rejects hard positives which plainly say something else.

A rewrite must keep negations, numbers, colours, what has which colour and number, and sides (left,
right, above, below, in front, behind), and may not put a word's opposite in its place. A side may
become its opposite where its two things change places: "the cup left of the plate" and "the plate
right of the cup" say the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from unbag.edits.filters import Proposal
from unbag.edits.lexicon import COLOUR_NAMES, NEGATIONS, word_lists
from unbag.edits.parsed import ADJECTIVE_TAGS, NOUN_TAGS, Parsed

_LISTS = word_lists("truth")
NUMBERS: Mapping[str, str] = MappingProxyType(
    {word: str(at) for at, word in enumerate(_LISTS.sequence("numbers_from_two"), start=2)}
    | {"thirty": "30", "forty": "40", "fifty": "50", "hundred": "100", "dozen": "12"}
)
"""From two on: "one" often stands for "a"."""
PAIRS = frozenset(("couple", "pair", "both", "twin", "twins", "duo"))
"""May stand for "two", and need not."""
SIDES = _LISTS.classes("sides")
"""Words for sides, each with its side."""
OPPOSITE_SIDE = _LISTS.replacements("turned")


def _poles() -> Mapping[str, tuple[tuple[int, int], ...]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for line, pair in enumerate(_LISTS.lines("opposites")):
        for pole, words in enumerate(pair.split(" / ")):
            for word in words.split():
                found.setdefault(word, []).append((line, pole))
    return MappingProxyType({word: tuple(places) for word, places in found.items()})


POLES = _poles()
"""For each word the lines of opposites in which it stands, with its side of the line, 0 or 1."""
_ON_TOP = "on_top"
_SEVERAL = (
    (re.compile(r"\b(?:in|at the) front of\b|\bin front\b"), "in_front"),
    (re.compile(r"\b(?:to the rear of|in back of)\b"), "behind"),
    (re.compile(r"\bon (?:the )?top of\b|\batop\b"), _ON_TOP),
    (re.compile(r"\bcannot\b|\bcan['’]t\b"), "can not"),
    (re.compile(r"n['’]t\b"), " not"),
    # "right next to" says nothing of a side.
    (re.compile(r"(?<!the )\bright (?=next|beside|behind|above|below|under|near|by|in|at|up)"), ""),
)
_WORD = re.compile(r"[a-z_]+|\d+")
_NEGATED = dict.fromkeys(NEGATIONS, "not")
_JOINS = frozenset(("and", "or"))


def keeps_truth(caption: Parsed, rewritten: str) -> bool:
    """Whether nothing speaks against the rewritten caption saying the same."""
    before, after = _words(caption.text), _words(rewritten)
    if before == after:
        return True
    dropped, added = Counter(before) - Counter(after), Counter(after) - Counter(before)
    return (
        _counted(before, _NEGATED) == _counted(after, _NEGATED)
        and _counted(before, COLOUR_NAMES) == _counted(after, COLOUR_NAMES)
        and _same_numbers(before, after)
        and not _is_moved(caption, before, after)
        and _same_sides(caption, before, after, dropped, added)
    )


@dataclass(frozen=True)
class KeepsTruth:
    """Rejects a hard positive that changes a negation, number, colour or side, or opposes."""

    reason: str = "changes what is said"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Hard negatives always stay."""
        return [not p.kind.is_positive or keeps_truth(p.caption, p.edit.text) for p in proposals]


KEEPS_TRUTH = KeepsTruth()
"""As `--filters` names it: unbag.edits.truth_filter:KEEPS_TRUTH."""


def _words(text: str) -> list[str]:
    text = text.lower()
    for pattern, new in _SEVERAL:
        text = pattern.sub(new, text)
    return _WORD.findall(text)


def _counted(words: Sequence[str], classes: Mapping[str, str]) -> Counter[str]:
    return Counter(classes[word] for word in words if word in classes)


def _same_numbers(before: Sequence[str], after: Sequence[str]) -> bool:
    had, has = _numbers(before), _numbers(after)
    changed = (had - has) + (has - had)
    if not changed:
        return True
    is_pair = (PAIRS & set(before)) != (PAIRS & set(after))
    return is_pair and changed == Counter({"2": 1})


def _numbers(words: Sequence[str]) -> Counter[str]:
    said = Counter(word for word in words if word.isdigit() and word != "1")
    return said + _counted(words, NUMBERS)


def _is_moved(caption: Parsed, before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether a colour or number went from its noun to another noun of the caption."""
    if not any(word in COLOUR_NAMES or word in NUMBERS for word in before):
        return False
    tags: dict[str, str] = {}
    for word in caption.words:
        # A word that stands as noun and verb says nothing of where a noun phrase ends.
        same = tags.setdefault(word.text.lower(), word.tag) == word.tag
        tags[word.text.lower()] = word.tag if same else ""
    had = set(_owned(before, tags))
    new = set(_owned(after, tags)) - had
    return not {said for said, _ in had}.isdisjoint(said for said, _ in new)


def _owned(words: Sequence[str], tags: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Colours and numbers, each with the caption's noun that it stands before."""
    for at, word in enumerate(words):
        said = COLOUR_NAMES.get(word) or NUMBERS.get(word)
        if said is None:
            continue
        for end, after in enumerate(words[at + 1 :], start=at + 1):
            if tags.get(after) in NOUN_TAGS and after not in COLOUR_NAMES:
                last = end
                while last + 1 < len(words) and tags.get(words[last + 1]) in NOUN_TAGS:
                    last += 1
                if last + 1 == len(words) or words[last + 1] in tags:
                    yield said, words[last]
                break
            is_joining = after in COLOUR_NAMES or after in _JOINS
            if not is_joining and tags.get(after) not in ADJECTIVE_TAGS:
                break


def _same_sides(
    caption: Parsed,
    before: Sequence[str],
    after: Sequence[str],
    dropped: Counter[str],
    added: Counter[str],
) -> bool:
    had, has = _counted(before, SIDES), _counted(after, SIDES)
    gone, new = had - has, has - had
    if _is_opposed(dropped, added):
        return False
    if not gone and not new:
        return True
    # What is on top may be left at "on", so it counts only where it is turned.
    gone += Counter({"above": before.count(_ON_TOP)} if "below" in new else {})
    new += Counter({"above": after.count(_ON_TOP)} if "below" in gone else {})
    if gone.total() != 1 or new.total() != 1:
        return False
    side, other_side = next(iter(gone)), next(iter(new))
    if OPPOSITE_SIDE[side] != other_side:
        return False
    # The nouns on the two sides of the relation must change places with its turning.
    nouns = {word.text.lower() for word in caption.words if word.tag in NOUN_TAGS} - {*SIDES}
    old, turned = _around(before, nouns, side), _around(after, nouns, other_side)
    return old is not None and turned is not None and old == turned[::-1] and old[0] != old[1]


def _is_opposed(dropped: Counter[str], added: Counter[str]) -> bool:
    """Whether one word of a line of opposites went and one of its other side came."""
    change: Counter[tuple[int, int]] = Counter()
    for words, step in ((dropped, -1), (added, 1)):
        for word, times in words.items():
            for place in POLES.get(word, ()):
                change[place] += step * times
    return any(by * change[line, 1 - pole] < 0 for (line, pole), by in [*change.items()])


def _around(words: Sequence[str], nouns: set[str], side: str) -> tuple[str, str] | None:
    """The nearest noun before a side's word and the last of the next nouns after it."""
    sides = {**SIDES, _ON_TOP: "above"}
    at = next((i for i, word in enumerate(words) if sides.get(word) == side), None)
    if at is None:
        return None
    left = [word for word in words[:at] if word in nouns]
    right = next((i for i, word in enumerate(words) if i > at and word in nouns), None)
    if not left or right is None:
        return None
    while right + 1 < len(words) and words[right + 1] in nouns:
        right += 1
    return left[-1], words[right]
