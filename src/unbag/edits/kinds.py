"""A kind of edit: its name, whether it keeps the meaning, and the editor that proposes changes.

Also what turns changes into a caption: they are applied with what English asks of the neighbours:
"a" before a vowel becomes "an", and a sentence starts with a capital if it did before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias

from unbag.edits.parsed import Parsed, Word
from unbag.errors import UnbagError, unknown_name
from unbag.registry import find, names
from unbag.types import Change

if TYPE_CHECKING:
    from unbag.edits.filters import Filter

Changes: TypeAlias = tuple[Change, ...]
Draw: TypeAlias = Callable[[], Random]
"""Randomness of one caption and kind, made when it is wanted: most captions need none."""
Rule: TypeAlias = Callable[[Parsed], Sequence[Changes]]
"""All edits of one kind that a caption allows, in a fixed order; empty where there is none."""
GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        name: tuple(kinds.split())
        for name, kinds in (
            ("neg_clip", "neg_clip_swap"),
            (
                "neg_clip_fixed",
                "swap_nouns swap_adjectives swap_verbs swap_adverbs swap_phrases swap_words",
            ),
            (
                "svlc_fixed",
                "replace_colour replace_material replace_size replace_state replace_action",
            ),
            (
                "crepe_fixed",
                "replace_noun replace_attribute replace_relation swap_attributes swap_arguments "
                "negate",
            ),
            ("spatial", "left_right above_below front_behind inside_outside near_far"),
            ("ce_clip_fixed", "swap_nouns fill_attribute fill_object fill_action"),
            ("fills", "fill_attribute fill_object fill_action fill_relation"),
            ("rewrites", "rewrite_replace rewrite_swap"),
        )
    }
)
"""Names for several kinds; besides these: default, negatives, positives and all. A paper's name
alone means its published rule; `_fixed` are our checked kinds of the same types."""

_BY_DEFAULT = {"default": (True, False), "negatives": (False,), "positives": (True,)}
"""Groups of the kinds that are on by default, by whether they keep the meaning."""


@dataclass(frozen=True)
class Kind:
    """A kind of edit, as `--kinds` names it."""

    name: str
    is_positive: bool
    """A hard positive; otherwise a hard negative."""
    about: str
    """One line, with an example."""
    source: str
    """The paper or project whose idea it is, or "ours"."""
    editor: Callable[[EditParts], Editor]
    keeps_words: bool = False
    """A swap: the words stay the same (articles and verb agreement aside), their places change."""
    is_default: bool = True
    """Whether it is made when no kinds are named: off where it was judged too often wrong."""
    filters: tuple[Filter, ...] = ()
    """Filters that only its edits go through, before all others."""
    is_published: bool = False
    """A paper's rule as it was published: filters that ask whether a negative is false leave its
    edits alone."""

    @property
    def promises_false(self) -> bool:
        """Whether its edits are to be false of the image, and are checked for that."""
        return not self.is_positive and not self.is_published


@dataclass(frozen=True)
class EditParts:
    """Names of what some kinds and filters need. Plain data: each worker loads its own."""

    pipeline: str = "auto"
    """A spaCy pipeline by name or folder."""
    wordnet: str = "auto"
    """A folder with WordNet in NLTK's format."""
    fill: str = ""
    """A language model for fills: a masked or a causal one of transformers, folder or name."""
    rewrite: str = ""
    """A chat model: hf:FOLDER or server:MODEL@URL."""
    device: str = "auto"
    cache: str = ""
    """Folder in which answers of a server are kept; without one they are lost with the process."""
    concurrency: int = 8
    """Requests to a server at a time."""
    budget: int | None = None
    """Most requests to a server, for each worker; answers that are kept cost none."""


class Editor(Protocol):
    """Proposes edits of one kind for many captions at once."""

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> Sequence[Sequence[Changes]]:
        """For each caption the changes to try, the first first; none where there is no place.

        Every caption has randomness of its own, which depends on seed, caption and kind only.
        """


def by_rule(rule: Rule) -> Callable[[EditParts], Editor]:
    """What a kind without further parts has as its editor."""
    editor = ByRule(rule)
    return lambda parts: editor


def rule_kind(
    rule: Rule, about: str, source: str, *, is_positive: bool = False, is_default: bool = True
) -> Kind:
    """The kind of a rule, which has its name."""
    return Kind(rule.__name__, is_positive, about, source, by_rule(rule), is_default=is_default)


@dataclass(frozen=True)
class ByRule:
    """An editor made of a rule: one that needs the parsed caption and nothing else."""

    rule: Rule

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> list[Sequence[Changes]]:
        """All the rule allows, in a drawn order."""
        found: list[Sequence[Changes]] = []
        for caption, draw in zip(captions, draws, strict=True):
            changes = list(self.rule(caption))
            if len(changes) > 1:
                draw().shuffle(changes)
            found.append(changes)
        return found


def find_kinds(wanted: Sequence[str]) -> tuple[Kind, ...]:
    """Kinds by name, by group, or as package.module:NAME; each once. A plain text is one name.

    Groups: default, negatives and positives (those on by default), all, and those of GROUPS.
    """
    if not wanted:
        raise UnbagError(
            "no kinds of edits were named",
            expected="at least one, or a group such as default",
            hint="`unbag list edits` shows every kind",
        )
    found: dict[str, Kind] = {}
    # A text is a sequence of texts too, its letters.
    for name in (wanted,) if isinstance(wanted, str) else wanted:
        for kind in _kinds_of(name):
            found.setdefault(kind.name, kind)
    return tuple(found.values())


def _kinds_of(name: str) -> list[Kind]:
    registered = list(names("edit"))
    if name in GROUPS:
        return [_kind(one) for one in GROUPS[name]]
    if name in _BY_DEFAULT or name == "all":
        every = [_kind(one) for one in registered]
        return [
            kind
            for kind in every
            if name == "all" or (kind.is_default and kind.is_positive in _BY_DEFAULT[name])
        ]
    if ":" not in name and name not in registered:
        raise unknown_name(
            "kind of edit",
            name,
            [*registered, *_BY_DEFAULT, "all", *GROUPS],
            hint="`unbag list edits` shows every kind; package.module:NAME works too",
        )
    return [_kind(name)]


def _kind(name: str) -> Kind:
    found = find("edit", name)
    if not isinstance(found, Kind):
        raise UnbagError(
            f"the edit {name!r} is a {type(found).__name__}",
            expected="a Kind of unbag.edits.kinds",
            hint="docs/edits.md shows how to add one",
        )
    return found


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
    # Spaces around inserted or dropped words can be assigned in more than one way; where the
    # pieces do not give the text exactly, one change from first to last difference does.
    return merged if apply(before, merged) == after else _whole(before, after)


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
        for at, (start, end, new) in enumerate(found[1:], start=1):
            if f"{new} ".startswith(tuple(first.text + mark for mark in " '’")):
                found[at] = Change(start, end, moved + new[len(first.text) :])
    return found


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
