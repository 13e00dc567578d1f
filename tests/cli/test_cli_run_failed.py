"""`unbag run` with a model that fails, and with two models of one name."""

import json
from pathlib import Path

import pytest

from unbag.cli import main

MODELS = """
import os
class Good:
    name, fingerprint, scoring, is_blind = "good", "good-1", "odd", False
    def score(self, queries):
        print("asked", self.name)
        return [float(len(q.caption)) for q in queries]
class Raise(Good):
    name, fingerprint, batches = "raise", "raise-1", 0
    def score(self, queries):
        self.batches += 1
        if self.batches == 2 and not os.path.exists("mended"):
            raise RuntimeError("the second batch is too much for me")
        return super().score(queries)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A researcher's own folder with two models in it."""
    (tmp_path / "cli_test_night.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_that_fails_at_night(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--model", "cli_test_night:Raise", "cli_test_night:Good"]
    words += ["--bench", "world-swap", "--no-cache", "--out", "x"]
    assert main(words) == 1
    said = capsys.readouterr()
    failure = (
        "raise on world-swap: it failed with RuntimeError: the second batch is too much for me; "
        "its traceback is in x/tracebacks.txt, and the same command again tries only what is "
        "missing"
    )
    assert f"unbag: {failure}\n" in said.err
    assert "Traceback" not in said.err
    assert "report:  x/report.html" in said.out
    assert 'raise RuntimeError("the second batch' in (here / "x/tracebacks.txt").read_text()
    assert json.loads((here / "x/problems.json").read_text()) == [failure]
    assert json.loads((here / "x/run.json").read_text())["state"] == "failed"
    results = json.loads((here / "x/results.json").read_text())
    assert {r["scorer"] for r in results} == {"good", "caption:short"}
    assert "it failed with RuntimeError" in (here / "x/report.html").read_text()
    assert main(["report", "x"]) == 0

    (here / "mended").touch()
    capsys.readouterr()
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.out.count("asked good") == 0
    # Of 13 chunks the first was kept.
    assert said.out.count("asked raise") == 12
    assert json.loads((here / "x/run.json").read_text())["state"] == "done"
    assert json.loads((here / "x/problems.json").read_text()) == []
    assert not (here / "x/tracebacks.txt").exists()


def test_two_models_of_one_name_are_told_by_what_was_typed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "cli_test_other.py").write_text("from cli_test_night import Good\n")
    words = ["run", "--model", "cli_test_night:Good", "cli_test_other:Good"]
    assert main([*words, "--bench", "world-swap", "--no-cache", "--out", "x"]) == 1
    said = capsys.readouterr().err
    assert "cli_test_night:Good and cli_test_other:Good are both called 'good'" in said
    assert "rename or copy the folder of one of them" in said
    words = ["run", "--model", "cli_test_night:Good", "cli_test_night:Good"]
    assert main([*words, "--bench", "world-swap", "--no-cache", "--out", "x"]) == 1
    said = capsys.readouterr().err
    assert "the model 'good' was given twice" in said
    assert "leave one of them out" in said
