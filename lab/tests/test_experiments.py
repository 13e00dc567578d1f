"""All experiments: every claim runs small on two bases, and what holds for each experiment."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from math import isfinite
from pathlib import Path

import pytest

from unbag.cli import main
from unbag.errors import UnbagError
from unbag_lab.claims import NAMES, all_claims, find_claim
from unbag_lab.experiments.repair import DEFAULT, HELD_OUT, ORDERED, parts_of
from unbag_lab.experiments.repair_training import ARMS, VARIANTS, RepairSettings
from unbag_lab.plan import EXPERIMENTS, Order, find_experiment
from unbag_lab.results import (
    ArmResult,
    base_path,
    read_results,
    result_path,
    results_in,
    write_result,
)
from unbag_lab.verdict import UNDECIDED, by_base, compute_verdicts


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one small run of all claims, which share bases and arms."""
    out = tmp_path_factory.mktemp("lab")
    small = ["--size", "small", "--seeds", "2", "--device", "cpu"]
    assert main(["lab", "run", "all", *small, "--out", str(out)]) == 0
    assert not (out / "failed").exists()
    return out


@pytest.fixture(scope="module")
def results(out: Path) -> list[ArmResult]:
    return results_in(out)


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_runs_and_decides_nothing_small(name: str, results: list[ArmResult]) -> None:
    claim = find_claim(name)
    bases = by_base(results)
    for prediction in claim.predictions:
        # Whether a base counts is left out: after a few steps no reader has learned anything.
        effects = prediction.effects(bases, claim.experiment)
        assert len(effects) == 2, prediction.says
        assert all(map(isfinite, effects.values())), prediction.says
    for number in claim.beside:
        values = [number.of(arms, claim.experiment) for arms in bases.values()]
        assert sum(value is not None and isfinite(value) for value in values) == 2, number
    for arm in claim.must_fit:
        fits = [arms[claim.experiment, arm].numbers["fit"]["few"] for arms in bases.values()
                if (claim.experiment, arm) in arms]  # fmt: skip
        assert len(fits) == 2
        assert all(0 <= share <= 1 for share in fits)
    verdict = compute_verdicts([claim], results)[0]
    assert (verdict.word, verdict.why) == (UNDECIDED, "a small run decides nothing")


def test_claims_run_in_parallel(tmp_path: Path) -> None:
    """Three experiments on one base, of which one needs another; in a process that may fork."""
    claims = ("one_token", "weight_mixing")
    small = ["--size", "small", "--seeds", "1", "--device", "cpu", "--processes", "2"]
    words = ["lab", "run", *claims, *small, "--out", str(tmp_path / "lab")]
    done = subprocess.run(
        [sys.executable, "-m", "unbag", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert said[0].endswith(" tasks, in up to 2 processes at once")
    first, then = (
        next(n for n, line in enumerate(said) if line.startswith(f"{name}: done"))
        for name in ("default on tiny-0", "probes on tiny-0 again")
    )
    assert first < then
    arms = {key for name in claims for key in find_claim(name).arms}
    assert arms <= {(one.experiment, one.arm) for one in results_in(tmp_path / "lab")}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_arms_have_needs_and_costs(name: str) -> None:
    experiment = find_experiment(name)
    assert experiment.name == name
    assert len(experiment.arms) == len(set(experiment.arms))
    for arm in experiment.arms:
        assert experiment.seconds(arm) > 0
        for other, need in experiment.needs(arm):
            assert need in find_experiment(other).arms
            if other == name:
                assert experiment.arms.index(need) < experiment.arms.index(arm)
    compared = {key for claim in all_claims() for key in claim.arms if key[0] == name}
    assert compared <= {(name, arm) for arm in experiment.arms}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_results_are_complete(name: str, results: list[ArmResult]) -> None:
    experiment = find_experiment(name)
    own = [one for one in results if one.experiment == name]
    assert {one.base for one in own} == {"tiny-0", "tiny-1"}
    for base in ("tiny-0", "tiny-1"):
        assert len({one.fingerprint for one in own if one.base == base}) == 1
    for one in own:
        assert one.size == "small"
        assert one.extent == experiment.extent(one.arm, size="small"), one.arm
        assert one.seconds is not None
        assert one.seconds >= 0
        # Probes leave out what is undefined.
        values = [value for row in one.numbers.values() for value in row.values()]
        assert name != "probes" or all(map(isfinite, values))


def order_of(name: str, out: Path, base: str, arms: Iterable[str]) -> Order:
    experiment = find_experiment(name)
    there = tuple(arm for arm in experiment.arms if arm in set(arms))
    return Order((base_path(out, base),), there, out, "small")


def files(folder: Path) -> dict[Path, tuple[int, bytes]]:
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_existing_results_are_left_alone(name: str, out: Path) -> None:
    arms = [one.arm for one in read_results(out / name / "tiny-0")]
    before = files(out / name)
    find_experiment(name).run(order_of(name, out, "tiny-0", arms), say=lambda line: None)
    assert files(out / name) == before


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_results_of_other_settings_are_refused(name: str, out: Path, tmp_path: Path) -> None:
    """Of other steps, and of another base of the same name."""
    result = read_results(out / name / "tiny-0")[0]
    order = replace(order_of(name, out, "tiny-0", [result.arm]), out=tmp_path)
    path = result_path(tmp_path, name, "tiny-0", result.arm)
    path.parent.mkdir(parents=True)
    write_result(path, replace(result, times=99))
    with pytest.raises(UnbagError, match=f"another {path.name}: times: 99 before, ") as refused:
        find_experiment(name).run(order, say=lambda line: None)
    assert "name another folder with --out" in refused.value.hint
    write_result(path, result)
    if find_experiment(name).reads_bases:
        other = tmp_path / "tiny-0.safetensors"
        shutil.copy(base_path(out, "tiny-1"), other)
        with pytest.raises(UnbagError, match=f"another {path.name}: fingerprint"):
            find_experiment(name).run(replace(order, bases=(other,)), say=lambda line: None)


def test_thresholds_are_recorded_where_there_are_any(results: list[ArmResult]) -> None:
    by_arm = {one.arm: one for one in results if one.experiment == "default"}
    fixed = by_arm["ce_clip_fixed-margin10"].numbers["threshold-object"]
    assert {fixed[name] for name in ("1%", "100%", "mean", "largest")} == {1}
    assert fixed["waited"] == 0
    moving = by_arm["ce_clip_fixed"].numbers["threshold-swap"]
    assert 0 <= moving["mean"] <= moving["largest"] <= 1
    free = by_arm["ce_clip_fixed-intra"].numbers
    assert not [name for name in free if name.startswith("threshold-")]


def test_arms_of_repair_experiments() -> None:
    for experiment in (DEFAULT, ORDERED, HELD_OUT):
        assert set(experiment.trained) <= {*ARMS, *VARIANTS}
        assert experiment.arms[:3] == ("random", "base", "blind")
    assert DEFAULT.seconds("neg_clip-locked") < DEFAULT.seconds("neg_clip")


def test_arms_are_split_into_parts() -> None:
    settings = RepairSettings(arms=("a", "b", "c", "d", "e"))
    parts = parts_of(settings, 2)
    assert [part.arms for part in parts] == [("a", "c", "e"), ("b", "d")]
    assert [part.asks_base for part in parts] == [True, False]
    assert len(parts_of(settings, 9)) == 5
    assert parts_of(settings, 1)[0].arms == settings.arms
