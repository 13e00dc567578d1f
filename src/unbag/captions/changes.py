"""A caption and changes of some of its characters come in; the changed caption goes out.

Every editor says what it does as changes. Here they are applied, with what English asks of the
neighbours: "a" before a vowel becomes "an", and a sentence starts with a capital if it did before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache

from unbag.captions.parsed import Parsed, Word
from unbag.types import Change

_NOT_WORDS = re.compile(r"[^\w' ]+")
_TOKEN = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
# By sound, not by letter: "an hour", "a unicorn", "a one-way street", "an 8", "an SUV", "a UPS".
_VOWEL_SOUND = re.compile(
    r"(?:[aeio]|u(?!ni(?:c|f|t|v|on|q|s))|uni(?:dent|mpr|nt|nh|nv)|hour|hono|heir|honest)"
    r"|8\d*\b|1[18]\b|(?-i:[FHLMNRSX][A-Z]{1,2}\b)",
    re.I,
)
_CONSONANT_SOUND = re.compile(
    r"(?:one\b|once\b|eu|uk|us[aeiu]|ute|urin|ewe|ufo|(?-i:U[A-Z]{1,2}\b))", re.I
)


def apply(caption: str, changes: Sequence[Change]) -> str:
    """The caption with every change done; they must not overlap and stand from left to right."""
    parts: list[str] = []
    done = 0
    for start, end, new in changes:
        if start < done or end < start:
            raise ValueError(f"changes overlap or are out of order: {changes}")
        parts += (caption[done:start], new)
        done = end
    return "".join([*parts, caption[done:]])


@lru_cache(maxsize=8192)
def normalised(text: str) -> str:
    """Case, punctuation and spaces aside: what decides whether two captions are the same.

    Filters ask for the same captions and edits again and again.
    """
    return " ".join(_NOT_WORDS.sub(" ", text.casefold()).split())


def finished(parsed: Parsed, changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes in order, with articles, first capital and capitals mended."""
    found = _with_first_capital(parsed, _with_articles(parsed, sorted(changes)))
    if parsed.is_upper:
        found = [Change(start, end, new.upper()) for start, end, new in found]
    return tuple(c for c in found if parsed.text[c.start : c.end] != c.new)


def difference(before: str, after: str) -> tuple[Change, ...]:
    """What must change, in whole words, to come from one text to the other."""
    old, new = _tokens(before), _tokens(after)
    matcher = SequenceMatcher(None, [o[0] for o in old], [n[0] for n in new], autojunk=False)
    found: list[Change] = []
    for what, a, b, c, d in matcher.get_opcodes():
        if what == "equal":
            continue
        start, end = _between(old, a, b, len(before))
        new_start, new_end = _between(new, c, d, len(after))
        found.append(Change(start, end, after[new_start:new_end]))
    merged = tuple(found)
    # Spaces around inserted or dropped words can be told apart in more than one way; where the
    # pieces do not give the text exactly, one change from first to last difference does.
    return merged if apply(before, merged) == after else _whole(before, after)


def with_article(word: str) -> str:
    """The word after "a" or "an", as it sounds."""
    return f"{'an' if starts_with_vowel(word) else 'a'} {word}"


def starts_with_vowel(word: str) -> bool:
    """Whether "an" stands before it."""
    return bool(_VOWEL_SOUND.match(word)) and not _CONSONANT_SOUND.match(word)


def _with_articles(parsed: Parsed, changes: Sequence[Change]) -> list[Change]:
    """Adds a change of "a" or "an" wherever the word after it became another."""
    found = list(changes)
    for at in parsed.articles:
        word = parsed.words[at]
        if any(start < word.end and end > word.start for start, end, _ in changes):
            continue
        after = _word_after(parsed.text, word, parsed.words[at + 1], changes)
        # Where all is in capitals, "MAN" is no initialism.
        sounds = after.lower() if parsed.is_upper else after
        wanted = "an" if starts_with_vowel(sounds) else "a"
        is_touched = after != parsed.words[at + 1].text
        if is_touched and word.text.lower() != wanted:
            new = wanted.capitalize() if word.text[0].isupper() else wanted
            found.append(Change(word.start, word.end, new))
    return sorted(found)


def _word_after(text: str, article: Word, after: Word, changes: Sequence[Change]) -> str:
    """What stands after the article once the changes are done."""
    for start, end, new in changes:
        if article.end <= start <= after.start and new.strip():
            return new.strip().split()[0]
        if start <= after.start < end and not new.strip():
            rest = text[end:].split()
            return rest[0] if rest else ""
        if after.start <= start < after.end:
            return text[after.start : start] + new
    return after.text


def _with_first_capital(parsed: Parsed, changes: Sequence[Change]) -> list[Change]:
    """A sentence that began with a capital begins with one, and that word loses it elsewhere."""
    found = list(changes)
    if not parsed.words or not found or parsed.is_upper:
        return found
    first = parsed.words[0]
    if not first.text[:1].isupper() or found[0].start > first.start:
        return found
    start, end, new = found[0]
    if new:
        found[0] = Change(start, end, new[0].upper() + new[1:])
    elif end < len(parsed.text):
        rest = len(parsed.text[end:]) - len(parsed.text[end:].lstrip())
        letter = parsed.text[end + rest]
        found[0] = Change(start, end + rest + 1, letter.upper())
    if first.pos != "PROPN" and first.text != "I":
        moved = first.text.lower()
        found[1:] = [_lowered(change, first.text, moved) for change in found[1:]]
    return found


def _lowered(change: Change, word: str, moved: str) -> Change:
    start, end, new = change
    if new == word or new.startswith((f"{word} ", f"{word}'", f"{word}’")):
        return Change(start, end, moved + new[len(word) :])
    return change


def _tokens(text: str) -> list[tuple[str, int, int]]:
    return [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(text)]


def _between(
    tokens: Sequence[tuple[str, int, int]], first: int, end: int, length: int
) -> tuple[int, int]:
    """Characters of these words; of none, the place before the next word."""
    if first < end:
        last = tokens[end][1] if end < len(tokens) else length
        return tokens[first][1], last
    at = tokens[first][1] if first < len(tokens) else length
    return at, at


def _whole(before: str, after: str) -> tuple[Change, ...]:
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    if start == len(before) == len(after):
        return ()
    return (Change(start, len(before) - end, after[start : len(after) - end]),)
