"""`unbag merge`, with tiny encoders on a few drawings."""

import json
from pathlib import Path

import pytest

from unbag.cli import main
from unbag.models.loading import model_name
from unbag.models.tiny import Tiny, TinyConfig, load, untrained, write

CONFIG = TinyConfig(
    pixels=32, patch=16, picture_width=8, picture_depth=1, caption_width=8, caption_depth=1,
    joint=8, heads=2, context=16, words=("a", "red", "star", "and", "blue"),
)  # fmt: skip
BENCHMARKS = """
from unbag.metrics.choice import Choice
from unbag.metrics.triples import Triples
from unbag.types import Benchmark
from unbag.world.benchmarks import order_items, triple_items

def triples(root):
    return triple_items(["swap"], n=2)

def orders(root):
    return order_items(n=2)

SWAP = Benchmark("few-swap", "a", triples, (Triples(),), "original")
ORDER = Benchmark("few-order", "b", orders, (Choice(),), "accuracy")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "few_benchmarks.py").write_text(BENCHMARKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("old", "new")):
        write(untrained(CONFIG, seed=seed), tmp_path / f"{name}.safetensors")
    return tmp_path


def merge(folder: Path, *more: str) -> int:
    models = [f"tiny:{folder / name}.safetensors" for name in ("old", "new")]
    words = ["merge", "--base", models[0], "--tuned", models[1], "--out", str(folder / "out")]
    sides = ["--bench", "few_benchmarks:SWAP", "--recognition", "few_benchmarks:ORDER"]
    return main([*words, *sides, "--device", "cpu", "--no-cache", *more])


def exported(folder: Path, weight: str) -> Tiny:
    return load(str(folder / "out" / f"weight-{weight}" / "tiny.safetensors"))


def test_a_picked_weight_is_evaluated_and_exported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert merge(folder, "--weights", "0,1", "--pick", "0.5") == 0
    printed = capsys.readouterr().out
    assert "selected weight 0.5: given with --pick" in printed
    assert str(folder / "out" / "curve.html") in printed
    curve = json.loads((folder / "out" / "curve.json").read_text())
    assert [point["weight"] for point in curve["points"]] == [0, 0.5, 1]
    sides = {value["benchmark"]: value["side"] for value in curve["points"][0]["values"]}
    assert sides == {"few-swap": "composition", "few-order": "recognition"}
    half = exported(folder, "0.5")
    assert half.fingerprint == curve["points"][1]["fingerprint"]
    card = (folder / "out" / "weight-0.5" / "README.md").read_text()
    assert "| recognition | few-order | accuracy |" in card
    assert "0.5 of" in card
    for name in ("curve.csv", "curve.html", "run/report.html"):
        assert (folder / "out" / name).exists()


def test_the_same_command_again_changes_nothing(folder: Path) -> None:
    options = ("--weights", "0,1", "--pick", "1")
    assert merge(folder, *options) == 0
    before = {
        name: (folder / "out" / name).read_bytes()
        for name in ("curve.json", "curve.csv", "curve.html", "weight-1/tiny.safetensors")
    }
    assert merge(folder, *options) == 0
    assert before == {name: (folder / "out" / name).read_bytes() for name in before}
    assert exported(folder, "1").fingerprint == load(str(folder / "new.safetensors")).fingerprint


def test_another_merge_and_other_files_are_not_overwritten(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another weight of the same curve may be picked."""
    out = folder / "out"
    out.mkdir()
    (out / "curve.json").write_text("precious")
    assert merge(folder, "--weights", "0,1", "--pick", "1") == 1
    assert "out is not empty and holds no merge" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["curve.json"]
    (out / "curve.json").unlink()
    assert merge(folder, "--weights", "0,1", "--pick", "1") == 0
    before = (out / "curve.json").read_bytes()
    assert merge(folder, "--weights", "0,1", "--pick", "0.5") == 1
    assert "out holds another merge: weights: " in capsys.readouterr().err
    assert (out / "curve.json").read_bytes() == before
    assert merge(folder, "--weights", "0,1", "--pick", "0") == 0
    assert exported(folder, "0").fingerprint != exported(folder, "1").fingerprint


def test_without_a_pick_the_rule_selects(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert merge(folder, "--weights", "1", "--max-drop", "100") == 0
    printed = capsys.readouterr().out
    assert "lose at most 100 points of recognition" in printed
    assert "chosen on these benchmarks" in printed


def test_folders_of_exports_and_of_training_runs_are_models(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = folder / "run"
    model = f"tiny:{folder / 'new.safetensors'}"
    assert main(["export", "--model", model, "--out", str(run / "export")]) == 0
    assert merge(folder, "--weights", "0,1", "--pick", "1", "--tuned", str(run)) == 0
    assert exported(folder, "1").fingerprint == load(str(folder / "new.safetensors")).fingerprint
    assert model_name(str(run / "export")) == f"tiny:{run / 'export'}/tiny.safetensors"
    assert model_name("tiny:base") == "tiny:base"
    (run / "export" / "unbag.json").write_text("{}")
    assert merge(folder, "--tuned", str(run)) == 1
    assert "unbag.json cannot be read: KeyError('folders')" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--tuned", "."], "the folder . holds no unbag.json"),
        (["--weights", "0,half"], "--weights 0,half"),
        (["--weights", "2"], "the weight 2"),
        (["--recognition", "few_benchmarks:SWAP", "--composition", "few_benchmarks:SWAP"],
         "few-swap is given with both --composition and --recognition"),
        (["--recognition"], "expected at least one argument"),
        (["--tuned", "caption:short"], "caption:short has no image and text encoder"),
    ],
)  # fmt: skip
def test_mistakes(
    folder: Path, more: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = merge(folder, *more)
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code != 0
    assert expected in capsys.readouterr().err
    assert not (folder / "out").exists()
