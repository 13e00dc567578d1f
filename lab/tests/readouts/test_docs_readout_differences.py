"""Differences between read-outs that the page on them says, and the verdicts that it links."""

from __future__ import annotations

from statistics import mean

import pytest

from unbag_lab.claims import all_claims
from unbag_lab.results import RESULTS, ArmResult, read_results, shipped_results
from unbag_lab.verdict import FAILED, REPRODUCED, UNDECIDED, Word, interval, judge_claims

from .readout_page import (
    COUNTED,
    RELATION,
    STRICT,
    SWAP,
    apart_of,
    shown,
    with_interval,
)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Word]:
    return {one.claim.name: one.word for one in judge_claims(all_claims(), shipped_results())}


@pytest.mark.parametrize(
    ("said", "arm", "other", "asked"),
    [
        ("76.8): {} above cosine", "vlm2vec", "base", RELATION),
        ("`vlm2vec` gains {} points over cosine", "vlm2vec", "base", RELATION),
        ("without patches, gains nothing ({})", "pooled", "base", RELATION),
        ("points, in the mean {}. Without", "vlm2vec", "vlm2vec-plain", RELATION),
        ("points above cosine ({}): a drop", "vlm2vec-plain", "base", RELATION),
        ("50.4, 50.4): {} above cosine", "decoder", "base", RELATION),
        ("strict), {} against `pooled`", "pooled-text", "pooled", RELATION),
        ("`pacl` {} and", "pacl", "base", RELATION),
        ("and `sparc_fixed` {} against cosine", "sparc_fixed", "base", RELATION),
        ("`sparc` as released {} (five)", "sparc", "base", RELATION),
    ],
)
def test_differences_that_the_page_says(
    said: str,
    arm: str,
    other: str,
    asked: tuple[str, str],
    results: list[ArmResult],
    words: str,
) -> None:
    assert said.format(with_interval(apart_of(results, arm, other, asked))) in words


@pytest.mark.parametrize(
    ("said", "arm", "other"),
    [
        ("in strict pairs: {} as released", "pacl_rotary", "pacl"),
        ("as mended {} in one dimension", "pacl_fixed-rotary", "pacl_fixed"),
        ("in one dimension and {} in two.", "pacl_fixed-rotary-2d", "pacl_fixed"),
        ("Two against one is {}.", "pacl_fixed-rotary-2d", "pacl_fixed-rotary"),
    ],
)
def test_differences_on_the_bases_that_count(
    said: str, arm: str, other: str, results: list[ArmResult], words: str
) -> None:
    apart = apart_of(results, arm, other, STRICT, COUNTED)
    assert len(apart) == len(COUNTED)
    assert said.format(with_interval(apart)) in words


def test_prices_that_the_page_says(results: list[ArmResult], words: str) -> None:
    of_places = mean(apart_of(results, "pacl_rotary", "pacl", SWAP, COUNTED))
    assert f"at the price of {shown(-of_places)} points of exchanged colours" in words
    lost = [-mean(apart_of(results, arm, "base", SWAP)) for arm in ("pacl", "sparc_fixed", "sparc")]
    said = "lose exchanged colours: {}, {} and {} points".format(*(shown(one) for one in lost))
    assert said in words


def test_text_beside_patches_lowers_pairs(results: list[ArmResult], words: str) -> None:
    arms = ("pacl_fixed-rotary-2d-text", "pacl_fixed-rotary-2d")
    for said, metric in (
        ("`pairs-b`, by {}, and", "pair"),
        ("relaxed ones by {}, where", "relaxed"),
    ):
        middle, half = interval(apart_of(results, *arms, ("world-pairs-b", metric)))
        ends = f"[{shown(middle - half, '+')}, {shown(middle + half, '+')}]"
        assert said.format(f"{shown(-middle)} {ends}") in words
    own = [
        100 * one.numbers["world-swap"]["original"]
        for one in results
        if one.arm == arms[1] and one.base in COUNTED
    ]
    assert f"(five bases; {shown(mean(own))} with the base's own text encoder)" in words


