"""Words for blanks by tiny real models: a masked one with word pieces, and a causal one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from unbag.edits.generated.fills import Blank, CausalFiller, Gains, MaskedFiller, load_filler
from unbag.errors import UnbagError

from .tiny_words import LETTERS, WORDS, save_causal, save_masked

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> MaskedFiller:
    found = load_filler(str(save_masked(tmp_path_factory.mktemp("fill") / "masked")))
    assert isinstance(found, MaskedFiller)
    return found


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> CausalFiller:
    found = load_filler(str(save_causal(tmp_path_factory.mktemp("fill") / "causal")))
    assert isinstance(found, CausalFiller)
    return found


def blank(text: str, word: str, *offered: str) -> Blank:
    start = text.index(word)
    end = start + len(word)
    made = tuple((new, text[:start] + new + text[end:]) for new in offered)
    return Blank(text, start, end, made)


TEXTS = (
    ("a dog sits on a sofa", "dog"),
    ("the man is in a red car.", "red"),
    ("two cats", "cats"),
    ("a small horse and a boy with a ball next to the bus", "horse"),
)


def blanks() -> list[Blank]:
    return [blank(text, word, "bear", "blue", "bed") for text, word in TEXTS]


def equal(found: list[Gains], wanted: list[Gains]) -> Iterator[bool]:
    for one, other in zip(found, wanted, strict=True):
        yield dict(one) == pytest.approx(dict(other), abs=1e-4)


def test_only_whole_words_are_named(masked: MaskedFiller) -> None:
    assert set(masked.words.values()) == {*WORDS, "un"} - {*LETTERS}


def test_gains_of_a_masked_model_by_hand(masked: MaskedFiller) -> None:
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


def test_a_masked_word_of_several_pieces_is_one_blank(masked: MaskedFiller) -> None:
    one, other = masked([blank("a zebra sits", "zebra"), blank("a dog sits", "dog")])
    assert dict(one) == dict(other)


def test_gains_of_a_causal_model_are_differences_of_captions(causal: CausalFiller) -> None:
    [found] = causal([blank("a dog sits", "dog", "cat", "big horse")])
    before, cat, horse = causal.model.of(["a dog sits", "a cat sits", "a big horse sits"])
    assert dict(found) == {"cat": cat - before, "big horse": horse - before}
    assert causal([blank("a dog sits", "dog")]) == [{}]


@pytest.mark.parametrize("kind", ["masked", "causal"])
def test_batch_and_order_change_nothing(
    kind: str,
    masked: MaskedFiller,
    causal: CausalFiller,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    filler = masked if kind == "masked" else CausalFiller(causal.model)
    together = filler([*blanks(), *blanks()])
    assert all(equal(together[:4], together[4:]))
    monkeypatch.setattr("unbag.edits.generated.batches.BATCH", 1)
    monkeypatch.setattr("unbag.models.baselines.BATCH", 1)
    causal.model._known.clear()
    assert all(equal(together[:4], filler(blanks()[::-1])[::-1]))


def test_what_cannot_be_read_gets_no_words(masked: MaskedFiller, causal: CausalFiller) -> None:
    odd = [
        blank("a [MASK] and a dog", "dog"),
        blank("a dog " * 12, "dog"),
        blank("a dog sits", "dog"),
    ]
    assert [bool(found) for found in masked(odd)] == [False, False, True]
    assert causal([blank("a dog " * 60, "dog", "cat")]) == [{}]


def test_what_fills_no_blanks_is_said(tmp_path: Path) -> None:
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


def test_a_masked_model_needs_a_mask(tmp_path: Path) -> None:
    folder = save_masked(tmp_path / "masked")
    save_causal(tmp_path / "causal")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((tmp_path / "causal" / name).read_bytes())
    with pytest.raises(UnbagError, match="has no mask or no padding"):
        load_filler(str(folder))
