"""The grammar: truth by hand, known wordings, and parsing as the inverse of wording."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbag.errors import UnbagError
from unbag.world.grammar import (
    ATTRIBUTES,
    CONTENT_WORDS,
    PLAIN,
    RELATION,
    And,
    Ast,
    Count,
    Has,
    Not,
    Obj,
    Rel,
    Slot,
    Statement,
    Style,
    content_words,
    fits,
    holds,
    meaning,
    objects_of,
    parse,
    read,
    realise,
    sample_style,
    slots_of,
    with_objects,
    with_value,
    words,
)
from unbag.world.scenes import Scene, Thing
from unbag.world.vocabulary import (
    COLOURS,
    DEFAULT,
    NOUNS,
    RELATIONS,
    SIZES,
    TEXTURES,
    THING,
    Size,
    Texture,
)


def thing(
    shape: str, colour: str, x: int, y: int, size: Size = "small", texture: Texture = "plain"
) -> Thing:
    return Thing(shape, colour, size, texture, x, y, (200, 40, 40))


RED_CIRCLE = Obj("circle", "red")
BLUE_SQUARE = Obj("square", "blue")
PAIR = Scene((thing("circle", "red", 16, 32), thing("square", "blue", 46, 32, "large")), 1)
TWINS = Scene(
    (
        thing("circle", "red", 12, 12, texture="striped"),
        thing("circle", "red", 50, 12, texture="striped"),
        thing("circle", "red", 30, 50, texture="striped"),
    ),
    2,
)


@pytest.mark.parametrize(
    ("ast", "expected"),
    [
        (RED_CIRCLE, True),
        (Obj("circle", "blue"), False),
        (Obj(None, "blue"), True),
        (Obj("square", size="large"), True),
        (Obj("square", size="small"), False),
        (Obj("circle", texture="striped"), False),
        (Obj(), True),
        (And(RED_CIRCLE, BLUE_SQUARE), True),
        (And(BLUE_SQUARE, RED_CIRCLE), True),
        (And(Obj("circle", "blue"), Obj("square", "red")), False),
        (And(RED_CIRCLE, Obj("circle")), False),
        (And(Obj(), Obj()), True),
        (Rel(RED_CIRCLE, "left of", BLUE_SQUARE), True),
        (Rel(BLUE_SQUARE, "right of", RED_CIRCLE), True),
        (Rel(RED_CIRCLE, "right of", BLUE_SQUARE), False),
        (Rel(BLUE_SQUARE, "left of", RED_CIRCLE), False),
        (Rel(RED_CIRCLE, "above", BLUE_SQUARE), False),
        (Rel(Obj(), "left of", Obj()), True),
        (Count(1, RED_CIRCLE), True),
        (Count(2, RED_CIRCLE), False),
        (Count(2, Obj()), True),
        (Not(Obj("star")), True),
        (Not(Obj("circle")), False),
        (Has(RED_CIRCLE, Not(Obj("circle", "blue"))), True),
        (Has(RED_CIRCLE, Not(BLUE_SQUARE)), False),
        (Has(Obj("star"), Not(Obj("moon"))), False),
    ],
)
def test_truth_in_a_scene_of_two(ast: Ast, expected: bool) -> None:
    assert holds(ast, PAIR) is expected


def test_truth_among_copies_and_in_an_empty_scene() -> None:
    assert [holds(Count(n, RED_CIRCLE), TWINS) for n in (2, 3, 4)] == [False, True, False]
    assert holds(And(RED_CIRCLE, RED_CIRCLE), TWINS)
    assert holds(Count(3, Obj(texture="striped")), TWINS)
    asts: list[Ast] = [Obj(), Not(Obj()), And(Obj(), Obj())]
    assert [holds(ast, Scene((), 0)) for ast in asts] == [False, True, False]


def test_a_description_fits_if_every_named_attribute_does() -> None:
    cup = thing("cup", "lime", 20, 20, "large", "dotted")
    full = Obj("cup", "lime", "large", "dotted")
    assert fits(full, cup)
    for attribute, other in zip(ATTRIBUTES, ("key", "red", "small", "plain"), strict=True):
        assert not fits(with_value(full, attribute, other), cup)
        assert fits(with_value(full, attribute, None), cup)


@pytest.mark.parametrize(
    "ast",
    [
        RED_CIRCLE,
        And(RED_CIRCLE, BLUE_SQUARE),
        Rel(RED_CIRCLE, "on", BLUE_SQUARE),
        Count(3, RED_CIRCLE),
        Not(BLUE_SQUARE),
        Has(RED_CIRCLE, Not(BLUE_SQUARE)),
    ],
)
def test_descriptions_can_be_replaced(ast: Ast) -> None:
    objects = objects_of(ast)
    assert with_objects(ast, objects) == ast
    changed = with_objects(ast, tuple(with_value(o, "colour", "lime") for o in objects))
    assert type(changed) is type(ast)
    assert {o.colour for o in objects_of(changed)} == {"lime"}


def test_meaning_ignores_only_the_order_of_naming() -> None:
    assert meaning(And(RED_CIRCLE, BLUE_SQUARE)) == meaning(And(BLUE_SQUARE, RED_CIRCLE))
    left = Rel(RED_CIRCLE, "left of", BLUE_SQUARE)
    assert meaning(left) == meaning(Rel(BLUE_SQUARE, "right of", RED_CIRCLE))
    assert meaning(left) != meaning(Rel(BLUE_SQUARE, "left of", RED_CIRCLE))
    assert meaning(Has(RED_CIRCLE, Not(BLUE_SQUARE))) != meaning(Has(BLUE_SQUARE, Not(RED_CIRCLE)))


A = Obj("circle", "red")
B = Obj("square", "orange")


@pytest.mark.parametrize(
    ("ast", "style", "text"),
    [
        (A, PLAIN, "a red circle"),
        (B, PLAIN, "an orange square"),
        (Obj("hourglass"), PLAIN, "an hourglass"),
        (Obj("house"), PLAIN, "a house"),
        (Obj("umbrella"), PLAIN, "an umbrella"),
        (Obj("umbrella"), Style(rare=frozenset({(0, "shape")})), "a parasol"),
        (Obj(), Style(rare=frozenset({(0, "shape")})), "an object"),
        (Obj(None, "red"), PLAIN, "a red thing"),
        (Obj("cup", "lime", "small", "dotted"), PLAIN, "a small lime dotted cup"),
        (Obj("cup", "lime", "small", "dotted"), Style(article="the"), "the small lime dotted cup"),
        (A, Style(double=True), "there is a red circle"),
        (And(A, B), PLAIN, "a red circle and an orange square"),
        (And(A, B), Style(joint="with"), "a red circle with an orange square"),
        (And(A, B), Style(article="the"), "the red circle and the orange square"),
        (And(A, B), Style(double=True), "there is a red circle and there is an orange square"),
        (
            And(A, B),
            Style(double=True, joint="with", article="the"),
            "there is a red circle and there is an orange square",
        ),
        (And(A, B), Style(rare=frozenset({(1, "colour")})), "a red circle and a tangerine square"),
        (Rel(A, "left of", B), PLAIN, "a red circle left of an orange square"),
        (Rel(A, "left of", B), Style(long=True), "a red circle to the left of an orange square"),
        (Rel(A, "above", B), Style(long=True), "a red circle above an orange square"),
        (
            Rel(A, "right of", B),
            Style(rare=frozenset({RELATION}), long=True),
            "a red circle on the right side of an orange square",
        ),
        (Count(1, A), PLAIN, "one red circle"),
        (Count(3, A), PLAIN, "three red circles"),
        (Count(3, A), Style(digit=True), "3 red circles"),
        (Count(2, Obj("leaf")), PLAIN, "two leaves"),
        (Count(2, Obj("square")), Style(rare=frozenset({(0, "shape")})), "two boxes"),
        (Not(B), PLAIN, "no orange square"),
        (Not(B), Style(negation="without"), "without an orange square"),
        (Not(B), Style(double=True), "there is no orange square"),
        (Has(A, Not(B)), PLAIN, "a red circle but no orange square"),
        (Has(A, Not(B)), Style(negation="without"), "a red circle without an orange square"),
    ],
)
def test_known_captions(ast: Ast, style: Style, text: str) -> None:
    assert realise(ast, style) == text
    assert Statement(ast, style).text == text


def test_no_word_has_two_meanings() -> None:
    names = [
        word
        for noun in (*NOUNS, THING)
        for word in (noun.name, noun.plural, noun.synonym, noun.synonym_plural)
    ]
    names += [word for name, (synonym, _) in COLOURS.items() for word in (name, synonym)]
    names += [word for pair in (*SIZES.items(), *TEXTURES.items()) for word in pair]
    assert len(names) == len(set(names))
    forms = [form for common, synonym in RELATIONS.values() for form in (*common, synonym)]
    assert len(forms) == len(set(forms))
    assert not {word for form in forms for word in form.split()} & set(names)


def test_styles_are_drawn_with_the_given_probabilities() -> None:
    rng = np.random.default_rng(0)
    ast = Rel(Obj("cup", "lime", "small", "dotted"), "on", Obj(None, "red"))
    slots = ((0, "shape"), (0, "colour"), (0, "size"), (0, "texture"), (1, "shape"), (1, "colour"))
    assert slots_of(ast) == (*slots, RELATION)
    drawn = [sample_style(ast, rng, p_synonym=0.3, p_form=0.2) for _ in range(4000)]
    for slot in slots_of(ast):
        assert abs(np.mean([slot in style.rare for style in drawn]) - 0.3) < 0.03
    assert abs(np.mean([style.joint == "with" for style in drawn]) - 0.2) < 0.03
    assert abs(np.mean([style.double for style in drawn]) - 0.2) < 0.03
    assert {sample_style(ast, rng, p_synonym=0.0, p_form=0.0) for _ in range(50)} == {PLAIN}


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
    values = [
        value
        for obj in objects_of(ast)
        for value in (obj.size, obj.colour, obj.texture, obj.shape)
        if value
    ]
    assert [word.value for word in content_words(text) if word.value] == values


def test_vocabulary_is_sorted_unique_and_complete() -> None:
    vocabulary = words()
    assert list(vocabulary) == sorted(set(vocabulary))
    assert {"a", "an", "the", "without", "3", "three", "circles", "disc", "side"} <= set(vocabulary)
    # 49 nouns (with "thing") in four forms, and 12 + 2 + 4 attributes in two.
    assert len(CONTENT_WORDS) == 4 * (len(NOUNS) + 1) + 2 * (
        len(COLOURS) + len(SIZES) + len(TEXTURES)
    )


def test_content_words_need_no_order() -> None:
    assert [w.value for w in content_words("square a left red of")] == ["square", "red"]
    assert content_words("there is no") == ()


FORMS = (
    "red circle|a red|a circle red|a circle and|a circle a square|a circle left square|"
    "a circle and a square and a cross|no|there is circle|three|a circle but a square|"
    "circle of the left a"
)


@pytest.mark.parametrize(
    ("text", "message", "expected"),
    [
        ("a red dog", "unknown word 'dog' in 'a red dog'", "words of the built-in world"),
        ("A red circle", "unknown word 'A' in 'A red circle'", "words of the built-in world"),
        ("6 circles", "unknown word '6' in '6 circles'", "words of the built-in world"),
        *((text, "an empty caption", "words of the built-in world") for text in ("", "   ")),
        *((text, f"{text!r} is not a caption", "its grammar") for text in FORMS.split("|")),
        # A near miss: the error shows the right form.
        ("a orange circle", "is not a caption", "'an orange circle'"),
        ("a red large circle", "is not a caption", "'a large red circle'"),
        ("a red blue circle", "is not a caption", "'a blue circle'"),
        ("three circle", "is not a caption", "'three circles'"),
        ("a circles", "is not a caption", "'a circle'"),
        ("a circle and the square", "is not a caption", "'a circle and a square'"),
        (" a circle", "is not a caption", "'a circle'"),
    ],
)
def test_texts_outside_the_grammar(text: str, message: str, expected: str) -> None:
    with pytest.raises(UnbagError) as caught:
        parse(text)
    assert message in caught.value.message
    assert expected in caught.value.expected
    assert caught.value.hint
