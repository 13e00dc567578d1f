"""The editor of captions: rounds, filters, reasons, and the same edits whatever the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unbag
from unbag.edits.editor import (
    MAX_LETTERS,
    MAX_WORDS,
    CaptionEditor,
    EditTally,
    cached_editor,
    cached_parser,
    cleaned,
    make_editor,
    skip_reason,
)
from unbag.edits.filters import ALWAYS, Proposal
from unbag.edits.kinds import Changes, EditParts, Kind, apply, by_rule, find_kinds, normalised
from unbag.edits.parsed import Parsed
from unbag.edits.parsing import Parser, find_parser
from unbag.edits.wordnet import find_wordnet
from unbag.errors import UnbagError
from unbag.types import Change, Edited, Given
from unbag.types.json import from_json, to_json

CAPTIONS = (
    "A man in a red shirt is on a motorcycle near a house.",
    "An elephant stands in front of a dog.",
    "",
    "A WOMAN HOLDS A CUP",
    "a dog",
    "two\nlines of a caption about a cat in a hat",
    "🙂 🙂",
)
MANY_NOUNS = "a cup on a plate on a table in a box under a window"


def numbered(captions: Sequence[str] = CAPTIONS) -> list[Given]:
    return [Given(str(i), caption) for i, caption in enumerate(captions)]


def test_edits_do_not_depend_on_the_batch() -> None:
    swapper = make_editor(["swap_nouns"], per_kind=2)
    edited, tally = swapper(numbered())
    assert [caption.id for caption in edited] == [str(i) for i in range(len(CAPTIONS))]
    assert edited[1].edits[0].text == "A dog stands in front of an elephant."
    assert [swapper([caption])[0][0] for caption in numbered()] == edited
    assert swapper(numbered()[::-1])[0][::-1] == edited
    assert [caption.skipped for caption in edited] == ["", "", "empty", "", "", "", "no letters"]
    assert edited[4] == Edited("4", "a dog")
    record = to_json(tally)
    assert record["captions"] == 7
    assert record["skipped"] == {"empty": 1, "no letters": 1}
    assert tally.without_edit == 1
    swaps = tally.kinds["swap_nouns"]
    assert (swaps.places, swaps.captions) == (4, 4)
    assert to_json(from_json(EditTally, record, "tally")) == record


def _replace(parsed: Parsed) -> list[Changes]:
    return [(Change(2, 5, new),) for new in ("cat", "Dog", "dogs who stand here and look at it")]


OWN = Kind("own", is_positive=False, about="", source="ours", editor=by_rule(_replace))


def editor_of(*kinds: Kind) -> CaptionEditor:
    editors = tuple(kind.editor(EditParts()) for kind in kinds)
    return CaptionEditor(find_parser(), kinds, editors, per_kind=3)


def test_filters_reject_with_a_reason() -> None:
    [edited], tally = editor_of(OWN)([Given("1", "a dog runs", ("the cat is here",))])
    assert edited.edits == ()
    assert dict(tally.kinds["own"].rejected) == {
        "same as the caption": 1,
        "length": 1,
        "suggested by another caption of the image": 1,
    }
    [edited], _ = editor_of(OWN)([Given("1", "a dog runs", ("the sofa is here",))])
    assert [made.text for made in edited.edits] == ["a cat runs"]


@pytest.mark.parametrize(
    ("caption", "old", "new", "passes"),
    [
        ("There are no vans in the yard", "vans", "goats", False),
        ("The dog isn't on the sofa", "sofa", "bed", False),
        ("The dog isn’t on the sofa", "sofa", "bed", False),
        ("Nobody is feeding the goat", "feeding", "leading", False),
        ("A woman is not carrying a red bag", "red", "green", False),
        ("A beach WITHOUT any swimmers", "swimmers", "horses", False),
        ("A wall that lacks a clock", "clock", "lamp", False),
        ("There are not many boats here", "many", "no", False),
        ("There are no vans in the yard", "no", "several", True),
        ("A notable knot on the northern net", "net", "rope", True),
    ],
)
def test_negatives_of_captions_with_a_negation(
    caption: str, old: str, new: str, passes: bool
) -> None:
    start = caption.index(old)
    change = Change(start, start + len(old), new)
    kind = replace(OWN, editor=by_rule(lambda parsed: [(change,)]))
    [edited], tally = editor_of(kind)([Given("1", caption)])
    assert [made.text for made in edited.edits] == [caption.replace(old, new)] * passes
    assert dict(tally.kinds["own"].rejected) == ({} if passes else {"under a negation": 1})
    assert editor_of(replace(kind, is_positive=True))([Given("1", caption)])[0][0].edits


def test_published_rules_are_not_checked() -> None:
    editor = make_editor(["neg_clip_swap", "swap_nouns"])
    [edited], tally = editor([Given("1", "A man is not holding a blue umbrella near a house")])
    assert [made.kind for made in edited.edits] == ["neg_clip_swap"]
    assert dict(tally.kinds["swap_nouns"].rejected) == {"under a negation": 3}


def test_a_repeated_edit_is_dropped() -> None:
    changes: list[Changes] = [(Change(0, 1, "the"),), (Change(0, 2, "The "),)]
    kind = replace(OWN, is_positive=True, editor=by_rule(lambda parsed: changes))
    [edited], tally = editor_of(kind)([Given("1", "a dog runs")])
    assert len(edited.edits) == 1
    assert dict(tally.kinds["own"].rejected) == {"same as another edit of the caption": 1}


class Recorder:
    """A filter that records what it gets."""

    reason = "never"

    def __init__(self, *, passes: bool) -> None:
        self.passes = passes
        self.batches: list[list[str]] = []

    def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
        self.batches.append([proposal.kind.name for proposal in proposals])
        return [self.passes] * len(proposals)


def test_filters_get_batches() -> None:
    recorder = Recorder(passes=True)
    editor = make_editor(["swap_nouns"], filters=[*ALWAYS, recorder])
    editor(numbered(["a dog on a sofa", "a cup under a plate", "a man rides a horse"]))
    assert recorder.batches == [["swap_nouns"] * 3]


def test_filters_of_a_kind_get_its_edits_only() -> None:
    recorder = Recorder(passes=False)
    editor = replace(
        editor_of(replace(OWN, filters=(recorder,)), replace(OWN, name="other")), per_kind=1
    )
    [edited], tally = editor([Given("1", "a dog runs")])
    assert [(made.kind, made.text) for made in edited.edits] == [("other", "a cat runs")]
    assert dict(tally.kinds["own"].rejected) == {"never": 3}
    assert {name for batch in recorder.batches for name in batch} == {"own"}


@pytest.mark.parametrize(
    ("caption", "reason"),
    [
        ("", "empty"),
        ("  \n ", "empty"),
        ("dog", "one word"),
        ("?! ...", "no letters"),
        ("a " * (MAX_WORDS + 1), f"more than {MAX_WORDS} words"),
        ("a dog on a " + "r" * MAX_LETTERS, ""),
        ("a dog on a " + "r" * (MAX_LETTERS + 1), "a word of more than 60 letters"),
        ("a <b>dog</b> runs", "markup or web address"),
        ("a dog &amp; a cat", "markup or web address"),
        ("a dog &#8211; a cat", "markup or web address"),
        ("a dog&nbsp;and a cat", "markup or web address"),
        ("see www.example.org for a dog", "markup or web address"),
        ("собака сидит на диване", "not English"),
        ("собака", "not English"),
        ("一只狗坐在沙发上", "not English"),
        ("ein Hund sitzt auf dem Sofa", "not English"),
        ("Le chat est sur la table a manger", "not English"),
        ("Una mujer sentada en el sofá con un perro", "not English"),
        ("Il gatto dorme sul divano", "not English"),
        ("AT&T; sign above a shop", ""),
        ("Skater grinding metal rail beside concrete stairs", ""),
        ("Neon signage lights empty Las Vegas avenues tonight", ""),
        ("Two people die of laughter on the sofa", ""),
        ("A DOG RUNS", ""),
        ("Many children walk past tall old buildings.", ""),
        ("a café in Zürich", ""),
    ],
)
def test_skipped_captions(caption: str, reason: str) -> None:
    assert skip_reason(cleaned(caption)) == reason
    if reason:
        with pytest.raises(UnbagError, match=f"cannot be edited: {reason}"):
            unbag.edit(caption, ["swap_nouns"])


def test_the_public_function_loads_once(parser: Parser, monkeypatch: pytest.MonkeyPatch) -> None:
    cached_parser.cache_clear()
    cached_editor.cache_clear()
    loaded: list[str] = []

    def find(choice: str) -> Parser:
        loaded.append(choice)
        return parser

    monkeypatch.setattr("unbag.edits.editor.find_parser", find)
    [first] = unbag.edit("A dog sits on a sofa", ["swap_nouns"])
    assert first.text == "A sofa sits on a dog"
    assert unbag.edit("A dog sits on a sofa", "swap_nouns") == [first]
    drawn = [unbag.edit(MANY_NOUNS, ["swap_nouns"], seed=seed) for seed in (0, 0, *range(1, 8))]
    assert drawn[0] == drawn[1]
    assert len({edits[0].text for edits in drawn}) > 3
    assert len(unbag.edit(MANY_NOUNS, ["swap_nouns"], per_kind=2)) == 2
    assert [made.kind for made in unbag.edit(MANY_NOUNS, ["swap_phrases"])] == ["swap_phrases"]
    assert loaded == ["auto"]
    assert make_editor(["swap_nouns"], seed=3).seed == 3
    assert loaded == ["auto", "auto"]
    cached_parser.cache_clear()
    cached_editor.cache_clear()


@pytest.mark.parametrize("captions", [[MANY_NOUNS, MANY_NOUNS], (MANY_NOUNS,), None])
def test_the_public_function_takes_one_caption(captions: Any) -> None:
    with pytest.raises(UnbagError) as caught:
        unbag.edit(captions)
    assert caught.value.message == f"the caption to edit is a {type(captions).__name__}"
    assert "`unbag edit --captions`" in caught.value.hint


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
    """A sentence or a phrase with one of four capitalizations."""
    (subject, is_plural), (thing, _), (place, _) = draw(phrases()), draw(phrases()), draw(phrases())
    verb = draw(st.sampled_from(sorted(VERBS)))
    tensed = verb if is_plural else VERBS[verb][0]
    be = "are" if is_plural else "is"
    middle = draw(st.sampled_from((tensed, f"{be} {VERBS[verb][1]}", VERBS[verb][1], "")))
    links = [draw(st.sampled_from(PREPOSITIONS)) for _ in range(2)]
    text = f"{subject} {middle or links[0]} {thing} {links[1]} {place}"
    text += draw(st.sampled_from(ENDINGS))
    return draw(st.sampled_from((str.lower, str.capitalize, str.upper, _last_in_capitals)))(text)


def _last_in_capitals(text: str) -> str:
    words = text.split()
    return " ".join([*words[:-1], words[-1].upper()])


@pytest.fixture(scope="module")
def every_kind() -> CaptionEditor:
    """All kinds that need no model; those with WordNet if it is installed."""
    kinds = [k for k in find_kinds(["all"]) if not k.name.startswith(("fill_", "rewrite_"))]
    try:
        find_wordnet()
    except UnbagError:
        kinds = [kind for kind in kinds if "WordNet" not in kind.source]
    return make_editor([kind.name for kind in kinds], per_kind=3, seed=5)


@settings(max_examples=60, deadline=None)
@given(caption=captions())
def test_properties_of_every_edit(every_kind: CaptionEditor, caption: str) -> None:
    [edited], _ = every_kind([Given("1", caption)])
    assert not edited.skipped
    kinds = {kind.name: kind for kind in every_kind.kinds}
    negations = normalised(caption).split().count("no")
    for made in edited.edits:
        assert apply(edited.text, made.changes) == made.text
        assert 0 <= made.changes[0].start <= made.changes[-1].end <= len(edited.text)
        assert made.span == (made.changes[0].start, made.changes[-1].end)
        assert normalised(made.text) != normalised(edited.text)
        assert made.text == " ".join(made.text.split())
        if kinds[made.kind].keeps_words:
            assert _bag_of_lemmas(made.text) == _bag_of_lemmas(caption), made
        if negations and kinds[made.kind].promises_false:
            assert normalised(made.text).split().count("no") < negations, made
    assert len({normalised(made.text) for made in edited.edits}) == len(edited.edits)
    assert every_kind([Given("1", caption)])[0] == [edited]


def _bag_of_lemmas(text: str) -> Counter[str]:
    words = [LEMMAS.get(word, word) for word in normalised(text).split()]
    return Counter(word for word in words if word not in ("a", "an"))
