"""A parsed caption comes in; its words that a language model may replace, and by what, go out.

What may stand there is decided by the rules of other kinds: words that exclude the word that stood
there. The model says which of them make a likely caption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from unbag.captions.kinds import Changes, Rule
from unbag.captions.parsed import VERB_TAGS, Parsed
from unbag.captions.replace_action import replace_action
from unbag.captions.replace_relation import replace_attribute, replace_relation


class Place(NamedTuple):
    """Words of a caption that others may replace."""

    start: int
    """The first character that is replaced."""
    end: int
    options: Mapping[str, Changes]
    """By the new words, what is to be changed."""
    word: int | None
    """The word that stands there, if it is one and nothing else has to change with it."""
    is_open: bool = False
    """Whether other words of its sort may stand there too, if WordNet says that they exclude it."""


Places: TypeAlias = Callable[[Parsed], Sequence[Place]]


@dataclass(frozen=True)
class ByRules:
    """Places at which rules change something, with all that they would put there."""

    rules: tuple[Rule, ...]
    fits: Callable[[Parsed, Place], bool] = lambda parsed, place: True
    is_open: bool = False

    def __call__(self, parsed: Parsed) -> list[Place]:
        """In the order in which the rules find them."""
        found: dict[tuple[tuple[int, int], ...], dict[str, Changes]] = {}
        for changes in (c for rule in self.rules for c in rule(parsed)):
            spans = tuple((change.start, change.end) for change in changes)
            found.setdefault(spans, {})[" ".join(change.new for change in changes)] = changes
        places = (self._place(parsed, spans, options) for spans, options in found.items())
        return [place for place in places if self.fits(parsed, place)]

    def _place(
        self,
        parsed: Parsed,
        spans: Iterable[tuple[int, int]],
        options: Mapping[str, Changes],
    ) -> Place:
        (start, end), *more = spans
        word = None if more else _word_at(parsed, start, end)
        return Place(start, end, options, word, is_open=self.is_open and word is not None)


def _word_at(parsed: Parsed, start: int, end: int) -> int | None:
    at = (i for i, word in enumerate(parsed.words) if (word.start, word.end) == (start, end))
    return next(at, None)


def _is_verb(parsed: Parsed, place: Place) -> bool:
    return place.word is not None and parsed.words[place.word].tag in VERB_TAGS


def _is_no_verb(parsed: Parsed, place: Place) -> bool:
    return not _is_verb(parsed, place)


ATTRIBUTES = ByRules((replace_attribute,))
ACTIONS = ByRules((replace_action, replace_relation), _is_verb)
RELATIONS = ByRules((replace_relation,), _is_no_verb)
