"""`unbag lab`: list and show claims, and run them with made-up experiments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from unbag.cli import main
from unbag.errors import UnbagError
from unbag.models.tiny import TinyConfig
from unbag_lab import bases
from unbag_lab.bases import PretrainSettings
from unbag_lab.claims import NAMES, PHOTOGRAPHS, ArmKey, all_claims, find_claim
from unbag_lab.experiments.photos import edited_pairs
from unbag_lab.listing import verdict_line
from unbag_lab.plan import Order, Say
from unbag_lab.results import (
    ArmResult,
    Extent,
    Size,
    as_text,
    opened,
    result_path,
    shipped_results,
    write_result,
)
from unbag_lab.scheduler import can_fork
from unbag_lab.verdict import FAILED, UNDECIDED, compute_verdicts

RISES = (0.50, 0.52, 0.48, 0.51, 0.49)
CLAIM = "negatives_open"
Lab = Callable[..., tuple[int, str, str]]


@pytest.fixture
def lab(capsys: pytest.CaptureFixture[str]) -> Lab:
    """Run a command; returns its exit code, output and errors."""

    def run(*words: str | Path) -> tuple[int, str, str]:
        code = main(["lab", *map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def flat(text: str) -> str:
    return " ".join(text.split())


def results(values: tuple[float, ...] = RISES, *, size: Size = "full") -> list[ArmResult]:
    """Arms of the claim, above plain fine-tuning by these values, one for each base."""
    claim = find_claim(CLAIM)
    numbers: dict[ArmKey, dict[str, dict[str, float]]] = {}
    for prediction in claim.predictions:
        for at, number in enumerate(prediction.numbers):
            arm = numbers.setdefault(number.key(claim.experiment), {})
            arm.setdefault(number.benchmark, {})[number.metric] = 1.0 if at == 0 else 0.0
    return [
        ArmResult(
            experiment, f"tiny-{base}", f"f{base}", arm, 1, 1, 0, 1, "float32", None,
            {bench: {metric: share * value for metric, share in metrics.items()}
             for bench, metrics in rows.items()},
            size,
        )
        for (experiment, arm), rows in numbers.items()
        for base, value in enumerate(values)
    ]  # fmt: skip


def put(folder: Path, results: list[ArmResult]) -> Path:
    (folder / "default.json").write_text(as_text(results))
    return folder


def test_list_of_shipped_results(lab: Lab) -> None:
    code, said, _ = lab()
    assert lab("list") == (code, said, "") == (0, said, "")
    lines = said.splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert sorted(names) == sorted(NAMES)
    assert lines[lines.index("DCSM") + 1].startswith("  dcsm_reads_maps ")
    assert f"{len(NAMES)} claims: " in said
    assert "From the results that ship with unbag" in said


def test_list_of_a_folder(tmp_path: Path, lab: Lab) -> None:
    put(tmp_path, results())
    code, said, _ = lab("list", "--results", tmp_path)
    (line,) = (line for line in said.splitlines() if line.startswith(f"  {CLAIM} "))
    # Mean 50 points; standard error 0.707 points, 2.776 of them on either side.
    assert line.split(maxsplit=1)[1].startswith("reproduced on the world ")
    assert line.endswith("+50.0 [+48.0, +52.0], 5 bases")
    assert f"{len(NAMES)} claims: 1 reproduced on the world, " in said
    assert f"From {tmp_path};" in said
    for words in (["--results", tmp_path], ["--results", tmp_path, "list"]):
        assert lab(*words) == (code, said, "")


def test_show(tmp_path: Path, lab: Lab, snapshot: SnapshotAssertion) -> None:
    code, said, _ = lab("show", CLAIM, "--results", put(tmp_path, results()))
    assert code == 0
    assert said.replace(str(tmp_path), "FOLDER") == snapshot


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (results(RISES[:3]), "3 of 5 bases: 2 more are needed"),
        (results(size="small"), "a small run decides nothing"),
    ],
)
def test_show_says_why_a_claim_is_undecided(
    tmp_path: Path, lab: Lab, made: list[ArmResult], why: str
) -> None:
    _, said, _ = lab("show", CLAIM, "--results", put(tmp_path, made))
    assert said.startswith(f"{CLAIM}: undecided ({why})\n")
    assert f"verdict undecided. {why[0].upper()}{why[1:]}." in flat(said)
    assert "reproduced" not in said


def test_lines_of_verdicts() -> None:
    one, several = find_claim(CLAIM), find_claim("plain_fine_tuning")
    shipped = shipped_results()
    line = verdict_line(compute_verdicts([one], shipped)[0], shipped)
    assert line.split(maxsplit=1)[0] == CLAIM
    assert line.endswith("+49.2 [+48.8, +49.5], 9 bases")
    line = verdict_line(compute_verdicts([several], shipped)[0], shipped)
    assert line.endswith("reproduced on the world             predictions: 2 yes, 9 bases")
    assert verdict_line(compute_verdicts([several], [])[0], []).endswith("not run yet")
    assert compute_verdicts([one], results(tuple(-rise for rise in RISES)))[0].word == FAILED
    assert compute_verdicts([one], [])[0].word == UNDECIDED


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["show", "negatives_opn"],
         ["unknown claim 'negatives_opn'", "did you mean 'negatives_open'",
          "`unbag lab` lists every claim"]),
        (["list", "--results", "no/such/folder"],
         ["no results in no/such/folder: it does not exist"]),
        (["run", "negatives_opn"], ["did you mean 'negatives_open'"]),
    ],
)  # fmt: skip
def test_bad_names(lab: Lab, words: list[str], texts: list[str]) -> None:
    code, _, said = lab(*words)
    assert code == 1
    for text in texts:
        assert text in said


def test_seeds_must_be_positive(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lab", "run", CLAIM, "--seeds", "0"])
    assert ended.value.code == 2
    assert "'0' is not a whole number above 0" in capsys.readouterr().err


def test_a_list_does_not_import_torch() -> None:
    code = (
        "import sys; from unbag.cli import main; main(['lab']); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'scipy.stats', 'pyarrow')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("device", "words"),
    [("cuda:77", ""), ("mps", ""), ("gpu", "no such kind is known here"), ("xpu", "")],
)
@pytest.mark.skipif(not can_fork(), reason="no forked processes on this system")
def test_a_missing_device_is_reported_by_a_forked_process(
    tmp_path: Path, lab: Lab, device: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that asked for a GPU could not fork others that use one."""
    parent = os.getpid()

    def is_available() -> bool:
        assert os.getpid() != parent
        return False

    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    code, _, said = lab("run", CLAIM, "--size", "small", "--out", tmp_path, "--device", device)
    first, *rest = said.splitlines()
    assert code == 1
    assert first.startswith(f"unbag: the device {device!r} cannot be used: {words}")
    assert len(first) < 150
    assert rest == [
        "  expected: cpu or auto (all that is here)",
        "  hint:     --device auto takes the best one at hand",
    ]
    assert not list(tmp_path.iterdir())


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
                write_result(path, drawn_result(self.name, base, arm, order))
                say(f"{base.stem}: {arm}")


