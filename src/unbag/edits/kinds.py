"""Kinds of edits: the name, whether edits keep the meaning, and the editor that proposes changes.

Also applies changes to a caption and corrects their neighbours: "a" before a vowel becomes "an",
and a sentence that started with a capital still does.
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
"""Makes the random generator of one caption and kind; called on demand, as most need none."""
Rule: TypeAlias = Callable[[Parsed], Sequence[Changes]]
"""From a caption to all its edits of one kind, in a fixed order."""
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
"""Names for several kinds, besides default, negatives, positives and all. The name of a paper means
its published rule; `_fixed` means our checked kinds of the same types."""

_BY_DEFAULT = {"default": (True, False), "negatives": (False,), "positives": (True,)}
"""Groups of default kinds, with the values of `is_positive` that they include."""


@dataclass(frozen=True)
class Kind:
    """A kind of edit, as `--kinds` names it."""

    name: str
    is_positive: bool
    """Whether its edits are hard positives; otherwise they are hard negatives."""
    about: str
    """One line, with an example."""
    source: str
    """The paper or project that proposed it, or "ours"."""
    editor: Callable[[EditParts], Editor]
    keeps_words: bool = False
    """Whether it is a swap: words change their order only (except articles and verb agreement)."""
    is_default: bool = True
    """Whether it is used when no kinds are named; False for kinds that are too often wrong."""
    filters: tuple[Filter, ...] = ()
    """Filters for edits of this kind only, applied before all others."""
    is_published: bool = False
    """Whether it is the published rule of a paper. Filters that check whether a hard negative is
    false skip its edits."""

    @property
    def promises_false(self) -> bool:
        """Whether its edits must be false of the image and are checked for that."""
        return not self.is_positive and not self.is_published


@dataclass(frozen=True)
class EditParts:
    """Names of the models and data of kinds and filters. Plain data: each worker loads its own."""

    pipeline: str = "auto"
    """A spaCy pipeline by name or folder."""
    wordnet: str = "auto"
    """A folder with WordNet in NLTK's format."""
    fill: str = ""
    """A masked or causal language model of transformers for fills: a folder or a name."""
    rewrite: str = ""
    """A chat model: hf:FOLDER or server:MODEL@URL."""
    device: str = "auto"
    cache: str = ""
    """Cache folder for the answers of a server; without one they are not saved."""
    concurrency: int = 8
    """Maximum number of simultaneous requests to a server."""
    budget: int | None = None
    """Maximum number of requests to a server per worker; cached answers do not count."""


class Editor(Protocol):
    """Proposes edits of one kind for many captions at once."""

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> Sequence[Sequence[Changes]]:
        """Return the changes to try for each caption, in order.

        Each caption has its own random generator, which depends on seed, caption and kind only.
        """


def by_rule(rule: Rule) -> Callable[[EditParts], Editor]:
    """Make the `Kind.editor` of a rule that needs no parts."""
    editor = ByRule(rule)
    return lambda parts: editor


def rule_kind(
    rule: Rule, about: str, source: str, *, is_positive: bool = False, is_default: bool = True
) -> Kind:
    """Make a kind from a rule; the kind has the name of the rule."""
    return Kind(rule.__name__, is_positive, about, source, by_rule(rule), is_default=is_default)


@dataclass(frozen=True)
class ByRule:
    """An editor that applies a rule to each parsed caption."""

    rule: Rule

    def __call__(
        self, captions: Sequence[Parsed], draws: Sequence[Draw]
    ) -> list[Sequence[Changes]]:
        """Return all edits of the rule in random order."""
        proposals: list[Sequence[Changes]] = []
        for caption, draw in zip(captions, draws, strict=True):
            changes = list(self.rule(caption))
            if len(changes) > 1:
                draw().shuffle(changes)
            proposals.append(changes)
        return proposals


def find_kinds(kinds: Sequence[str]) -> tuple[Kind, ...]:
    """Find kinds by name, by group, or as package.module:NAME; each once. A string is one name.

    Groups: default, negatives and positives (only default kinds), all, and those in GROUPS.
    """
    if not kinds:
        raise UnbagError(
            "no kinds of edits were named",
            expected="at least one, or a group such as default",
            hint="`unbag list edits` shows every kind",
        )
    by_name: dict[str, Kind] = {}
    # A string is also a sequence of strings: its letters.
    for name in (kinds,) if isinstance(kinds, str) else kinds:
        for kind in _kinds_of(name):
            by_name.setdefault(kind.name, kind)
    return tuple(by_name.values())


