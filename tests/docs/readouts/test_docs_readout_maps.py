"""What pages say of DCSM taught for long on the five bases that count, and of what was left out."""

from __future__ import annotations

import pytest

from unbag.lab.arm_result import ArmResult
from unbag.lab.claim import FEWEST_BASES
from unbag.lab.claims import all_claims
from unbag.lab.shipped import shipped_results
from unbag.lab.verdict import UNDECIDED, Verdict, judge_claims

from .readout_page import DOCS, RELATION, apart_of, ends, listed, values, with_interval, words_of

CLAIM = "dcsm_taught_longer"
READER, SHUFFLED, ALONE = (f"dcsm_fixed{own}-long" for own in ("", "-shuffled", "-cls_eos"))
LAST = ("tiny-12", "tiny-13")
"""Bases that came for this claim alone."""


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    return {one.claim.name: one for one in judge_claims(all_claims(), shipped_results())}


@pytest.fixture(scope="module")
def corrected(verdicts: dict[str, Verdict]) -> int:
    """Predictions that are corrected together."""
    every = [tested for one in verdicts.values() for tested in one.tested]
    return sum(len(tested.effects) >= FEWEST_BASES for tested in every)


def test_what_the_five_bases_that_count_have(
    verdicts: dict[str, Verdict], corrected: int, words: str
) -> None:
    relations, strict, places = (
        [100 * effect for effect in one.effects.values()] for one in verdicts[CLAIM].tested
    )
    assert (
        f"relations are {ends(relations)} points above cosine, {with_interval(relations)} in the "
        f"mean, and strict pairs {with_interval(strict)}."
    ) in words
    assert f"{with_interval(places)} below, though" in words
    assert (
        "All intervals lie where they were predicted, yet after correction for "
        f"{corrected} predictions no answer is clear: [undecided](lab/{CLAIM}.md)."
    ) in words


def test_all_lean_as_predicted_and_none_is_clear(
    verdicts: dict[str, Verdict], corrected: int, words: str
) -> None:
    for one in verdicts[CLAIM].tested:
        bound = one.prediction.bound
        assert one.prediction.side == "above"
        assert len(one.effects) == FEWEST_BASES
        assert min(one.effects.values()) > bound
        assert one.low is not None
        assert one.low > bound
        assert one.word == UNDECIDED
    assert (
        "The lab has five bases that count, all as predicted, and calls the claim "
        f"[undecided](lab/{CLAIM}.md) after correction."
    ) in words
    assert (
        f"is [undecided](lab/{CLAIM}.md): five bases count and all lean as predicted, but not "
        "clearly enough after correction for all predictions."
    ) in words_of(DOCS / "dcsm.md")
    assert (
        "all predictions of the second lean as written, each interval beyond its bound, but after "
        f"correction for {corrected} predictions it is undecided."
    ) in words_of(DOCS.parent / "CHANGELOG.md")


def test_the_decoder_is_above_it_where_both_have_results(
    results: list[ArmResult], words: str
) -> None:
    apart = apart_of(results, "decoder-long", READER)
    assert len(apart) == 8
    assert min(apart) > 0
    assert "above it on each of the eight bases with results of both" in words
    found = {one.base: one.numbers["world-relation"]["original"] for one in results
             if one.arm == READER}  # fmt: skip
    assert max(found, key=found.__getitem__) == "tiny-13"
    assert not [one for one in results if one.base == "tiny-13" and one.arm.startswith("decoder")]
    assert "DCSM's best base, `tiny-13`, has no result of a decoder." in words


def test_most_of_what_it_learned_is_its_own_scenes(results: list[ArmResult], words: str) -> None:
    assert "Most of what it learned is its own scenes." in words
    taught, held = (
        values(results, READER, "fit", f"{one} relation") for one in ("learned", "held")
    )
    assert all(own - 50 > 2 * (other - 50) for own, other in zip(taught, held, strict=True))


def test_the_row_and_the_column_alone_are_a_coin(results: list[ArmResult], words: str) -> None:
    said = listed(values(results, ALONE, *RELATION))
    assert f"is a coin in 20,000 steps too ({said}, `tiny-12` and `tiny-13`), but" in words
    assert max(values(results, ALONE, *RELATION)) < 52
    assert max(values(results, ALONE, "fit", "held relation")) < 52
    own = [one.numbers["world-relation"] for one in results if one.arm == ALONE]
    drifted = " and ".join(f"{numbers['mean_original']:,.0f}" for numbers in own)
    assert f"drifted to some thousands ({drifted} in the mean), alike for true and" in words
    assert all(abs(one["mean_original"] - one["mean_negative"]) < 0.1 for one in own)


def test_of_the_last_bases_nothing_else_was_joined(results: list[ArmResult], words: str) -> None:
    for base in LAST:
        arms = {one.arm for one in results if one.base == base}
        assert arms == {"base", READER, SHUFFLED, ALONE}
    assert {one.base for one in shipped_results() if one.base in LAST} == set(LAST)
    assert {one.experiment for one in shipped_results() if one.base in LAST} == {"readouts"}
    assert "the last two came for DCSM taught for long and its controls alone (other arms" in words
    assert "`tiny-12` and `tiny-13` last, for `dcsm_taught_longer` alone" in words_of(
        DOCS / "lab.md"
    )
