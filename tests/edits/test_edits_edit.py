"""Editing many captions: rounds, filters, reasons, and the same output whatever the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

import unbag
from unbag.edits.editor import (
    MAX_WORDS,
    CaptionEditor,
    EditTally,
    cleaned,
    edit,
    make_editor,
    skip_reason,
)
from unbag.edits.filters import ALWAYS, Proposal
from unbag.edits.kinds import Changes, EditParts, Kind, apply, by_rule, find_kinds
from unbag.edits.parsed import Parsed
from unbag.edits.parsing import find_parser
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


def given(captions: Sequence[str] = CAPTIONS) -> list[Given]:
    return [Given(str(at), caption) for at, caption in enumerate(captions)]


@pytest.fixture(scope="module")
def swapper() -> CaptionEditor:
    return make_editor(["swap_nouns"], per_kind=2)


def test_edits_say_what_they_did(swapper: CaptionEditor) -> None:
    found, _ = swapper(given())
    assert [one.id for one in found] == [str(at) for at in range(len(CAPTIONS))]
    assert found[1].edits[0].text == "A dog stands in front of an elephant."
    for one in found:
        for made in one.edits:
            assert apply(one.text, made.changes) == made.text
            assert made.span == (made.changes[0].start, made.changes[-1].end)


def test_the_batch_does_not_matter(swapper: CaptionEditor) -> None:
    together, _ = swapper(given())
    alone = [swapper([one])[0][0] for one in given()]
    backwards = swapper(given()[::-1])[0][::-1]
    assert together == alone == backwards


def test_another_seed_draws_others() -> None:
    caption = "a cup on a plate on a table in a box under a window"
    drawn = {edit(caption, ["swap_nouns"], seed=seed)[0].text for seed in range(8)}
    assert len(drawn) > 3
    assert edit(caption, ["swap_nouns"], seed=1) == edit(caption, ["swap_nouns"], seed=1)


def test_reasons_are_counted(swapper: CaptionEditor) -> None:
    found, tally = swapper(given())
    assert [one.skipped for one in found] == ["", "", "empty", "", "", "", "no letters"]
    assert found[4] == Edited("4", "a dog")
    said = to_json(tally)
    assert said["captions"] == 7
    assert said["skipped"] == {"empty": 1, "no letters": 1}
    assert tally.without_edit == 1
    of = tally.kinds["swap_nouns"]
    assert (of.places, of.captions) == (4, 4)
    assert to_json(from_json(EditTally, said, "tally")) == said


def _replace(parsed: Parsed) -> list[Changes]:
    return [(Change(2, 5, new),) for new in ("cat", "Dog", "dogs who stand here and look at it")]


OWN = Kind("own", is_positive=False, about="", source="ours", editor=by_rule(_replace))


def one_kind(kind: Kind, *, per_kind: int = 3) -> CaptionEditor:
    return CaptionEditor(find_parser(), (kind,), (kind.editor(EditParts()),), per_kind=per_kind)


def test_filters_reject_with_a_reason() -> None:
    [found], tally = one_kind(OWN)([Given("1", "a dog runs", ("the cat is here",))])
    assert found.edits == ()
    assert dict(tally.kinds["own"].rejected) == {
        "same as the caption": 1,
        "length": 1,
        "said of the image by another caption": 1,
    }
    [found], _ = one_kind(OWN)([Given("1", "a dog runs", ("the sofa is here",))])
    assert [made.text for made in found.edits] == ["a cat runs"]


@pytest.mark.parametrize(
    ("caption", "old", "new", "stays"),
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
def test_what_is_denied_may_be_true_of_other_things(
    caption: str, old: str, new: str, stays: bool
) -> None:
    at = caption.index(old)
    change = Change(at, at + len(old), new)
    kind = replace(OWN, editor=by_rule(lambda parsed: [(change,)]))
    [found], tally = one_kind(kind)([Given("1", caption)])
    assert [made.text for made in found.edits] == [caption.replace(old, new)] * stays
    assert dict(tally.kinds["own"].rejected) == ({} if stays else {"under a negation": 1})
    positive = replace(kind, is_positive=True)
    assert one_kind(positive)([Given("1", caption)])[0][0].edits


def test_a_repeated_edit_is_kept_once() -> None:
    twice = Kind(
        "twice",
        is_positive=True,
        about="",
        source="ours",
        editor=by_rule(lambda parsed: [(Change(0, 1, "the"),), (Change(0, 2, "The "),)]),
    )
    [found], tally = one_kind(twice)([Given("1", "a dog runs")])
    assert len(found.edits) == 1
    assert dict(tally.kinds["twice"].rejected) == {"same as another edit of the caption": 1}


def test_filters_see_batches_in_rounds() -> None:
    sizes: list[int] = []

    class Counting:
        reason = "never"

        def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
            sizes.append(len(proposals))
            return [True] * len(proposals)

    editor = make_editor(["swap_nouns"], filters=[*ALWAYS, Counting()])
    editor(given(["a dog on a sofa", "a cup under a plate", "a man rides a horse"]))
    assert sizes == [3]


def test_filters_of_a_kind_see_its_edits_only() -> None:
    class Never:
        reason = "never"

        def __call__(self, proposals: Sequence[Proposal]) -> list[bool]:
            assert {proposal.kind.name for proposal in proposals} <= {"own"}
            return [False] * len(proposals)

    kinds = (replace(OWN, filters=(Never(),)), replace(OWN, name="other"))
    editor = CaptionEditor(find_parser(), kinds, tuple(k.editor(EditParts()) for k in kinds))
    [found], tally = editor([Given("1", "a dog runs")])
    assert [(made.kind, made.text) for made in found.edits] == [("other", "a cat runs")]
    assert dict(tally.kinds["own"].rejected) == {"never": 3}


@pytest.mark.parametrize(
    ("caption", "reason"),
    [
        ("", "empty"),
        ("  \n ", "empty"),
        ("dog", "one word"),
        ("?! ...", "no letters"),
        ("a " * (MAX_WORDS + 1), f"more than {MAX_WORDS} words"),
        ("a <b>dog</b> runs", "markup or web address"),
        ("a dog &amp; a cat", "markup or web address"),
        ("see www.example.org for a dog", "markup or web address"),
        ("собака сидит на диване", "not English"),
        ("ein Hund sitzt auf dem Sofa", "not English"),
        ("Le chat est sur la table a manger", "not English"),
        ("Una mujer sentada en el sofá con un perro", "not English"),
        ("Il gatto dorme sul divano", "not English"),
        ("一只狗坐在沙发上", "not English"),
        ("собака", "not English"),
        ("a dog &#8211; a cat", "markup or web address"),
        ("a dog&nbsp;and a cat", "markup or web address"),
        ("AT&T; sign above a shop", ""),
        ("Skater grinding metal rail beside concrete stairs", ""),
        ("Neon signage lights empty Las Vegas avenues tonight", ""),
        ("Two people die of laughter on the sofa", ""),
        ("A DOG RUNS", ""),
        ("Many children walk past tall old buildings.", ""),
        ("a dog runs", ""),
        ("a café in Zürich", ""),
    ],
)
def test_captions_that_are_left_alone(caption: str, reason: str) -> None:
    assert skip_reason(cleaned(caption)) == reason


def test_the_public_function() -> None:
    [found] = unbag.edit("A dog sits on a sofa", ["swap_nouns"])
    assert found.text == "A sofa sits on a dog"
    with pytest.raises(UnbagError, match="the caption '' cannot be edited: empty"):
        unbag.edit("", ["swap_nouns"])


def test_kinds_by_name_and_group() -> None:
    assert [kind.name for kind in find_kinds(["swap_nouns", "swap_nouns"])] == ["swap_nouns"]
    assert "swap_nouns" in [kind.name for kind in find_kinds(["negatives"])]
    with pytest.raises(UnbagError, match="unknown kind of edit 'swap_noun'") as error:
        find_kinds(["swap_noun"])
    assert "swap_nouns" in error.value.expected
    with pytest.raises(UnbagError, match="no kinds of edits were named"):
        find_kinds([])
    with pytest.raises(UnbagError, match=r"'unbag.edits.negatives.swaps:swap_nouns' is a function"):
        find_kinds(["unbag.edits.negatives.swaps:swap_nouns"])


def test_a_published_rule_is_left_as_it_was() -> None:
    editor = make_editor(["neg_clip_swap", "swap_nouns"])
    [found], tally = editor([Given("1", "A man is not holding a blue umbrella near a house")])
    assert [made.kind for made in found.edits] == ["neg_clip_swap"]
    assert dict(tally.kinds["swap_nouns"].rejected) == {"under a negation": 3}
