"""`unbag lab run` on an experiment that is made up: plan, stops, failures, verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from unbag.cli import main
from unbag.models.tiny import TinyConfig
from unbag_lab import bases
from unbag_lab.bases import PretrainSettings
from unbag_lab.claims import ArmKey, all_claims
from unbag_lab.plan import Experiment, Order, Say
from unbag_lab.results import ArmResult, Extent, Size, result_path, write_result

CLAIM = "negatives_open"
Made = Callable[[str], Experiment]


@dataclass(frozen=True)
class Drawn:
    """Writes 0.9 for the arm of the claim and 0.1 for all others, and a little more each base."""

    name: str
    stops: dict[str, BaseException] = field(default_factory=dict)
    """By arm; each once."""
    about: str = "made up"
    reads_bases: bool = True
    on_processor: bool = False
    most_processes: int = 1

    @property
    def arms(self) -> tuple[str, ...]:
        keys = (key for claim in all_claims() for key in (*claim.arms, *claim.arms_beside))
        return tuple(dict.fromkeys(arm for experiment, arm in keys if experiment == self.name))

    def needs(self, arm: str) -> tuple[ArmKey, ...]:
        return ()

    def seconds(self, arm: str) -> float:
        return 30.0

    def extent(self, arm: str, *, size: Size) -> Extent:
        return Extent(steps=1, batch_size=1, times=1)

    def run(self, order: Order, *, say: Say = print) -> None:
        for base in order.bases:
            for arm in order.arms:
                path = result_path(order.out, self.name, base.stem, arm)
                if path.exists():
                    continue
                if arm in self.stops:
                    raise self.stops.pop(arm)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_result(path, _result(self.name, base, arm, order))
                say(f"{base.stem}: {arm}")


def _result(experiment: str, base: Path, arm: str, order: Order) -> ArmResult:
    value = (0.9 if arm == "hard_negative" else 0.1) + int(base.stem[-1]) / 1_000 * len(arm)
    asked = [
        number
        for claim in all_claims()
        for prediction in claim.predictions
        for number in prediction.numbers
        if number.key(claim.experiment) == (experiment, arm)
    ]
    numbers: dict[str, dict[str, float]] = {"fit": {"few": 1.0}}
    for number in asked:
        numbers.setdefault(number.benchmark, {})[number.metric] = value
    return ArmResult(
        experiment, base.stem, "f", arm, 1, 1, 0, 1, "float32", None, numbers, order.size
    )


@pytest.fixture(autouse=True)
def experiment(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """In place of all; and bases of full size that are as quick to make as small ones."""
    drawn = Drawn("default")
    monkeypatch.setattr("unbag_lab.running.find_experiment", lambda name: drawn)
    monkeypatch.setattr("unbag_lab.running.shipped_results", list)
    small = bases._wanted("tiny-0", "small")[1]

    def wanted(name: str, size: str) -> tuple[PretrainSettings, TinyConfig]:
        return PretrainSettings(seed=int(name[-1]), steps=1, batch_size=4), small

    monkeypatch.setattr(bases, "_wanted", wanted)
    return drawn


def run(out: Path, *more: str) -> int:
    """Without asking anybody."""
    return ask(out, "--yes", *more)


def ask(out: Path, *more: str) -> int:
    return main(["lab", "run", CLAIM, "--device", "cpu", "--out", str(out), *more])


def test_the_price_is_said_and_five_bases_give_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "lab") == 0
    said = capsys.readouterr()
    plan, _, verdicts = said.out.partition("verdicts, each about no more than it names:\n")
    assert plan.startswith(f"to run in {tmp_path / 'lab'}, on cpu:\n  tiny-0: copied from")
    assert "  tiny-1, tiny-2, tiny-3, tiny-4: trained, about 7 min\n" in plan
    # Four bases of 100 s, and three arms of 30 s on five: two that are compared, one beside them.
    assert "about 14 min of one H200, in one process; a CPU takes far longer" in plan
    # 850 s, 800 times.
    assert "about 800 times as long, so everything would take 188 h 53 min.\n" in plan
    assert "  default: 15 results on all bases, about 8 min\n" in plan
    assert "    clip_ft, hard_negative, " in plan
    assert "1 of 1: default, 3 arms on 5 bases" in said.err
    assert f"  {CLAIM} " in verdicts
    assert " reproduced on the world " in verdicts
    assert "5 bases" in verdicts
    assert main(["lab", "list", "--results", str(tmp_path / "lab")]) == 0
    assert verdicts.splitlines()[0] in capsys.readouterr().out


def test_an_experiment_says_itself_that_its_time_is_a_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = Drawn("default", on_processor=True)
    monkeypatch.setattr("unbag_lab.running.find_experiment", lambda name: drawn)
    assert run(tmp_path, "--seeds", "1") == 0
    said = capsys.readouterr().out
    # Three arms of 30 s; the only base is copied.
    assert "\ndefault: about 2 min of one core of a CPU\n" in said
    assert "H200" not in said


def test_too_few_seeds_say_how_many_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--seeds", "3") == 0
    said = capsys.readouterr().out
    assert "3 of 5 bases decide nothing; --seeds 5 adds the 2 that a verdict needs" in said
    assert "3 of 5 bases: 2 more are needed" in said
    assert "2 more bases needed for a verdict: the same command with --seeds 5 goes on" in said
    assert run(tmp_path) == 0
    said = capsys.readouterr().out
    assert "  9 results there already\n" in said
    assert "  default: 6 results on tiny-3, tiny-4, " in said
    assert "  tiny-3, tiny-4: trained, about 3 min\n" in said
    assert " reproduced on the world " in said


def test_bases_that_were_seen_are_told_and_more_seeds_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("unbag_lab.running.find_experiment", lambda name: Drawn("readouts"))
    late = ["lab", "run", "decoder_taught_longer", "--device", "cpu", "--yes"]
    late += ["--out", str(tmp_path)]
    assert main([*late, "--seeds", "5"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "decoder_taught_longer: tiny-0 does not count, since its arms had been run there" in said
    assert "4 of 5 bases are left; a verdict needs --seeds 8, now or later" in said
    # Of three more seeds two were seen as well.
    assert "1 more base needed for a verdict: the same command with --seeds 8 goes on" in said
    assert main([*late, "--seeds", "8"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "does not count" not in said
    assert "needed for a verdict" not in said
    assert ", 5 bases more: unbag lab show" in said


def test_only_claims_that_have_seen_no_base_are_told_that_five_are_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("unbag_lab.running.find_experiment", lambda name: Drawn("readouts"))
    few = ["lab", "run", "--device", "cpu", "--yes", "--seeds", "1", "--out", str(tmp_path)]
    assert main([*few, "decoder_taught_longer"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "--seeds 5" not in said
    assert "0 of 5 bases are left; a verdict needs --seeds 8" in said
    assert main([*few, "dcsm_taught_longer", "one_token"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 of 5 bases decide nothing; --seeds 5 adds the 4 that a verdict needs" in said
    assert "dcsm_taught_longer: tiny-0 does not count" in said


def test_a_stopped_run_goes_on(
    tmp_path: Path, experiment: Drawn, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.stops["clip_ft"] = KeyboardInterrupt()
    small = ("--seeds", "2", "--size", "small")
    assert run(tmp_path, *small) == 130
    assert "stopped; the same command resumes from there" in capsys.readouterr().err
    assert run(tmp_path, *small) == 0
    said = capsys.readouterr().out
    assert ": trained" not in said
    assert "a small run decides nothing" in said
    assert run(tmp_path, *small) == 0
    assert f"nothing to run: 6 results in {tmp_path}" in capsys.readouterr().out


def test_a_failure_is_told_at_the_end(
    tmp_path: Path, experiment: Drawn, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.stops["clip_ft"] = RuntimeError("out of luck")
    assert run(tmp_path, "--seeds", "1", "--size", "small") == 1
    said = capsys.readouterr().err
    assert "unbag: default failed: RuntimeError: out of luck" in said
    assert f"traceback: {tmp_path / 'failed' / 'default.txt'}" in said
    assert said.endswith("the same command tries these again; all other results are saved\n")
    assert run(tmp_path, "--seeds", "1", "--size", "small") == 0


def test_after_a_failure_nobody_is_told_to_take_more_seeds(
    tmp_path: Path, experiment: Drawn, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.stops["clip_ft"] = RuntimeError("out of luck")
    assert run(tmp_path) == 1
    said = capsys.readouterr().out
    assert "0 of 5 bases: 5 more are needed" in said
    assert "the same command with --seeds" not in said


def test_a_person_is_asked_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda text: "n")
    small = ("--seeds", "1", "--size", "small")
    assert ask(tmp_path, *small) == 0
    assert capsys.readouterr().out.endswith("nothing was started\n")

    def ends(text: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", ends)
    assert ask(tmp_path, *small) == 0
    assert capsys.readouterr().out.endswith("nothing was started\n")
    assert run(tmp_path, *small) == 0
    assert "verdicts" in capsys.readouterr().out


def test_without_a_terminal_only_a_small_run_starts_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert ask(tmp_path / "full", "--seeds", "1") == 1
    said = capsys.readouterr()
    assert "one H200" in said.out + said.err
    assert "cannot ask for confirmation" in said.err
    assert "--yes" in said.err
    assert [path.name for path in tmp_path.rglob("*.json")] == ["run.json"]
    assert ask(tmp_path / "small", "--seeds", "1", "--size", "small") == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--device", "cuda:77"), "the device 'cuda:77' cannot be used"),
        (("--device", "gpu"), "the device 'gpu' cannot be used: no such kind is known here"),
    ],
)
def test_devices_that_are_not_here_are_refused(
    tmp_path: Path, more: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *more) == 1
    assert said in capsys.readouterr().err


def test_seeds_and_names_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run(tmp_path, "--seeds", "0")
    assert left.value.code == 2
    assert "'0' is not a whole number above 0" in capsys.readouterr().err
    assert main(["lab", "run", "negatives_opn"]) == 1
    assert "did you mean 'negatives_open'" in capsys.readouterr().err
