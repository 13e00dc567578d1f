"""Filters: other captions of the image, fluency and meaning by tiny real models, and names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from unbag.edits import filters
from unbag.edits.filters import (
    ALWAYS,
    Fluency,
    Meaning,
    NotInOtherCaptions,
    Proposal,
    load_fluency,
    load_meaning,
    make_filters,
)
from unbag.edits.kinds import Kind, by_rule, normalised
from unbag.edits.parsed import Parsed
from unbag.errors import UnbagError
from unbag.types import Edit

from .tiny_words import save_causal, save_masked

NEGATIVE = Kind("no", is_positive=False, about="", source="", editor=by_rule(lambda p: []))
POSITIVE = Kind("yes", is_positive=True, about="", source="", editor=by_rule(lambda p: []))


def proposal(
    before: str, after: str, kind: Kind = NEGATIVE, others: tuple[str, ...] = ()
) -> Proposal:
    edit = Edit(after, kind.name, kind.is_positive, (0, len(before)))
    return Proposal(Parsed(before, (), ()), edit, kind, others)


@pytest.mark.parametrize(
    ("text", "others", "kind", "passes"),
    [
        ("a dog with a cat", (), NEGATIVE, True),
        ("a dog with a cat", ("a cat and a dog",), NEGATIVE, False),
        ("a dog with a cup", ("a cat and a dog",), NEGATIVE, True),
        ("a dog with a red cup", ("A cup.", "something RED"), NEGATIVE, False),
        ("a ball with a dog", ("A ball with a dog!",), NEGATIVE, False),
        ("a ball with a dog", ("a dog",), NEGATIVE, True),
        ("a dog with a cat", ("a cat",), POSITIVE, True),
    ],
)
def test_negatives_that_another_caption_suggests(
    text: str, others: tuple[str, ...], kind: Kind, passes: bool
) -> None:
    assert NotInOtherCaptions()([proposal("a dog with a ball", text, kind, others)]) == [passes]


def test_other_captions_are_normalised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()

    def counted(text: str) -> str:
        calls[text] += 1
        return normalised(text)

    monkeypatch.setattr(filters, "normalised", counted)
    others = ("a cat", "a cup")
    NotInOtherCaptions()([proposal("a dog with a ball", "a dog with a hat", others=others)] * 9)
    assert [calls[other] for other in others] == [1, 1]


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
    return save_causal(tmp_path_factory.mktemp("models") / "causal")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("transformers")
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
    for limit in (min(drops) - 0.01, *drops, max(drops) + 0.01):
        check = Fluency(fluency.model, drop=limit + 1e-9)
        assert check(PAIRS) == [drop <= limit + 1e-9 for drop in drops]
    unreadable = [proposal("a dog", "a cat"), proposal("a dog", "a " * 200)]
    assert Fluency(fluency.model, drop=1e9)(unreadable) == [True, False]
    assert fluency([]) == []


def test_meaning_checks_positives_only(encoder: Path) -> None:
    meaning = load_meaning(str(encoder))
    pairs = [
        proposal("a dog runs", "a red bus on a table", POSITIVE),
        proposal("a dog runs", "a red bus on a table", NEGATIVE),
        proposal("a dog runs", "a dog runs", POSITIVE),
    ]
    vectors = meaning.encoder.vectors(["a dog runs", "a red bus on a table"])
    cosine = float(np.dot(*vectors))
    assert cosine < 0.999
    for limit in (cosine - 0.01, cosine + 0.01, 0.9999):
        assert Meaning(meaning.encoder, min_cosine=limit)(pairs) == [cosine >= limit, True, True]
    assert Meaning(meaning.encoder, min_cosine=2.0)([pairs[1]]) == [True]
    assert Meaning(meaning.encoder)([]) == []


def test_filters_do_not_depend_on_the_batch(causal: Path, encoder: Path) -> None:
    for check in (load_fluency(str(causal)), load_meaning(str(encoder))):
        together = check(PAIRS)
        assert [check([pair])[0] for pair in PAIRS] == together
        assert check(PAIRS[::-1])[::-1] == together


def test_filters_by_name(
    causal: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make_filters([]) == ALWAYS
    (tmp_path / "my_filters.py").write_text(
        "class Short:\n"
        "    reason = 'long'\n"
        "    def __call__(self, proposals):\n"
        "        return [len(p.edit.text) < 12 for p in proposals]\n"
        "SHORT = Short()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    names = [f"fluency:{causal}", f"meaning:{encoder}", *["my_filters:SHORT"] * 2]
    made = make_filters(names, device="cpu")
    assert made[: len(ALWAYS)] == ALWAYS
    assert [check.reason for check in made[len(ALWAYS) :]] == ["fluency", "meaning", "long"]
    assert made[-1](PAIRS) == [True, False, True, True]


@pytest.mark.parametrize(
    ("name", "message", "expected"),
    [
        ("fluent", "unknown filter 'fluent'", "fluency:PATH"),
        ("fluency:", "the filter 'fluency:' names no model", "fluency:PATH"),
        ("meaning", "the filter 'meaning' names no model", "meaning:PATH"),
        ("nowhere.at:ALL", "unknown filter 'nowhere.at:ALL'", ""),
        ("unbag.edits.filters:ALWAYS", "'unbag.edits.filters:ALWAYS' is a tuple", "a `reason`"),
        ("unbag.edits.filters:Differs", "'unbag.edits.filters:Differs' is a type", "a `reason`"),
    ],
)
def test_unknown_filters(name: str, message: str, expected: str) -> None:
    with pytest.raises(UnbagError, match=message) as error:
        make_filters([name])
    assert expected in error.value.expected
