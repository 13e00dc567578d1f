"""Wording: known captions, articles, and what styles may change."""

import numpy as np
import pytest

from unbag.world.grammar import (
    PLAIN,
    RELATION,
    And,
    Ast,
    Count,
    Has,
    Not,
    Obj,
    Rel,
    Statement,
    Style,
    realise,
    sample_style,
    slots_of,
)
from unbag.world.vocabulary import COLOURS, NOUNS, RELATIONS, SIZES, TEXTURES, THING

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
    forms = [form for usual, synonym in RELATIONS.values() for form in (*usual, synonym)]
    assert len(forms) == len(set(forms))
    assert not {word for form in forms for word in form.split()} & set(names)


def test_every_word_with_a_synonym_has_a_slot() -> None:
    ast = Rel(Obj("cup", "lime", "small", "dotted"), "on", Obj(None, "red"))
    assert slots_of(ast) == (
        (0, "shape"),
        (0, "colour"),
        (0, "size"),
        (0, "texture"),
        (1, "shape"),
        (1, "colour"),
        RELATION,
    )


def test_styles_are_drawn_at_the_rates_asked_for() -> None:
    rng = np.random.default_rng(0)
    ast = Rel(A, "left of", B)
    drawn = [sample_style(ast, rng, p_synonym=0.3, p_form=0.2) for _ in range(4000)]
    for slot in slots_of(ast):
        assert abs(np.mean([slot in style.rare for style in drawn]) - 0.3) < 0.03
    assert abs(np.mean([style.joint == "with" for style in drawn]) - 0.2) < 0.03
    assert abs(np.mean([style.double for style in drawn]) - 0.2) < 0.03


def test_no_rare_words_and_forms_without_a_chance_for_them() -> None:
    rng = np.random.default_rng(0)
    drawn = {sample_style(Rel(A, "on", B), rng, p_synonym=0.0, p_form=0.0) for _ in range(50)}
    assert drawn == {PLAIN}
