"""Claims say what would make them fail, and the rule of verdicts does what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unbag.cli.main import main
from unbag.errors import UnbagError
from unbag_lab.claims import (
    FEWEST_BASES,
    NAMES,
    ArmKey,
    Claim,
    Number,
    Prediction,
    _read_claims,
    all_claims,
    find_claim,
)
from unbag_lab.pages.claim_page import claim_page
from unbag_lab.results import ArmResult, shipped_results
from unbag_lab.verdict import FAILED, REPRODUCED, UNDECIDED, Word, judge_claims, weigh

A, B = Number("a", "bench", "metric"), Number("b", "bench", "metric")


def claim(*predictions: Prediction, name: str = "one") -> Claim:
    return Claim(name, "us", "it holds", "made", predictions)


def results(arm: str, values: list[float]) -> list[ArmResult]:
    return [
        ArmResult("made", f"base-{n}", "f", arm, 1, 1, 0, 1, "float32", None,
                  {"bench": {"metric": value}})
        for n, value in enumerate(values)
    ]  # fmt: skip


def verdict_of(prediction: Prediction, values: list[float]) -> Word:
    found = results("a", values) + results("b", [0.0] * len(values))
    return judge_claims([claim(prediction)], found)[0].word


ABOVE = Prediction("a is above b", A, B, "above", 0.05)
WITHIN = Prediction("a is as b", A, B, "within", 0.05)
BELOW = Prediction("a is below b", A, B, "below", -0.05)


@pytest.mark.parametrize(
    ("prediction", "values", "word"),
    [
        (ABOVE, [0.20, 0.22, 0.18, 0.21, 0.19], REPRODUCED),
        (ABOVE, [0.01, 0.00, 0.02, 0.01, 0.00], FAILED),
        (ABOVE, [0.20, -0.20, 0.10, 0.00, 0.15], UNDECIDED),
        (BELOW, [-0.20, -0.22, -0.18, -0.21, -0.19], REPRODUCED),
        (BELOW, [0.20, 0.22, 0.18, 0.21, 0.19], FAILED),
        (WITHIN, [0.01, 0.00, -0.01, 0.00, 0.01], REPRODUCED),
        (WITHIN, [0.20, 0.22, 0.18, 0.21, 0.19], FAILED),
        (WITHIN, [-0.20, -0.22, -0.18, -0.21, -0.19], FAILED),
        (WITHIN, [0.10, -0.10, 0.05, 0.00, 0.02], UNDECIDED),
        (ABOVE, [0.20, 0.22, 0.18, 0.21], UNDECIDED),
    ],
)
def test_the_rule(prediction: Prediction, values: list[float], word: Word) -> None:
    assert verdict_of(prediction, values) == word


def test_too_few_bases_say_how_many_more() -> None:
    found = results("a", [0.2, 0.3, 0.25]) + results("b", [0.0, 0.0, 0.0])
    verdict = judge_claims([claim(ABOVE)], found)[0]
    assert verdict.why == "3 of 5 bases: 2 more are needed"
    assert judge_claims([claim(ABOVE)], [])[0].why == "0 of 5 bases: 5 more are needed"


def test_effects_are_paired_within_bases() -> None:
    """Bases differ by far more than the arms; only the difference counts."""
    high = [0.9, 0.1, 0.5, 0.7, 0.3]
    found = results("a", [value + 0.1 for value in high]) + results("b", high)
    verdict = judge_claims([claim(ABOVE)], found)[0]
    assert verdict.word == REPRODUCED
    assert verdict.tested[0].mean == pytest.approx(0.1)


def test_a_base_without_the_control_does_not_count() -> None:
    found = results("a", [0.2] * 6) + results("b", [0.0] * 4)
    assert len(judge_claims([claim(ABOVE)], found)[0].tested[0].effects) == 4


def test_a_number_that_is_none_does_not_count() -> None:
    """A metric of nothing is NaN; it must not pass for an effect, nor for a failure."""
    found = results("a", [0.2, float("nan"), 0.2, float("inf"), 0.2]) + results("b", [0.0] * 5)
    verdict = judge_claims([claim(ABOVE)], found)[0]
    assert sorted(verdict.tested[0].effects) == ["base-0", "base-2", "base-4"]
    assert verdict.word == UNDECIDED


def test_bases_on_which_a_reader_could_not_learn_do_not_count() -> None:
    values = [0.20, 0.22, 0.18, 0.21, 0.19, 0.2]
    found = results("a", values) + results("b", [0.0] * 6)
    needy = replace(claim(ABOVE), must_fit=("a",))
    assert judge_claims([needy], found)[0].why == "0 of 5 bases: 5 more are needed"
    learned = [0.9, 0.86, 0.95, 0.85, 0.99, 0.84]
    told = [
        replace(one, numbers={**one.numbers, "fit": {"few": share}})
        for one, share in zip(found[:6], learned, strict=True)
    ]
    verdict = judge_claims([needy], told + found[6:])[0]
    assert sorted(verdict.tested[0].effects) == [f"base-{n}" for n in range(5)]
    assert verdict.word == REPRODUCED


def test_bases_that_were_known_before_decide_nothing() -> None:
    values = [0.20, 0.22, 0.18, 0.21, 0.19, 0.2]
    found = results("a", values) + results("b", [0.0] * 6)
    late = replace(claim(ABOVE), seen={"base-0": "g", "base-4": "h"})
    verdict = judge_claims([late], found)[0]
    assert sorted(verdict.tested[0].effects) == ["base-1", "base-2", "base-3", "base-5"]
    assert verdict.why == "4 of 5 bases: 1 more is needed"
    page = claim_page(verdict, found, together=1)
    assert "arms on base-0, base-4 had been seen. These bases decide nothing. They are left" in page
    assert "predictions were written down when" not in claim_page(
        judge_claims([claim(ABOVE)], found)[0], found, together=1
    )


def test_what_was_seen_decides_nothing_by_another_name_or_with_other_weights() -> None:
    found = results("a", [0.2] * 3) + results("b", [0.0] * 3)
    late = replace(claim(ABOVE), seen={"base-0": "first"})
    first = {"base-0": "first", "base-1": "second", "base-2": "third"}
    kept = [replace(one, fingerprint=first[one.base]) for one in found]
    again = [replace(one, fingerprint="again") for one in kept if one.base == "base-0"]
    renamed = [replace(one, base="mine") for one in kept if one.base == "base-0"]
    elsewhere = [replace(one, experiment="other") for one in kept]
    for some in (kept, elsewhere + kept[1:3] + kept[4:] + again, kept[1:3] + kept[4:] + renamed):
        effects = judge_claims([late], some)[0].tested[0].effects
        assert sorted(effects) == ["base-1", "base-2"]


def test_bases_that_were_seen_are_those_of_the_results_that_ship() -> None:
    shipped = {(one.base, one.fingerprint) for one in shipped_results()}
    late = [one for one in all_claims() if one.seen]
    assert {one.name for one in late} == {"decoder_taught_longer", "dcsm_taught_longer"}
    for one in late:
        assert set(one.seen.items()) <= shipped
        # Five that were not seen.
        assert one.seeds == FEWEST_BASES + len(one.seen)


def test_a_table_of_readers_says_which_bases_were_known() -> None:
    found = [
        replace(one, numbers={**one.numbers, "fit": {"few": 1.0}})
        for one in results("a", [0.2] * 2) + results("b", [0.0] * 2)
    ]
    late = replace(claim(ABOVE), seen={"base-0": "g"}, must_fit=("a",))
    page = claim_page(judge_claims([late], found)[0], found, together=1)
    assert "counts where all have 85.0 and that was not seen before." in page
    assert "| base-0 | 100.0 | no |" in page
    assert "| base-1 | 100.0 | yes |" in page


def test_a_claim_is_shown_with_what_was_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "show", "decoder_taught_longer"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "on tiny-0, tiny-5, tiny-6 had been seen. These bases decide nothing." in shown
    assert "left out: none." in shown
    assert shown.endswith("Run it: unbag lab run decoder_taught_longer --seeds 8")


def test_a_claim_stands_with_all_of_its_predictions() -> None:
    values = [0.20, 0.22, 0.18, 0.21, 0.19]
    found = results("a", values) + results("b", [0.0] * 5)
    both = judge_claims([claim(ABOVE, WITHIN)], found)[0]
    page = claim_page(both, found, together=2)
    assert "**not reproduced on the world** (1 of 2 predictions came out)\n" in page
    few = judge_claims([claim(ABOVE, WITHIN)], [one for one in found if one.base != "base-4"])[0]
    page = claim_page(few, found, together=2)
    assert "Verdict: **undecided** (4 of 5 bases: 1 more is needed)\n" in page
    one = judge_claims([claim(WITHIN)], found)[0]
    assert "**not reproduced on the world**\n" in claim_page(one, found, together=1)
    assert [one.word for one in both.tested] == [REPRODUCED, FAILED]
    assert both.word == FAILED


def test_many_predictions_make_each_harder() -> None:
    """A p-value that passes alone does not pass among twenty."""
    values = [0.08, 0.10, 0.075, 0.12, 0.09]
    alone = judge_claims([claim(ABOVE)], results("a", values) + results("b", [0.0] * 5))
    assert alone[0].word == REPRODUCED
    noise = np.random.default_rng(0).normal(0.05, 0.1, (20, 5))
    others = [
        claim(
            Prediction("noise", Number(f"n{k}", "bench", "metric"), B, "above", 0.05), name=f"c{k}"
        )
        for k in range(20)
    ]
    found = [one for k in range(20) for one in results(f"n{k}", noise[k].tolist())]
    found += results("a", values) + results("b", [0.0] * 5)
    among = judge_claims([claim(ABOVE), *others], found)
    assert among[0].word == UNDECIDED
    assert among[0].why == "no clear answer after correction"


def test_false_alarms_are_rare() -> None:
    """Noise around the bound is called neither way in all but a few of many claims."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(200):
        wrong += verdict_of(ABOVE, rng.normal(0.05, 0.02, 5).tolist()) != UNDECIDED
    assert wrong <= 20


