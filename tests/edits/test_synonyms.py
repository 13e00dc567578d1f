"""The table of synonyms, and synonyms of WordNet."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from unbag.edits.kinds import apply, finished
from unbag.edits.lexicon import COLOUR_NAMES, word_lists
from unbag.edits.parsing import Parser
from unbag.edits.positives.synonyms import CHECKS, lines_of, synonyms
from unbag.edits.positives.wordnet import ByWordNet
from unbag.edits.wordnet import find_wordnet
from unbag.errors import UnbagError

TABLES = [word_lists("synonyms").lines(key) for key in ("nouns", "verbs", "adjectives", "phrases")]


@pytest.fixture(scope="module")
def by_wordnet() -> ByWordNet:
    try:
        return ByWordNet(find_wordnet())
    except UnbagError as error:
        pytest.skip(str(error))


def test_the_table_is_consistent() -> None:
    lines = [line for table in TABLES for line in lines_of(table)]
    assert len(lines) >= 250
    assert {condition.name for line in lines for condition in line.conditions} <= {*CHECKS}
    assert all(line.old != line.new for line in lines)
    for table in TABLES:
        entries = [(line.old, line.new, line.conditions) for line in lines_of(table)]
        assert len({*entries}) == len(entries)
    for colour in {*COLOUR_NAMES} - {"colorful", "colourful"}:
        assert all(len(entry.old) > 1 for entry in synonyms().get(colour, ()))


def test_forms_follow_the_tag() -> None:
    table = synonyms()
    assert {(one.tag, one.new) for one in table["children"] if one.word_class == "noun"} == {
        ("NNS", "kids")
    }
    assert ("VBG", "leaping") in {(one.tag, one.new) for one in table["jumping"]}
    assert {one.new for one in table["jumped"]} & {"leapt", "leaped"}


def test_a_line_both_ways_is_two() -> None:
    [one, other] = lines_of(["sofa = couch | c m | without x y"])
    assert (one.old, one.new, other.old, other.new) == ("sofa", "couch", "couch", "sofa")
    assert [condition.name for condition in one.conditions] == ["c", "m", "without"]
    assert one.conditions[2].words == {"x", "y"}


def proposed(parser: Parser, by_wordnet: ByWordNet, caption: str) -> set[str]:
    [parsed] = parser([caption])
    return {apply(caption, finished(parsed, changes)) for changes in by_wordnet.changes(parsed)}


def test_wordnet_gives_clear_senses_only(parser: Parser, by_wordnet: ByWordNet) -> None:
    assert "a dog on a sofa" in proposed(parser, by_wordnet, "a dog on a couch")
    assert "two automobiles in a yard" in proposed(parser, by_wordnet, "two cars in a yard")
    assert by_wordnet.synonyms("dog", "n") == ()
    assert by_wordnet.synonyms("sunny", "a") == ()
    assert by_wordnet.synonyms("red", "a") == ()
    assert proposed(parser, by_wordnet, "a cable car above a valley") == set()


def test_a_plural_needs_the_form_of_one(parser: Parser, by_wordnet: ByWordNet) -> None:
    [parsed] = parser(["a dog on a couch"])
    wrong = replace(parsed, words=(*parsed.words[:-1], parsed.words[-1]._replace(tag="NNS")))
    assert [one[0].new for one in by_wordnet.changes(parsed)] == ["sofa"]
    assert list(by_wordnet.changes(wrong)) == []
    assert proposed(parser, by_wordnet, "a black and white couches in a yard") == set()


def test_wordnet_draws_an_order(parser: Parser, by_wordnet: ByWordNet) -> None:
    parsed = list(parser(["a couch beside a car and a phone", "a red kite"]))
    draws = [lambda: Random(1), lambda: Random(2)]
    first, none = by_wordnet(parsed, draws)
    assert len(first) == 3
    assert list(none) == []
    assert by_wordnet(parsed, draws) == [first, none]
