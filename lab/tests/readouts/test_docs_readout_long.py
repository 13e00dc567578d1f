"""What the page on read-outs says of arms that were taught for 20,000 steps, and what they cost.

Of how the decoder learned, and of one token in place of patches: test_docs_readout_learning.py.
"""

from __future__ import annotations

import runpy
from statistics import mean
from typing import Any

import pytest

from unbag_lab.results import RESULTS, ArmResult, read_results

from .readout_page import (
    DOCS,
    LAB,
    PAGE,
    RELATION,
    STRICT,
    SWAP,
    apart_of,
    ends,
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
LATE = tuple(f"tiny-{number}" for number in (*range(9, 14), *range(15, 19)))
"""Bases that count for `dcsm_taught_longer`."""
Asked = tuple[str, str]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(LAB / "make_readouts.py"))


def test_tables_and_images_are_those_of_the_numbers(
    script: dict[str, Any], results: list[ArmResult]
) -> None:
    tables, images = script["made"](results)
    page = PAGE.read_text(encoding="utf-8")
    assert script["renewed"](page, tables) == page, "run: python lab/docs/make_readouts.py"
    assert all(table in page for table in tables.values())
    for name, image in images.items():
        drawn = (script["IMAGES"] / name).read_text(encoding="utf-8")
        assert drawn == image, "run: python lab/docs/make_readouts.py"
        assert f"](images/{name})" in page


def test_a_row_of_the_short_table_is_that_of_the_file(results: list[ArmResult]) -> None:
    """Without the code that made the table."""
    page = PAGE.read_text(encoding="utf-8")
    asked = (RELATION, SWAP, STRICT, FOUND, COUNT, NEGATION)
    means = [shown(mean(values(results, "decoder-long", *one))) for one in asked]
    cells = ["decoder on patches", "20,000 (8)", *means[:4], f"{means[4]} / {means[5]}"]
    row = [f"**{cell}**" for cell in cells]
    assert f"| {' | '.join(row)} |" in page


def test_arms_that_are_said_to_have_many_steps_had_them(results: list[ArmResult]) -> None:
    steps: dict[str, set[int]] = {}
    for one in results:
        steps.setdefault(one.arm, set()).add(one.steps)
    many = {arm: some for arm, some in steps.items() if takes_many_steps(arm)}
    assert many.pop("vlm2vec-long") == steps["vlm2vec"] == {1_200}, "which begins from a decoder"
    assert all(some == {20_000} for some in many.values())
    assert max(one.steps for one in results if not takes_many_steps(one.arm)) < 20_000


