"""Whole edits of captions from a small grammar: what holds whatever the caption."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbag.edits.editor import CaptionEditor, make_editor
from unbag.edits.kinds import apply, find_kinds, normalised
from unbag.edits.wordnet import find_wordnet
from unbag.errors import UnbagError
from unbag.types import Given

ONE = ("a", "the", "one", "")
MANY = ("two", "several", "the", "no", "")
ADJECTIVES = ("red", "small", "wooden", "old", "empty", "hot", "black and white")
NOUNS = {"dog": "dogs", "apple": "apples", "man": "men", "umbrella": "umbrellas", "bus": "buses"}
VERBS = {
    "hold": ("holds", "holding"),
    "chase": ("chases", "chasing"),
    "eat": ("eats", "eating"),
    "watch": ("watches", "watching"),
}
PREPOSITIONS = ("on", "next to", "in front of", "to the left of", "above", "with", "near", "and")
ENDINGS = ("", ".", "!", " ,", ' "keep out"', " (seen at night).")
LEMMAS = {form: verb for verb, forms in VERBS.items() for form in forms} | {"are": "is"}


@st.composite
def phrases(draw: st.DrawFn) -> tuple[str, bool]:
    """A noun phrase, and whether it is plural."""
    is_plural = draw(st.booleans())
    noun = draw(st.sampled_from(sorted(NOUNS)))
    adjective = draw(st.sampled_from(("", *ADJECTIVES)))
    article = draw(st.sampled_from(MANY if is_plural else ONE))
    rest = f"{adjective} {NOUNS[noun] if is_plural else noun}".strip()
    if article == "a" and rest[0] in "aeou":
        article = "an"
    return f"{article} {rest}".strip(), is_plural


@st.composite
def captions(draw: st.DrawFn) -> str:
    """A sentence or a phrase, in one of four ways of writing."""
    (subject, is_plural), (thing, _), (place, _) = draw(phrases()), draw(phrases()), draw(phrases())
    verb = draw(st.sampled_from(sorted(VERBS)))
    tensed = verb if is_plural else VERBS[verb][0]
    be = "are" if is_plural else "is"
    middle = draw(st.sampled_from((tensed, f"{be} {VERBS[verb][1]}", VERBS[verb][1], "")))
    links = [draw(st.sampled_from(PREPOSITIONS)) for _ in range(2)]
    text = f"{subject} {middle or links[0]} {thing} {links[1]} {place}"
    text += draw(st.sampled_from(ENDINGS))
    return draw(st.sampled_from((str.lower, str.capitalize, str.upper, _one_in_capitals)))(text)


def _one_in_capitals(text: str) -> str:
    words = text.split()
    return " ".join([*words[:-1], words[-1].upper()])


@pytest.fixture(scope="module")
def editor() -> CaptionEditor:
    """All kinds that need no model; those with WordNet where it is installed."""
    kinds = [k for k in find_kinds(["all"]) if not k.name.startswith(("fill_", "rewrite_"))]
    try:
        find_wordnet()
    except UnbagError:
        kinds = [kind for kind in kinds if "WordNet" not in kind.source]
    return make_editor([kind.name for kind in kinds], per_kind=3, seed=5)


@settings(max_examples=25, deadline=None)
@given(caption=captions())
def test_every_edit_says_what_it_did(editor: CaptionEditor, caption: str) -> None:
    [found], _ = editor([Given("1", caption)])
    assert not found.skipped
    for made in found.edits:
        assert apply(found.text, made.changes) == made.text
        assert 0 <= made.changes[0].start <= made.changes[-1].end <= len(found.text)
        assert made.span == (made.changes[0].start, made.changes[-1].end)
        assert normalised(made.text) != normalised(found.text)
        assert made.text == " ".join(made.text.split())
    assert len({normalised(made.text) for made in found.edits}) == len(found.edits)
    assert editor([Given("1", caption)])[0] == [found]


@settings(max_examples=25, deadline=None)
@given(caption=captions())
def test_swaps_keep_the_words(editor: CaptionEditor, caption: str) -> None:
    swaps = {kind.name for kind in editor.kinds if kind.keeps_words}
    [found], _ = editor([Given("1", caption)])
    for made in found.edits:
        if made.kind in swaps:
            assert _counted(made.text) == _counted(caption), made


@settings(max_examples=25, deadline=None)
@given(caption=captions())
def test_what_is_denied_is_only_contradicted(editor: CaptionEditor, caption: str) -> None:
    [found], _ = editor([Given("1", caption)])
    denied = normalised(caption).split().count("no")
    checked = {kind.name for kind in editor.kinds if kind.promises_false}
    for made in found.edits:
        if denied and made.kind in checked:
            assert normalised(made.text).split().count("no") < denied, made


def _counted(text: str) -> Counter[str]:
    """Words, articles and the number of verbs aside."""
    words = [LEMMAS.get(word, word) for word in normalised(text).split()]
    return Counter(word for word in words if word not in ("a", "an"))
