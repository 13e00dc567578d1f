"""Parsing inverts wording: round trips over random statements and styles, and every message."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbag.errors import UnbagError
from unbag.world.grammar import (
    ATTRIBUTES,
    CONTENT_WORDS,
    RELATION,
    And,
    Ast,
    Count,
    Has,
    Not,
    Obj,
    Rel,
    Slot,
    Style,
    content_words,
    parse,
    read,
    realise,
    words,
)
from unbag.world.vocabulary import COLOURS, DEFAULT, NOUNS, RELATIONS, SIZES, TEXTURES

SLOTS: list[Slot] = [(index, attribute) for index in (0, 1) for attribute in ATTRIBUTES]
OBJECTS = st.builds(
    Obj,
    st.sampled_from([None, *DEFAULT.shapes]),
    st.sampled_from([None, *DEFAULT.colours]),
    st.sampled_from([None, *SIZES]),
    st.sampled_from([None, *TEXTURES]),
)
ASTS: st.SearchStrategy[Ast] = st.one_of(
    OBJECTS,
    st.builds(And, OBJECTS, OBJECTS),
    st.builds(Rel, OBJECTS, st.sampled_from(list(RELATIONS)), OBJECTS),
    st.builds(Count, st.integers(1, 5), OBJECTS),
    st.builds(Not, OBJECTS),
    st.builds(Has, OBJECTS, st.builds(Not, OBJECTS)),
)
STYLES = st.builds(
    Style,
    rare=st.frozensets(st.sampled_from([*SLOTS, RELATION])),
    long=st.booleans(),
    joint=st.sampled_from(["and", "with"]),
    digit=st.booleans(),
    negation=st.sampled_from(["no", "without"]),
    double=st.booleans(),
    article=st.sampled_from(["a", "the"]),
)


@given(ASTS, STYLES)
@settings(max_examples=1500, deadline=None)
def test_parse_inverts_realise(ast: Ast, style: Style) -> None:
    text = realise(ast, style)
    assert parse(text) == ast
    assert read(text).text == text
    assert set(text.split()) <= set(words())


@given(ASTS)
@settings(max_examples=200, deadline=None)
def test_content_words_are_those_of_the_descriptions(ast: Ast) -> None:
    said = [word.value for word in content_words(realise(ast)) if word.value]
    expected = [
        value
        for obj in _objects(ast)
        for value in (obj.size, obj.colour, obj.texture, obj.shape)
        if value
    ]
    assert said == expected


def _objects(ast: Ast) -> list[Obj]:
    match ast:
        case Obj():
            return [ast]
        case And(a, b) | Rel(a, _, b) | Has(a, Not(b)):
            return [a, b]
        case Count(_, a) | Not(a):
            return [a]


def test_vocabulary_is_sorted_unique_and_complete() -> None:
    found = words()
    assert list(found) == sorted(set(found))
    assert {"a", "an", "the", "without", "3", "three", "circles", "disc", "side"} <= set(found)
    # 49 nouns (with "thing") in four forms, and 12 + 2 + 4 attributes in two.
    assert len(CONTENT_WORDS) == 4 * (len(NOUNS) + 1) + 2 * (
        len(COLOURS) + len(SIZES) + len(TEXTURES)
    )


def test_content_words_need_no_order() -> None:
    assert [w.value for w in content_words("square a left red of")] == ["square", "red"]
    assert content_words("there is no") == ()


@pytest.mark.parametrize(
    ("text", "word"), [("a red dog", "dog"), ("A red circle", "A"), ("6 circles", "6")]
)
def test_unknown_words_are_named(text: str, word: str) -> None:
    with pytest.raises(UnbagError) as caught:
        parse(text)
    assert caught.value.message == f"unknown word {word!r} in {text!r}"
    assert "words of the built-in world" in caught.value.expected
    assert caught.value.hint == "unbag.world.grammar.words() lists them all"


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_caption_is_refused(text: str) -> None:
    with pytest.raises(UnbagError, match="an empty caption"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "red circle",
        "a red",
        "a circle red",
        "a circle and",
        "a circle a square",
        "a circle left square",
        "a circle and a square and a cross",
        "no",
        "there is circle",
        "three",
        "a circle but a square",
        "circle of the left a",
    ],
)
def test_unknown_forms_are_refused(text: str) -> None:
    with pytest.raises(UnbagError) as caught:
        parse(text)
    assert caught.value.message == f"{text!r} is not a caption of the built-in world"
    assert caught.value.expected == "one of the forms of its grammar"
    assert caught.value.hint.startswith("write it like 'a red circle left of")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a orange circle", "an orange circle"),
        ("a red large circle", "a large red circle"),
        ("a red blue circle", "a blue circle"),
        ("three circle", "three circles"),
        ("a circles", "a circle"),
        ("a circle and the square", "a circle and a square"),
        (" a circle", "a circle"),
    ],
)
def test_a_near_miss_says_what_would_have_been_right(text: str, meant: str) -> None:
    with pytest.raises(UnbagError) as caught:
        parse(text)
    assert caught.value.expected == repr(meant)
