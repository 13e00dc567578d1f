"""Controls beside a claim are run and shown and decide nothing; readers at chance are told of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from unbag.cli import main
from unbag.world.benchmarks import triple_items
from unbag_lab.claims import Claim, Number, Prediction, all_claims, find_claim
from unbag_lab.pages.claim_page import arm_name, claim_page, numbers_beside
from unbag_lab.plan import find_experiment, find_request
from unbag_lab.results import ArmResult, shipped_results
from unbag_lab.verdict import (
    QUADS,
    REPRODUCED,
    arms_at_chance,
    by_base,
    controls_at_chance,
    judge_claims,
    minds,
)

A, B = Number("a", "bench", "metric"), Number("b", "bench", "metric")
CLAIM = Claim(
    "one",
    "us",
    "It holds.",
    "made",
    (Prediction("a is above b", A, B, "above"),),
    beside=(Number("twin", "bench", "metric"), Number("a", "more", "shown", experiment="else")),
)


def result(
    arm: str, base: int, numbers: Mapping[str, Mapping[str, float]], experiment: str = "made"
) -> ArmResult:
    return ArmResult(
        experiment, f"tiny-{base}", f"{base}", arm, 1, 1, 0, 3, "float32", None, numbers
    )


def of(arm: str, *values: float, experiment: str = "made") -> list[ArmResult]:
    return [
        result(arm, base, {"bench": {"metric": value}}, experiment)
        for base, value in enumerate(values)
    ]


COMPARED = of("a", 0.6, 0.7, 0.65, 0.66, 0.64) + of("b", 0.1, 0.12, 0.1, 0.11, 0.1)


def test_arms_beside_are_those_that_no_verdict_rests_on() -> None:
    assert CLAIM.arms == (("made", "a"), ("made", "b"))
    assert CLAIM.arms_beside == (("made", "twin"), ("else", "a"))
    both = replace(CLAIM, beside=(A, Number("twin", "x", "y"), Number("twin", "x", "z")))
    assert both.arms_beside == (("made", "twin"),)


def test_a_verdict_does_not_wait_for_arms_beside_nor_mind_them() -> None:
    (alone,) = judge_claims([CLAIM], COMPARED)
    assert alone.word == REPRODUCED
    small = [replace(one, size="small") for one in of("twin", 0.9)]
    (with_random_init,) = judge_claims([CLAIM], COMPARED + small)
    assert with_random_init == alone


def test_arms_on_other_weights_are_never_of_one_base() -> None:
    """Two collections of photographs begin alike: `photos-0-` and then what tells them apart."""
    prints = ("tiny-06f89e", "photos-0-9130", "photos-0-aaaa", "photos-0-9130")
    some = [
        replace(result(arm, 0, {}), fingerprint=fingerprint)
        for arm, fingerprint in zip("abcd", prints, strict=True)
    ]
    found = {base: [arm for _, arm in arms] for base, arms in by_base(some).items()}
    assert found == {
        "tiny-0": ["a"],
        "tiny-0 (photos-0)": ["b", "d"],
        "tiny-0 (photos-0-aaaa)": ["c"],
    }


def test_where_no_weights_are_read_a_base_is_called_a_seed() -> None:
    some = [
        replace(result("a", 3, {}), experiment=experiment, fingerprint=fingerprint)
        for experiment, fingerprint in (
            ("default", "tiny-06f89e"),
            ("pretraining", "pretraining-3"),
            ("photos", "photos-3-9130"),
            ("photos", "photos-3-aaaa"),
        )
    ]
    assert list(by_base(some)) == [
        "tiny-3",
        "seed 3 (pretraining)",
        "seed 3 (photos)",
        "seed 3 (photos-3-aaaa)",
    ]


def test_a_run_of_a_claim_runs_what_stands_beside_it() -> None:
    request = find_request(["dcsm_reads_maps"], find=find_experiment)
    assert {arm for _, arm in request.arms} == {
        "base", "dcsm_fixed", "dcsm_fixed-shuffled", "dcsm_fixed-cls_eos", "dcsm_fixed-random"
    }  # fmt: skip
    assert ("probes", "random") in find_request(["cone"], find=find_experiment).arms
    judged = find_request(["dcsm_reads_maps"], find=find_experiment, beside=False)
    assert judged.claims == request.claims
    assert {arm for _, arm in judged.arms} < {arm for _, arm in request.arms}


def test_numbers_beside_are_means_of_bases_that_have_them() -> None:
    assert numbers_beside(CLAIM, COMPARED) == ()
    results = COMPARED + of("twin", 0.2, 0.4, float("nan"))
    (one,) = numbers_beside(CLAIM, results)
    assert list(one.values) == [("made", "a"), ("made", "b"), ("made", "twin")]
    assert one.values["made", "twin"] == (0.2, 0.4)
    assert one.text(("made", "twin")) == "30.0 (2)"
    assert one.text(("made", "a")) == "65.0 (5)"
    assert one.text(("else", "a")) == "–"
    assert arm_name(("else", "a"), CLAIM) == "`a` of `else`"


def test_numbers_beside_are_of_bases_that_count() -> None:
    needy = replace(CLAIM, must_fit=("a",))
    fit = [0.9, 0.84]
    arms = [
        result("a", base, {"bench": {"metric": 0.5}, "fit": {"few": share}})
        for base, share in enumerate(fit)
    ]
    (one,) = numbers_beside(needy, arms + of("twin", 0.1, 0.9))
    assert one.text(("made", "twin")) == "10.0 (1)"
    assert numbers_beside(needy, arms[1:] + of("twin", 0.1, 0.9)) == ()


def test_a_page_shows_them() -> None:
    results = COMPARED + of("twin", 0.2, 0.4)
    (verdict,) = judge_claims([CLAIM], results)
    page = claim_page(verdict, results, together=1)
    assert "| `twin`, beside | `made` | 2 | 1 | 1 | – |" in page
    assert "| `a`, beside | `else` | 0 | – | – | – |" in page
    assert "| number | `a` | `b` | `twin` |" in page
    assert "| `bench` `metric` | 65.0 (5) | 10.6 (5) | 30.0 (2) |" in page
    without = claim_page(verdict, COMPARED, together=1)
    assert "| `twin`, beside | `made` | 0 |" in without
    assert "## Beside it" not in without


def test_a_claim_is_shown_with_what_stands_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "show", "cone"]) == 0
    shown = capsys.readouterr().out
    assert "beside    probes: random\n" in shown
    assert "  cone images: base 75.3 (9), random 100.0 (9)\n" in shown
    assert "Mind" not in shown
    assert main(["lab", "show", "decoder_against_cosine"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "decoder on tiny-6, tiny-8. A reader that tells" in said


def test_arms_beside_claims_exist_and_are_those_that_controls_speak_of() -> None:
    named = {"untrained twin": "random", "a decoder without an image": "decoder-nothing",
             "an untrained encoder": "dcsm_fixed-random", "three quarters": "mix-0.75",
             "the mended form": "ce_clip_fixed", "text leak": "blind"}  # fmt: skip
    asked = set()
    for claim in all_claims():
        every = (*claim.arms, *claim.arms_beside)
        for experiment, arm in every:
            assert arm in find_experiment(experiment).arms, (claim.name, arm)
        for text, arm in named.items():
            if text in claim.controls + claim.knobs:
                assert arm in {name for _, name in every}, (claim.name, arm)
                asked.add(text)
    assert asked == set(named)


def reader(base: int, swap: float, relation: float, few: float = 0.99) -> ArmResult:
    numbers = {
        "world-swap": {"original": swap},
        "world-relation": {"original": relation},
        "fit": {"few": few},
    }
    return result("a", base, numbers)


def test_a_reader_that_tells_nothing_apart_is_told_of() -> None:
    """With 300 and 360 quads, 95 % of coins lie within 5.66 and 5.16 points of a half."""
    needy = replace(CLAIM, must_fit=("a",))
    results = [
        reader(0, 0.556, 0.449),
        reader(1, 0.557, 0.50),
        reader(2, 0.50, 0.448),
        reader(3, 0.444, 0.551),
        reader(4, 0.5, 0.5, few=0.6),
        replace(reader(5, 0.5, 0.5), size="small"),
    ]
    assert arms_at_chance(needy, results) == {"a": ["tiny-0", "tiny-3"]}
    (said,) = minds(needy, results)
    assert said.startswith("Mind: some readers learned fixed examples by heart and yet, trained,")
    assert "`world-swap` and `world-relation`: `a` on tiny-0, tiny-3. A reader" in said
    assert minds(CLAIM, results) == minds(needy, results[1:3]) == []
    (verdict,) = judge_claims([needy], results)
    assert f"\n\n{said}\n\n" in claim_page(verdict, results, together=1)


def test_bases_of_such_readers_are_in_order() -> None:
    needy = replace(CLAIM, must_fit=("a",))
    found = arms_at_chance(needy, [reader(base, 0.5, 0.5) for base in (10, 9, 11)])
    assert found == {"a": ["tiny-9", "tiny-10", "tiny-11"]}


def test_a_page_shows_what_was_answered_on_the_way() -> None:
    late = replace(CLAIM, seen={"tiny-2": "2"})
    looks = {10: {"200": 0.5, "1000": 0.875}, 9: {"1000": 0.25}, 2: {"200": 1.0}}
    asked = [
        result("a", base, {"bench": {"metric": 0.5}, "bench by step": some})
        for base, some in looks.items()
    ]
    (verdict,) = judge_claims([late], asked)
    page = claim_page(verdict, asked, together=1)
    _, _, way = page.partition("## On the way\n")
    assert "`bench` of `a`:\n\n| steps | tiny-9 | tiny-10 |\n" in way
    assert "| 200 | – | 50.0 |\n| 1,000 | 25.0 | 87.5 |\n\n" in way
    assert "## On the way" not in claim_page(verdict, COMPARED, together=1)


def test_a_benchmark_that_was_not_asked_tells_nothing() -> None:
    needy = replace(CLAIM, must_fit=("a",))
    numbers = {"world-swap": {"original": 0.5}, "fit": {"few": 1.0}}
    assert arms_at_chance(needy, [result("a", 0, numbers)]) == {}


def test_quads_are_those_of_the_registered_benchmarks() -> None:
    groups = {
        "world-swap": triple_items(["swap"], n=100),
        "world-relation": triple_items(["relation", "replace_relation"], n=60),
    }
    assert {name: len({one.group for one in items}) for name, items in groups.items()} == QUADS


def test_the_decoder_that_failed_to_train_is_told_of_beside_its_claim() -> None:
    from unbag_lab.results import shipped_results

    found = arms_at_chance(find_claim("decoder_against_cosine"), shipped_results())
    assert found == {"decoder": ["tiny-6", "tiny-8"]}


def test_brittleness_that_could_only_fall_is_said() -> None:
    shipped = shipped_results()
    claim = find_claim("negatives_brittle")
    (control,) = controls_at_chance(claim, shipped)
    assert (control.arm, control.benchmark) == ("clip_ft", "world-relation")
    (said,) = minds(claim, shipped)
    assert said.startswith("Mind: what brittleness is compared with is a coin (`clip_ft` on")
    # That it falls can come out against a coin, and other claims compare with what was repaired.
    assert minds(find_claim("positives_only"), shipped) == []
    assert minds(find_claim("rephrased_positives"), shipped) == []
    assert minds(claim, []) == []
    knows = [
        replace(one, numbers={**one.numbers, "world-relation": {"original": 0.7}})
        for one in shipped
        if one.arm == "clip_ft"
    ]
    assert minds(claim, knows) == []


def test_relaxed_pairs_stand_beside_strict_ones() -> None:
    found = numbers_beside(find_claim("decoder_taught_longer"), shipped_results())
    asked = [(one.benchmark, one.metric) for one in found]
    assert ("world-pairs-a", "pair") in asked
    assert ("world-pairs-a", "relaxed") in asked
    plain = numbers_beside(find_claim("negatives_open"), shipped_results())
    assert not [one for one in plain if one.metric == "relaxed"]
