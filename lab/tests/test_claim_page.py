"""Pages of claims, and `unbag lab show` for claims with seen bases and arms beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from unbag.cli import main
from unbag_lab.claims import Claim, Number, Prediction, find_claim
from unbag_lab.pages.claim_page import arm_name, claim_page, numbers_beside
from unbag_lab.results import ArmResult, shipped_results
from unbag_lab.verdict import REPRODUCED, compute_verdicts

A, B = Number("a", "bench", "metric"), Number("b", "bench", "metric")
ABOVE = Prediction("a is above b", A, B, "above")
CLAIM = Claim(
    "one",
    "us",
    "It holds.",
    "made",
    (ABOVE,),
    beside=(Number("twin", "bench", "metric"), Number("a", "more", "shown", experiment="else")),
)


def result(arm: str, base: int, numbers: Mapping[str, Mapping[str, float]]) -> ArmResult:
    return ArmResult("made", f"tiny-{base}", f"{base}", arm, 1, 1, 0, 3, "float32", None, numbers)


def of(arm: str, *values: float) -> list[ArmResult]:
    return [result(arm, n, {"bench": {"metric": value}}) for n, value in enumerate(values)]


COMPARED = of("a", 0.6, 0.7, 0.65, 0.66, 0.64) + of("b", 0.1, 0.12, 0.1, 0.11, 0.1)


def page(claim: Claim, results: list[ArmResult]) -> str:
    return claim_page(compute_verdicts([claim], results)[0], results, together=1)


def test_page_with_arms_beside(snapshot: SnapshotAssertion) -> None:
    assert page(CLAIM, COMPARED + of("twin", 0.2, 0.4)) == snapshot
    without = page(CLAIM, COMPARED)
    assert "| `twin`, beside | `made` | 0 |" in without
    assert "## Beside it" not in without
    assert "## On the way" not in without


def test_page_with_seen_bases_readers_and_curves(snapshot: SnapshotAssertion) -> None:
    late = replace(CLAIM, seen={"tiny-2": "2"}, must_fit=("a",), beside=())
    curves = {10: {"200": 0.5, "1000": 0.875}, 9: {"1000": 0.25}, 2: {"200": 1.0}}
    results = [
        result("a", n, {"bench": {"metric": 0.5}, "fit": {"few": 1.0}, "bench by step": curve})
        for n, curve in curves.items()
    ]
    results += [result("b", n, {"bench": {"metric": 0.1}}) for n in curves]
    results.append(result("a", 11, {"bench": {"metric": 0.5}, "fit": {"few": 0.5}}))
    assert page(late, results) == snapshot


@pytest.mark.parametrize(
    ("bases", "predictions", "verdict"),
    [
        (5, 2, "**not reproduced on the world** (1 of 2 predictions came out)\n"),
        (4, 2, "**undecided** (4 of 5 bases: 1 more is needed)\n"),
        (5, 1, "**not reproduced on the world**\n"),
    ],
)
def test_verdict_of_all_predictions(bases: int, predictions: int, verdict: str) -> None:
    within = Prediction("a is as b", A, B, "within", 0.05)
    both = replace(CLAIM, predictions=(within, ABOVE)[:predictions])
    results = [one for one in COMPARED if int(one.base[-1]) < bases]
    assert f"Verdict: {verdict}" in page(both, results)


def test_a_verdict_does_not_depend_on_arms_beside() -> None:
    (alone,) = compute_verdicts([CLAIM], COMPARED)
    small = [replace(one, size="small") for one in of("twin", 0.9)]
    assert alone.word == REPRODUCED
    assert compute_verdicts([CLAIM], COMPARED + small) == [alone]


def test_numbers_beside_are_means_of_bases_that_have_them() -> None:
    assert numbers_beside(CLAIM, COMPARED) == ()
    (metric,) = numbers_beside(CLAIM, COMPARED + of("twin", 0.2, 0.4, float("nan")))
    texts = {key: metric.text(key) for key in (*metric.values, ("else", "a"))}
    assert texts == {
        ("made", "a"): "65.0 (5)",
        ("made", "b"): "10.6 (5)",
        ("made", "twin"): "30.0 (2)",
        ("else", "a"): "–",
    }
    assert arm_name(("else", "a"), CLAIM) == "`a` of `else`"


def test_numbers_beside_are_of_bases_that_count() -> None:
    needy = replace(CLAIM, must_fit=("a",))
    arms = [
        result("a", n, {"bench": {"metric": 0.5}, "fit": {"few": share}})
        for n, share in enumerate([0.9, 0.84])
    ]
    (metric,) = numbers_beside(needy, arms + of("twin", 0.1, 0.9))
    assert metric.text(("made", "twin")) == "10.0 (1)"
    assert numbers_beside(needy, arms[1:] + of("twin", 0.1, 0.9)) == ()


def test_relaxed_pairs_are_shown_with_strict_ones() -> None:
    def pairs(name: str) -> set[str]:
        metrics = numbers_beside(find_claim(name), shipped_results())
        return {one.metric for one in metrics if one.benchmark == "world-pairs-a"}

    assert pairs("decoder_taught_longer") >= {"pair", "relaxed"}
    assert "relaxed" not in pairs("negatives_open")


@pytest.mark.parametrize(
    ("claim", "texts"),
    [
        ("decoder_taught_longer",
         ["on tiny-0, tiny-5, tiny-6 had been seen. These bases decide nothing.",
          "left out: none.", "Run it: unbag lab run decoder_taught_longer --seeds 8"]),
        ("cone", ["beside probes: random ", " cone images: base 75.3 (9), random 100.0 (9) "]),
        ("decoder_against_cosine", ["decoder on tiny-6, tiny-8. A reader at chance"]),
        ("photos_negatives", ["Run it: unbag lab run photos_negatives --photos FOLDER"]),
        ("many_words",
         ["A base counts only if sparc_fixed can learn a few fixed examples; left out: "]),
    ],
)  # fmt: skip
def test_show(claim: str, texts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "show", claim]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in texts:
        assert text.strip() in shown
    assert claim != "cone" or "Mind" not in shown
