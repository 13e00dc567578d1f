"""A new kind of training needs one file: trained, killed, continued, described and scored with."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unbag.cli import main
from unbag.runs.checkpoint import LAST, load_checkpoint

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS = 50
TRAIN = (
    *("train", "--model", "tiny:base", "--readout", "patch_readout:LINEAR", "--pairs", "world"),
    *("--set", f"steps={STEPS}", "scenes=60", "batch_size=8", "learning_rate=0.01"),
    *("--seed", "3", "--device", "cpu", "--workers", "0", "--no-cache", "--out"),
)


def killed(out: Path) -> int:
    """Start in a process of its own, and kill it behind its first checkpoint; gives the step."""
    command = [sys.executable, "-m", "unbag", *TRAIN, str(out), "--save-minutes", "0"]
    where = {"PYTHONPATH": f"{EXAMPLES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    process = subprocess.Popen(command, env={**os.environ, **where}, stderr=subprocess.DEVNULL)
    while process.poll() is None and not (out / LAST).exists():
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    return int(load_checkpoint(out / LAST).header["step"])


def test_a_linear_read_out_of_patches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    step = killed(cut)
    assert 0 < step < STEPS
    assert main([*TRAIN, str(cut)]) == 0
    assert f"resuming after step {step} of {STEPS}" in capsys.readouterr().err
    assert main([*TRAIN, str(whole)]) == 0
    capsys.readouterr()
    assert (cut / "reader.safetensors").read_bytes() == (whole / "reader.safetensors").read_bytes()
    one, other = (load_checkpoint(folder / LAST) for folder in (cut, whole))
    for group in ("weights", "optimizer"):
        tensors = other.group(group)
        assert tensors
        assert all(tensor.equal(one.group(group)[name]) for name, tensor in tensors.items())
    card = (whole / "README.md").read_text(encoding="utf-8")
    assert "# The read-out linear for tiny:base" in card
    assert "--scorer patch_readout:LINEAR@FOLDER" in card
    assert "| sharpness | 10.0 |" in card
    scored = ["run", "--model", "tiny:base", "--scorer", f"patch_readout:LINEAR@{whole}"]
    scored += ["--bench", "world-replace", "--out", str(tmp_path / "run"), "--no-cache"]
    assert main([*scored, "--blind", "none"]) == 0
    assert "tiny:base+linear" in capsys.readouterr().out
    (result,) = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))
    original = result["overall"]["original"]
    assert original["low"] > original["chance"] == 0.5
    monkeypatch.delitem(sys.modules, "patch_readout")
