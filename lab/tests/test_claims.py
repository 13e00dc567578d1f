"""The claims of the files: their arms exist, their numbers are measured, their bases are known."""

from __future__ import annotations

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
from unbag_lab.plan import find_experiment, find_request
from unbag_lab.results import shipped_results
from unbag_lab.verdict import FAILED, REPRODUCED, UNDECIDED, compute_verdicts


def test_every_claim_is_listed_once() -> None:
    assert sorted(_read_claims()) == sorted(NAMES)
    for claim in all_claims():
        assert find_claim(claim.name) is claim
        assert claim.statement.endswith(".")
        assert claim.source
        assert claim.arms


def test_arms_beside_are_those_that_no_verdict_depends_on() -> None:
    numbers = [Number(arm, "bench", "metric") for arm in ("a", "b", "twin")]
    beside = (numbers[0], numbers[2], Number("twin", "x", "z"), Number("a", "x", "y", "other"))
    prediction = Prediction("a is above b", numbers[0], numbers[1], "above")
    claim = Claim("one", "us", "It holds.", "made", (prediction,), beside=beside)
    assert claim.arms == (("made", "a"), ("made", "b"))
    assert claim.arms_beside == (("made", "twin"), ("other", "a"))


def test_arms_exist_and_controls_have_theirs() -> None:
    named = {"untrained twin": "random", "a decoder without an image": "decoder-nothing",
             "an untrained encoder": "dcsm_fixed-random", "three quarters": "mix-0.75",
             "the mended form": "ce_clip_fixed", "text leak": "blind"}  # fmt: skip
    seen = set()
    for claim in all_claims():
        arms = (*claim.arms, *claim.arms_beside)
        for experiment, arm in arms:
            assert arm in find_experiment(experiment).arms, (claim.name, arm)
        for text, arm in named.items():
            if text in claim.controls + claim.knobs:
                assert arm in {name for _, name in arms}, (claim.name, arm)
                seen.add(text)
    assert seen == set(named)


def test_a_run_includes_arms_beside_unless_only_judged_ones() -> None:
    request = find_request(["dcsm_reads_maps"], find=find_experiment)
    assert {arm for _, arm in request.arms} == {
        "base", "dcsm_fixed", "dcsm_fixed-shuffled", "dcsm_fixed-cls_eos", "dcsm_fixed-random"
    }  # fmt: skip
    assert ("probes", "random") in find_request(["cone"], find=find_experiment).arms
    judged = find_request(["dcsm_reads_maps"], find=find_experiment, beside=False)
    assert judged.claims == request.claims
    assert set(judged.arms) < set(request.arms)


def test_numbers_are_measured_by_their_experiments() -> None:
    """A metric that nobody measures would leave a claim undecided for ever."""
    measured: dict[ArmKey, set[tuple[str, str]]] = {}
    for result in shipped_results():
        metrics = measured.setdefault((result.experiment, result.arm), set())
        metrics.update((name, metric) for name, row in result.numbers.items() for metric in row)
    for claim in all_claims():
        predicted = (number for p in claim.predictions for number in p.numbers)
        for number in (*predicted, *claim.beside):
            # Where nothing of an arm ships yet, the tests of its experiment look at a small run.
            known = measured.get(number.key(claim.experiment))
            assert known is None or (number.benchmark, number.metric) in known


def test_seen_bases_are_those_of_the_shipped_results() -> None:
    shipped = {(result.base, result.fingerprint) for result in shipped_results()}
    late = [claim for claim in all_claims() if claim.seen]
    assert {claim.name for claim in late} == {"decoder_taught_longer", "dcsm_taught_longer"}
    for claim in late:
        assert set(claim.seen.items()) <= shipped
        assert claim.seeds == FEWEST_BASES + len(claim.seen)


def test_shipped_verdicts_rest_on_five_bases_or_more() -> None:
    verdicts = compute_verdicts(all_claims(), shipped_results())
    assert FEWEST_BASES == 5
    assert {verdict.word for verdict in verdicts} == {REPRODUCED, FAILED, UNDECIDED}
    decided = [
        tested for verdict in verdicts for tested in verdict.tested if tested.word != UNDECIDED
    ]
    assert all(len(tested.effects) >= 5 for tested in decided)
    assert not any(verdict.is_small for verdict in verdicts)