def drawn_result(experiment: str, base: Path, arm: str, order: Order) -> ArmResult:
    value = (0.9 if arm == "hard_negative" else 0.1) + int(base.stem[-1]) / 1_000 * len(arm)
    numbers: dict[str, dict[str, float]] = {"fit": {"few": 1.0}}
    for claim in all_claims():
        for number in (number for p in claim.predictions for number in p.numbers):
            if number.key(claim.experiment) == (experiment, arm):
                numbers.setdefault(number.benchmark, {})[number.metric] = value
    return ArmResult(
        experiment, base.stem, "f", arm, 1, 1, 0, 1, "float32", None, numbers, order.size
    )


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Callable[[Drawn], Drawn]:
    """Replace all experiments, and bases of full size by ones that are as quick as small ones."""
    monkeypatch.setattr("unbag_lab.running.shipped_results", list)
    small = bases._wanted("tiny-0", "small")[1]

    def wanted(name: str, size: str) -> tuple[PretrainSettings, TinyConfig]:
        return PretrainSettings(seed=int(name[-1]), steps=1, batch_size=4), small

    monkeypatch.setattr(bases, "_wanted", wanted)

    def replace(experiment: Drawn) -> Drawn:
        monkeypatch.setattr("unbag_lab.running.find_experiment", lambda name: experiment)
        return experiment

    return replace


@pytest.fixture
def run(lab: Lab, drawn: Callable[[Drawn], Drawn], tmp_path: Path) -> Lab:
    """Run the claim, or others, into one folder; without confirmation unless `ask`."""
    drawn(Drawn("default"))

    def run(*words: str, ask: bool = False) -> tuple[int, str, str]:
        names = [word for word in words if word in NAMES] or [CLAIM]
        rest = [word for word in words if word not in NAMES]
        more = [] if ask else ["--yes"]
        return lab("run", *names, "--device", "cpu", "--out", tmp_path / "lab", *more, *rest)

    return run


