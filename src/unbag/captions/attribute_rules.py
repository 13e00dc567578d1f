"""A spaCy pipeline comes in; its attribute ruler finds the same matches in less time.

The ruler holds English at large as some 180 patterns, nearly all of one word, and tries every one
on every word of every caption: a fifth of the time of a whole pipeline. What patterns of one word
find depends on that word, its tag and its dependency only, so it is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.matcher import Matcher
    from spacy.tokens import Doc

Pattern: TypeAlias = Sequence[Mapping[str, Any]]
"""What is asked of each of some words that follow each other."""
MOST = 100_000
"""Words with tag and dependency that are remembered; then it begins anew."""
_DECIDING = frozenset(("ORTH", "TEXT", "LOWER", "IS_SPACE", "TAG", "DEP"))
"""What patterns may ask for: all that is known from what is remembered."""


class RememberingMatcher:
    """Finds what a `spacy.matcher.Matcher` with the same patterns finds, in another order."""

    def __init__(self, words: Matcher, stretches: Matcher) -> None:
        """Two matchers: one of patterns of one word, one of all others."""
        self.words = words
        self.stretches = stretches
        self._known: dict[tuple[int, int, int], list[int]] = {}

    def __call__(
        self, doc: Doc, *, allow_missing: bool = False, as_spans: bool = False
    ) -> list[tuple[int, int, int]]:
        """Number of the pattern, first word, and one after the last; never spans."""
        found = list(self.stretches(doc, allow_missing=allow_missing))
        for at, word in enumerate(doc):
            key = (word.orth, word.tag, word.dep)
            numbers = self._known.get(key)
            if numbers is None:
                if len(self._known) >= MOST:
                    self._known.clear()
                matches = self.words(doc[at : at + 1], allow_missing=allow_missing)
                numbers = self._known[key] = [number for number, _, _ in matches]
            for number in numbers:
                found.append((number, at, at + 1))
        return found


def quicken(pipeline: Language) -> None:
    """Let its attribute ruler remember; one with patterns of another kind stays as it is."""
    from spacy.matcher import Matcher
    from spacy.pipeline import AttributeRuler

    if "attribute_ruler" not in pipeline.pipe_names:
        return
    ruler = pipeline.get_pipe("attribute_ruler")
    if not isinstance(ruler, AttributeRuler):
        return
    words, stretches = Matcher(pipeline.vocab), Matcher(pipeline.vocab)
    rules: Sequence[Mapping[str, Any]] = ruler.patterns
    for number, rule in enumerate(rules):
        for pattern in rule["patterns"]:
            if not _is_simple(pattern):
                return
            # The ruler sorts what was found by these names.
            (words if len(pattern) == 1 else stretches).add(str(number), [pattern])
    ruler.matcher = RememberingMatcher(words, stretches)  # type: ignore[assignment]


def _is_simple(pattern: Pattern) -> bool:
    return len(pattern) > 1 or pattern[0].keys() <= _DECIDING
