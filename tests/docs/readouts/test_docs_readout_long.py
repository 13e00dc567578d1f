"""What the page on read-outs says of arms that were taught for 20,000 steps, and what they cost."""

from __future__ import annotations

import runpy
from statistics import mean
from typing import Any

import pytest

from unbag.lab.arm_result import ArmResult, read_results
from unbag.lab.claim import FEWEST_BASES
from unbag.lab.claims import all_claims
from unbag.lab.shipped import RESULTS, shipped_results
from unbag.lab.verdict import UNDECIDED, judge_claims

from .readout_page import (
    DOCS,
    PAGE,
    RELATION,
    STRICT,
    SWAP,
    apart_of,
    listed,
    shown,
    takes_many_steps,
    values,
    with_interval,
    words_of,
)

RELAXED, SINGLE = ("world-pairs-a", "relaxed"), ("world-pairs-a", "individual")
REPLACE, ORDER = ("world-replace", "original"), ("world-order", "accuracy")
BINDING, COUNT = ("world-binding", "group"), ("world-count", "group")
NEGATION, TEXTURE = ("world-negation", "group"), ("world-texture", "group")
FOUND = ("world-retrieval", "text_to_image@1")
LONG = ("pooled-long", "pacl_fixed-rotary-2d-long", "pacl_fixed-rotary-2d-text-long",
        "sparc_fixed-long")  # fmt: skip
ALONE = ("pooled-relations", "pacl_fixed-rotary-2d-relations", "sparc_fixed-relations")
Asked = tuple[str, str]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "make_readouts.py"))


def test_tables_and_picture_are_those_of_the_numbers(
    script: dict[str, Any], results: list[ArmResult]
) -> None:
    tables, picture = script["made"](results)
    page = PAGE.read_text(encoding="utf-8")
    assert script["renewed"](page, tables) == page, "run: python docs/make_readouts.py"
    assert all(table in page for table in tables.values())
    drawn = script["PICTURE"]
    assert drawn.read_text(encoding="utf-8") == picture, "run: python docs/make_readouts.py"
    assert f"(images/{drawn.name})" in page


def test_a_row_of_the_short_table_is_that_of_the_file(results: list[ArmResult]) -> None:
    """Without the code that made the table."""
    page = PAGE.read_text(encoding="utf-8")
    asked = (RELATION, SWAP, STRICT, FOUND, COUNT, NEGATION)
    means = [shown(mean(values(results, "decoder-long", *one))) for one in asked]
    cells = ["decoder on patches", "20,000 (3)", *means[:4], f"{means[4]} / {means[5]}"]
    row = [f"**{cell}**" for cell in cells]
    assert f"| {' | '.join(row)} |" in page


def test_arms_that_are_said_to_have_many_steps_had_them(results: list[ArmResult]) -> None:
    assert {one.steps for one in results if takes_many_steps(one.arm)} == {20_000}
    assert max(one.steps for one in results if not takes_many_steps(one.arm)) < 20_000


@pytest.mark.parametrize(
    ("said", "arm", "asked"),
    [
        ("with {} of pairs strictly right", "decoder-long", STRICT),
        ("Exchanged colours ({}), replaced", "decoder-long", SWAP),
        ("replaced words ({}) and texts", "decoder-long", REPLACE),
        ("texts found ({} %) stay", "decoder-long", FOUND),
        ("(group) falls from 71.8 to {}, `world-neg", "decoder-long", COUNT),
        ("(group) from 40.2 to {} on these", "decoder-long", NEGATION),
        ("and has {} strict and 90.9", "decoder-long", STRICT),
        ("strict and {} relaxed on pairs", "decoder-long", RELAXED),
        ("`world-order` rises from 50.0 to {}.", "decoder-long", ORDER),
        ("`decoder-long` has {} of single pictures", "decoder-long", SINGLE),
        ("stay with it at {} (", "decoder-long", SWAP),
        ("`world-binding` (group) has {}.", "decoder-long", BINDING),
        ("of `world-count` (group) {} are left", "decoder-long", COUNT),
        ("of `world-negation` (group) {} and", "decoder-long", NEGATION),
        ("of `world-texture` (group) {} (cosine", "decoder-long", TEXTURE),
        ("in 20,000 steps: {}, 8.7", "dcsm_fixed-long", RELATION),
        ("to {}, but that is where independent", "dcsm_fixed-long", STRICT),
        ("single pictures are right in {} %", "dcsm_fixed-long", SINGLE),
        ("`pooled-long` {},", "pooled-long", RELATION),
        ("`pacl_fixed-rotary-2d-long` {},", "pacl_fixed-rotary-2d-long", RELATION),
        ("-2d-text-long` {} and", "pacl_fixed-rotary-2d-text-long", RELATION),
        ("`sparc_fixed-long` {};", "sparc_fixed-long", RELATION),
        ("tower), and {} and 51.0 in", "pacl_fixed-rotary-2d-text-long", RELATION),
        ("and 50.5 and {} in 20,000", "pacl_fixed-rotary-2d-text-long", SWAP),
    ],
)
def test_means_after_many_steps(
    said: str, arm: str, asked: Asked, results: list[ArmResult], words: str
) -> None:
    assert said.format(shown(mean(values(results, arm, *asked)))) in words


