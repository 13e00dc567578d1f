"""The remembering attribute ruler against spaCy's own, on captions we wrote."""

from __future__ import annotations

from typing import Any

import pytest

from unbag.edits import parsing as attribute_rules
from unbag.edits.parsing import CachingMatcher, load_pipeline, quicken

spacy: Any = pytest.importorskip("spacy")

CAPTIONS = (
    "There is a tall man who ain't gonna walk his dogs, y'all.",
    "There is a tall tall man and there are two dogs that got lost.",
    "let's go: C'mon, the left one has got ta be better \n  than the best.",
    "TWO MEN saw the saw",
)
PATTERNS: list[dict[str, Any]] = [
    {"patterns": [[{"TAG": "NN"}], [{"LOWER": "man"}]], "attrs": {"POS": "NOUN"}},
    {"patterns": [[{"LOWER": {"IN": ["a", "the"]}}]], "attrs": {"POS": "DET"}},
    {"patterns": [[{"LOWER": "tall"}, {"LOWER": "man"}]], "attrs": {"LEMMA": "giant"}, "index": 1},
    {"patterns": [[{"LOWER": "man"}]], "attrs": {"LEMMA": "human"}},
]


def ruled(patterns: list[dict[str, Any]]) -> Any:
    pipeline = spacy.blank("en")
    pipeline.add_pipe("attribute_ruler").add_patterns(patterns)
    return pipeline


def matcher(pipeline: Any) -> Any:
    return pipeline.get_pipe("attribute_ruler").matcher


def said(pipeline: Any) -> list[list[tuple[str, str]]]:
    """Twice, so that what is remembered is read too."""
    return [[(w.pos_, w.lemma_) for w in pipeline(c)] for c in (*CAPTIONS, *CAPTIONS)]


def test_it_says_what_the_ruler_says() -> None:
    plain, quick = ruled(PATTERNS), ruled(PATTERNS)
    quicken(quick)
    assert isinstance(matcher(quick), CachingMatcher)
    assert said(quick) == said(plain)
    # The rule of one word comes after that of two, and later rules win.
    assert ("NOUN", "human") in said(quick)[0]


def test_a_whole_pipeline_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from unbag.edits.parsing import find_parser

    # Two pipelines, each read from disk: tests share one otherwise.
    monkeypatch.setattr("unbag.edits.parsing.load_pipeline", load_pipeline)
    quick = find_parser()
    monkeypatch.setattr("unbag.edits.parsing.quicken", lambda pipeline: None)
    plain = find_parser()
    assert not isinstance(matcher(plain.pipeline), CachingMatcher)
    assert isinstance(matcher(quick.pipeline), CachingMatcher)
    assert list(quick(CAPTIONS * 2)) == list(plain(CAPTIONS * 2))


def test_it_forgets_when_it_knows_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attribute_rules, "MAX_CACHED", 3)
    plain, quick = ruled(PATTERNS), ruled(PATTERNS)
    quicken(quick)
    assert said(quick) == said(plain)
    assert 1 <= len(matcher(quick)._cache) <= 3


@pytest.mark.parametrize("key", ["OP", "SHAPE", "ENT_TYPE"])
def test_a_ruler_that_asks_for_more_is_left_alone(key: str) -> None:
    asked = {"OP": "+", "SHAPE": "xxx", "ENT_TYPE": "CITY"}[key]
    pipeline = ruled([{"patterns": [[{"LOWER": "man", key: asked}]], "attrs": {"POS": "X"}}])
    quicken(pipeline)
    assert not isinstance(matcher(pipeline), CachingMatcher)


def test_a_pipeline_without_a_ruler_is_left_alone() -> None:
    pipeline = spacy.blank("en")
    quicken(pipeline)
    assert pipeline.pipe_names == []