@pytest.mark.parametrize(
    ("said", "arm", "asked"),
    [
        ("with {} of pairs strictly right", "decoder-long", STRICT),
        ("Replaced words ({}) and texts", "decoder-long", REPLACE),
        ("texts found ({} %) stay", "decoder-long", FOUND),
        ("(group) falls from 74.4 to {}, `world-neg", "decoder-long", COUNT),
        ("(group) from 40.9 to {} on these", "decoder-long", NEGATION),
        ("and has {} strict and 89.0", "decoder-long", STRICT),
        ("strict and {} relaxed on pairs", "decoder-long", RELAXED),
        ("`world-order` rises from 50.1 to {}.", "decoder-long", ORDER),
        ("`decoder-long` has {} of single images", "decoder-long", SINGLE),
        ("colours are at {} in the mean (", "decoder-long", SWAP),
        ("of `world-count` (group) {} are left", "decoder-long", COUNT),
        ("of `world-negation` (group) {} and", "decoder-long", NEGATION),
        ("of `world-texture` (group) {} (cosine", "decoder-long", TEXTURE),
        ("in 20,000 steps: {}, 12.9", "dcsm_fixed-long", RELATION),
        ("to {} (independent coins", "dcsm_fixed-long", STRICT),
        ("single images are right in {} %", "dcsm_fixed-long", SINGLE),
        ("it is a coin ({}, nine bases)", "dcsm_fixed-shuffled-long", RELATION),
        ("`pooled-long` {},", "pooled-long", RELATION),
        ("colours {}, relations 50.2 (eight bases)", "pooled-long", SWAP),
        ("colours 99.2, relations {} (eight bases)", "pooled-long", RELATION),
        ("`pacl_fixed-rotary-2d-long` {},", "pacl_fixed-rotary-2d-long", RELATION),
        ("-2d-text-long` {} and", "pacl_fixed-rotary-2d-text-long", RELATION),
        ("`sparc_fixed-long` {};", "sparc_fixed-long", RELATION),
        ("encoder), and {} and 51.0 in", "pacl_fixed-rotary-2d-text-long", RELATION),
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
        ("`world-count` (group) falls from {} to 3.9", "decoder-long", COUNT),
        ("`world-negation` (group) from {} to 0.4", "decoder-long", NEGATION),
        ("(`pairs-a`; cosine {} and 51.1 there)", "decoder-long", STRICT),
        ("cosine 5.4 and {} there)", "decoder-long", RELAXED),
        ("rises from {} to 80.0", "decoder-long", ORDER),
        ("(cosine {}, 40.9 and 4.9 on", "decoder-long", COUNT),
        ("(cosine 74.4, {} and 4.9 on", "decoder-long", NEGATION),
        ("40.9 and {} on these bases)", "decoder-long", TEXTURE),
        ("relaxed (cosine {} and 52.0 there)", "vlm2vec", STRICT),
        ("relaxed (cosine 5.9 and {} there)", "vlm2vec", RELAXED),
        ("to a coin (51.9 from {})", "vlm2vec", SWAP),
        ("colours fall from {} to 51.9", "vlm2vec", SWAP),
        ("as by chance (27.4 from {};", "vlm2vec", ORDER),
        ("replaced words from {} to 79.8", "vlm2vec", REPLACE),
        ("`world-binding` (group) falls from {} to", "vlm2vec", BINDING),
        ("`world-count` (group) from {} to", "vlm2vec", COUNT),
        ("`world-negation` (group) from {} to 17.8", "vlm2vec", NEGATION),
        ("`world-order` from {} to 27.4.", "vlm2vec", ORDER),
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
        ("eight bases: {} above cosine, with", "decoder-long", "base", RELATION),
        ("`decoder-long` gains {} points over cosine", "decoder-long", "base", RELATION),
        ("it gains {} on the same five.", "decoder-long", "decoder", RELATION),
        ("at 93.5 in the mean ({} against cosine)", "decoder-long", "base", SWAP),
        ("nor does `pooled-long` ({})", "pooled-long", "base", RELATION),
        ("63.0, {} above cosine (fourteen bases)", "dcsm_fixed-long", "base", RELATION),
        ("on fourteen, in the mean {} over cosine and", "dcsm_fixed-long", "base", RELATION),
        ("over cosine and {} over 3,000", "dcsm_fixed-long", "dcsm_fixed", RELATION),
        ("Strict pairs rise by {} to 34.7", "dcsm_fixed-long", "base", STRICT),
        ("with results of both (by {})", "decoder-long", "dcsm_fixed-long", RELATION),
        ("{} below, though", "dcsm_fixed-long", "dcsm_fixed-shuffled-long", RELATION),
        ("in the mean {}; in strict", "decoder-long", "vlm2vec", RELATION),
        ("in strict pairs it is {} above", "decoder-long", "vlm2vec", STRICT),
    ],
)
def test_differences_after_many_steps(
    said: str, arm: str, other: str, asked: Asked, results: list[ArmResult], words: str
) -> None:
    assert said.format(with_interval(apart_of(results, arm, other, asked))) in words


def test_bases_after_many_steps(results: list[ArmResult], words: str) -> None:
    decoder = values(results, "decoder-long", *RELATION)
    assert f"has {listed(decoder)} on eight bases:" in words
    readme = words_of(DOCS.parent / "README.md")
    assert f"(eight bases: {', '.join(shown(one) for one in decoder)})" in readme
    above = listed(apart_of(results, "decoder-long", "base"))
    assert f"points over cosine (eight bases: {above})" in words
    beside = listed(apart_of(results, "decoder-long", "vlm2vec"))
    assert f"on relations is not shown: {beside} points, in the mean" in words
    maps = values(results, "dcsm_fixed-long", *RELATION)
    assert f"by little on others**: it has {listed(maps)} on fourteen, in the mean" in words
    assert min(maps) > 52
    said = f"(fourteen bases), from {min(maps):.1f} on one base to {max(maps):.1f} on another."
    assert said in words
    assert f"20,000 steps is {ends([one - 50 for one in maps], 0)} points above it" in words
    alone = listed(values(results, "dcsm_fixed-relations", *RELATION))
    assert f"Taught nothing but relations it finds no more ({alone} on the first five)" in words
    shuffled = listed(values(results, "dcsm_fixed-shuffled-long", *RELATION))
    which = "`tiny-9` to `tiny-13`, `tiny-15` to `tiny-18`"
    assert f"with shuffled patches it has {shuffled} ({which})" in words


