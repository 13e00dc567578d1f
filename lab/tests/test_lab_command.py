"""`unbag lab list` and `show`: claims with their verdicts, from what ships or from a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unbag.cli import main
from unbag_lab.claims import NAMES, find_claim
from unbag_lab.listing import verdict_line
from unbag_lab.results import ArmResult, as_text, shipped_results
from unbag_lab.verdict import FAILED, UNDECIDED, judge_claims

RISES = (0.50, 0.52, 0.48, 0.51, 0.49)


def results(values: tuple[float, ...] = RISES, *, size: str = "full") -> list[ArmResult]:
    """Arms of `negatives_open` above plain fine-tuning by so much, on as many bases."""
    claim = find_claim("negatives_open")
    numbers: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for prediction in claim.predictions:
        for at, number in enumerate(prediction.numbers):
            arm = numbers.setdefault(number.key(claim.experiment), {})
            arm.setdefault(number.benchmark, {})[number.metric] = 1.0 if at == 0 else 0.0
    return [
        ArmResult(
            experiment, f"tiny-{base}", f"f{base}", arm, 1, 1, 0, 1, "float32", None,
            {bench: {metric: one * value for metric, one in metrics.items()}
             for bench, metrics in found.items()},
            "small" if size == "small" else "full",
        )
        for (experiment, arm), found in numbers.items()
        for base, value in enumerate(values)
    ]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "default.json").write_text(as_text(results()))
    return tmp_path


def test_every_claim_is_listed_under_its_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab"]) == 0
    said = capsys.readouterr().out
    assert main(["lab", "list"]) == 0
    assert capsys.readouterr().out == said
    lines = said.splitlines()
    named = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert sorted(named) == sorted(NAMES)
    at = lines.index("DCSM")
    assert lines[at + 1].startswith("  dcsm_reads_maps ")
    assert f"{len(NAMES)} claims: " in said
    assert "From the results that ship with unbag" in said
    assert "is about no more than it names" in said


def test_a_folder_is_judged_instead(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list", "--results", str(folder)]) == 0
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if line.startswith("  negatives_open "))
    assert line.split(maxsplit=1)[1].startswith("reproduced on the world ")
    # Mean 50 points; standard error 0.707 points, 2.776 of them on either side.
    assert line.endswith("+50.0 [+48.0, +52.0], 5 bases")
    assert f"{len(NAMES)} claims: 1 reproduced on the world, " in said
    assert f"From {folder};" in said
    assert main(["lab", "--results", str(folder)]) == 0
    assert capsys.readouterr().out == said
    assert main(["lab", "--results", str(folder), "list"]) == 0
    assert capsys.readouterr().out == said


def test_a_claim_is_shown_in_full(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "show", "negatives_open", "--results", str(folder)]) == 0
    said = capsys.readouterr().out
    claim = find_claim("negatives_open")
    assert said.startswith("negatives_open: reproduced on the world\n")
    flat = " ".join(said.split())
    for text in (claim.statement, claim.source, claim.controls, claim.knobs):
        assert " ".join(text.split()) in flat
    for _, arm in claim.arms:
        assert arm in said
    for prediction in claim.predictions:
        assert prediction.says in flat
    assert "tiny-0 +50.0, tiny-1 +52.0, tiny-2 +48.0, tiny-3 +51.0, tiny-4 +49.0" in said
    assert "The effect lies where it was predicted" in flat
    assert "Run it: unbag lab run negatives_open" in said


def test_why_a_claim_is_undecided_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "default.json").write_text(as_text(results(RISES[:3])))
    assert main(["lab", "show", "negatives_open", "--results", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("negatives_open: undecided (3 of 5 bases: 2 more are needed)\n")
    (tmp_path / "default.json").write_text(as_text(results(size="small")))
    assert main(["lab", "show", "negatives_open", "--results", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("negatives_open: undecided (a small run decides nothing)\n")
    assert "  verdict   undecided. A small run decides nothing.\n" in said
    assert "reproduced" not in said


def test_bases_on_which_a_reader_cannot_learn_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "show", "many_words"]) == 0
    said = capsys.readouterr().out
    assert "A base counts only if sparc_fixed can learn a few fixed examples; left out: " in said


def test_a_line_has_the_effect_of_one_prediction_and_counts_several() -> None:
    one, several = find_claim("negatives_open"), find_claim("plain_fine_tuning")
    shipped = shipped_results()
    line = verdict_line(judge_claims([one], shipped)[0], shipped)
    assert line.split(maxsplit=1)[0] == "negatives_open"
    assert line.endswith("+49.2 [+48.8, +49.5], 9 bases")
    line = verdict_line(judge_claims([several], shipped)[0], shipped)
    assert line.endswith("reproduced on the world             predictions: 2 yes, 9 bases")
    assert verdict_line(judge_claims([several], [])[0], []).endswith("not run yet")
    wrong = judge_claims([one], results((-0.5, -0.52, -0.48, -0.51, -0.49)))[0]
    assert wrong.word == FAILED
    assert judge_claims([one], [])[0].word == UNDECIDED


def test_a_claim_that_nobody_made_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "show", "negatives_opn"]) == 1
    said = capsys.readouterr().err
    assert "unknown claim 'negatives_opn'" in said
    assert "did you mean 'negatives_open'" in said
    assert "`unbag lab` lists every claim" in said


def test_a_folder_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "list", "--results", "no/such/folder"]) == 1
    assert "no results in no/such/folder: it does not exist" in capsys.readouterr().err


def test_a_list_does_not_wait_for_torch() -> None:
    asked = (
        "import sys; from unbag.cli import main; main(['lab']); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'scipy.stats', 'pyarrow')))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=False)
    assert done.returncode == 0
