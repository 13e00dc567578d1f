"""`unbag data list` and `check`, for present and missing files."""

import json
from pathlib import Path

import pytest
from PIL import Image

from unbag.benchmarks.sugarcrepe import KINDS
from unbag.cli import main


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A complete SugarCrepe of seven records."""
    root = tmp_path / "sugarcrepe"
    (root / "val2017").mkdir(parents=True)
    for i, kind in enumerate(KINDS):
        record = {"filename": f"{i}.jpg", "caption": "a cat", "negative_caption": "a dog"}
        (root / f"{kind}.json").write_text(json.dumps({"0": record}))
        Image.new("RGB", (4, 4)).save(root / "val2017" / f"{i}.jpg")
    return tmp_path


def test_list_names_licence_and_images(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list"]) == 0
    printed = capsys.readouterr().out
    assert "sugarcrepe" in printed
    assert "COCO val2017" in printed
    assert "world-swap" not in printed


def test_a_complete_folder(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", "sugarcrepe", "--data", str(data)]) == 0
    printed = capsys.readouterr().out
    assert "7 items are readable" in printed
    assert printed.endswith("complete\n")


def test_missing_files_and_images(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "sugarcrepe/val2017/3.jpg").unlink()
    assert main(["data", "check", "sugarcrepe", "--data", str(data)]) == 1
    printed = capsys.readouterr()
    assert "3.jpg" in printed.out
    assert "1 image is missing" in printed.err
    assert f"unbag data get sugarcrepe --images --data {data}`" in printed.err
    assert "--missing skip` evaluates on the others" in printed.err
    (data / "sugarcrepe/swap_obj.json").unlink()
    assert main(["data", "check", "sugarcrepe", "--data", str(data)]) == 1
    printed = capsys.readouterr()
    assert "missing   swap_obj.json" in printed.out
    assert "1 of 7 files are missing" in printed.err
    assert f"unbag data get sugarcrepe --data {data}`" in printed.err
    assert "--missing skip" not in printed.err


def test_missing_class_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", "imagenet1k", "--data", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "missing   class folders\n" in printed.out
    assert "*/*" not in printed.out + printed.err
    assert "there are no class folders" in printed.err
    assert "unbag data get imagenet1k --images --data" in printed.err


def test_a_benchmark_without_files(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", "world-swap", "--data", str(data)]) == 0
    assert "generates its own data" in capsys.readouterr().out


def test_it_runs_from_the_files(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--model", "caption:long", "--bench", "sugarcrepe", "--data", str(data)]
    assert main([*words, "--blind", "none", "--out", str(data / "run")]) == 0
    results = json.loads((data / "run/results.json").read_text())
    rules = [r["aggregate"] for r in results]
    assert rules[0] == "macro7"
    assert {"macro3", "micro"} <= set(rules)
    assert results[0]["overall"]["accuracy"]["n"] == 7
