"""Every claim, run small on two bases by the command itself: each number it compares comes out."""

from __future__ import annotations

import subprocess
import sys
from math import isfinite
from pathlib import Path

import pytest

from unbag.cli import main
from unbag_lab.claims import NAMES, find_claim
from unbag_lab.results import ArmResult, results_in
from unbag_lab.verdict import UNDECIDED, by_base, judge_claims


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[ArmResult]:
    """Of all claims, in one run: they share bases and arms."""
    out = tmp_path_factory.mktemp("lab")
    small = ["--size", "small", "--seeds", "2", "--device", "cpu"]
    assert main(["lab", "run", "all", *small, "--out", str(out)]) == 0
    assert not (out / "failed").exists()
    return results_in(Path(out))


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_runs_and_decides_nothing_small(name: str, results: list[ArmResult]) -> None:
    claim = find_claim(name)
    for prediction in claim.predictions:
        # Whether a base counts is left out: after a few steps no reader has learned anything.
        effects = prediction.effects(by_base(results), claim.experiment)
        assert len(effects) == 2, prediction.says
        assert all(map(isfinite, effects.values())), prediction.says
    for number in claim.beside:
        told = [number.of(arms, claim.experiment) for arms in by_base(results).values()]
        assert sum(one is not None and isfinite(one) for one in told) == 2, number
    verdict = judge_claims([claim], results)[0]
    assert verdict.word == UNDECIDED
    assert verdict.why == "a small run decides nothing"


def test_two_claims_run_side_by_side(tmp_path: Path) -> None:
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
    wanted = {key for name in claims for key in find_claim(name).arms}
    assert wanted <= {(one.experiment, one.arm) for one in results_in(tmp_path / "lab")}
