"""`unbag train` from the command line: on drawings, with edits made during training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import unbag as ub
from unbag.cli import main

BENCHMARKS = """
from unbag.metrics.retrieval import Recall
from unbag.metrics.triples import Triples
from unbag.types import Benchmark
from unbag.world.benchmarks import retrieval_items, triple_items

def triples(root):
    return triple_items(["swap"], n=2)

def gallery(root):
    return tuple(item for item in retrieval_items(n=6) if item.tags["order"] == "kept")

SWAP = Benchmark("few-swap", "a", triples, (Triples(),), "original")
FIND = Benchmark("few-find", "b", gallery, (Recall((1,)),), "text_to_image@1")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve drawings with their captions, and two benchmarks."""
    from PIL import Image

    from unbag.training.data.world import DEFAULT_PRESET, find_preset
    from unbag.world.rendering import draw
    from unbag.world.stream import batch
    from unbag.world.vocabulary import DEFAULT

    (tmp_path / "few_train_benchmarks.py").write_text(BENCHMARKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    records = []
    samples = batch(DEFAULT, find_preset(DEFAULT_PRESET), seed=5, step=0, size=12)
    for i, sample in enumerate(samples):
        Image.fromarray(draw(sample.scene)).save(tmp_path / f"{i}.png")
        records.append({"image": f"{i}.png", "caption": sample.caption})
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return tmp_path


def train(*more: str, recipe: str = "hard_negative", out: str = "run") -> int:
    words = ["train", "--model", "tiny:base", "--recipe", recipe, "--pairs", "pairs.jsonl"]
    words += ["--set", "batch_size=4", "epochs=2", "warmup_steps=2", "learning_rate=1e-4"]
    words += ["--out", out, "--bench", "few_train_benchmarks:SWAP", "few_train_benchmarks:FIND"]
    return main([*words, "--workers", "0", "--device", "cpu", *more])


def test_a_repair_from_images_to_an_export(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("spacy")
    assert train("--evaluate-every", "4") == 0
    printed = capsys.readouterr()
    progress = " ".join(printed.err.split())
    assert "12 images, 12 captions" in progress
    assert "edits made while training" in progress
    assert "steps: 6 of 4 images" in progress
    for word in ("before", "after", "difference", "few-swap", "few-find", "brittleness"):
        assert word in printed.out
    assert "6 steps in" in printed.out
    assert "best mean headline during training" in printed.out
    record = json.loads((folder / "run/run.json").read_text())
    assert record["state"] == "done"
    assert record["command"].startswith("unbag train --model tiny:base --recipe hard_negative")
    card = (folder / "run/export/README.md").read_text()
    assert "few-swap" in card
    assert "1 x svlc_negative" in card
    assert (folder / "run/before_after/report.html").exists()

    weights = "tiny:run/export/tiny.safetensors"
    words = ["run", "--model", weights, "--bench", "few_train_benchmarks:SWAP", "--out", "scored"]
    assert main([*words, "--device", "cpu"]) == 0
    again = json.loads((folder / "scored/results.json").read_text())
    first = json.loads((folder / "run/before_after/results.json").read_text())
    scorers = ("tiny:tiny", "tiny:base+hard_negative")
    value = [
        result["overall"]["mean_original"]["value"]
        for result in (*again, *first)
        if result["benchmark"] == "few-swap" and result["scorer"] in scorers
    ]
    assert len(value) == 2
    assert value[0] == value[1]

    log = (folder / "run/log.jsonl").read_bytes()
    capsys.readouterr()
    assert train("--evaluate-every", "4") == 0
    printed = capsys.readouterr()
    assert "few-swap" in printed.out
    assert "already exported: run/export" in printed.out
    assert (folder / "run/log.jsonl").read_bytes() == log


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--recipe", "hard_negativ"], "did you mean 'hard_negative'"),
        (["--set", "batch_size=0"], "a recipe with batch_size=0"),
        (["--set", "batch_size=16"], "16"),
        (["--pairs", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--model", "tiny:nobody"], "nobody"),
        (["--bench", "few_train_benchmarks:NONE"], "NONE"),
        (["--workers", "-1"], "--workers"),
        (["--save-minutes", "-1"], "--save-minutes"),
    ],
)
def test_mistakes_are_reported_before_training(
    folder: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    try:
        code = train(*more, recipe="clip_ft")
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code in (1, 2)
    printed = capsys.readouterr().err
    assert message in printed
    assert "Traceback" not in printed
    assert not (folder / "run/log.jsonl").exists()


def test_missing_images(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "3.png").unlink()
    assert train(recipe="clip_ft") == 1
    printed = capsys.readouterr().err
    assert "3.png" in printed
    assert "--missing skip" in printed
    assert train("--missing", "skip", recipe="clip_ft") == 0
    assert "11 images" in capsys.readouterr().err


def test_a_damaged_image_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Once, although both epochs read it."""
    (folder / "3.png").write_bytes(b"no image")
    assert train(recipe="clip_ft") == 0
    printed = capsys.readouterr().out
    assert "1 image cannot be read and is left out\n  left out: 3.png: " in printed
    assert "a format unknown to Pillow" in printed
    assert printed.count("left out: ") == 1
    # The command prints it again for a finished run.
    assert train(recipe="clip_ft") == 0
    assert "left out: 3.png" in capsys.readouterr().out


def test_the_folder_of_a_run_is_a_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(recipe="clip_ft") == 0
    weights = "tiny:run/export/tiny.safetensors"
    for name in ("run", "run/export"):
        assert ub.load_model(name).fingerprint == ub.load_model(weights).fingerprint
    capsys.readouterr()
    assert main(["score", "0.png", "a red ring", "--model", "run", weights]) == 0
    _, _, row, *_ = capsys.readouterr().out.splitlines()
    first, second = row.split("*")[1:]
    assert float(first) == float(second)
    words = ["run", "--model", "run", "--bench", "few_train_benchmarks:SWAP", "--out", "scored"]
    assert main([*words, "--device", "cpu"]) == 0
    (folder / "other").mkdir()
    with pytest.raises(ub.UnbagError, match=r"the folder other holds no unbag\.json") as caught:
        ub.load_model("other")
    assert "a folder of another library has a prefix, such as hf:" in caught.value.hint
    assert "--scorer NAME@other" in caught.value.hint
    with pytest.raises(ub.UnbagError, match="unknown model 'nowhere'"):
        ub.load_model("nowhere")


def test_a_finished_run_refuses_other_benchmarks(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would not match the table and the card; the weights stay."""
    assert train(recipe="clip_ft") == 0
    before = (folder / "run/last.safetensors").stat().st_mtime_ns
    assert train("--bench", "few_train_benchmarks:FIND", recipe="clip_ft") == 1
    printed = capsys.readouterr().err
    assert "the folder run holds another training run: benchmarks" in printed
    assert "delete this one" in printed
    assert (folder / "run/last.safetensors").stat().st_mtime_ns == before
    assert train(recipe="clip_ft") == 0