def test_prices_after_many_steps(results: list[ArmResult], words: str) -> None:
    lost = with_interval(apart_of(results, "decoder-long", "base", REPLACE))
    assert lost.startswith("-")
    assert f"Replaced words lose {lost[1:]};" in words


def test_other_readers_stay_a_coin(results: list[ArmResult], words: str) -> None:
    long = [mean(values(results, arm, *RELATION)) for arm in LONG]
    alone = [mean(values(results, arm, *RELATION)) for arm in ALONE]
    assert f"have {shown(min(long))} to {shown(max(long))}, and" in words
    assert f"and {shown(min(alone))} to {shown(max(alone))} when they are taught nothing" in words
    assert f"with nothing but relations {listed(alone)} (without MiniLM)" in words
    every = [one for arm in (*LONG, *ALONE) for one in values(results, arm, *RELATION)]
    assert f"is beyond {shown(min(every))} to {shown(max(every))}." in words


def test_maps_are_learned_by_heart(results: list[ArmResult], words: str) -> None:
    taught, held = (
        ends(values(results, "dcsm_fixed-long", "fit", name), digits=0)
        for name in ("learned relation", "held relation")
    )
    assert f"knows {taught} % of the relations that it was taught with and {held} %" in words
    shuffled = ends(values(results, "dcsm_fixed-shuffled-long", "fit", "learned relation"), 0)
    assert f"though it knows {shuffled} % of the relations" in words


def test_which_readers_learned_many_scenes_by_heart(results: list[ArmResult], words: str) -> None:
    alone = values(results, "pooled-relations", "fit", "learned")
    assert f"learned {min(alone):.0f} to {max(alone):.0f} % of such relations by heart" in words
    taught = [
        one
        for arm in (*LONG[1:], *ALONE[1:])
        for one in values(results, arm, "fit", "learned" if arm in ALONE else "learned relation")
    ]
    assert f"PACL and SPARC told {ends(taught, 0)} % even" in words


def test_the_first_sentence_rounds_what_follows(results: list[ArmResult], words: str) -> None:
    found = values(results, "decoder-long", *RELATION)
    said = f"who is left of whom, or above, in {ends(found, 0)} % of cases on eight bases."
    assert said in words[:600]


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


def test_without_an_image_nothing_can_be_told(results: list[ArmResult], words: str) -> None:
    for asked, chance in ((RELATION, 50.0), (SWAP, 50.0), (REPLACE, 50.0), (STRICT, 0.0)):
        assert {shown(x) for x in values(results, "decoder-nothing", *asked)} == {f"{chance:.1f}"}
    assert "must be**: 50.0 wherever two captions are asked of one image, and no pair." in words


def test_what_was_not_run_is_not_there(results: list[ArmResult], words: str) -> None:
    arms = {one.arm for one in results}
    missing = ("decoder-nothing", "pooled-text", "vlm2vec-plain")
    assert not arms & {f"{arm}-long" for arm in missing}
    assert not arms & {"pacl_fixed-text", "decoder-no_question"}
    shuffled = {one.base for one in results if one.arm == "dcsm_fixed-shuffled-long"}
    assert shuffled == set(LATE)
    alone = {one.base for one in results if one.arm == "dcsm_fixed-cls_eos-long"}
    assert alone == {"tiny-12", "tiny-13"}
    assert {one.base for one in results if one.arm == "vlm2vec-long"} == {"tiny-0"}
    assert (
        "anything for more than 20,000 steps; for 20,000 `decoder-nothing`, `pooled-text`, DCSM "
        "with `cls_eos` on `tiny-0` to `tiny-11` and `tiny-15` to `tiny-18`, with shuffled patches "
        "on `tiny-0` to `tiny-8`; VLM2Vec from the longer decoder on bases but `tiny-0`;"
    ) in words