def test_what_the_question_adds_on_each_base(results: list[ArmResult], words: str) -> None:
    apart = [shown(one) for one in apart_of(results, "vlm2vec", "vlm2vec-plain")]
    assert f"by {', '.join(apart[:-1])} and {apart[-1]} points" in words
    plain = apart_of(results, "vlm2vec-plain", "base")
    assert f"the five are {shown(min(plain))} to {shown(max(plain))} points above cosine" in words
    middle, half = interval(apart_of(results, "vlm2vec", "base", RELATION, COUNTED))
    assert middle - half < 15 < middle + half


@pytest.mark.parametrize(
    ("claim", "said", "word"),
    [
        ("question_in_the_prompt", "[undecided](claims/question_in_the_prompt.md)", UNDECIDED),
        ("decoder_against_cosine", "[not reproduced](claims/decoder_against_cosine.md)", FAILED),
        ("one_token", "[undecided](claims/one_token.md)", UNDECIDED),
        ("stronger_text_locked", "[reproduced](claims/stronger_text_locked.md)", REPRODUCED),
        ("stronger_text", "[undecided](claims/stronger_text.md)", UNDECIDED),
        ("pooling_by_text", "[reproduced](claims/pooling_by_text.md)", REPRODUCED),
        ("many_words", "[twice](claims/many_words.md)", REPRODUCED),
        ("rotary_patches", "undecided ([rotary_patches](claims/rotary_patches.md)", UNDECIDED),
        ("places_in_two_dimensions", "(claims/places_in_two_dimensions.md)", UNDECIDED),
    ],
)
def test_verdicts_that_the_page_says(
    claim: str, said: str, word: Word, verdicts: dict[str, Word], words: str
) -> None:
    assert said in words
    assert verdicts[claim] == word


def test_decoders_that_were_taught_relations_alone(words: str) -> None:
    found = [one for one in read_results(RESULTS / "priors.json") if one.arm == "even"]
    own = [one.numbers["world-pairs-a"] for one in sorted(found, key=lambda one: one.base)]
    single = [100 * numbers["individual"] for numbers in own]
    by_base = [shown(one) for one in single]
    above = with_interval([one - 50 for one in single])
    strict = shown(mean(100 * numbers["pair"] for numbers in own))
    assert (
        f"have {', '.join(by_base[:-1])} and {by_base[-1]} of single images of `pairs-a` right, "
        f"{above} above chance, and {strict} of pairs;"
    ) in words


@pytest.mark.parametrize(
    ("said", "arm", "bases"),
    [
        ("left of whom, or above (50.1, eighteen bases)", "base", 18),
        ("has 74.5 on seven bases", "vlm2vec", 7),
        ("it has 52.2 (five bases)", "vlm2vec-plain", 5),
        ("of 6,000 steps is a coin (50.4, five bases)", "decoder", 5),
        ("85.2, 92.8, 83.9, 88.4, 84.7, 87.4, 86.1 and 81.8 on eight bases", "decoder-long", 8),
        ("is a coin on all eight bases after as many steps", "decoder-cls-long", 8),
        ("[+7.7, +18.2] above cosine (fourteen bases), from", "dcsm_fixed-long", 14),
        ("it is a coin (50.0, nine bases)", "dcsm_fixed-shuffled-long", 9),
        ("`pooled-text` has 49.9 (seven bases;", "pooled-text", 7),
        ("51.1 on exchanged colours (five bases;", "pacl_fixed-rotary-2d-text", 5),
        ("against cosine (nine bases)", "pacl", 9),
        ("against cosine (nine bases)", "sparc_fixed", 9),
        ("-0.3 [-1.0, +0.4] (five)", "sparc", 5),
        ("has 50.2 and `sparc_fixed-fast` 50.1 (five bases)", "sparc_fixed-fast", 5),
        ("has 50.2 and `sparc_fixed-fast` 50.1 (five bases)", "pacl_fixed-rotary-2d-fast", 5),
    ],
)
def test_how_many_bases_the_page_says(
    said: str, arm: str, bases: int, results: list[ArmResult], words: str
) -> None:
    assert said in words
    assert sum(one.arm == arm for one in results) == bases