def test_the_interval_is_students() -> None:
    found = weigh(ABOVE, {"x": 0.1, "y": 0.2, "z": 0.3})
    assert found.low == pytest.approx(0.2 - 4.302653 * 0.1 / np.sqrt(3), abs=1e-6)
    assert found.high == pytest.approx(0.2 + 4.302653 * 0.1 / np.sqrt(3), abs=1e-6)


def test_equal_effects_need_no_spread() -> None:
    assert verdict_of(ABOVE, [0.2] * 5) == REPRODUCED
    assert verdict_of(ABOVE, [0.0] * 5) == FAILED
    assert verdict_of(ABOVE, [0.05] * 5) == UNDECIDED


def test_a_control_may_be_a_number() -> None:
    prediction = Prediction("a is at chance", A, 0.5, "within", 0.05)
    assert verdict_of(prediction, [0.50, 0.51, 0.49, 0.5, 0.505]) == REPRODUCED


def test_bad_claims_are_refused() -> None:
    with pytest.raises(UnbagError, match="predicts nothing"):
        claim()
    with pytest.raises(UnbagError, match="within 0"):
        Prediction("x", A, B, "within", 0.0)
    with pytest.raises(UnbagError, match="negatives_opn"):
        find_claim("negatives_opn")


def test_every_claim_of_the_files_is_listed_once() -> None:
    assert sorted(_read_claims()) == sorted(NAMES)
    for one in all_claims():
        assert find_claim(one.name) is one
        assert one.statement.endswith(".")
        assert one.source
        assert one.arms


def test_numbers_of_claims_are_asked_by_their_experiments() -> None:
    """A metric that nobody measures would leave a claim undecided for ever."""
    measured: dict[ArmKey, set[tuple[str, str]]] = {}
    for result in shipped_results():
        found = measured.setdefault((result.experiment, result.arm), set())
        found.update((name, metric) for name, some in result.numbers.items() for metric in some)
    for one in all_claims():
        predicted = (number for p in one.predictions for number in p.numbers)
        for number in (*predicted, *one.beside):
            # Where nothing of an arm ships yet, the tests of its experiment ask a small run.
            asked = measured.get(number.key(one.experiment))
            assert asked is None or (number.benchmark, number.metric) in asked


def test_shipped_verdicts_rest_on_five_bases_or_more() -> None:
    verdicts = judge_claims(all_claims(), shipped_results())
    decided = [one for one in verdicts if one.word != UNDECIDED]
    assert FEWEST_BASES == 5
    assert {one.word for one in decided} == {REPRODUCED, FAILED}
    assert all(
        len(some.effects) >= 5 for one in decided for some in one.tested if some.word != UNDECIDED
    )
    assert not any(one.is_small for one in verdicts)
