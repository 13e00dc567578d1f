"""A filter that rejects hard positives with a clearly different meaning.

A rewrite must preserve negations, numbers, colours, the nouns that have them, and sides (left,
right, above, below, in front, behind), and must not replace a word by its opposite. A side may
become its opposite if its two things exchange places: "the cup left of the plate" and "the plate
right of the cup" have the same meaning.
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
"""Numbers from two on, since "one" is often an article."""
PAIRS = frozenset(("couple", "pair", "both", "twin", "twins", "duo"))
"""Words that may mean "two"."""
SIDES = _LISTS.classes("sides")
"""Words for sides, each with its side."""
OPPOSITE_SIDE = _LISTS.replacements("turned")


def _poles() -> Mapping[str, tuple[tuple[int, int], ...]]:
    poles: dict[str, list[tuple[int, int]]] = {}
    for line, pair in enumerate(_LISTS.lines("opposites")):
        for pole, words in enumerate(pair.split(" / ")):
            for word in words.split():
                poles.setdefault(word, []).append((line, pole))
    return MappingProxyType({word: tuple(places) for word, places in poles.items()})


POLES = _poles()
"""For each word its lines in the table of opposites, with its side of the line, 0 or 1."""
_ON_TOP = "on_top"
_REWRITTEN = (
    (re.compile(r"\b(?:in|at the) front of\b|\bin front\b"), "in_front"),
    (re.compile(r"\b(?:to the rear of|in back of)\b"), "behind"),
    (re.compile(r"\bon (?:the )?top of\b|\batop\b"), _ON_TOP),
    (re.compile(r"\bcannot\b|\bcan['’]t\b"), "can not"),
    (re.compile(r"n['’]t\b"), " not"),
    # "right next to" is not a side.
    (re.compile(r"(?<!the )\bright (?=next|beside|behind|above|below|under|near|by|in|at|up)"), ""),
)
_WORD = re.compile(r"[a-z_]+|\d+")
_NEGATED = dict.fromkeys(NEGATIONS, "not")
_JOINS = frozenset(("and", "or"))


def keeps_truth(caption: Parsed, rewritten: str) -> bool:
    """Whether no sign of a different meaning is found in the rewritten caption."""
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
    """Rejects hard positives that change a negation, number, colour or side, or use an opposite."""

    reason: str = "changes the meaning"

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        """Hard negatives always pass."""
        return [not p.kind.is_positive or keeps_truth(p.caption, p.edit.text) for p in proposals]


KEEPS_TRUTH = KeepsTruth()
"""For `--filters unbag.edits.truth_filter:KEEPS_TRUTH`."""


def _words(text: str) -> list[str]:
    text = text.lower()
    for pattern, new in _REWRITTEN:
        text = pattern.sub(new, text)
    return _WORD.findall(text)


def _counted(words: Sequence[str], classes: Mapping[str, str]) -> Counter[str]:
    return Counter(classes[word] for word in words if word in classes)


def _same_numbers(before: Sequence[str], after: Sequence[str]) -> bool:
    old, new = _numbers(before), _numbers(after)
    changed = (old - new) + (new - old)
    if not changed:
        return True
    is_pair = (PAIRS & set(before)) != (PAIRS & set(after))
    return is_pair and changed == Counter({"2": 1})


def _numbers(words: Sequence[str]) -> Counter[str]:
    digits = Counter(word for word in words if word.isdigit() and word != "1")
    return digits + _counted(words, NUMBERS)


def _is_moved(caption: Parsed, before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether a colour or number moved to another noun of the caption."""
    if not any(word in COLOUR_NAMES or word in NUMBERS for word in before):
        return False
    tags: dict[str, str] = {}
    for word in caption.words:
        # A word with two tags, such as noun and verb, does not tell where a noun phrase ends.
        same = tags.setdefault(word.text.lower(), word.tag) == word.tag
        tags[word.text.lower()] = word.tag if same else ""
    old = set(_owned(before, tags))
    new = set(_owned(after, tags)) - old
    return not {value for value, _ in old}.isdisjoint(value for value, _ in new)


def _owned(words: Sequence[str], tags: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Colours and numbers, each with the noun of the caption that it precedes."""
    for i, word in enumerate(words):
        value = COLOUR_NAMES.get(word) or NUMBERS.get(word)
        if value is None:
            continue
        for end, after in enumerate(words[i + 1 :], start=i + 1):
            if tags.get(after) in NOUN_TAGS and after not in COLOUR_NAMES:
                last = end
                while last + 1 < len(words) and tags.get(words[last + 1]) in NOUN_TAGS:
                    last += 1
                if last + 1 == len(words) or words[last + 1] in tags:
                    yield value, words[last]
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
    old_sides, new_sides = _counted(before, SIDES), _counted(after, SIDES)
    removed, brought = old_sides - new_sides, new_sides - old_sides
    if _is_opposed(dropped, added):
        return False
    if not removed and not brought:
        return True
    # "On top" may become "on", so it counts only where "below" is its opposite.
    removed += Counter({"above": before.count(_ON_TOP)} if "below" in brought else {})
    brought += Counter({"above": after.count(_ON_TOP)} if "below" in removed else {})
    if removed.total() != 1 or brought.total() != 1:
        return False
    side, other_side = next(iter(removed)), next(iter(brought))
    if OPPOSITE_SIDE[side] != other_side:
        return False
    # The nouns on the two sides of the relation must exchange places.
    nouns = {word.text.lower() for word in caption.words if word.tag in NOUN_TAGS} - {*SIDES}
    nouns_before, nouns_after = _around(before, nouns, side), _around(after, nouns, other_side)
    return (
        nouns_before is not None
        and nouns_after is not None
        and nouns_before == nouns_after[::-1]
        and nouns_before[0] != nouns_before[1]
    )


def _is_opposed(dropped: Counter[str], added: Counter[str]) -> bool:
    """Whether a word was replaced by one from the other side of its line of opposites."""
    change: Counter[tuple[int, int]] = Counter()
    for words, step in ((dropped, -1), (added, 1)):
        for word, times in words.items():
            for place in POLES.get(word, ()):
                change[place] += step * times
    return any(value * change[line, 1 - pole] < 0 for (line, pole), value in [*change.items()])


def _around(words: Sequence[str], nouns: set[str], side: str) -> tuple[str, str] | None:
    """The nearest noun before the word of a side, and the last of the next nouns after it."""
    sides = {**SIDES, _ON_TOP: "above"}
    position = next((i for i, word in enumerate(words) if sides.get(word) == side), None)
    if position is None:
        return None
    left = [word for word in words[:position] if word in nouns]
    right = next((i for i, word in enumerate(words) if i > position and word in nouns), None)
    if not left or right is None:
        return None
    while right + 1 < len(words) and words[right + 1] in nouns:
        right += 1
    return left[-1], words[right]