@pytest.mark.parametrize(
    ("said", "arm", "asked"),
    [
        ("strictly right (cosine {} there)", "decoder-long", STRICT),
        ("`world-count` (group) falls from {} to 3.4", "decoder-long", COUNT),
        ("`world-negation` (group) from {} to 0.4", "decoder-long", NEGATION),
        ("(`pairs-a`; cosine {} and 52.7 there)", "decoder-long", STRICT),
        ("cosine 5.1 and {} there)", "decoder-long", RELAXED),
        ("rises from {} to 86.3", "decoder-long", ORDER),
        ("(cosine {}, 40.2 and 4.3 on", "decoder-long", COUNT),
        ("(cosine 71.8, {} and 4.3 on", "decoder-long", NEGATION),
        ("40.2 and {} on these bases)", "decoder-long", TEXTURE),
        ("relaxed (cosine {} and 52.0 there)", "vlm2vec", STRICT),
        ("relaxed (cosine 5.9 and {} there)", "vlm2vec", RELAXED),
    ],
)
def test_cosine_of_the_same_bases(
    said: str, arm: str, asked: Asked, results: list[ArmResult], words: str
) -> None:
    bases = {one.base for one in results if one.arm == arm}
    same = [one for one in results if one.base in bases]
    assert said.format(shown(mean(values(same, "base", *asked)))) in words


@pytest.mark.parametrize(
    ("said", "arm", "other", "asked"),
    [
        ("three bases: {} above cosine, with", "decoder-long", "base", RELATION),
        ("`decoder-long` gains {} points over cosine", "decoder-long", "base", RELATION),
        ("it gains {} on the three that have both", "decoder-long", "decoder", RELATION),
        ("at 99.2 ({} against cosine)", "decoder-long", "base", SWAP),
        ("nor does `pooled-long` ({})", "pooled-long", "base", RELATION),
        ("58.8, {} above cosine (five bases)", "dcsm_fixed-long", "base", RELATION),
        ("66.1), by {} over cosine and", "dcsm_fixed-long", "base", RELATION),
        ("over cosine and {} over 3,000", "dcsm_fixed-long", "dcsm_fixed", RELATION),
        ("Strict pairs rise by {} to 28.2", "dcsm_fixed-long", "base", STRICT),
    ],
)
def test_differences_after_many_steps(
    said: str, arm: str, other: str, asked: Asked, results: list[ArmResult], words: str
) -> None:
    assert said.format(with_interval(apart_of(results, arm, other, asked))) in words


def test_bases_after_many_steps(results: list[ArmResult], words: str) -> None:
    decoder = values(results, "decoder-long", *RELATION)
    assert f"has {listed(decoder)} on three bases:" in words
    readme = words_of(DOCS.parent / "README.md")
    assert f"(three bases: {', '.join(shown(one) for one in decoder)})" in readme
    above = listed(apart_of(results, "decoder-long", "base"))
    assert f"points over cosine (three bases: {above})" in words
    beside = listed(apart_of(results, "decoder-long", "vlm2vec"))
    pairs = listed(apart_of(results, "decoder-long", "vlm2vec", STRICT))
    assert f"on three bases: {beside} points (strict pairs: {pairs})" in words
    maps = values(results, "dcsm_fixed-long", *RELATION)
    assert f"above chance** on each of five bases ({listed(maps)})" in words
    assert min(maps) > 55
    alone = listed(values(results, "dcsm_fixed-relations", *RELATION))
    assert f"Taught nothing but relations it finds no more ({alone})" in words


@pytest.mark.parametrize(
    ("page", "said", "arm", "asked"),
    [
        ("docs/dcsm.md", "it has {} on relations after 3,000", "dcsm_fixed", RELATION),
        ("docs/dcsm.md", "3,000 steps and {} after 20,000", "dcsm_fixed-long", RELATION),
        ("docs/pacl.md", "({}, three bases)", "pacl_fixed-rotary-2d-long", RELATION),
        ("docs/pacl.md", "but a relation ({})", "pacl_fixed-rotary-2d-relations", RELATION),
        ("docs/sparc.md", "`sparc_fixed`: {}, three bases;", "sparc_fixed-long", RELATION),
        ("docs/sparc.md", "three bases; {} when captions", "sparc_fixed-relations", RELATION),
        ("docs/stronger-text.md", "({} and 51.0", "pacl_fixed-rotary-2d-text-long", RELATION),
        ("docs/stronger-text.md", "50.5 and {}, five", "pacl_fixed-rotary-2d-text-long", SWAP),
        ("README.md", "has {} after 20,000 steps (three bases:", "decoder-long", RELATION),
        ("CHANGELOG.md", "reads relations ({}, three bases;", "decoder-long", RELATION),
        ("CHANGELOG.md", "bases; {} with 6,000)", "decoder", RELATION),
        ("CHANGELOG.md", "DCSM is at {},", "dcsm_fixed-long", RELATION),
    ],
)
def test_what_other_pages_say(
    page: str, said: str, arm: str, asked: Asked, results: list[ArmResult]
) -> None:
    words = words_of(DOCS.parent / page)
    assert said.format(shown(mean(values(results, arm, *asked)))) in words


