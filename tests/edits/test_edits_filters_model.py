"""Filters with tiny real models: fluency by likelihood, meaning by vectors; filters by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unbag.edits.filters import (
    ALWAYS,
    Fluency,
    Meaning,
    Proposal,
    load_fluency,
    load_meaning,
    make_filters,
)
from unbag.edits.kinds import Kind, by_rule
from unbag.edits.parsed import Parsed
from unbag.errors import UnbagError
from unbag.types import Edit

from .tiny_words import save_causal, save_masked

pytest.importorskip("transformers")
NEGATIVE = Kind("no", is_positive=False, about="", source="", editor=by_rule(lambda p: []))
POSITIVE = Kind("yes", is_positive=True, about="", source="", editor=by_rule(lambda p: []))


def proposal(before: str, after: str, kind: Kind = NEGATIVE) -> Proposal:
    edit = Edit(after, kind.name, kind.is_positive, (0, len(before)))
    return Proposal(Parsed(before, (), ()), edit, kind, ())


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_causal(tmp_path_factory.mktemp("models") / "causal")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_masked(tmp_path_factory.mktemp("models") / "encoder", has_head=False)


PAIRS = [
    proposal("a dog runs", "a cat runs"),
    proposal("a red bus", "a bus red that is"),
    proposal("a man sits on a bed", "zq xx"),
    proposal("a dog runs", "a dog sits", POSITIVE),
]


def test_fluency_is_a_difference_per_token(causal: Path) -> None:
    fluency = load_fluency(str(causal))
    before = fluency.model.of([p.caption.text for p in PAIRS])
    after = fluency.model.of([p.edit.text for p in PAIRS])
    drops = [b - a for a, b in zip(after, before, strict=True)]
    assert fluency.model.is_mean
    for drop in (min(drops) - 0.01, *drops, max(drops) + 0.01):
        allowed = Fluency(fluency.model, drop=drop + 1e-9)
        assert allowed(PAIRS) == [one <= drop + 1e-9 for one in drops]
    assert fluency.reason == "fluency"


def test_fluency_rejects_what_cannot_be_read(causal: Path) -> None:
    fluency = Fluency(load_fluency(str(causal)).model, drop=1e9)
    assert fluency([proposal("a dog", "a cat"), proposal("a dog", "a " * 200)]) == [True, False]
    assert fluency([]) == []


def test_meaning_is_asked_of_positives_only(encoder: Path) -> None:
    meaning = load_meaning(str(encoder))
    pairs = [
        proposal("a dog runs", "a red bus on a table", POSITIVE),
        proposal("a dog runs", "a red bus on a table", NEGATIVE),
        proposal("a dog runs", "a dog runs", POSITIVE),
    ]
    one, other = meaning.encoder.vectors(["a dog runs", "a red bus on a table"])
    cosine = float(np.dot(one, other))
    assert cosine < 0.999
    for least in (cosine - 0.01, cosine + 0.01, 0.9999):
        asked = Meaning(meaning.encoder, least=least)
        assert asked(pairs) == [cosine >= least, True, True]
    assert Meaning(meaning.encoder, least=2.0)([pairs[1]]) == [True]
    assert Meaning(meaning.encoder)([]) == []


def test_the_batch_does_not_matter(causal: Path, encoder: Path) -> None:
    for keeps in (load_fluency(str(causal)), load_meaning(str(encoder))):
        together = keeps(PAIRS)
        assert [keeps([one])[0] for one in PAIRS] == together
        assert keeps(PAIRS[::-1])[::-1] == together


def test_filters_by_name(causal: Path, encoder: Path) -> None:
    found = make_filters([f"fluency:{causal}", f"meaning:{encoder}"], device="cpu")
    assert found[: len(ALWAYS)] == ALWAYS
    assert [keeps.reason for keeps in found[len(ALWAYS) :]] == ["fluency", "meaning"]
    assert make_filters([]) == ALWAYS
    own = "unbag.edits.filters:ALWAYS"
    with pytest.raises(UnbagError, match=rf"the filter '{own}' is a tuple"):
        make_filters([own])
    with pytest.raises(UnbagError, match=r"'unbag.edits.filters:Differs' is a type"):
        make_filters(["unbag.edits.filters:Differs"])


def test_a_filter_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_filters.py").write_text(
        "class Short:\n"
        "    reason = 'long'\n"
        "    def __call__(self, proposals):\n"
        "        return [len(p.edit.text) < 12 for p in proposals]\n"
        "SHORT = Short()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    *_, mine = make_filters(["my_filters:SHORT", "my_filters:SHORT"])
    assert mine.reason == "long"
    assert mine(PAIRS) == [True, False, True, True]
    assert len(make_filters(["my_filters:SHORT", "my_filters:SHORT"])) == len(ALWAYS) + 1


def test_unknown_filters_are_said() -> None:
    with pytest.raises(UnbagError, match="unknown filter 'fluent'") as error:
        make_filters(["fluent"])
    assert "fluency:PATH" in error.value.expected
    with pytest.raises(UnbagError, match="the filter 'fluency:' names no model") as error:
        make_filters(["fluency:"])
    assert error.value.expected.startswith("fluency:PATH")
    with pytest.raises(UnbagError, match="the filter 'meaning' names no model"):
        make_filters(["meaning"])
    with pytest.raises(UnbagError, match=r"unknown filter 'nowhere.at:ALL'"):
        make_filters(["nowhere.at:ALL"])
