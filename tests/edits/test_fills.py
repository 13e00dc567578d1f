"""Fills: allowed and likely words, with scripted fillers and with tiny real models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

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
    CausalFiller,
    Filler,
    FillPlaces,
    Fills,
    Gains,
    MaskedFiller,
    Tools,
    load_filler,
)
from unbag.edits.kinds import EditParts, Kind, apply
from unbag.edits.negatives.wordnet import NounRule
from unbag.edits.parsing import Parser
from unbag.edits.wordnet import WordNet, find_wordnet
from unbag.errors import UnbagError
from unbag.types import Given

from .tiny_words import LETTERS, WORDS, save_causal, save_masked

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
def wordnet() -> WordNet:
    return find_wordnet()


@dataclass
class ScriptedFiller:
    """A filler with given gains; the offered words get -1."""

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
    caption_editor = CaptionEditor(parser, (kind,), (editor,), per_kind=20)
    [edited], _ = caption_editor([Given("1", caption)])
    for made in edited.edits:
        assert apply(edited.text, made.changes) == made.text
    return {made.text for made in edited.edits}


def test_likely_words_that_exclude_the_old_one(parser: Parser) -> None:
    caption = "A red bus is here."
    filler = ScriptedFiller({"blue": 0.0, "green": -0.5, "shiny": 5.0, "crimson": 9.0, "red": 9.0})
    texts = filled(filler, parser, ATTRIBUTES, caption)
    assert {"A blue bus is here.", "A green bus is here."} <= texts
    assert not any(word in text for text in texts for word in ("red", "shiny", "crimson"))
    unlikely = dict.fromkeys(("blue", "green", "yellow", "black", "white"), -fills.DROP - 1)
    best = {"A purple bus is here.", "A gray bus is here."}
    assert filled(ScriptedFiller(unlikely), parser, ATTRIBUTES, caption) == best
    likely = ScriptedFiller({"purple": -0.9, "gray": -0.8})
    texts = filled(likely, parser, ATTRIBUTES, caption)
    assert len(texts) == fills.BEST
    assert best <= texts


def test_a_verb_keeps_its_form(parser: Parser) -> None:
    filler = ScriptedFiller({"standing": 0.0, "stands": 1.0, "stand": 1.0})
    found = filled(filler, parser, ACTIONS, "A man is sitting on a bench.")
    assert "A man is standing on a bench." in found
    assert all(text.split()[3].endswith("ing") for text in found)


def test_a_relation_of_one_word_or_several(parser: Parser) -> None:
    assert filled(ScriptedFiller(), parser, RELATIONS, "A cat is on a table.") == {
        "A cat is under a table.",
        "A cat is next to a table.",
        "A cat is behind a table.",
    }


def test_nouns_of_the_model(parser: Parser, wordnet: WordNet) -> None:
    """No hyponym, hypernym, other sort, word of the caption, same word or verb."""
    wrong = ("puppy", "animal", "sofa", "bed", "dogs", "hounds", "runs")
    filler = ScriptedFiller(dict.fromkeys(("giraffe", *wrong), 1.0))
    places = ByRules((NounRule(wordnet),), is_open=True)
    texts = filled(filler, parser, places, "A dog is on a bed.", wordnet)
    assert "A giraffe is on a bed." in texts
    words = {word for text in texts for word in text.strip(".").split()}
    assert words.isdisjoint({*wrong} - {"sofa", "bed"})
    assert "A sofa is on a bed." not in texts
    texts = filled(ScriptedFiller({"owl": 0.0}), parser, places, "A dog is on a bed.", wordnet)
    assert "An owl is on a bed." in texts


def test_models_get_captions_in_lower_case(parser: Parser) -> None:
    filler = ScriptedFiller({"green": 0.0})
    assert "A GREEN BUS IS HERE" in filled(filler, parser, ATTRIBUTES, "A RED BUS IS HERE")
    assert filler.texts == ["a red bus is here"]


def test_captions_without_a_place_are_not_sent(parser: Parser) -> None:
    filler = ScriptedFiller()
    assert filled(filler, parser, RELATIONS, "a dog runs") == set()
    assert filler.texts == []


@pytest.fixture(scope="module", params=[save_masked, save_causal])
def editor(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> CaptionEditor:
    pytest.importorskip("transformers")
    save: Callable[[Path], Path] = request.param
    folder = save(tmp_path_factory.mktemp("fills") / "model")
    fills._tools.cache_clear()
    return make_editor(["fills"], parts=EditParts(fill=str(folder), device="cpu"), per_kind=2)


def test_fills_of_real_models(editor: CaptionEditor, monkeypatch: pytest.MonkeyPatch) -> None:
    # With random weights hardly any word is likely.
    monkeypatch.setattr(fills, "DROP", 1e9)
    given = [Given(str(i), text) for i, text in enumerate(CAPTIONS)]
    results, tally = editor(given)
    assert sum(len(edited.edits) for edited in results) > 4
    assert tally.captions == len(CAPTIONS)
    assert results[-1].edits == ()
    for edited in results:
        for made in edited.edits:
            assert apply(edited.text, made.changes) == made.text
            assert made.text.lower() != edited.text.lower()
            assert not any(mark in made.text for mark in ("[", "]", "#", "<", "_"))
            assert made.kind.startswith("fill_")
            assert not made.is_positive
    assert [editor([caption])[0][0] for caption in given] == results
    monkeypatch.setattr("unbag.edits.generated.batches.BATCH", 2)
    assert editor(given[::-1])[0][::-1] == results


def test_a_model_must_be_named() -> None:
    with pytest.raises(UnbagError, match="fills need a language model") as error:
        edit("a red bus near a house", ["fill_attribute"])
    assert "--fill" in error.value.hint


def test_wordnet_is_needed_for_nouns_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parser: Parser
) -> None:
    def missing(choice: str) -> WordNet:
        raise UnbagError("WordNet was not found")

    monkeypatch.setattr(fills, "find_wordnet", missing)
    monkeypatch.setattr(fills, "load_filler", lambda path, *, device: ScriptedFiller())
    monkeypatch.setattr(fills, "find_parser", lambda choice: parser)
    editor = FILL_RELATION.editor(EditParts(fill=str(tmp_path)))
    assert isinstance(editor, Fills)
    assert editor.tools.wordnet is None
    with pytest.raises(UnbagError, match="WordNet was not found"):
        FILL_RELATION.editor(EditParts(fill=str(tmp_path), wordnet=str(tmp_path)))
    with pytest.raises(UnbagError, match="WordNet was not found"):
        FILL_OBJECT.editor(EditParts(fill="any"))
    assert filled(ScriptedFiller(), parser, RELATIONS, "A cat is on a table.")


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> MaskedFiller:
    pytest.importorskip("transformers")
    filler = load_filler(str(save_masked(tmp_path_factory.mktemp("fill") / "masked")))
    assert isinstance(filler, MaskedFiller)
    return filler


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> CausalFiller:
    pytest.importorskip("transformers")
    filler = load_filler(str(save_causal(tmp_path_factory.mktemp("fill") / "causal")))
    assert isinstance(filler, CausalFiller)
    return filler


def blank(text: str, word: str, *offered: str) -> Blank:
    start = text.index(word)
    end = start + len(word)
    captions = tuple((new, text[:start] + new + text[end:]) for new in offered)
    return Blank(text, start, end, captions)


def test_gains_of_a_masked_model_by_hand(masked: MaskedFiller) -> None:
    assert set(masked.words.values()) == {*WORDS, "un"} - {*LETTERS}
    [found] = masked([blank("a dog sits on a sofa", "dog")])
    tokens = masked.tokenizer.convert_tokens_to_ids(
        ["[CLS]", "a", "[MASK]", "sits", "on", "a", "sofa", "[SEP]"]
    )
    with torch.inference_mode():
        log_V = masked.model(input_ids=torch.tensor([tokens])).logits[0, 2].log_softmax(-1)
    assert set(found) == set(masked.words.values())
    for word in ("cat", "red", "under"):
        token = masked.tokenizer.convert_tokens_to_ids(word)
        assert found[word] == pytest.approx(float(log_V[token] - log_V.max()), abs=1e-4)
    assert max(found.values()) <= 0
    # A word of several pieces is a single blank.
    zebra, dog = masked([blank("a zebra sits", "zebra"), blank("a dog sits", "dog")])
    assert dict(zebra) == dict(dog)


def test_gains_of_a_causal_model_are_differences_of_captions(causal: CausalFiller) -> None:
    [found] = causal([blank("a dog sits", "dog", "cat", "big horse")])
    before, cat, horse = causal.model.of(["a dog sits", "a cat sits", "a big horse sits"])
    assert dict(found) == {"cat": cat - before, "big horse": horse - before}
    assert causal([blank("a dog sits", "dog")]) == [{}]


@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_gains_do_not_depend_on_the_batch(
    kind: str, masked: MaskedFiller, causal: CausalFiller, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = masked if kind == "masked" else CausalFiller(causal.model)
    texts = {
        "a dog sits on a sofa": "dog",
        "the man is in a red car.": "red",
        "two cats": "cats",
        "a small horse and a boy with a ball next to the bus": "horse",
    }
    blanks = [blank(text, word, "bear", "blue", "bed") for text, word in texts.items()]
    together = filler([*blanks, *blanks])
    monkeypatch.setattr("unbag.edits.generated.batches.BATCH", 1)
    monkeypatch.setattr("unbag.models.baselines.BATCH", 1)
    causal.model._known.clear()
    alone = filler(blanks[::-1])[::-1]
    for gains, again, single in zip(together[:4], together[4:], alone, strict=True):
        assert dict(gains) == pytest.approx(dict(again), abs=1e-4)
        assert dict(gains) == pytest.approx(dict(single), abs=1e-4)


def test_unreadable_blanks_get_no_words(masked: MaskedFiller, causal: CausalFiller) -> None:
    odd = [
        blank("a [MASK] and a dog", "dog"),
        blank("a dog " * 12, "dog"),
        blank("a dog sits", "dog"),
    ]
    assert [bool(found) for found in masked(odd)] == [False, False, True]
    assert causal([blank("a dog " * 60, "dog", "cat")]) == [{}]


def test_models_that_cannot_fill(tmp_path: Path) -> None:
    encoder = save_masked(tmp_path / "encoder", has_head=False)
    with pytest.raises(UnbagError, match="is a BertModel, which fills no blanks") as error:
        load_filler(str(encoder))
    assert "all-MiniLM" in error.value.hint
    config = encoder / "config.json"
    said = config.read_text(encoding="utf-8").replace("BertModel", "BertForMaskedLM")
    config.write_text(said, encoding="utf-8")
    with pytest.raises(UnbagError, match="do not fill BertForMaskedLM"):
        load_filler(str(encoder))
    with pytest.raises(UnbagError, match="there is no folder"):
        load_filler(str(tmp_path / "nothing"))
    folder = save_masked(tmp_path / "masked")
    save_causal(tmp_path / "causal")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((tmp_path / "causal" / name).read_bytes())
    with pytest.raises(UnbagError, match="has no mask or no padding"):
        load_filler(str(folder))
