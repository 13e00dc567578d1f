"""Fills: what may stand in a place, what is likely, and the same result whatever the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from unbag.edits.editor import CaptionEditor, edit, make_editor
from unbag.edits.generated import fills
from unbag.edits.generated.fills import (
    ACTIONS,
    ATTRIBUTES,
    FILL_OBJECT,
    FILL_RELATION,
    RELATIONS,
    Blank,
    ByRules,
    Filler,
    FillPlaces,
    Fills,
    Gains,
    Tools,
)
from unbag.edits.kinds import EditParts, Kind, apply, find_kinds
from unbag.edits.negatives.wordnet import NounRule
from unbag.edits.parsing import Parser, find_parser
from unbag.edits.wordnet import WordNet, find_wordnet
from unbag.errors import UnbagError
from unbag.types import Given

from .tiny_words import save_causal, save_masked

CAPTIONS = (
    "A red bus is parked near a tall building.",
    "A man is sitting on a wooden bench.",
    "a dog sleeps on a bed",
    "A WOMAN HOLDS A BALL",
    "Two girls ride horses in a field.",
    "a black and white cat sits under a table",
    "A boy is holding a kite.",
    "An elephant stands next to a car.",
    "nothing to see",
)


@pytest.fixture(scope="module")
def parser() -> Parser:
    return find_parser()


@pytest.fixture(scope="module")
def wordnet() -> WordNet:
    return find_wordnet()


@dataclass
class Told:
    """A model that finds words as likely as it is told, those offered first."""

    gains: dict[str, float] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def __call__(self, blanks: Sequence[Blank]) -> list[Gains]:
        self.texts += [blank.text for blank in blanks]
        return [{**{fill: -1.0 for fill, _ in blank.offered}, **self.gains} for blank in blanks]


def filled(
    filler: Filler, parser: Parser, places: FillPlaces, caption: str, wordnet: WordNet | None = None
) -> set[str]:
    kind = Kind("own", is_positive=False, about="", source="", editor=lambda parts: editor)
    editor = Fills(Tools(filler, parser, wordnet), places)
    making = CaptionEditor(parser, (kind,), (editor,), per_kind=20)
    [found], _ = making([Given("1", caption)])
    for made in found.edits:
        assert apply(found.text, made.changes) == made.text
    return {made.text for made in found.edits}


def test_an_attribute_by_what_excludes_it(parser: Parser) -> None:
    told = Told({"blue": 0.0, "green": -0.5, "shiny": 5.0, "crimson": 9.0, "red": 9.0})
    found = filled(told, parser, ATTRIBUTES, "A red bus is here.")
    assert {"A blue bus is here.", "A green bus is here."} <= found
    assert not any(word in text for text in found for word in ("red", "shiny", "crimson"))


def test_what_is_unlikely_is_not_proposed(parser: Parser) -> None:
    told = Told(dict.fromkeys(("blue", "green", "yellow", "black", "white"), -fills.DROP - 1))
    found = filled(told, parser, ATTRIBUTES, "A red bus is here.")
    assert found == {"A purple bus is here.", "A gray bus is here."}


def test_the_likeliest_are_proposed(parser: Parser) -> None:
    told = Told({"purple": -0.9, "gray": -0.8})
    found = filled(told, parser, ATTRIBUTES, "A red bus is here.")
    assert len(found) == fills.BEST
    assert {"A purple bus is here.", "A gray bus is here."} <= found


def test_a_verb_keeps_its_form(parser: Parser) -> None:
    told = Told({"standing": 0.0, "stands": 1.0, "stand": 1.0})
    found = filled(told, parser, ACTIONS, "A man is sitting on a bench.")
    assert "A man is standing on a bench." in found
    assert all(text.split()[3].endswith("ing") for text in found)


def test_a_relation_of_one_word_or_several(parser: Parser) -> None:
    assert filled(Told(), parser, RELATIONS, "A cat is on a table.") == {
        "A cat is under a table.",
        "A cat is next to a table.",
        "A cat is behind a table.",
    }


def nouns(wordnet: WordNet) -> ByRules:
    return ByRules((NounRule(wordnet),), is_open=True)


def test_a_noun_that_the_model_names(parser: Parser, wordnet: WordNet) -> None:
    named = {
        "giraffe": 1.0,
        "puppy": 1.0,  # a kind of dog
        "animal": 1.0,  # what a dog is
        "sofa": 1.0,  # of another sort
        "bed": 1.0,  # in the caption
        "dogs": 1.0,  # the same word
        "hounds": 1.0,
        "runs": 1.0,
    }
    found = filled(Told(named), parser, nouns(wordnet), "A dog is on a bed.", wordnet)
    assert "A giraffe is on a bed." in found
    words = {word for text in found for word in text.strip(".").split()}
    assert words.isdisjoint({"puppy", "animal", "dogs", "hounds", "runs"})
    assert "A sofa is on a bed." not in found


def test_articles_follow(parser: Parser, wordnet: WordNet) -> None:
    found = filled(Told({"owl": 0.0}), parser, nouns(wordnet), "A dog is on a bed.", wordnet)
    assert "An owl is on a bed." in found


def test_capitals_are_told_in_lower_case(parser: Parser) -> None:
    told = Told({"green": 0.0})
    found = filled(told, parser, ATTRIBUTES, "A RED BUS IS HERE")
    assert "A GREEN BUS IS HERE" in found
    assert told.texts == ["a red bus is here"]


def test_no_place_no_question(parser: Parser) -> None:
    told = Told()
    assert filled(told, parser, RELATIONS, "a dog runs") == set()
    assert told.texts == []


@pytest.fixture(scope="module", params=[save_masked, save_causal])
def making(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> CaptionEditor:
    pytest.importorskip("transformers")
    save: Callable[[Path], Path] = request.param
    folder = save(tmp_path_factory.mktemp("fills") / "model")
    fills._tools.cache_clear()
    return make_editor(["fills"], parts=EditParts(fill=str(folder), device="cpu"), per_kind=2)


def test_fills_of_real_models_are_sound(
    making: CaptionEditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Random weights find hardly anything likely.
    monkeypatch.setattr(fills, "DROP", 1e9)
    found, tally = making([Given(str(at), text) for at, text in enumerate(CAPTIONS)])
    assert sum(len(one.edits) for one in found) > 4
    assert tally.captions == len(CAPTIONS)
    assert found[-1].edits == ()
    for one in found:
        for made in one.edits:
            assert apply(one.text, made.changes) == made.text
            assert made.text.lower() != one.text.lower()
            assert not any(mark in made.text for mark in ("[", "]", "#", "<", "_"))
            assert made.kind.startswith("fill_")
            assert not made.is_positive


def test_batch_and_order_change_no_fill(
    making: CaptionEditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fills, "DROP", 1e9)
    given = [Given(str(at), text) for at, text in enumerate(CAPTIONS)]
    together, _ = making(given)
    alone = [making([one])[0][0] for one in given]
    monkeypatch.setattr("unbag.edits.generated.batches.BATCH", 2)
    backwards = making(given[::-1])[0][::-1]
    assert together == alone == backwards


def test_a_model_must_be_named() -> None:
    with pytest.raises(
        UnbagError, match="fills need a language model, and none was named"
    ) as error:
        edit("a red bus near a house", ["fill_attribute"])
    assert "--fill" in error.value.hint


def test_kinds_of_fills_are_off_by_default() -> None:
    kinds = find_kinds(["fills"])
    assert [kind.name for kind in kinds] == [
        "fill_attribute",
        "fill_object",
        "fill_action",
        "fill_relation",
    ]
    assert not any(kind.is_default for kind in kinds)


def test_wordnet_is_needed_for_nouns_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parser: Parser
) -> None:
    def missing(choice: str) -> WordNet:
        raise UnbagError("WordNet was not found")

    monkeypatch.setattr(fills, "find_wordnet", missing)
    monkeypatch.setattr(fills, "load_filler", lambda path, *, device: Told())
    monkeypatch.setattr(fills, "find_parser", lambda choice: parser)
    editor = FILL_RELATION.editor(EditParts(fill=str(tmp_path)))
    assert isinstance(editor, Fills)
    assert editor.tools.wordnet is None
    with pytest.raises(UnbagError, match="WordNet was not found"):
        FILL_RELATION.editor(EditParts(fill=str(tmp_path), wordnet=str(tmp_path)))
    with pytest.raises(UnbagError, match="WordNet was not found"):
        FILL_OBJECT.editor(EditParts(fill="any"))
    assert filled(Told(), parser, RELATIONS, "A cat is on a table.")
