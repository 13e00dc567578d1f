"""The model on the page "Adding a model" works as printed, and is as short as promised."""

import re
from pathlib import Path

import pytest
from PIL import Image as Images

from unbag.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-model.md"


def test_it_scores_and_runs_in_under_thirty_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.search(r'^```python title="my_clip.py"\n(.*?)^```', PAGE.read_text(), re.M | re.S)
    assert found
    assert len(found[1].splitlines()) < 30
    (tmp_path / "my_clip.py").write_text(found[1])
    Images.new("RGB", (20, 10), (200, 10, 10)).save(tmp_path / "picture.png")
    monkeypatch.chdir(tmp_path)
    captions = ["a blue cube", "a red cube"]
    assert main(["score", "picture.png", *captions, "--model", "my_clip:MyClip"]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("a red cube")
    asked = ["--bench", "world-swap", "--out", "runs/mine", "--no-cache", "--device", "cpu"]
    assert main(["run", "--model", "my_clip:MyClip", *asked]) == 0
    assert "my-clip" in capsys.readouterr().out
