"""The repair experiments as the lab runs them: small runs measure what their claims ask."""

from pathlib import Path

import pytest

from unbag_lab.claims import Claim, all_claims
from unbag_lab.experiments.repair import DEFAULT, HELD_OUT, ORDERED, parts_of
from unbag_lab.experiments.repair_training import ARMS, LOCKED, VARIANTS, RepairSettings
from unbag_lab.plan import Order, find_experiment
from unbag_lab.results import ArmResult, read_results, result_path
from unbag_lab.verdict import UNDECIDED, judge_claims

EVERY = {one.name: one for one in (DEFAULT, ORDERED, HELD_OUT)}


def silent(line: str) -> None:
    pass


def claims() -> list[Claim]:
    """Those that compare arms of these experiments alone."""
    return [one for one in all_claims() if {key[0] for key in one.arms} <= set(EVERY)]


@pytest.fixture(scope="module")
def results(base: Path, tmp_path_factory: pytest.TempPathFactory) -> list[ArmResult]:
    """Every arm that a claim compares, on one base of a few thousand weights."""
    out = tmp_path_factory.mktemp("small")
    wanted = {key for one in claims() for key in one.arms}
    for name, experiment in EVERY.items():
        # Locked arms are those of other tests.
        arms = tuple(a for a in experiment.arms if (name, a) in wanted and not a.endswith(LOCKED))
        experiment.run(Order((base,), arms, out, size="small"), say=silent)
        assert all(result_path(out, name, base.stem, arm).exists() for arm in arms)
    return read_results(out)


def test_a_small_run_measures_all_that_claims_ask_and_decides_nothing(
    results: list[ArmResult],
) -> None:
    asked = [one for one in claims() if not any(a.endswith(LOCKED) for _, a in one.arms)]
    assert len(asked) > 12
    for verdict in judge_claims(asked, results):
        assert verdict.word == UNDECIDED
        assert verdict.why == "a small run decides nothing"
        for one in verdict.tested:
            assert len(one.effects) == 1, (verdict.claim.name, one.prediction.says)


def test_thresholds_are_kept_where_there_are_any(results: list[ArmResult]) -> None:
    by_arm = {(one.experiment, one.arm): one for one in results}
    fixed = by_arm["default", "ce_clip_fixed-margin10"].numbers["threshold-object"]
    assert {fixed[name] for name in ("1%", "50%", "100%", "mean", "largest") if name in fixed} == {
        1
    }
    assert fixed["waited"] == 0
    moving = by_arm["default", "ce_clip_fixed"].numbers["threshold-swap"]
    assert 0 <= moving["mean"] <= moving["largest"] <= 1
    free = by_arm["default", "ce_clip_fixed-intra"].numbers
    assert not [name for name in free if name.startswith("threshold-")]


def test_every_arm_of_an_experiment_can_be_made_and_has_a_price() -> None:
    for name, experiment in EVERY.items():
        assert find_experiment(name) is experiment
        assert set(experiment.trained) <= {*ARMS, *VARIANTS}
        assert experiment.arms[:3] == ("random", "base", "blind")
        for arm in experiment.arms:
            assert experiment.needs(arm) == ()
            assert 0 < experiment.seconds(arm) < 60
    assert DEFAULT.seconds("neg_clip-locked") < DEFAULT.seconds("neg_clip")
    asked = {key for one in claims() for key in one.arms}
    have = {(name, arm) for name, experiment in EVERY.items() for arm in experiment.arms}
    assert asked <= have


def test_arms_are_shared_out_once_each() -> None:
    settings = RepairSettings(arms=("a", "b", "c", "d", "e"))
    parts = parts_of(settings, 2)
    assert [part.arms for part in parts] == [("a", "c", "e"), ("b", "d")]
    assert [part.asks_base for part in parts] == [True, False]
    assert len(parts_of(settings, 9)) == 5
    assert parts_of(settings, 1)[0].arms == settings.arms