def test_run(tmp_path: Path, run: Lab, lab: Lab, snapshot: SnapshotAssertion) -> None:
    """Four bases of 100 s, and three arms of 30 s on five: 850 s, and 800 times that on a CPU."""
    code, said, progress = run()
    assert code == 0
    assert said.replace(str(tmp_path), "FOLDER") == snapshot
    assert "1 of 1: default, 3 arms on 5 bases" in progress
    (line,) = (line for line in said.splitlines() if line.startswith(f"  {CLAIM} "))
    assert line in lab("list", "--results", tmp_path / "lab")[1]


def test_run_on_one_core(run: Lab, drawn: Callable[[Drawn], Drawn]) -> None:
    """Three arms of 30 s; the only base is copied."""
    drawn(Drawn("default", on_processor=True))
    _, said, _ = run("--seeds", "1")
    assert "\ndefault: about 2 min of one core of a CPU\n" in said
    assert "H200" not in said


def test_too_few_seeds(run: Lab) -> None:
    _, said, _ = run("--seeds", "3")
    assert "3 of 5 bases decide nothing; --seeds 5 adds the 2 that a verdict needs" in said
    assert "3 of 5 bases: 2 more are needed" in said
    assert "2 more bases needed for a verdict: the same command with --seeds 5 resumes" in said
    _, said, _ = run()
    assert "  9 results there already\n" in said
    assert "  default: 6 results on tiny-3, tiny-4, " in said
    assert "  tiny-3, tiny-4: trained, about 3 min\n" in said
    assert " reproduced on the world " in said


def test_seen_bases_need_more_seeds(run: Lab, drawn: Callable[[Drawn], Drawn]) -> None:
    drawn(Drawn("readouts"))
    late = "decoder_taught_longer"
    said = flat(run(late, "--seeds", "1")[1])
    assert "--seeds 5" not in said
    assert "0 of 5 bases are left; a verdict needs --seeds 8" in said
    said = flat(run("dcsm_taught_longer", "one_token", "--seeds", "1")[1])
    assert "1 of 5 bases decide nothing; --seeds 5 adds the 4 that a verdict needs" in said
    assert "dcsm_taught_longer: tiny-0 does not count" in said
    said = flat(run(late, "--seeds", "5")[1])
    assert f"{late}: tiny-0 does not count, since its arms had been run there" in said
    assert "4 of 5 bases are left; a verdict needs --seeds 8, now or later" in said
    # Of three more seeds two were seen as well.
    assert "1 more base needed for a verdict: the same command with --seeds 8 resumes" in said
    said = flat(run(late, "--seeds", "8")[1])
    assert "does not count" not in said
    assert "needed for a verdict" not in said
    assert ", 5 bases more: unbag lab show" in said


def test_an_interrupted_run_resumes(run: Lab, drawn: Callable[[Drawn], Drawn]) -> None:
    drawn(Drawn("default", {"clip_ft": KeyboardInterrupt()}))
    small = ("--seeds", "2", "--size", "small")
    code, _, said = run(*small)
    assert code == 130
    assert "stopped; the same command resumes from there" in said
    code, said, _ = run(*small)
    assert code == 0
    assert ": trained" not in said
    assert "a small run decides nothing" in said
    assert "nothing to run: 6 results in " in run(*small)[1]


def test_a_failure_is_reported_at_the_end(
    tmp_path: Path, run: Lab, drawn: Callable[[Drawn], Drawn]
) -> None:
    drawn(Drawn("default", {"clip_ft": RuntimeError("out of luck")}))
    code, verdicts, said = run()
    assert code == 1
    assert "unbag: default failed: RuntimeError: out of luck" in said
    assert f"traceback: {tmp_path / 'lab' / 'failed' / 'default.txt'}" in said
    assert said.endswith("the same command tries these again; all other results are saved\n")
    # More seeds would not help.
    assert "0 of 5 bases: 5 more are needed" in verdicts
    assert "the same command with --seeds" not in verdicts
    assert run()[0] == 0