def _kinds_of(name: str) -> list[Kind]:
    registered = list(names("edit"))
    if name in GROUPS:
        return [_kind(member) for member in GROUPS[name]]
    if name in _BY_DEFAULT or name == "all":
        return [
            kind
            for kind in map(_kind, registered)
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
    kind = find("edit", name)
    if not isinstance(kind, Kind):
        raise UnbagError(
            f"the edit {name!r} is a {type(kind).__name__}",
            expected="a Kind of unbag.edits.kinds",
            hint="docs/how-to/edit.md shows how to add one",
        )
    return kind


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
    """Apply changes to a caption; they must not overlap and must be ordered from left to right."""
    parts: list[str] = []
    position = 0
    for start, end, new in changes:
        if start < position or end < start:
            raise ValueError(f"changes overlap or are out of order: {changes}")
        parts += (caption[position:start], new)
        position = end
    return "".join([*parts, caption[position:]])


@lru_cache(maxsize=8192)
def normalised(text: str) -> str:
    """The text without case, punctuation and extra spaces, for comparing captions.

    Cached, since filters compare the same captions and edits many times.
    """
    return " ".join(_NOT_WORDS.sub(" ", text.casefold()).split())


def finished(parsed: Parsed, changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes in order, with corrected articles and capitals."""
    corrected = _with_first_capital(parsed, _with_articles(parsed, sorted(changes)))
    if parsed.is_upper:
        corrected = [Change(start, end, new.upper()) for start, end, new in corrected]
    return tuple(c for c in corrected if parsed.text[c.start : c.end] != c.new)


def difference(before: str, after: str) -> tuple[Change, ...]:
    """The changes of whole words that turn one text into the other."""
    old, new = _tokens(before), _tokens(after)
    matcher = SequenceMatcher(None, [o[0] for o in old], [n[0] for n in new], autojunk=False)
    changes: list[Change] = []
    for operation, a, b, c, d in matcher.get_opcodes():
        if operation == "equal":
            continue
        start, end = _char_span(old, a, b, len(before))
        new_start, new_end = _char_span(new, c, d, len(after))
        changes.append(Change(start, end, after[new_start:new_end]))
    # Spaces around inserted or removed words are ambiguous: if the changes do not give exactly
    # the text, use a single change from the first to the last difference.
    return tuple(changes) if apply(before, changes) == after else _single_change(before, after)


def starts_with_vowel(word: str) -> bool:
    """Whether the article before the word is "an"."""
    return bool(_VOWEL_SOUND.match(word)) and not _CONSONANT_SOUND.match(word)


def _with_articles(parsed: Parsed, changes: Sequence[Change]) -> list[Change]:
    """Add changes of "a" and "an" where the following word changed."""
    corrected = list(changes)
    for i in parsed.articles:
        word = parsed.words[i]
        if any(start < word.end and end > word.start for start, end, _ in changes):
            continue
        after = _word_after(parsed.text, word, parsed.words[i + 1], changes)
        # In a caption in capitals "MAN" is not an initialism.
        sounds = after.lower() if parsed.is_upper else after
        article = "an" if starts_with_vowel(sounds) else "a"
        is_touched = after != parsed.words[i + 1].text
        if is_touched and word.text.lower() != article:
            new = article.capitalize() if word.text[0].isupper() else article
            corrected.append(Change(word.start, word.end, new))
    return sorted(corrected)


def _word_after(text: str, article: Word, after: Word, changes: Sequence[Change]) -> str:
    """The word after the article once the changes are applied."""
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
    """Capitalize the first word if it was capitalized, and lower the old first word if it moved."""
    corrected = list(changes)
    if not parsed.words or not corrected or parsed.is_upper:
        return corrected
    first = parsed.words[0]
    if not first.text[:1].isupper() or corrected[0].start > first.start:
        return corrected
    start, end, new = corrected[0]
    if new:
        corrected[0] = Change(start, end, new[0].upper() + new[1:])
    elif end < len(parsed.text):
        rest = len(parsed.text[end:]) - len(parsed.text[end:].lstrip())
        letter = parsed.text[end + rest]
        corrected[0] = Change(start, end + rest + 1, letter.upper())
    if first.pos != "PROPN" and first.text != "I":
        moved = first.text.lower()
        for i, (start, end, new) in enumerate(corrected[1:], start=1):
            if f"{new} ".startswith(tuple(first.text + mark for mark in " '’")):
                corrected[i] = Change(start, end, moved + new[len(first.text) :])
    return corrected


def _tokens(text: str) -> list[tuple[str, int, int]]:
    return [(match.group(), match.start(), match.end()) for match in _TOKEN.finditer(text)]


def _char_span(
    tokens: Sequence[tuple[str, int, int]], first: int, end: int, length: int
) -> tuple[int, int]:
    """The character span of some tokens; of none, the position before the next token."""
    if first < end:
        last = tokens[end][1] if end < len(tokens) else length
        return tokens[first][1], last
    start = tokens[first][1] if first < len(tokens) else length
    return start, start


def _single_change(before: str, after: str) -> tuple[Change, ...]:
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    if start == len(before) == len(after):
        return ()
    return (Change(start, len(before) - end, after[start : len(after) - end]),)
