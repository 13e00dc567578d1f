"""Every example runs as its first lines say, and prints what it promises."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
CHECKED = {"measure_your_model.py", "compare_two_models.py"}


def run(name: str, out: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), str(out)],
        capture_output=True,
        text=True,
        check=False,
        cwd=out.parent,
        timeout=300,
        # Tests run side by side; threads of one would only stand in the way of the others.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == CHECKED


def test_measure_your_model(tmp_path: Path) -> None:
    printed = run("measure_your_model.py", tmp_path / "page.html")
    assert "only replaced colours: 98.8" in printed
    assert "group: 0.0 [0.0, 3.7], n=100, ties=100, chance=16.7" in printed
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "colour-words" in page
    assert "world-binding" in page


def test_compare_two_models(tmp_path: Path) -> None:
    printed = run("compare_two_models.py", tmp_path / "run")
    assert "world-swap: tiny:random minus tiny:base = -49.5 points" in printed
    assert "world-relation: tiny:random minus tiny:base = +0.4 points" in printed
    assert "no difference shown" in printed
    assert (tmp_path / "run" / "report.html").exists()