def test_confirmation(run: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def end_of_file(text: str) -> str:
        raise EOFError

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    small = ("--seeds", "1", "--size", "small")
    for answer in (lambda text: "n", end_of_file):
        monkeypatch.setattr("builtins.input", answer)
        code, said, _ = run(*small, ask=True)
        assert code == 0
        assert said.endswith("nothing was started\n")
    assert "verdicts" in run(*small)[1]


def test_without_a_terminal_only_a_small_run_starts(
    tmp_path: Path, run: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    code, plan, said = run("--seeds", "1", ask=True)
    assert code == 1
    assert "one H200" in plan
    assert "cannot ask for confirmation" in said
    assert "--yes" in said
    assert [path.name for path in tmp_path.rglob("*.json")] == ["run.json"]
    assert run("--seeds", "1", "--size", "small", ask=True)[0] == 0


@pytest.fixture
def plan(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Print the plan of a run only."""
    monkeypatch.setattr("unbag_lab.running._is_confirmed", lambda options: False)

    def plan(*words: str | Path) -> tuple[int, str, str]:
        return lab("run", *words, "--device", "cpu", "--out", tmp_path / "out")

    return plan


def test_all_leaves_out_photographs(plan: Lab) -> None:
    photos = [claim.name for claim in all_claims() if claim.where == PHOTOGRAPHS]
    first, _, rest = plan("all")[1].partition("\n")
    assert first == f"left out, since they need photographs (--photos FOLDER): {', '.join(photos)}"
    assert "  default: " in rest
    assert "photos: " not in rest


@pytest.mark.parametrize("name", ["photos", "photos_negatives"])
def test_named_claims_about_photographs_need_a_folder(name: str, plan: Lab) -> None:
    code, _, said = plan(name, CLAIM)
    assert code == 1
    assert f"{name}: --photos is missing" in said
    assert "a folder with your own photographs and captions" in said
    assert "--photos FOLDER" in said


def test_a_small_run_needs_no_photographs(plan: Lab) -> None:
    said = plan("photos_positives", "--size", "small", "--seeds", "2")[1]
    assert "  photos: 6 results on all bases\n    heads, hard_negative, hard_positive\n" in said


def test_a_folder_without_captions(tmp_path: Path, plan: Lab) -> None:
    code, _, said = plan("all", "--photos", tmp_path)
    assert code == 1
    assert f"there is no file {tmp_path / 'captions.jsonl'}" in flat(said)
    assert "a folder with captions.jsonl, or a file of captions beside its images" in flat(said)
    assert "check the path of --photos" in said


def test_costs_of_a_cpu_and_of_a_gpu(tmp_path: Path, plan: Lab) -> None:
    (tmp_path / "captions.jsonl").touch()
    photos = ("photos_negatives", "--photos", tmp_path)
    said = plan(*photos)[1]
    assert "left out" not in said
    assert "  photos: 25 results on all bases, about " in said
    assert "    heads, blind, clip_ft, neg_clip, hard_negative\n" in said
    assert " of one core of a CPU, and before that minutes for features" in said
    assert "H200" not in said
    said = plan(CLAIM, *photos)[1]
    assert " of one H200, in one process" in said
    assert " of one core of a CPU" in said
    # Without controls, probes need no repairs; else they run before and after them, at one price.
    said = plan("order_free_retrieval", "--judged-only", "--seeds", "1")[1]
    assert "  probes: 1 result on all bases, about " in said
    assert "probes: about " in said
    assert "H200" not in said
    said = plan("order_free_retrieval", "--seeds", "1")[1]
    assert " of one H200, in one process" in said
    assert (said.count("  probes: "), said.count("\nprobes: about ")) == (2, 1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("not JSON", "captions.jsonl, line 1 is not JSON"),
        ('{"image": "1.jpg"}', "line 1 has neither caption nor captions, only image"),
        ("", "captions.jsonl holds no captions"),
        ('{"image": "1.jpg", "captions": ["a red dog"]}', "edits.jsonl are missing: 1.jpg"),
    ],
)
def test_bad_captions_name_options_of_this_command(tmp_path: Path, line: str, words: str) -> None:
    """Readers name options of `unbag edit` and `unbag train`, which are not there."""
    pytest.importorskip("spacy")
    file = tmp_path / "captions.jsonl"
    file.write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(UnbagError, match=words) as refused:
        edited_pairs(file, tmp_path / "out" / "photographs")
    assert "--" not in refused.value.expected
    assert refused.value.hint.startswith(f"correct {file}; lab/docs/index.md")


def test_a_run_folder_of_other_photographs(tmp_path: Path, plan: Lab) -> None:
    """It is refused though nothing is left to run."""
    pytest.importorskip("spacy")
    for name, caption in (("one", "a red dog"), ("other", "a blue cat")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jpg").touch()
        text = json.dumps({"image": "1.jpg", "captions": [caption]}) + "\n"
        (tmp_path / name / "captions.jsonl").write_text(text, encoding="utf-8")
    with opened(tmp_path / "out", size="full"):
        edited_pairs(tmp_path / "one" / "captions.jsonl", tmp_path / "out" / "photographs")
    assert plan("photos_negatives", "--photos", tmp_path / "one")[0] == 0
    code, _, said = plan("photos_negatives", "--photos", tmp_path / "other")
    assert code == 1
    assert "edits.jsonl exists already: captions" in flat(said)
    assert "name another folder with --out, or remove " in flat(said)
