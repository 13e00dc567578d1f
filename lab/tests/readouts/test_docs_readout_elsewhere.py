"""What other pages and the lab say of read-outs that were taught for 20,000 steps."""

from __future__ import annotations

from statistics import mean

import pytest

from unbag_lab.claims import all_claims
from unbag_lab.pages.curves import PATCHES, learned_of
from unbag_lab.results import ArmResult, shipped_results
from unbag_lab.verdict import REPRODUCED, UNDECIDED, judge_claims

from .readout_page import DOCS, RELATION, SWAP, ends, shown, takes_many_steps, values, words_of

Asked = tuple[str, str]


@pytest.mark.parametrize(
    ("page", "said", "arm", "asked"),
    [
        ("docs/dcsm.md", "it has {} on relations after 3,000", "dcsm_fixed", RELATION),
        ("docs/dcsm.md", "3,000 steps and {} after 20,000", "dcsm_fixed-long", RELATION),
        ("docs/dcsm.md", "after 20,000 ({}, nine", "dcsm_fixed-shuffled-long", RELATION),
        (
            "docs/dcsm.md",
            "it is a coin too ({}, two bases), but learns",
            "dcsm_fixed-cls_eos-long",
            RELATION,
        ),
        ("docs/vlm2vec.md", "has {} on relations of `tiny:base`", "vlm2vec-long", RELATION),
        ("docs/vlm2vec.md", "loses colours as well ({})", "vlm2vec-long", SWAP),
        ("README.md", "DCSM has {} (52.7 to 81.0 by base);", "dcsm_fixed-long", RELATION),
        ("docs/pacl.md", "({}, three bases)", "pacl_fixed-rotary-2d-long", RELATION),
        ("docs/pacl.md", "but a relation ({})", "pacl_fixed-rotary-2d-relations", RELATION),
        ("docs/sparc.md", "`sparc_fixed`: {}, three bases;", "sparc_fixed-long", RELATION),
        ("docs/sparc.md", "three bases; {} when captions", "sparc_fixed-relations", RELATION),
        ("docs/stronger-text.md", "({} and 51.0", "pacl_fixed-rotary-2d-text-long", RELATION),
        ("docs/stronger-text.md", "50.5 and {}, five", "pacl_fixed-rotary-2d-text-long", SWAP),
        ("README.md", "has {} after 20,000 steps (eight bases:", "decoder-long", RELATION),
        ("CHANGELOG.md", "reads relations ({}, eight bases;", "decoder-long", RELATION),
        ("CHANGELOG.md", "bases; {} with 6,000)", "decoder", RELATION),
        ("CHANGELOG.md", "DCSM is at {} (52.7 to", "dcsm_fixed-long", RELATION),
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


def test_on_how_many_bases_maps_were_read_for_long(results: list[ArmResult]) -> None:
    usual, long = (
        {one.base for one in results if one.arm == arm} for arm in ("dcsm_fixed", "dcsm_fixed-long")
    )
    assert (len(usual), len(long), len(usual & long)) == (5, 14, 3)
    by_base = ends(values(results, "dcsm_fixed-long", *RELATION))
    page = words_of(DOCS / "dcsm.md")
    assert "after 20,000 (five bases and fourteen, three of them the same;" in page
    said = f"By base that is from {by_base}: on some it reads relations, on others it is a few"
    assert said in page
    assert f"({by_base} by base);" in words_of(DOCS.parent / "README.md")
    for arm, count in (("dcsm_fixed-shuffled-long", 9), ("dcsm_fixed-cls_eos-long", 2)):
        assert sum(one.arm == arm for one in results) == count
    assert f"({by_base} on fourteen bases)" in words_of(DOCS.parent / "CHANGELOG.md")


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
    assert all(f"[undecided](claims/{name}.md)" in words for name in asking)
    decoder = asking["decoder_taught_longer"].tested
    *came_out, colours = decoder
    assert [one.word for one in came_out] == [REPRODUCED] * 4
    assert (colours.word, colours.prediction.numbers[0].benchmark) == (UNDECIDED, SWAP[0])
    assert {len(one.effects) for one in decoder} == {5}
    assert "four of its five predictions came out on five bases that were not seen before" in words
    maps = asking["dcsm_taught_longer"].tested
    counted = {base for one in maps for base in one.effects}
    assert {len(one.effects) for one in maps} == {9}
    assert counted == {f"tiny-{number}" for number in (*range(9, 14), *range(15, 19))}
    assert {base for one in decoder for base in one.effects} == {
        f"tiny-{number}" for number in range(7, 12)
    }
    assert (
        "five are left for the decoder, as many as the lab asks for (`tiny-7` to `tiny-11`), and "
        "nine for DCSM (`tiny-9` to `tiny-13` and `tiny-15` to `tiny-18`)."
    ) in words
