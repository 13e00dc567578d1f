"""The code on the pages runs as it is printed."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from unbag.benchmarks.taggers import find_tagger
from unbag.cli import main
from unbag.types import LayerEncoder

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python(?: title=\"(?P<file>[^\"]+)\")?\n(?P<code>.*?)^```", re.M | re.S)


def blocks(page: str) -> list[tuple[str, str]]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [(found["file"] or "", found["code"]) for found in BLOCK.finditer(text)]


SNIPPETS = [
    pytest.param(page, code, id=f"{page}-{number}")
    for page in ("README.md", "docs/api.md", "docs/quickstart.md", "docs/metrics.md")
    for number, (_, code) in enumerate(blocks(page))
]
PRINTED = {
    "README.md": "50.0 [48.6, 51.4], n=960, ties=0, chance=50",
    "docs/quickstart.md": "98.0 [93.0, 99.4], n=100, ties=0, chance=16.7",
    "docs/metrics.md": "(10,)\nFalse\n('macro3',)",
}


@pytest.mark.parametrize(("page", "code"), SNIPPETS)
def test_a_snippet_runs(page: str, code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        # Tests run side by side; threads of one would only stand in the way of the others.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    if page in PRINTED and "ub.wrap" not in code and "out=" not in code:
        assert done.stdout.startswith(PRINTED[page])
        assert PRINTED[page].split("\n")[0] in (ROOT / page).read_text(encoding="utf-8")


def test_the_files_of_extending_work_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: code for name, code in blocks("docs/extending.md") if name}
    assert set(files) == {
        "my_model.py",
        "my_layers.py",
        "my_benchmark.py",
        "my_scorer.py",
        "my_tagger.py",
        "my_probe.py",
        "my_task.py",
    }
    for name, code in files.items():
        (tmp_path / name).write_text(code, encoding="utf-8")
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    commands = re.findall(r"^unbag ((?:run|diagnose) .* my_.*)$", page, flags=re.MULTILINE)
    assert len(commands) == 3
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for command in commands:
        assert main([*command.split(), "--no-cache"]) == 0
    printed = capsys.readouterr().out
    assert "brightness (distance)" in printed
    assert "The right colour wins in 100.0 % of 160 cases." in printed
    _check_layers(import_module("my_layers").MODEL)
    tagger = find_tagger("my_tagger:TAGGER")
    assert tagger is not None
    assert list(tagger(["The wet mat"])) == [[("The", "DT"), ("wet", "JJ"), ("mat", "NN")]]
    train = import_module("my_task").train
    line = train(tmp_path / "line")
    assert line.module.weight.item() == pytest.approx(2, abs=0.1)
    assert line.module.bias.item() == pytest.approx(1, abs=0.1)
    again = train(tmp_path / "line")
    assert torch.equal(line.module.weight, again.module.weight)
    for name in files:
        assert sys.modules.pop(name.removesuffix(".py")).__file__ == str(tmp_path / name)


def _check_layers(model: Any) -> None:
    assert isinstance(model, LayerEncoder)
    pixels = torch.stack(
        [model.prepare(Image.new("RGB", (4, 4), (level,) * 3)) for level in (9, 99)]
    )
    captions = ["a bright day", "night"]
    for found, expected in (
        (model.image_layers(pixels), model.encode_images(pixels)),
        (model.text_layers(captions), model.encode_texts(captions)),
    ):
        assert len(found.vector_NLW) == len(found.pooled_NW) == 2
        assert {one.shape[:2] for one in found.vector_NLW} == {found.mask_NL.shape}
        last = found.pooled_NW[-1]
        assert last is not None
        angle_N = last[:, 0].clamp(0, 1) * torch.pi / 2
        torch.testing.assert_close(torch.stack([angle_N.cos(), angle_N.sin()], dim=1), expected)


def test_the_benchmark_of_a_users_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "adding-a-benchmark.md").read_text(encoding="utf-8")
    ((name, code),) = blocks("docs/adding-a-benchmark.md")
    assert len(code.splitlines()) < 30
    (tmp_path / name).write_text(code, encoding="utf-8")
    lines = re.findall(r"^\{\"image\".*$", page, flags=re.MULTILINE)
    (tmp_path / "data/my_set/photos").mkdir(parents=True)
    (tmp_path / "data/my_set/captions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for number in (1, 2):
        Image.new("RGB", (8, 8), (90 * number, 0, 0)).save(
            tmp_path / f"data/my_set/photos/{number}.jpg"
        )
    (command,) = re.findall(r"^unbag (run .*)$", page, flags=re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main([*command.split(), "--no-cache"]) == 0
    assert "caption:constant" in (tmp_path / "runs/mine/results.json").read_text(encoding="utf-8")
    (tmp_path / "data/my_set/captions.jsonl").write_text(f'{lines[0]}\n{{"negatives": []}}\n')
    assert main([*command.split(), "--no-cache"]) == 1
    (message,) = re.findall(r"`(field captions\.jsonl.*?)`", page)
    assert message.replace(".caption", ".image") in capsys.readouterr().err
    sys.modules.pop("my_set")
