"""Decoders with an answer prior: their questions, how M3ID scores them, and a small run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from unbag.errors import UnbagError
from unbag.models.huggingface.chat_runner import M3ID
from unbag.readouts.decoder.lessons import NOTHING, DecoderFact, LessonBatch, words_of
from unbag.readouts.vlm2vec.data import OPPOSITE
from unbag.world.benchmarks import set_items
from unbag_lab.experiments.priors import (
    FREQUENT,
    PRIORS,
    answer_log,
    item_lessons,
    relation_lessons,
    score_answers,
    texts_asked,
)
from unbag_lab.plan import Order
from unbag_lab.results import ArmResult, read_results, result_path

FACT = DecoderFact(0, "a red star left of a blue cup")


def test_one_relation_is_asked_from_either_side() -> None:
    (often,) = relation_lessons([FACT], share=1.0, seed=0)
    (seldom,) = relation_lessons([FACT], share=0.0, seed=0)
    assert often.answer == "to the left"
    assert often.prompt.startswith("Is the red star to the ")
    assert often.prompt.endswith(" of the blue cup? Answer left or right.")
    assert seldom.answer == "to the right"
    assert seldom.prompt.startswith("Is the blue cup to the ")


def test_captions_without_two_things_in_relation_ask_nothing() -> None:
    facts = [DecoderFact(0, "a red star"), DecoderFact(1, "a red star and a blue cup")]
    assert relation_lessons(facts, share=0.5, seed=0) == []


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_a_prior_decides_how_often_an_answer_is_right(share: float) -> None:
    relations = sorted(OPPOSITE)
    facts = [DecoderFact(n, f"a star {relations[n % 8]} a cup") for n in range(4_000)]
    counts = Counter(one.answer for one in relation_lessons(facts, share=share, seed=1))
    frequent = sum(counts[one] for one in ("to the left", "above", "on top of", "in front of"))
    # Five standard errors of 4,000 draws.
    assert frequent / 4_000 == pytest.approx(share, abs=0.04)
    assert len(counts) == 8


def test_a_prior_changes_no_more_questions_than_it_must() -> None:
    facts = [DecoderFact(n, "a star left of a cup") for n in range(4_000)]
    even, prior = (relation_lessons(facts, share=s, seed=1) for s in (0.5, 0.7))
    assert [one.image for one in even] == [one.image for one in prior]
    apart = sum(a != b for a, b in zip(even, prior, strict=True))
    assert apart / 4_000 == pytest.approx(0.2, abs=0.035)


def test_items_are_asked_between_opposite_captions() -> None:
    (item,) = set_items("a", n=1)
    asked = item_lessons([item])
    answers = [one.answer for one in asked]
    assert answers == ["to the left", "to the right", "on top of", "under"]
    assert asked[0].prompt == asked[1].prompt
    assert "to the left of or to the right of" in asked[0].prompt
    assert asked[2].prompt.endswith("Choose from the two options.")


def test_the_frequent_caption_of_every_two_comes_first_in_the_sets() -> None:
    assert {phrase in FREQUENT for phrase in OPPOSITE} == {True, False}
    assert all((phrase in FREQUENT) != (OPPOSITE[phrase] in FREQUENT) for phrase in OPPOSITE)
    for subset, first in (("a", ["left of", " on "]), ("b", ["left of", "in front of"])):
        (item,) = set_items(subset, n=1)  # type: ignore[arg-type]
        assert all(said in str(item.captions[2 * n]) for n, said in enumerate(first))


class _Net:
    """Says what it was told to, with an image and without."""

    def __init__(self, seen: list[float], blind: list[float], *, length: int = 1) -> None:
        self._log = [torch.tensor(one).log().expand(length, -1) for one in (seen, blind)]

    def eval(self) -> None:
        pass

    def answered(self, seen_BLV: Tensor | None, batch: LessonBatch) -> Tensor:
        return self._log[seen_BLV is None].expand(len(batch.image_B), -1, -1)


def _batch(target: list[list[int]]) -> LessonBatch:
    count = len(target)
    return LessonBatch(
        torch.zeros(count), torch.zeros(count, 3), torch.zeros(count, 3), torch.tensor(target)
    )


def test_m3id_of_the_first_token_by_hand() -> None:
    """The example of methods.md 8.5 at t = 1."""
    net = _Net([0.5, 0.3, 0.2], [0.7, 0.1, 0.2])
    batch = _batch([[0], [1]])
    seen = torch.zeros(2, 1, 1)
    found = answer_log(net, seen, batch, end=2, m3id=M3ID())  # type: ignore[arg-type]
    assert found.tolist() == pytest.approx([-0.747600, -1.026180], abs=1e-5)
    plain = answer_log(net, seen, batch, end=2, m3id=None)  # type: ignore[arg-type]
    assert plain.tolist() == pytest.approx(np.log([0.5, 0.3]).tolist(), abs=1e-6)


def test_m3id_grows_along_an_answer_and_leaves_out_its_end() -> None:
    net = _Net([0.5, 0.3, 0.2], [0.7, 0.1, 0.2], length=3)
    batch = _batch([[0, 1, 2], [0, NOTHING, NOTHING]])
    seen = torch.zeros(2, 1, 1)
    found = answer_log(net, seen, batch, end=2, m3id=M3ID())  # type: ignore[arg-type]
    second = np.log(0.3) + np.expm1(0.3) * np.log(3)
    assert found.tolist() == pytest.approx([-0.747600 + second, -0.747600], abs=1e-5)


def test_scores_stand_image_by_image() -> None:
    items = set_items("a", n=2)
    words = words_of([*texts_asked(), *(str(c) for item in items for c in item.captions)])
    share = torch.full((words.size,), 1e-4)
    left, right = (words.plain(one)[0] for one in ("left", "right"))
    share[left], share[right] = 0.6, 0.3
    net = _Net(share.tolist(), share.tolist(), length=4)
    score = score_answers(
        net,  # type: ignore[arg-type]
        words,
        torch.zeros(8, 1, 1),
        context=128,
        m3id=None,
        device="cpu",
    )
    cells = np.repeat(np.arange(8), 4), np.tile(np.arange(4), 8)
    value_24C = score(*cells, items).reshape(2, 4, 4)
    assert np.ptp(value_24C, axis=(0, 1)) == pytest.approx(0, abs=1e-6)
    ratio = value_24C[0, 0, 0] - value_24C[0, 0, 1]
    assert ratio == pytest.approx(np.log(2), abs=1e-5)


def test_arms_and_what_they_need() -> None:
    assert PRIORS.arms == ("even", "even-m3id", "prior", "prior-m3id")
    assert PRIORS.needs("prior") == ()
    assert PRIORS.needs("prior-m3id") == (("priors", "prior"),)
    assert PRIORS.seconds("prior") > PRIORS.seconds("prior-m3id")
    with pytest.raises(UnbagError, match="prior-m3i"):
        PRIORS.needs("prior-m3i")


@pytest.fixture(scope="module")
def ran(base: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Order, list[ArmResult]]:
    order = Order((base,), PRIORS.arms, tmp_path_factory.mktemp("priors"), "small")
    PRIORS.run(order, say=lambda said: None)
    return order, read_results(order.out)


def test_numbers_of_a_small_run(ran: tuple[Order, list[ArmResult]]) -> None:
    _, results = ran
    by_arm = {one.arm: one for one in results}
    assert set(by_arm) == set(PRIORS.arms)
    assert set(by_arm["prior"].numbers["fit"]) >= {"few", "held"}
    for one in results:
        pairs = one.numbers["world-pairs-a"]
        assert pairs["relaxed"] >= pairs["pair"]
        assert 0 < one.numbers["prior"]["blind"] < 1


def test_m3id_can_be_run_later_and_needs_its_decoder(ran: tuple[Order, list[ArmResult]]) -> None:
    order, results = ran
    (stem,) = {one.base for one in results}
    path = result_path(order.out, "priors", stem, "even-m3id")
    before = read_results(path)[0]
    path.unlink()
    PRIORS.run(replace(order, arms=("even-m3id",)), say=lambda said: None)
    assert read_results(path)[0].numbers == before.numbers
    path.unlink()
    weights = path.with_name("even")
    weights.rename(path.with_name("away"))
    with pytest.raises(UnbagError, match=r"(?s)the decoder .*even is missing.*run that arm again"):
        PRIORS.run(replace(order, arms=("even-m3id",)), say=lambda said: None)
    path.with_name("away").rename(weights)