def test_prices_after_many_steps(results: list[ArmResult], words: str) -> None:
    lost = with_interval(apart_of(results, "decoder-long", "base", REPLACE))
    assert lost.startswith("-")
    assert f"replaced words lose {lost[1:]}, `world-binding`" in words


def test_other_readers_stay_a_coin(results: list[ArmResult], words: str) -> None:
    long = [mean(values(results, arm, *RELATION)) for arm in LONG]
    alone = [mean(values(results, arm, *RELATION)) for arm in ALONE]
    assert f"have {shown(min(long))} to {shown(max(long))}, and" in words
    assert f"and {shown(min(alone))} to {shown(max(alone))} when they are taught nothing" in words
    assert f"with nothing but relations {listed(alone)} (without MiniLM)" in words
    every = [one for arm in (*LONG, *ALONE) for one in values(results, arm, *RELATION)]
    assert f"is beyond {shown(min(every))} to {shown(max(every))}." in words


def test_maps_are_learned_by_heart(results: list[ArmResult], words: str) -> None:
    ends = []
    for name in ("learned relation", "held relation"):
        own = values(results, "dcsm_fixed-long", "fit", name)
        ends.append(f"{min(own):.0f} to {max(own):.0f}")
    assert f"knows {ends[0]} % of the relations that it was taught with and {ends[1]} %" in words


def test_which_readers_learned_many_scenes_by_heart(results: list[ArmResult], words: str) -> None:
    alone = values(results, "pooled-relations", "fit", "learned")
    assert f"learned {min(alone):.0f} to {max(alone):.0f} % of such relations by heart" in words
    taught = [
        one
        for arm in (*LONG[1:], *ALONE[1:])
        for one in values(results, arm, "fit", "learned" if arm in ALONE else "learned relation")
    ]
    assert f"in 60,000 scenes they told {min(taught):.0f} to {max(taught):.0f} % even" in words


def test_the_first_sentence_rounds_what_follows(results: list[ArmResult], words: str) -> None:
    found = values(results, "decoder-long", *RELATION)
    assert f"On three bases it tells who is left of whom, or above, in {min(found):.0f} to" in words
    assert f"to {max(found):.0f} % of cases, where the cosine" in words


def test_what_a_linear_reader_finds(words: str) -> None:
    found = read_results(RESULTS / "probes.json")

    def of(arm: str, name: str) -> dict[str, float]:
        own = [one for one in found if one.arm == arm and name in one.numbers.get("extract", {})]
        return {one.base: 100 * one.numbers["extract"][name] for one in own}

    patches = of("base", "left/right, all patches")
    weak = [shown(patches.pop(base)) for base in ("tiny-5", "tiny-6")]
    assert len(patches) == 7
    twins, vector = of("random", "left/right, all patches"), of("base", "left/right, projected")
    assert (
        f"at {shown(min(patches.values()))} to {shown(max(patches.values()))} % on seven bases of "
        f"nine, at {weak[0]} on `tiny-5` and {weak[1]} on `tiny-6`; at {min(twins.values()):.0f} "
        f"to {max(twins.values()):.0f} % of their untrained twins, and of the pooled vector at "
        f"{min(vector.values()):.0f} to {max(vector.values()):.0f} %:"
    ) in words


def test_without_a_picture_nothing_can_be_told(results: list[ArmResult], words: str) -> None:
    for asked, chance in ((RELATION, 50.0), (SWAP, 50.0), (REPLACE, 50.0), (STRICT, 0.0)):
        assert {shown(x) for x in values(results, "decoder-nothing", *asked)} == {f"{chance:.1f}"}
    assert "must be**: 50.0 wherever two captions are asked of one picture, and no pair." in words


def test_what_was_not_run_is_not_there(results: list[ArmResult], words: str) -> None:
    arms = {one.arm for one in results}
    missing = ("decoder-cls", "decoder-nothing", "pooled-text", "dcsm_fixed-shuffled",
               "dcsm_fixed-cls_eos", "vlm2vec")  # fmt: skip
    assert not arms & {f"{arm}-long" for arm in missing}
    assert not arms & {"pacl_fixed-text", "decoder-no_question"}
    bases = [one.base for one in results if one.arm == "decoder-long"]
    assert sorted(bases) == ["tiny-0", "tiny-5", "tiny-6"]
    assert len(bases) < FEWEST_BASES
    assert "for 20,000 steps `decoder-cls`, `decoder-nothing`, `pooled-text`, DCSM with" in words


def test_no_verdict_rests_on_arms_of_many_steps(words: str) -> None:
    asking = {
        verdict.claim.name: verdict.word
        for verdict in judge_claims(all_claims(), shipped_results())
        if any(takes_many_steps(n.arm) for one in verdict.claim.predictions for n in one.numbers)
    }
    assert asking == dict.fromkeys(("decoder_taught_longer", "dcsm_taught_longer"), UNDECIDED)
    assert all(f"[undecided](lab/{name}.md)" in words for name in asking)
