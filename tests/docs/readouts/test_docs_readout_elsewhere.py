"""What other pages and the lab say of read-outs that were taught for 20,000 steps."""

from __future__ import annotations

from statistics import mean

import pytest

from unbag.lab.arm_result import ArmResult
from unbag.lab.claims import all_claims
from unbag.lab.learning_figure import PATCHES, learned_of
from unbag.lab.shipped import shipped_results
from unbag.lab.verdict import REPRODUCED, UNDECIDED, judge_claims

from .readout_page import DOCS, RELATION, SWAP, ends, shown, takes_many_steps, values, words_of

Asked = tuple[str, str]


@pytest.mark.parametrize(
    ("page", "said", "arm", "asked"),
    [
        ("docs/dcsm.md", "it has {} on relations after 3,000", "dcsm_fixed", RELATION),
        ("docs/dcsm.md", "3,000 steps and {} after 20,000", "dcsm_fixed-long", RELATION),
        ("docs/dcsm.md", "after 20,000 ({}, three", "dcsm_fixed-shuffled-long", RELATION),
        ("docs/vlm2vec.md", "has {} on relations of `tiny:base`", "vlm2vec-long", RELATION),
        ("docs/vlm2vec.md", "loses colours as well ({})", "vlm2vec-long", SWAP),
        ("README.md", "DCSM has {};", "dcsm_fixed-long", RELATION),
        ("docs/pacl.md", "({}, three bases)", "pacl_fixed-rotary-2d-long", RELATION),
        ("docs/pacl.md", "but a relation ({})", "pacl_fixed-rotary-2d-relations", RELATION),
        ("docs/sparc.md", "`sparc_fixed`: {}, three bases;", "sparc_fixed-long", RELATION),
        ("docs/sparc.md", "three bases; {} when captions", "sparc_fixed-relations", RELATION),
        ("docs/stronger-text.md", "({} and 51.0", "pacl_fixed-rotary-2d-text-long", RELATION),
        ("docs/stronger-text.md", "50.5 and {}, five", "pacl_fixed-rotary-2d-text-long", SWAP),
        ("README.md", "has {} after 20,000 steps (eight bases:", "decoder-long", RELATION),
        ("CHANGELOG.md", "reads relations ({}, eight bases;", "decoder-long", RELATION),
        ("CHANGELOG.md", "bases; {} with 6,000)", "decoder", RELATION),
        ("CHANGELOG.md", "DCSM is at {},", "dcsm_fixed-long", RELATION),
    ],
)
def test_what_other_pages_say(
    page: str, said: str, arm: str, asked: Asked, results: list[ArmResult]
) -> None:
    words = words_of(DOCS.parent / page)
    assert said.format(shown(mean(values(results, arm, *asked)))) in words


def test_how_many_relations_maps_know_of_other_scenes(results: list[ArmResult]) -> None:
    held = ends(values(results, "dcsm_fixed-long", "fit", "held relation"), digits=0)
    assert f"was taught with, and {held} % of others." in words_of(DOCS / "dcsm.md")


def test_how_long_other_pages_say_decoders_are_coins(results: list[ArmResult]) -> None:
    """`test_docs_readout_learning.py` has the page's own words."""
    curves = learned_of(PATCHES, results).values()
    for curve in curves:
        told = min(step for step, share in curve.items() if share > 0.7)
        before = [share for step, share in curve.items() if step < told]
        assert max(before) < 0.56
        assert 6_000 <= told - 2_000 <= 10_000
    assert len(curves) == 6
    assert "for 6,000 to 10,000 of them" in words_of(DOCS / "decoder.md")
    said = "for 6,000 to 10,000 steps and tells most of them 2,000 steps later, on all six bases"
    assert said in words_of(DOCS / "readouts.md")


def test_what_the_lab_says_of_arms_of_many_steps(words: str) -> None:
    asking = {
        verdict.claim.name: verdict
        for verdict in judge_claims(all_claims(), shipped_results())
        if any(takes_many_steps(n.arm) for one in verdict.claim.predictions for n in one.numbers)
    }
    assert set(asking) == {"decoder_taught_longer", "dcsm_taught_longer"}
    assert {verdict.word for verdict in asking.values()} == {UNDECIDED}
    assert all(f"[undecided](lab/{name}.md)" in words for name in asking)
    decoder = asking["decoder_taught_longer"].tested
    *came_out, colours = decoder
    assert [one.word for one in came_out] == [REPRODUCED] * 4
    assert (colours.word, colours.prediction.numbers[0].benchmark) == (UNDECIDED, SWAP[0])
    assert {len(one.effects) for one in decoder} == {5}
    assert "four of its five predictions came out on five bases that were not seen before" in words
    assert {len(one.effects) for one in asking["dcsm_taught_longer"].tested} == {3}
    assert (
        "five are left for the decoder, and three for DCSM, where the lab asks for five." in words
    )
