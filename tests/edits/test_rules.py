"""Kinds that work by rules: known edits of captions, and properties of every edit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from unbag.edits import wordnet
from unbag.edits.editor import edit, make_editor
from unbag.edits.inflection import inflected
from unbag.edits.kinds import ByRule, EditParts, Kind, Rule, apply, find_kinds, finished, normalised
from unbag.edits.negatives.wordnet import GENDERED, GROUPS_OF, NOUN_GROUPS, PLACES, NounRule
from unbag.edits.parsing import Parser
from unbag.edits.positives.reorder import INVERSES
from unbag.edits.truth_filter import keeps_truth
from unbag.edits.wordnet import find_wordnet
from unbag.errors import UnbagError
from unbag.types import Given

# "synonym_wordnet" is an editor of its own; the others of these need a language model.
KINDS = [
    kind
    for kind in find_kinds(["all"])
    if not kind.name.startswith(("fill_", "rewrite_")) and kind.name != "synonym_wordnet"
]
SWAPPED = (
    "A brown horse eats the green grass near two wooden fences.",
    "Two boys are riding a bicycle while a man is holding an umbrella.",
    "A red cup and a blue plate stand on a wooden table.",
    "A WOMAN WEARING A WHITE HAT FEEDS A BLACK GOAT",
    "There is a cat in a box on the sofa.",
    "A group of people is watching an elephant that carries a basket of apples.",
    "A fire hydrant on a city street, a dog's leash and its owner.",
    "A man who is holding a cup walks slowly inside while a dog runs quickly outside.",
    "dog chases cat",
    "Three small birds sit on the branch of an old apple tree behind a house.",
    "The waiter puts a bowl of soup next to a glass of water on the table.",
    "An owl, a fox and a bear in a forest at night",
)
REPLACED = (
    "A large brown dog is lying on an old wooden bench.",
    "A WOMAN WEARING A RED HAT IS SITTING ON A CHAIR",
    "There are two open umbrellas with white stripes on a wet street.",
    "An empty metal cup stands on a small table next to a man with a beard.",
    "a boy in green rides a bike through a busy city",
    "Three young men play tennis while a girl holds an orange ball.",
    "A tall building that has a round clock",
    "A cup on the left of two plates.",
    "Many goats stand in front of a barn near a road.",
    "A YOUNG MAN RIDES A BICYCLE OVER A BRIDGE",
    "an old woman sits on a bench with her dog , a hat and three bags .",
    "One horse is pulling a cart up a hill while a boy watches.",
    "Some people are inside a large red bus.",
    "A girl holding an umbrella walks towards the beach.",
    "A cat on top of an open suitcase in the background",
)
POSITIVE_CAPTIONS = (
    "A small kid is holding a big umbrella near two parked bikes.",
    "An old man and a young woman are sitting on a couch.",
    "a black and white dog chases a cat under a wooden table",
    "There is a boat on the lake in front of a large house.",
    "A WOMAN IS READING A BOOK BESIDE A WINDOW",
    "Two children in red coats jump over a puddle.",
    "A photo of a lady wearing a hat and carrying a purse.",
    "The boy is throwing a ball.",
    "a grey cat sleeping on a sofa",
    "Three dogs run along the beach, and a girl is watching them.",
    "A kettle and a mug are on the counter.",
    "someone's bicycle isn't next to the fence",
    "a lamp above a desk",
)


@cache
def rule_of(kind: str) -> Rule:
    [found] = find_kinds([kind])
    editor = found.editor(EditParts())
    assert isinstance(editor, ByRule)
    return editor.rule


def edits(parser: Parser, kind: str, caption: str) -> list[str]:
    """Everything that a kind proposes for a caption."""
    [parsed] = parser([caption])
    return [apply(caption, finished(parsed, changes)) for changes in rule_of(kind)(parsed)]


def known_edits() -> Iterator[tuple[str, str]]:
    kind = ""
    for line in Path(__file__).with_name("known_edits.txt").read_text().splitlines():
        if line.startswith("["):
            kind = line.strip("[]")
        elif kind and line:
            yield kind, line


@pytest.mark.parametrize(("kind", "line"), [*known_edits()])
def test_known_edits(parser: Parser, kind: str, line: str) -> None:
    sign = next(sign for sign in (" -> ", " => ", " !> ") if sign in line)
    caption, expected = line.split(sign)
    texts = edits(parser, kind, caption)
    if sign == " -> ":
        assert expected in texts
    elif sign == " => ":
        assert texts == ([] if expected == "nothing" else expected.split(" | "))
    else:
        assert not any(expected in text for text in texts)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_edit_is_well_formed(parser: Parser, kind: Kind) -> None:
    captions: tuple[str, ...] = REPLACED
    if kind.is_positive or kind.keeps_words:
        captions = POSITIVE_CAPTIONS if kind.is_positive else SWAPPED
    count = 0
    for caption in captions:
        [parsed] = parser([caption])
        texts = []
        for proposed in rule_of(kind.name)(parsed):
            changes = finished(parsed, proposed)
            text = apply(caption, changes)
            texts.append(text)
            assert changes
            assert all(caption[c.start : c.end] != c.new for c in changes)
            assert normalised(text) != normalised(caption)
            assert "  " not in text
            assert text[0].isdigit() or text[0].isupper() == caption[0].isupper()
            assert text.isupper() == caption.isupper()
            if kind.is_positive:
                assert keeps_truth(parsed, text)
            if kind.keeps_words:
                assert bag_of_words(text) == bag_of_words(caption)
        if captions is REPLACED:
            assert len(set(texts)) == len(texts)
        count += len(texts)
    assert count > 0
    assert " -> " in kind.about


def bag_of_words(text: str) -> Counter[str]:
    """Words without articles and without the number of verbs."""
    singular = {"are": "is", "were": "was", "eat": "eats", "carry": "carries", "sits": "sit"}
    singular |= {"stands": "stand", "puts": "put", "feed": "feeds", "chase": "chases"}
    singular |= {"walk": "walks", "run": "runs"}
    # A clitic is a word of its own: "dog's" may become "fire's".
    words = [singular.get(word, word) for word in normalised(text).replace("'s", " 's").split()]
    return Counter(word for word in words if word not in ("a", "an"))


def test_replacements_are_words_that_the_caption_lacks(parser: Parser) -> None:
    texts = edits(parser, "replace_colour", "a red cup on a blue, green or white plate")
    assert texts
    assert not any(text.count(word) > 1 for text in texts for word in ("blue", "green", "white"))


@pytest.mark.parametrize(
    ("caption", "texts"),
    [
        ("A large GOAT on a sofa", []),
        ("A large DVD on a shelf", ["A large shelf on a DVD"]),
        ("A LARGE GOAT ON A SOFA", ["A LARGE SOFA ON A GOAT"]),
        ('A goat by a bag that says "cups"', ['A bag by a goat that says "cups"']),
        ("A sign says “a cup on a plate”", []),
        ('A goat on a sofa and "a word', ['A sofa on a goat and "a word']),
    ],
)
def test_swaps_skip_quotations_and_words_in_capitals(caption: str, texts: list[str]) -> None:
    assert [made.text for made in edit(caption, ["swap_nouns"], per_kind=4)] == texts


@pytest.mark.parametrize(
    "caption", ["A man feeds her parrot.", "A girl pets a parrot on his head."]
)
def test_an_ambiguous_pronoun_protects_the_person(parser: Parser, caption: str) -> None:
    texts = edits(parser, "replace_noun", caption)
    assert texts
    assert all(caption.split()[1] in text for text in texts)


def test_groups_of_nouns_are_consistent() -> None:
    rule = rule_of("replace_noun")
    assert isinstance(rule, NounRule)
    assert {group.place for group in NOUN_GROUPS} <= set(PLACES)
    assert len({group.name for group in NOUN_GROUPS}) == len(NOUN_GROUPS)
    for group in NOUN_GROUPS:
        for word in (word for kind in group.kinds for word in kind):
            assert word not in group.others(word)
            assert group in GROUPS_OF[word]
            for new in rule._unrelated(word, group):
                assert not rule.wordnet.are_related(word, new, "n")
    assert all(word not in others for word, others in GENDERED.items())


def test_inverses_are_mutual() -> None:
    exact = {"beneath", "underneath", "in back of", "larger than", "longer than", "on top of"}
    for relation, inverse in INVERSES.items():
        assert INVERSES[inverse] == relation or relation in exact


def test_inflection() -> None:
    assert inflected("carry", "VBZ") == "carries"
    assert inflected("run", "VBG") == "running"
    assert inflected("xqzt", "NOSUCHTAG") == "xqzt"


def test_kinds_in_one_editor() -> None:
    positives = [kind.name for kind in KINDS if kind.is_positive]
    assert {"synonym", "conjunct_swap", "relation_inverse", "passive"} <= {*positives}
    editor = make_editor(positives, seed=3)
    [edited], tally = editor([Given("1", "A dog and a cat are sitting on a sofa near two lamps.")])
    kinds = [made.kind for made in edited.edits]
    assert sorted(kinds) == ["article", "conjunct_swap", "synonym", "word_form"]
    assert kinds == [name for name in positives if name in kinds]
    assert all(made.is_positive for made in edited.edits)
    assert tally.kinds["passive"].places == 0


@pytest.mark.parametrize("kind", ["replace_noun", "antonym", "synonym_wordnet"])
def test_a_missing_wordnet_is_reported(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find_wordnet.cache_clear()
    monkeypatch.setattr(wordnet, "_places", lambda: iter(()))
    with pytest.raises(UnbagError, match="WordNet was not found") as error:
        make_editor([kind])
    assert "nltk.downloader wordnet" in error.value.hint
    find_wordnet.cache_clear()
